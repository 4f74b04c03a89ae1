/* An arena allocator for many small objects. Objects lie close together, in the order of their
 * allocation, so that a program that walks them touches few pages. Objects can be freed one by one,
 * and their memory is reused for objects of the same number of cache lines; chunks are freed
 * together. Under a sanitizer each object is an allocation of its own. */
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

/* Larger objects are separate allocations. */
#define WEFT_ARENA_OBJECT_BYTES 4096
#define WEFT_ARENA_SIZES (WEFT_ARENA_OBJECT_BYTES / 64 + 1)

struct weft_arena {
    struct weft_arena_chunk *chunks; /* Owned list; newest first */
    unsigned char *at, *end;         /* unused part of the newest chunk */
    /* Free lists, by size in cache lines. */
    struct weft_arena_gone *unused[WEFT_ARENA_SIZES];
};

/* An all-zero arena is empty and ready for use. */

/* Returns zeroed memory aligned to a cache line. Does not fail: aborts when out of memory. */
void *weft_arena_calloc(struct weft_arena *arena, size_t n_bytes);
/* Frees `memory`, which weft_arena_calloc returned for the same `n_bytes`. Ignores NULL. */
void weft_arena_free(struct weft_arena *arena, void *memory, size_t n_bytes);
/* Frees all chunks, with the objects in them. Separate allocations must be freed before: objects
 * larger than WEFT_ARENA_OBJECT_BYTES, and under a sanitizer all of them. */
void weft_arena_fini(struct weft_arena *arena);

#endif
