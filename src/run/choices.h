/* Computes the ports, GIDs and path MTU that a policy selects for each pair of ranks, and the
 * reasons, from the facts of opened devices. Nothing is connected. */
#ifndef WEFT_RUN_CHOICES_H
#define WEFT_RUN_CHOICES_H

#include "conn/conn.h"
#include "run/run.h"

#define RUN_PORTS_MAX 16

/* The choice of one end of a connection. `rails` hold indices into its own facts and those of its
 * peer. */
struct run_choice_end {
    struct rdma_rail rails[CONN_RAILS_MAX];
    uint32_t n_rails;
    struct rdma_reason reasons[RDMA_REASONS_MAX];
    uint32_t n_reasons;
};

struct run_choice {
    uint32_t from, to; /* ranks on different hosts: connector (sender) and acceptor */
    struct run_choice_end connector, acceptor;
    /* Why an end found no rail; status WEFT_OK if both found one. */
    struct weft_error error;
};

struct run_choices {
    enum weft_policy policy;
    struct run_choice *items; /* Owned [n], by `from`, then `to` */
    uint32_t n;
    uint32_t n_ranks;
    struct rdma_port_facts (*facts)[RUN_PORTS_MAX]; /* Owned [n_ranks] */
    uint32_t *n_facts;                              /* Owned [n_ranks] */
    struct scenario_world *plan;                    /* Owned; the world's plan */
    /* Owned [n_ranks]; host of each rank. */
    uint32_t *hosts;
};

/* Computes the choices for each pair of ranks on different hosts. With policy weft the acceptor's
 * rails are those of the connector, reversed. The caller calls run_choices_fini() in either
 * case. */
weft_status run_choices_make(const struct scenario *scenario,
                             const struct run_options *options, struct run_choices *out,
                             struct weft_error *error) WEFT_MUST_CHECK;
void run_choices_fini(struct run_choices *choices);

#endif
