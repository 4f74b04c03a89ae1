/* Memory for many small objects, close together: what a program goes through again and again lies
 * on few pages, in the order in which it was made, whatever else was allocated in between or
 * before. Objects may go one by one, and their memory is used again for others of their size;
 * chunks go all at once. Sanitizers see an allocation of its own for each object. */
#ifndef WEFT_BASE_ARENA_H
#define WEFT_BASE_ARENA_H

#include <stddef.h>

#ifdef __has_feature
#define WEFT_HAS_FEATURE(x) __has_feature(x)
#else
#define WEFT_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || WEFT_HAS_FEATURE(address_sanitizer) ||              \
    WEFT_HAS_FEATURE(memory_sanitizer)
#define WEFT_ARENA_IS_WATCHED 1 /* by a sanitizer */
#else
#define WEFT_ARENA_IS_WATCHED 0
#endif

/* Larger ones are allocated by themselves. */
#define WEFT_ARENA_OBJECT_BYTES 4096
#define WEFT_ARENA_SIZES (WEFT_ARENA_OBJECT_BYTES / 64 + 1)

struct weft_arena {
    struct weft_arena_chunk *chunks;                  /* Owned list; newest first */
    unsigned char *at, *end;                          /* what is left of the newest */
    struct weft_arena_gone *unused[WEFT_ARENA_SIZES]; /* lists, by cache lines */
};

/* Nothing but zeros is an arena without chunks. */

/* Zeros, on cache lines of its own. Aborts when out of memory. */
void *weft_arena_calloc(struct weft_arena *arena, size_t n_bytes);
/* Gives back what weft_arena_calloc gave for as many bytes; NULL is nothing. */
void weft_arena_free(struct weft_arena *arena, void *memory, size_t n_bytes);
/* Everything but the large ones goes, whether it was given back or not. */
void weft_arena_fini(struct weft_arena *arena);

#endif
