/* Memory that is given back all at once: what a loaded scenario or world lives in. */
#ifndef WEFT_SCENARIO_ARENA_H
#define WEFT_SCENARIO_ARENA_H

#include <stddef.h>

struct scenario_arena;

struct scenario_arena *arena_create(void);
/* NULL is ignored. */
void arena_destroy(struct scenario_arena *arena);
/* Zeroed, aligned for any type; never NULL (aborts when memory is out), also for 0 bytes.
 */
void *arena_calloc(struct scenario_arena *arena, size_t n, size_t each_bytes);
char *arena_copy(struct scenario_arena *arena, const char *bytes, size_t n_bytes);
char *arena_strdup(struct scenario_arena *arena, const char *text);
/* A copy of `n` elements. */
void *arena_dup(struct scenario_arena *arena, const void *from, size_t n,
                size_t each_bytes);
/* A copy of `old`'s `n_old` elements with room for `n_new`, the rest zeroed. */
void *arena_grow(struct scenario_arena *arena, const void *old, size_t n_old,
                 size_t n_new, size_t each_bytes);

#endif
