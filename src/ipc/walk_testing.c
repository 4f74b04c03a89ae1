#include "ipc/walk_testing.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

static uint64_t hash_of(const struct walk_state *state)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < WALK_STATE_BYTES; i += 8) {
        uint64_t word;

        memcpy(&word, state->bytes + i, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* Returns the slot of a state, or the free slot where it belongs. */
static uint32_t *slot_of(const struct walk *walk, const struct walk_state *state)
{
    uint64_t at = hash_of(state) & (walk->cap_table - 1);

    while (walk->table[at] != 0 &&
           memcmp(&walk->states[walk->table[at] - 1], state, sizeof(*state)) != 0) {
        at = (at + 1) & (walk->cap_table - 1);
    }
    return &walk->table[at];
}

static void grow(struct walk *walk)
{
    walk->cap_states = walk->cap_states == 0 ? 4096 : 2 * walk->cap_states;
    walk->cap_table = 2 * walk->cap_states;
    walk->states = weft_realloc(walk->states, walk->cap_states * sizeof(*walk->states));
    walk->n_next = weft_realloc(walk->n_next, walk->cap_states * sizeof(*walk->n_next));
    free(walk->table);
    walk->table = weft_calloc(walk->cap_table, sizeof(*walk->table));
    for (uint32_t i = 0; i < walk->n_states; i++) {
        *slot_of(walk, &walk->states[i]) = i + 1;
    }
}

static uint32_t find_or_add(struct walk *walk, const struct walk_state *state)
{
    uint32_t *slot;

    if (walk->n_states == walk->cap_states) {
        grow(walk);
    }
    slot = slot_of(walk, state);
    if (*slot == 0) {
        walk->states[walk->n_states] = *state;
        walk->n_next[walk->n_states] = 0;
        *slot = ++walk->n_states;
    }
    return *slot - 1;
}

void walk_next(struct walk *walk, const struct walk_state *next)
{
    uint32_t to = find_or_add(walk, next);

    if (walk->n_edges == walk->cap_edges) {
        walk->cap_edges = walk->cap_edges == 0 ? 16384 : 2 * walk->cap_edges;
        walk->from = weft_realloc(walk->from, walk->cap_edges * sizeof(*walk->from));
        walk->to = weft_realloc(walk->to, walk->cap_edges * sizeof(*walk->to));
    }
    walk->from[walk->n_edges] = walk->at;
    walk->to[walk->n_edges] = to;
    walk->n_edges++;
    walk->n_next[walk->at]++;
}

void walk_all(struct walk *walk, const struct walk_system *system,
              const struct walk_state *first)
{
    uint32_t last_of_depth = 0;

    *walk = (struct walk){.system = *system};
    find_or_add(walk, first);
    while (walk->at < walk->n_states) {
        struct walk_state state = walk->states[walk->at];

        system->expand(walk, &state, system->context);
        if (walk->at == last_of_depth && walk->n_states - 1 > last_of_depth) {
            last_of_depth = walk->n_states - 1;
            walk->depth++;
        }
        walk->at++;
    }
}

/* Sorts edges by destination, then searches backwards from the goals. */
bool *walk_can_reach(const struct walk *walk,
                     bool (*is_goal)(const struct walk_state *state, const void *context))
{
    bool *can = weft_calloc(walk->n_states, sizeof(*can));
    uint32_t *queue = weft_calloc(walk->n_states, sizeof(*queue));
    size_t *start = weft_calloc((size_t)walk->n_states + 2, sizeof(*start));
    uint32_t *sources = weft_calloc(walk->n_edges + 1, sizeof(*sources));
    uint32_t n = 0;

    for (size_t i = 0; i < walk->n_edges; i++) {
        start[walk->to[i] + 2]++;
    }
    for (size_t i = 2; i < (size_t)walk->n_states + 2; i++) {
        start[i] += start[i - 1];
    }
    for (size_t i = 0; i < walk->n_edges; i++) {
        sources[start[walk->to[i] + 1]++] = walk->from[i];
    }
    for (uint32_t i = 0; i < walk->n_states; i++) {
        if (is_goal(&walk->states[i], walk->system.context)) {
            can[i] = true;
            queue[n++] = i;
        }
    }
    for (uint32_t at = 0; at < n; at++) {
        for (size_t i = start[queue[at]]; i < start[queue[at] + 1]; i++) {
            if (!can[sources[i]]) {
                can[sources[i]] = true;
                queue[n++] = sources[i];
            }
        }
    }
    free(queue);
    free(start);
    free(sources);
    return can;
}

void walk_fini(struct walk *walk)
{
    free(walk->states);
    free(walk->n_next);
    free(walk->from);
    free(walk->to);
    free(walk->table);
    *walk = (struct walk){0};
}
