/* How a process comes to be on another machine: a line for /bin/sh, in which {host} stands for the
 * host's name and {command} for one word, which a shell there is to run. Standard input and
 * output are all there is between here and there. */
#ifndef WEFT_BACKENDS_LAB_ELSEWHERE_H
#define WEFT_BACKENDS_LAB_ELSEWHERE_H

#include <stdint.h>

#include "base/text.h"

#define LAB_ELSEWHERE_LINE "ssh -o BatchMode=yes {host} {command}"

/* Adds what `line` becomes for a process of `host` that runs this program with `argv` (ends with
 * NULL), found by its name. */
void lab_elsewhere_line(const char *line, const char *host, uint32_t process,
                        char *const *argv, struct weft_text *out);

#endif
