/* Explores all states of a small system. A state is a few bytes, and a function lists its
 * successors. Visits each state once, breadth first; afterwards finds the states from which a
 * goal can be reached. */
#ifndef WEFT_IPC_WALK_TESTING_H
#define WEFT_IPC_WALK_TESTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WALK_STATE_BYTES 48

struct walk;

/* Unused bytes must be zero, because states are compared as bytes. */
struct walk_state {
    uint8_t bytes[WALK_STATE_BYTES];
};

struct walk_system {
    /* Calls walk_next() for every possible successor of `state`. */
    void (*expand)(struct walk *walk, const struct walk_state *state,
                   const void *context);
    const void *context; /* Not owned. */
};

struct walk {
    struct walk_system system;
    struct walk_state *states; /* Owned [n_states], in the order of discovery */
    uint32_t *n_next;          /* Owned [n_states] */
    uint32_t *from, *to;       /* Owned [n_edges] */
    uint32_t *table;           /* Owned [cap_table]: index of a state + 1; 0 if free */
    uint32_t n_states, cap_states, cap_table;
    size_t n_edges, cap_edges;
    uint32_t at;    /* index of the state being expanded */
    uint32_t depth; /* steps to the farthest state */
};

/* Explores everything that can be reached from `first`. Aborts when out of memory. The caller
 * frees the result with walk_fini(). */
void walk_all(struct walk *walk, const struct walk_system *system,
              const struct walk_state *first);
/* Adds a successor of the state being expanded. */
void walk_next(struct walk *walk, const struct walk_state *next);
/* Returns [n_states], to be freed by the caller: true for each state from which a state with
 * `is_goal` can be reached. */
bool *walk_can_reach(const struct walk *walk,
                     bool (*is_goal)(const struct walk_state *state,
                                     const void *context));
void walk_fini(struct walk *walk);

#endif
