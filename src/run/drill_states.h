/* Walks a queue pair through its states by random calls of modify_qp(3), right and wrong ones. A
 * table of IBA 11.2.5.2 and the order in which Linux checks say what each call must return; a call
 * that is refused changes nothing, so that the next is judged by the same state. */
#ifndef WEFT_RUN_DRILL_STATES_H
#define WEFT_RUN_DRILL_STATES_H

#include "base/rng.h"
#include "io/env.h"

struct run;

struct drill_states {
    struct run *run;
    struct weft_rng *rng;
    struct io_device *device;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    uint8_t port, n_ports;
    bool has_sqd; /* hns goes without */
    uint8_t gid_index;
    union ibv_gid peer_gid;
};

/* Returns false if a call does not return what it must, and says so in `text`. */
bool drill_states_walk(const struct drill_states *states, char *text, size_t n_text);

#endif
