/* Starts processes on other machines with a command line for /bin/sh. In it, {host} stands for
 * the host's name and {command} for one word that a shell on that machine executes. The process
 * and its starter are connected only by standard input and output. */
#ifndef WEFT_BACKENDS_LAB_ELSEWHERE_H
#define WEFT_BACKENDS_LAB_ELSEWHERE_H

#include <stdint.h>

#include "base/text.h"

#define LAB_ELSEWHERE_LINE "ssh -o BatchMode=yes {host} {command}"

/* Appends the expansion of `line` for a process of `host` that runs this program, found by its
 * name, with `argv` (NULL-terminated). */
void lab_elsewhere_line(const char *line, const char *host, uint32_t process,
                        char *const *argv, struct weft_text *out);

#endif
