#define _DEFAULT_SOURCE 1 /* madvise */
#include "base/arena.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/text.h"

/* Chunk sizes: 64 KiB, growing to 2 MiB, which one TLB entry can map on x86-64 and AArch64. */
#define CHUNK_MIN_BYTES ((size_t)1 << 16)
#define CHUNK_MAX_BYTES ((size_t)1 << 21)

struct weft_arena_chunk {
    _Alignas(WEFT_LINE_BYTES) struct weft_arena_chunk *next;
    size_t n_bytes; /* itself included */
};

struct weft_arena_gone {
    struct weft_arena_gone *next;
};

static size_t n_lines_of(size_t n_bytes)
{
    return n_bytes == 0 ? 1 : (n_bytes - 1) / WEFT_LINE_BYTES + 1;
}

static bool is_apart(size_t n_bytes)
{
    return WEFT_ARENA_IS_WATCHED || n_bytes > WEFT_ARENA_OBJECT_BYTES;
}

static void add_chunk(struct weft_arena *arena)
{
    size_t n_bytes = arena->chunks == NULL ? CHUNK_MIN_BYTES : arena->chunks->n_bytes * 4;

    if (n_bytes > CHUNK_MAX_BYTES) {
        n_bytes = CHUNK_MAX_BYTES;
    }
    bool is_large = n_bytes == CHUNK_MAX_BYTES;
    struct weft_arena_chunk *chunk =
        aligned_alloc(is_large ? CHUNK_MAX_BYTES : WEFT_LINE_BYTES, n_bytes);

    if (chunk == NULL) {
        weft_out_of_memory(n_bytes);
    }
    if (is_large) {
        (void)madvise(chunk, n_bytes, MADV_HUGEPAGE); /* only an optimisation */
    }
    chunk->next = arena->chunks;
    chunk->n_bytes = n_bytes;
    arena->chunks = chunk;
    arena->at = (unsigned char *)(chunk + 1);
    arena->end = (unsigned char *)chunk + n_bytes;
}

void *weft_arena_calloc(struct weft_arena *arena, size_t n_bytes)
{
    size_t n_lines = n_lines_of(n_bytes);

    if (is_apart(n_bytes)) {
        return weft_calloc_lines(n_lines * WEFT_LINE_BYTES);
    }
    struct weft_arena_gone *memory = arena->unused[n_lines];

    if (memory != NULL) {
        arena->unused[n_lines] = memory->next;
    } else {
        if ((size_t)(arena->end - arena->at) < n_lines * WEFT_LINE_BYTES) {
            add_chunk(arena);
        }
        memory = (struct weft_arena_gone *)(void *)arena->at;
        arena->at += n_lines * WEFT_LINE_BYTES;
    }
    return memset(memory, 0, n_lines * WEFT_LINE_BYTES);
}

void weft_arena_free(struct weft_arena *arena, void *memory, size_t n_bytes)
{
    if (memory == NULL || is_apart(n_bytes)) {
        free(memory);
        return;
    }
    struct weft_arena_gone *gone = memory;
    struct weft_arena_gone **list = &arena->unused[n_lines_of(n_bytes)];

    gone->next = *list;
    *list = gone;
}

void weft_arena_fini(struct weft_arena *arena)
{
    while (arena->chunks != NULL) {
        struct weft_arena_chunk *chunk = arena->chunks;

        arena->chunks = chunk->next;
        free(chunk);
    }
    *arena = (struct weft_arena){.chunks = NULL};
}
