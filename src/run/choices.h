/* Which ports, GIDs and path MTU a policy would choose for every pair of ranks, and why: from the
 * facts of devices that are opened, before anything is connected. */
#ifndef WEFT_RUN_CHOICES_H
#define WEFT_RUN_CHOICES_H

#include "conn/conn.h"
#include "run/run.h"

#define RUN_PORTS_MAX 16

/* One end of a connection: what it takes for itself. `rails` index its own facts and its peer's. */
struct run_choice_end {
    struct rdma_rail rails[CONN_RAILS_MAX];
    uint32_t n_rails;
    struct rdma_reason reasons[RDMA_REASONS_MAX];
    uint32_t n_reasons;
};

struct run_choice {
    uint32_t from,
        to; /* ranks: the connector, which sends, and the acceptor; other hosts */
    struct run_choice_end connector, acceptor;
    struct weft_error error; /* policy weft found no way */
};

struct run_choices {
    enum rdma_policy policy;
    struct run_choice *items; /* Owned [n], by `from`, then `to` */
    uint32_t n;
    uint32_t n_ranks;
    struct rdma_port_facts (*facts)[RUN_PORTS_MAX]; /* Owned [n_ranks] */
    uint32_t *n_facts;                              /* Owned [n_ranks] */
    struct scenario_world *plan;                    /* Owned: what was built */
    uint32_t *hosts;                                /* Owned [n_ranks] */
};

/* Of every pair of ranks on two hosts. Rails of the acceptor under policy weft repeat the
 * connector's. run_choices_fini in any case. */
weft_status run_choices_make(const struct scenario *scenario,
                             const struct run_options *options, struct run_choices *out,
                             struct weft_error *error) WEFT_MUST_CHECK;
void run_choices_fini(struct run_choices *choices);

#endif
