/* The ring that the benchmarks run on: hosts with a NIC to the left and one to the right,
 * cabled around, one connection a cable. */
#ifndef WEFT_BACKENDS_SIM_BENCH_RING_H
#define WEFT_BACKENDS_SIM_BENCH_RING_H

#include "backends/sim/bench.h"
#include "base/text.h"
#include "sim/nic.h"

enum bench_side { BENCH_LEFT, BENCH_RIGHT };
enum {
    BENCH_DEPTH =
        8, /* of queues around a ring, where one or two messages are under way */
    BENCH_DEPTH_MAX = 16, /* of those of two nodes */
    BENCH_BATCH =
        4 /* receives are posted, and completions of sends asked for, by fours */
};

struct bench_ring;

/* One end of a cable: a NIC with one QP. */
struct bench_end {
    struct bench_ring *ring;
    struct sim_port *port;
    struct sim_nic *nic;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr; /* all of the node's memory */
    struct ibv_qp *qp;
};

struct bench_node {
    /* What every step uses, of the ends and of the node on the right; one cache line. */
    _Alignas(WEFT_LINE_BYTES) struct ibv_cq *left_cq;
    struct ibv_cq *right_cq;
    struct ibv_qp *right_qp;
    struct bench_ring *ring;
    uint8_t *memory; /* inside the ring's */
    uint32_t lkey, right_rkey;
    uint32_t n_sent, n_received, n_completed;

    struct sim_stack *stack;
    struct bench_end ends[2];
};

struct bench_ring {
    const struct bench *bench;
    struct sim_engine *engine;
    struct sim_profile profile;
    struct bench_node *nodes; /* Owned [n] */
    uint32_t n;
    size_t node_bytes; /* of memory */
    uint8_t *memory;   /* Owned [n * node_bytes]; without bytes if by reference */
    /* Ends whose CQs woke since they were last looked at; those on the left. */
    struct bench_node **woken; /* Owned [n] */
    uint32_t n_woken;
    uint32_t depth;                           /* of the queues */
    struct ibv_send_wr wr;                    /* what all sends have in common */
    struct ibv_sge sge;                       /* of it */
    struct ibv_recv_wr receives[BENCH_BATCH]; /* a list of them */
};

/* Builds and connects everything; `node_bytes` of memory each. False, with what was made
 * still to be destroyed, if that cannot be. */
bool bench_ring_make(struct bench_ring *ring, const struct bench *bench,
                     size_t node_bytes);
void bench_ring_destroy(struct bench_ring *ring);
/* The node on the right of `node`. */
struct bench_node *bench_ring_next(const struct bench_ring *ring,
                                   const struct bench_node *node);

/* Its memory. */
static inline uint8_t *bench_ring_right_memory(const struct bench_ring *ring,
                                               const struct bench_node *node)
{
    uint8_t *right = node->memory + ring->node_bytes;
    return right == ring->memory + ring->n * ring->node_bytes ? ring->memory : right;
}

#endif
