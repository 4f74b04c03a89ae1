/* `weft lab`: what its daemon and its other verbs share (docs/adr/0012-a-guest-that-stays.md).
 *
 * A lab is a socket, NAME in a folder of the user's own. A request is a struct lab_request, its
 * words, each ended by a NUL, and its input:
 *
 *   "exec" SIZE N hosts[N] CWD M variables[M] words...   "ls"   "down"   "clear"
 *   "fault" TEXT   "capture" PATH ("": no more)   "diagnose"   "why" ID
 *
 * An answer is lines: "error TEXT"; or "begun", FOLDER, ID and a host for each program, a tab
 * between them, whose numbers are ID and those that follow, and then "ended ID CODE" of each; of a
 * fault, a capture or clear, "ended ID ERRNO"; of ls, text; of diagnose and why, JSON; "down TEXT":
 * the lab ended, and why.
 * SIZE is ROWSxCOLUMNS of a terminal, or "". After an exec each byte is the number of a signal for
 * the programs, or LAB_TYPES, a uint16_t and that number of bytes that were typed at the terminal,
 * or LAB_RESIZES and its size, two uint16_t; "took" comes once the guest has what came so far. The
 * files of programs are there until the client closes the connection. That of
 * down ends with the daemon. */
#ifndef WEFT_CLI_LAB_H
#define WEFT_CLI_LAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cli.h"

#define LAB_NAME_MAX 64
#define LAB_PATH_MAX 512
#define LAB_REQUEST_MAX (64u << 20)
#define LAB_TYPES ((char)0xff)
#define LAB_RESIZES ((char)0xfe)

struct lab_request {
    uint32_t n_words; /* bytes */
    uint32_t n_input;
};

/* The folder, made if it is not there; false after a message. */
bool lab_folder(char *out, size_t n_bytes);
/* The same, and locked until the descriptor is closed: one lab is brought up at a time, so that
 * two do not take one name. -1 after a message. */
int lab_lock(char *folder, size_t n_bytes);
/* False after a message: not a name. */
bool lab_name_is_good(const char *name);
void lab_log_path(const char *folder, const char *name, char out[LAB_PATH_MAX]);
/* A connection to a lab; -1: errno says why there is none. */
int lab_connect(const char *folder, const char *name);
/* Removes a lab's files, and the folder if that was the last. */
void lab_remove(const char *folder, const char *name);
/* Removes what labs left that were killed, and the folder if nothing is in it; not while a lab is
 * brought up. The second is for who holds the lock, and leaves the folder. */
void lab_sweep(const char *folder);
void lab_sweep_locked(const char *folder);
/* Calls `each` for those that are up; returns how many. */
size_t lab_for_each(const char *folder,
                    void (*each)(void *context, const char *name, int fd), void *context);
/* The lab of that name, or (NULL) the only one; -1 after a message. */
int lab_find(const char *name);

/* Waits for an answer until PATIENCE; false after a message: there is none yet. */
bool lab_await(int fd);
/* False: the lab is no more. */
bool lab_ask(int fd, const struct weft_text *words, const struct weft_text *input);
/* Sends a request of a word or two. Appends what is answered until the end, or, unless it `waits`,
 * until PATIENCE is over. */
void lab_ask_words(int fd, const char *word, const char *more, bool waits,
                   struct weft_text *out);
void lab_add_word(struct weft_text *text, const char *word);
/* The usage of all of it, after `problem` unless it is NULL. Returns CLI_USAGE. */
int lab_usage(const char *problem);
/* exec, or `on_all` run: programs, until they are over. */
int lab_exec(const struct cli_options *options, bool on_all);

/* Keeps a lab until it ends; `ready_fd` gets "up" when it is up, and is closed at the end. */
int lab_keep(struct cli_options *options, const struct scenario *scenario,
             struct scenario_world *world, const char *folder, const char *name,
             int ready_fd);

#endif
