/* The ring that the benchmarks run on: hosts with one NIC to the left and one to the right
 * neighbour, and one connection per cable. */
#ifndef WEFT_BACKENDS_SIM_BENCH_RING_H
#define WEFT_BACKENDS_SIM_BENCH_RING_H

#include "backends/sim/bench.h"
#include "base/text.h"
#include "sim/nic.h"

enum bench_side { BENCH_LEFT, BENCH_RIGHT };
enum {
    BENCH_DEPTH = 8,      /* of queues in a ring, with one or two messages in flight */
    BENCH_DEPTH_MAX = 16, /* of queues between two nodes */
    BENCH_BATCH = 4 /* number of receives posted at once, and of sends per completion */
};

struct bench_ring;

/* One end of a cable: a NIC with one QP. */
struct bench_end {
    struct bench_ring *ring;
    struct sim_port *port;
    struct sim_nic *nic;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr; /* covers all of the node's memory */
    struct ibv_qp *qp;
};

struct bench_node {
    /* Data that every step uses, copied from the ends and from the right neighbour; one cache
     * line. */
    _Alignas(WEFT_LINE_BYTES) struct ibv_cq *left_cq;
    struct ibv_cq *right_cq;
    struct ibv_qp *right_qp;
    struct bench_ring *ring;
    uint8_t *memory; /* within the ring's memory */
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
    uint8_t *memory;   /* Owned [n * node_bytes]; inaccessible if by reference */
    /* Nodes whose left CQ has been woken since the last look. */
    struct bench_node **woken; /* Owned [n] */
    uint32_t n_woken;
    uint32_t depth;                           /* of the queues */
    struct ibv_send_wr wr;                    /* common part of all sends */
    struct ibv_sge sge;                       /* of `wr` */
    struct ibv_recv_wr receives[BENCH_BATCH]; /* a linked list */
};

/* Builds and connects everything, with `node_bytes` of memory per node. Returns false on failure;
 * the caller must destroy the ring in either case. */
bool bench_ring_make(struct bench_ring *ring, const struct bench *bench,
                     size_t node_bytes);
void bench_ring_destroy(struct bench_ring *ring);
/* Returns the right neighbour of `node`. */
struct bench_node *bench_ring_next(const struct bench_ring *ring,
                                   const struct bench_node *node);

/* Returns the memory of the right neighbour. */
static inline uint8_t *bench_ring_right_memory(const struct bench_ring *ring,
                                               const struct bench_node *node)
{
    uint8_t *right = node->memory + ring->node_bytes;
    return right == ring->memory + ring->n * ring->node_bytes ? ring->memory : right;
}

#endif
