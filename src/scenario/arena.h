/* Memory that is freed all at once, for a loaded scenario or world. */
#ifndef WEFT_SCENARIO_ARENA_H
#define WEFT_SCENARIO_ARENA_H

#include <stddef.h>

struct scenario_arena;

struct scenario_arena *arena_create(void);
/* NULL is ignored. */
void arena_destroy(struct scenario_arena *arena);
/* Returns zeroed memory, aligned for any type; never NULL, also for 0 bytes. Aborts if memory
 * is exhausted. */
void *arena_calloc(struct scenario_arena *arena, size_t n, size_t each_bytes);
char *arena_copy(struct scenario_arena *arena, const char *bytes, size_t n_bytes);
char *arena_strdup(struct scenario_arena *arena, const char *text);
/* Returns a copy of `n` elements. */
void *arena_dup(struct scenario_arena *arena, const void *from, size_t n,
                size_t each_bytes);
/* Returns a copy of the `n_old` elements of `old` with room for `n_new`; the rest is zeroed. */
void *arena_grow(struct scenario_arena *arena, const void *old, size_t n_old,
                 size_t n_new, size_t each_bytes);

#endif
