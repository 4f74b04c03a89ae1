/* `weft lab`: what its daemon and its other verbs share (docs/adr/0012-a-guest-that-stays.md).
 *
 * A lab is a socket, NAME in a folder of the user's own. A request is a struct lab_request, its
 * words, each ended by a NUL, and its input. SIZE is ROWSxCOLUMNS of a terminal, or "".
 *
 *   "exec" SIZE N hosts[N] CWD M variables[M] words...   "ls"   "down"   "clear"
 *   "fault" TEXT   "capture" PATH ("": ends it)   "diagnose"   "why" ID
 *   "now" ID N (why some of these N programs fail, while others of them may run)
 *
 * An answer consists of lines:
 *
 *   "error TEXT"
 *   "begun", FOLDER, ID and a host for each program, separated by tabs; programs are numbered from
 *            ID on. Then "ended ID CODE" for each program
 *   "failing" after "begun": a call of some program in the lab has failed
 *   "ended ID ERRNO" for a fault, a capture or clear
 *   text for ls; JSON for diagnose, why and now
 *   "down TEXT": the lab ended, and why
 *
 * After an exec each byte from the client is the number of a signal for the programs; or LAB_TYPES,
 * a uint16_t and that number of bytes that were typed at the terminal; or LAB_RESIZES and the
 * terminal's size, two uint16_t. "took" is sent once the guest has received them. The files of
 * programs exist until the client closes the connection. The connection of down ends with the
 * daemon. */
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

/* Stores the folder of labs, which is created if necessary. Prints a message and returns false on
 * failure. */
bool lab_folder(char *out, size_t n_bytes);
/* Does what lab_folder() does, and locks the folder until the returned descriptor is closed, so
 * that two labs that start at once do not take the same name. Prints a message and returns -1 on
 * failure. */
int lab_lock(char *folder, size_t n_bytes);
/* Returns true if labs can have this name. Otherwise prints a message and returns false. */
bool lab_name_is_good(const char *name);
void lab_log_path(const char *folder, const char *name, char out[LAB_PATH_MAX]);
/* Connects to a lab. Returns a descriptor, or -1 and sets errno. */
int lab_connect(const char *folder, const char *name);
/* Removes a lab's files, and the folder with the last one. */
void lab_remove(const char *folder, const char *name);
/* Remove what killed labs left behind. lab_sweep() also removes the folder if it is empty, and does
 * nothing while a lab starts. lab_sweep_locked() is for the holder of the lock. */
void lab_sweep(const char *folder);
void lab_sweep_locked(const char *folder);
/* Calls `each` for every lab that is up. Returns their number. */
size_t lab_for_each(const char *folder,
                    void (*each)(void *context, const char *name, int fd), void *context);
/* Connects to the lab with this name, or to the only one if `name` is NULL. Prints a message and
 * returns -1 on failure. */
int lab_find(const char *name);

/* Waits for an answer. Prints a message and returns false if none comes within PATIENCE. */
bool lab_await(int fd);
/* Sends a request. Returns false if the lab is gone. */
bool lab_ask(int fd, const struct weft_text *words, const struct weft_text *input);
/* Sends a request of one word or two, and appends the answer to `out`. Waits for its end, for at
 * most PATIENCE unless `waits`. */
void lab_ask_words(int fd, const char *word, const char *more, bool waits,
                   struct weft_text *out);
void lab_add_word(struct weft_text *text, const char *word);
/* Prints `problem`, unless it is NULL, and the usage of `weft lab`. Returns CLI_USAGE. */
int lab_usage(const char *problem);
/* Runs `weft lab exec` or, if `on_all`, `weft lab run`, until their programs have ended. */
int lab_exec(const struct cli_options *options, bool on_all);

/* Keeps a lab until it ends. Writes "up" to `ready_fd` when it is up, and closes it at the end. */
int lab_keep(struct cli_options *options, const struct scenario *scenario,
             struct scenario_world *world, const char *folder, const char *name,
             int ready_fd);

#endif
