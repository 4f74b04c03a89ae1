/* A terminal of a program in a lab: its other end is in the hands of the agent. */
#ifndef WEFT_BACKENDS_RXE_LIVE_TERMINAL_H
#define WEFT_BACKENDS_RXE_LIVE_TERMINAL_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

struct live_terminal {
    int fd;                 /* the master; -1: none */
    struct weft_text typed; /* what it did not take yet */
};

/* Makes terminals possible here, and in mount namespaces that are made from this one later. */
void live_terminal_mount(void);
/* `size` is ROWS x 65536 + COLUMNS. False: errno says why there is none. */
bool live_terminal_make(uint32_t size, struct live_terminal *out);
/* Makes it the terminal of this process, which leads a session without one, and all three of its
 * streams. Returns 0, or an errno. */
int live_terminal_take(const struct live_terminal *terminal);
/* What a wait for it waits for. */
struct pollfd live_terminal_wants(const struct live_terminal *terminal);
/* Passes on, without waiting, what programs wrote to `to`, and what was typed to them. */
void live_terminal_pass(struct live_terminal *terminal, int to);
/* Types bytes, each two hexadecimal digits. */
void live_terminal_type(struct live_terminal *terminal, const char *digits);
void live_terminal_resize(const struct live_terminal *terminal, uint32_t size);
/* The size of any terminal; 24 and 80 where `fd` is none. */
void live_terminal_size(int fd, uint16_t *out_rows, uint16_t *out_columns);
void live_terminal_close(struct live_terminal *terminal);

#endif
