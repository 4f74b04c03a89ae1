/* The terminal of a program in a lab. The agent in the guest holds its master. */
#ifndef WEFT_BACKENDS_RXE_LIVE_TERMINAL_H
#define WEFT_BACKENDS_RXE_LIVE_TERMINAL_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

struct live_terminal {
    int fd;                 /* the master; -1: none */
    struct weft_text typed; /* bytes that the terminal has not taken yet */
};

/* Mounts what terminals need, here and for mount namespaces that are created from this one
 * later. */
void live_terminal_mount(void);
/* Creates a terminal of `size`, ROWS x 65536 + COLUMNS. Returns false and sets errno on failure. */
bool live_terminal_make(uint32_t size, struct live_terminal *out);
/* Makes it the controlling terminal of this process, which leads a session without one, and its
 * three standard streams. Returns 0, or an errno. */
int live_terminal_take(const struct live_terminal *terminal);
/* Returns what poll(2) shall wait for. */
struct pollfd live_terminal_wants(const struct live_terminal *terminal);
/* Copies without blocking: what programs wrote to `to`, and what was typed to the programs. */
void live_terminal_pass(struct live_terminal *terminal, int to);
/* Types bytes, each two hexadecimal digits. */
void live_terminal_type(struct live_terminal *terminal, const char *digits);
void live_terminal_resize(const struct live_terminal *terminal, uint32_t size);
/* Reads the size of any terminal; stores 24 and 80 if `fd` is not a terminal. */
void live_terminal_size(int fd, uint16_t *out_rows, uint16_t *out_columns);
void live_terminal_close(struct live_terminal *terminal);

#endif
