#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

__attribute__((weak)) _Noreturn void weft_out_of_memory(size_t n_bytes)
{
    fprintf(stderr, "weft: out of memory (%zu bytes)\n", n_bytes);
    abort();
}

/* Makes room for `n_bytes` more bytes and a terminator. */
static void reserve(struct weft_text *text, size_t n_bytes)
{
    size_t cap = text->cap == 0 ? 64 : text->cap;

    weft_check(n_bytes < SIZE_MAX / 4 && text->n < SIZE_MAX / 4);
    while (cap < text->n + n_bytes + 1) {
        cap *= 2;
    }
    if (cap != text->cap) {
        text->bytes = weft_realloc(text->bytes, cap);
        text->cap = cap;
    }
}

void weft_text_fini(struct weft_text *text)
{
    free(text->bytes);
    *text = (struct weft_text){0};
}

void weft_text_add(struct weft_text *text, const char *format, ...)
{
    va_list args;
    int n_bytes;

    va_start(args, format);
    n_bytes = vsnprintf(NULL, 0, format, args);
    va_end(args);
    weft_check(n_bytes >= 0);

    reserve(text, (size_t)n_bytes);
    va_start(args, format);
    vsnprintf(text->bytes + text->n, text->cap - text->n, format, args);
    va_end(args);
    text->n += (size_t)n_bytes;
}

void weft_text_add_bytes(struct weft_text *text, const char *bytes, size_t n_bytes)
{
    reserve(text, n_bytes);
    if (n_bytes > 0) {
        memcpy(text->bytes + text->n, bytes, n_bytes);
    }
    text->n += n_bytes;
    text->bytes[text->n] = '\0';
}

int weft_text_add_file(struct weft_text *text, const char *path, size_t n_max)
{
    FILE *file = fopen(path, "rb");
    char chunk[4096];
    size_t n;
    int error;

    weft_text_add_bytes(text, "", 0);
    if (file == NULL) {
        return errno;
    }
    while (text->n <= n_max && (n = fread(chunk, 1, sizeof(chunk), file)) > 0) {
        weft_text_add_bytes(text, chunk, n);
    }
    error = ferror(file) != 0 ? errno : 0;
    fclose(file);
    return error;
}

void weft_format(char *out, size_t out_bytes, const char *format, ...)
{
    va_list args;

    if (out_bytes == 0) {
        return;
    }
    va_start(args, format);
    vsnprintf(out, out_bytes, format, args);
    va_end(args);
}

size_t weft_text_cut(const char *bytes, size_t n, size_t n_max)
{
    size_t cut = n < n_max ? n : n_max;

    /* All bytes of a character but the first are 10xxxxxx (RFC 3629, section 3). */
    while (cut < n && cut > 0 && ((unsigned char)bytes[cut] & 0xc0) == 0x80) {
        cut--;
    }
    return cut;
}

bool weft_is_listed(const char *list, const char *name)
{
    size_t n_name = strlen(name);

    while (list != NULL && *list != '\0') {
        size_t n = strcspn(list, ",");

        if (n == n_name && strncmp(list, name, n) == 0) {
            return true;
        }
        list += n + (list[n] == ',' ? 1 : 0);
    }
    return false;
}

void *weft_alloc(size_t n_bytes)
{
    void *memory = malloc(n_bytes == 0 ? 1 : n_bytes);

    if (memory == NULL) {
        weft_out_of_memory(n_bytes);
    }
    return memory;
}

void *weft_calloc(size_t n, size_t each_bytes)
{
    void *memory = n == 0 || each_bytes == 0 ? calloc(1, 1) : calloc(n, each_bytes);

    if (memory == NULL) {
        weft_out_of_memory(each_bytes);
    }
    return memory;
}

void *weft_calloc_lines(size_t n_bytes)
{
    size_t n_lines = n_bytes / WEFT_LINE_BYTES + 1;
    void *memory = aligned_alloc(WEFT_LINE_BYTES, n_lines * WEFT_LINE_BYTES);

    if (memory == NULL) {
        weft_out_of_memory(n_bytes);
    }
    memset(memory, 0, n_lines * WEFT_LINE_BYTES);
    return memory;
}

void *weft_realloc(void *old, size_t n_bytes)
{
    void *memory = realloc(old, n_bytes == 0 ? 1 : n_bytes);

    if (memory == NULL) {
        weft_out_of_memory(n_bytes);
    }
    return memory;
}

char *weft_strdup(const char *text)
{
    size_t n_bytes = strlen(text) + 1;
    char *copy = weft_alloc(n_bytes);

    memcpy(copy, text, n_bytes);
    return copy;
}
