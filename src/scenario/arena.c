#include "scenario/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define BLOCK_BYTES ((size_t)16 << 10)

struct block {
    struct block *next;
    size_t n_used;
    size_t n_bytes;
    alignas(max_align_t) unsigned char bytes[];
};

struct scenario_arena {
    struct block *blocks; /* Owned; the first one is being filled */
};

struct scenario_arena *arena_create(void)
{
    return weft_calloc(1, sizeof(struct scenario_arena));
}

void arena_destroy(struct scenario_arena *arena)
{
    if (arena == NULL) {
        return;
    }
    while (arena->blocks != NULL) {
        struct block *block = arena->blocks;
        arena->blocks = block->next;
        free(block);
    }
    free(arena);
}

void *arena_calloc(struct scenario_arena *arena, size_t n, size_t each_bytes)
{
    weft_check(each_bytes == 0 || n < SIZE_MAX / 2 / each_bytes);
    const size_t align = alignof(max_align_t);
    size_t n_bytes = (n * each_bytes + align - 1) / align * align;
    struct block *block = arena->blocks;
    if (block == NULL || block->n_bytes - block->n_used < n_bytes) {
        size_t room = n_bytes > BLOCK_BYTES ? n_bytes : BLOCK_BYTES;
        block = weft_alloc(sizeof(*block) + room);
        block->next = arena->blocks;
        block->n_used = 0;
        block->n_bytes = room;
        arena->blocks = block;
    }
    void *out = block->bytes + block->n_used;
    block->n_used += n_bytes;
    memset(out, 0, n_bytes);
    return out;
}

char *arena_copy(struct scenario_arena *arena, const char *bytes, size_t n_bytes)
{
    char *out = arena_calloc(arena, n_bytes + 1, 1);
    memcpy(out, bytes, n_bytes);
    return out;
}

char *arena_strdup(struct scenario_arena *arena, const char *text)
{
    return arena_copy(arena, text, strlen(text));
}

void *arena_grow(struct scenario_arena *arena, const void *old, size_t n_old,
                 size_t n_new, size_t each_bytes)
{
    weft_check(n_new >= n_old);
    void *out = arena_calloc(arena, n_new, each_bytes);
    if (n_old > 0) {
        memcpy(out, old, n_old * each_bytes);
    }
    return out;
}

void *arena_dup(struct scenario_arena *arena, const void *from, size_t n,
                size_t each_bytes)
{
    return arena_grow(arena, from, n, n, each_bytes);
}
