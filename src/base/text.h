/* Growing text, formatting into fixed fields, and allocation that cannot fail. */
#ifndef WEFT_BASE_TEXT_H
#define WEFT_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct weft_text {
    char *bytes; /* Owned; terminated once anything was added; NULL at first */
    size_t n;
    size_t cap;
};

void weft_text_fini(struct weft_text *text);
/* Appends; aborts when out of memory. */
void weft_text_add(struct weft_text *text, const char *format, ...) WEFT_PRINTF(2, 3);
void weft_text_add_bytes(struct weft_text *text, const char *bytes, size_t n_bytes);

/* Appends the file's contents. Stops once `*text` has more than `n_max` bytes, so that the caller
 * can detect a file that is too large and little more than that is held in memory. Returns 0, or
 * errno (fopen(3), fread(3)); what was read before an error stays in `*text`. */
int weft_text_add_file(struct weft_text *text, const char *path, size_t n_max);

/* Formats like snprintf(3), but truncates without a compiler warning. Always terminates. */
void weft_format(char *out, size_t out_bytes, const char *format, ...) WEFT_PRINTF(3, 4);

/* Returns the length of the longest prefix of UTF-8 text [n] that has at most `n_max` bytes and
 * does not split a character. */
size_t weft_text_cut(const char *bytes, size_t n, size_t n_max);

/* Returns true if `name` is in `list`: names separated by commas, without blanks. NULL is an empty
 * list. */
bool weft_is_listed(const char *list, const char *name);

/* malloc, calloc, realloc and strdup that call weft_out_of_memory() on failure. For set-up, not for
 * data paths. */
void *weft_alloc(size_t n_bytes);
void *weft_calloc(size_t n, size_t each_bytes);
void *weft_realloc(void *old, size_t n_bytes);
/* Returns zeroed memory aligned to a cache line; free(3) frees it. */
#define WEFT_LINE_BYTES 64
void *weft_calloc_lines(size_t n_bytes);
char *weft_strdup(const char *text);

#endif
