/* Growing text and safe formatting into fixed fields. */
#ifndef WEFT_BASE_TEXT_H
#define WEFT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct weft_text {
    char *bytes; /* Owned; always terminated once anything was added. NULL at first. */
    size_t n;
    size_t cap;
};

void weft_text_fini(struct weft_text *text);
/* Appends; aborts when out of memory. */
void weft_text_add(struct weft_text *text, const char *format, ...) WEFT_PRINTF(2, 3);
void weft_text_add_bytes(struct weft_text *text, const char *bytes, size_t n_bytes);

/* Appends what is in the file, and stops once `*text` has more than `n_max` bytes: the
 * caller sees that it was too much, and nothing larger was ever held. Returns 0, or errno
 * (fopen(3), fread(3)); what was read until then stays. */
int weft_text_add_file(struct weft_text *text, const char *path, size_t n_max);

/* snprintf that may cut, on purpose, without a warning; always terminates. */
void weft_format(char *out, size_t out_bytes, const char *format, ...) WEFT_PRINTF(3, 4);

/* Returns how many bytes of UTF-8 text [n] fit in `n_max` without a part of a character. */
size_t weft_text_cut(const char *bytes, size_t n, size_t n_max);

/* Whether `name` is in `list`: names between commas, without blanks; NULL: none. */
bool weft_is_listed(const char *list, const char *name);

/* malloc, calloc and strdup that abort when memory is out: for set-up, never on data
 * paths. */
void *weft_alloc(size_t n_bytes);
void *weft_calloc(size_t n, size_t each_bytes);
void *weft_realloc(void *old, size_t n_bytes);
/* Zeroed, and at the start of a cache line. */
#define WEFT_LINE_BYTES 64
void *weft_calloc_lines(size_t n_bytes);
char *weft_strdup(const char *text);

#endif
