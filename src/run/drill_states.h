/* Moves a queue pair through its states by random valid and invalid calls of modify_qp(3). A table
 * of IBA 11.2.5.2 and the order of Linux's checks predict the result of each call. A refused call
 * changes nothing, so the next call is judged by the same state. */
#ifndef WEFT_RUN_DRILL_STATES_H
#define WEFT_RUN_DRILL_STATES_H

#include "base/rng.h"
#include "io/env.h"
#include "io/verbs.h"

struct run;

struct drill_states {
    struct run *run;
    struct weft_rng *rng;
    struct io_device *device;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    uint8_t port, n_ports;
    bool has_sqd; /* false for hns, which has no SQD */
    uint8_t gid_index;
    union ibv_gid peer_gid;
};

/* Returns false and describes the call in `text` if it does not return the predicted result. */
bool drill_states_walk(const struct drill_states *states, char *text, size_t n_text);

#endif
