/* Walks through all lives of a small system: a state is a few bytes, a function lists what can
 * happen next. Breadth first, each state once; afterwards, from where a goal can still be
 * reached. */
#ifndef WEFT_IPC_WALK_TESTING_H
#define WEFT_IPC_WALK_TESTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WALK_STATE_BYTES 48

struct walk;

/* Unused bytes are zero: states are compared as bytes. */
struct walk_state {
    uint8_t bytes[WALK_STATE_BYTES];
};

struct walk_system {
    /* Calls walk_next for whatever can happen in `state`. */
    void (*expand)(struct walk *walk, const struct walk_state *state,
                   const void *context);
    const void *context; /* Not owned. */
};

struct walk {
    struct walk_system system;
    struct walk_state *states; /* Owned [n_states]; the order of finding them */
    uint32_t *n_next;          /* Owned [n_states] */
    uint32_t *from, *to;       /* Owned [n_edges] */
    uint32_t *table;           /* Owned [cap_table]: state + 1; 0: free */
    uint32_t n_states, cap_states, cap_table;
    size_t n_edges, cap_edges;
    uint32_t at;    /* being expanded */
    uint32_t depth; /* steps to the state farthest from the first */
};

/* From `first`, everything. Aborts when out of memory. */
void walk_all(struct walk *walk, const struct walk_system *system,
              const struct walk_state *first);
void walk_next(struct walk *walk, const struct walk_state *next);
/* [n_states], to be freed: from which of them a state that `is_goal` can be reached. */
bool *walk_can_reach(const struct walk *walk,
                     bool (*is_goal)(const struct walk_state *state,
                                     const void *context));
void walk_fini(struct walk *walk);

#endif
