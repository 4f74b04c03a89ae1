#define _POSIX_C_SOURCE 200809L
#include "backends/sim/bench.h"

#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "backends/sim/bench_ring.h"
#include "base/check.h"

enum {
    MTU_BYTES = 4096,
    /* Ethernet, IPv4, UDP, BTH, ICRC, FCS, preamble and gap. */
    OVERHEAD_BYTES = 14 + 20 + 8 + 12 + 4 + 4 + 20,
    RETH_AND_IMM_BYTES = 16 + 4,
    DELAY_NS = 1000,
    BLOCK = 64,
    SLOPE = 40503
};

/* ---- moved payload: a ring all-reduce of 16-bit numbers ---- */

/* The memory of a node has a number for each place, and then room for two messages to be added,
 * because one can arrive while the other is being added. Numbers increase by SLOPE per place
 * within a block. */
static uint16_t first_of_block(uint32_t node, uint64_t place)
{
    return (uint16_t)(place * SLOPE + (place >> 16) + node * 7919u);
}

static void fill(const struct bench_ring *ring)
{
    uint64_t n = ring->n * ring->bench->message_bytes / 2;

    for (uint32_t i = 0; i < ring->n; i++) {
        uint16_t *numbers = (uint16_t *)(void *)ring->nodes[i].memory;

        memset(numbers, 0, ring->node_bytes);
        for (uint64_t place = 0; place < n; place++) {
            uint64_t in_block = place % BLOCK;
            uint16_t first = first_of_block(i, place - in_block);

            numbers[place] = (uint16_t)(first + in_block * SLOPE);
        }
    }
}

/* Returns how many of `n` numbers are not the sum over all nodes. `place` must start a block. */
static inline uint32_t n_wrong_sums(const struct bench_ring *ring,
                                    const uint16_t *numbers, uint64_t place, uint32_t n)
{
    uint16_t slope = (uint16_t)(SLOPE * ring->n);
    uint16_t sum = 0;
    uint16_t n_wrong = 0;

    for (uint32_t i = 0; i < ring->n; i++) {
        sum = (uint16_t)(sum + first_of_block(i, place));
    }
    for (uint16_t i = 0; i < n; i++) {
        n_wrong = (uint16_t)(n_wrong + (numbers[i] != (uint16_t)(sum + i * slope)));
    }
    return n_wrong;
}

/* Returns true if every node has the correct sum at every place. */
static bool check_sums(const struct bench_ring *ring)
{
    uint64_t n = ring->n * ring->bench->message_bytes / 2;
    uint64_t n_wrong = 0;

    for (uint32_t i = 0; i < ring->n; i++) {
        const uint16_t *numbers = (const uint16_t *)(const void *)ring->nodes[i].memory;
        uint64_t place = 0;

        for (; place + BLOCK <= n; place += BLOCK) {
            n_wrong += n_wrong_sums(ring, numbers + place, place, BLOCK);
        }
        n_wrong += n_wrong_sums(ring, numbers + place, place, (uint32_t)(n - place));
    }
    return n_wrong == 0;
}

/* Adds in blocks of constant size, which the compiler vectorises. */
static void add_numbers(uint16_t *restrict to, const uint16_t *restrict from, uint64_t n)
{
    for (; n >= BLOCK; n -= BLOCK, to += BLOCK, from += BLOCK) {
        for (int i = 0; i < BLOCK; i++) {
            to[i] = (uint16_t)(to[i] + from[i]);
        }
    }
    for (uint64_t i = 0; i < n; i++) {
        to[i] = (uint16_t)(to[i] + from[i]);
    }
}

/* Returns which message of its memory the node sends in `step`: first partial sums, then results,
 * one chunk further back in each step. */
static uint32_t chunk_sent(const struct bench_ring *ring, uint32_t node, uint32_t step)
{
    return (node + 2 * ring->n - step) % ring->n;
}

/* Returns the message slot in the memory of the right neighbour of `node`. */
static uint64_t target_of(const struct bench_ring *ring, uint32_t node, uint32_t step)
{
    bool is_reducing = step < ring->n - 1;
    return is_reducing ? ring->n + step % 2 : chunk_sent(ring, node, step);
}

/* Adds the message that arrived at `node` in `step` to its own numbers. */
static void reduce(const struct bench_ring *ring, const struct bench_node *node,
                   uint32_t step)
{
    uint64_t bytes = ring->bench->message_bytes;
    uint32_t index = (uint32_t)(node - ring->nodes);
    uint32_t left = (index + ring->n - 1) % ring->n;

    if (ring->bench->payload != BENCH_BY_REFERENCE && step < ring->n - 1) {
        uint8_t *to = node->memory + chunk_sent(ring, left, step) * bytes;
        const uint8_t *from = node->memory + target_of(ring, left, step) * bytes;

        add_numbers((uint16_t *)(void *)to, (const uint16_t *)(const void *)from,
                    bytes / 2);
    }
}

/* ---- execution of the ring ---- */

static void post_receives(struct bench_ring *ring, struct bench_node *node)
{
    struct ibv_recv_wr *bad;

    weft_check(sim_nic_post_recv(node->ends[BENCH_LEFT].qp, ring->receives, &bad) == 0);
}

/* Takes all completions of `cq`. Returns how many, or -1; *last is the wr_id of the last one,
 * unchanged if there is none. */
static int take_completions(struct ibv_cq *cq, uint64_t *last)
{
    struct ibv_wc wc[BENCH_DEPTH_MAX];
    int n_all = 0;
    int n = BENCH_DEPTH_MAX;

    while (n == BENCH_DEPTH_MAX) {
        if (sim_nic_poll_cq(cq, BENCH_DEPTH_MAX, wc, &n) != 0) {
            return -1;
        }
        for (int i = 0; i < n; i++) {
            if (wc[i].status != IBV_WC_SUCCESS) {
                return -1;
            }
            *last = wc[i].wr_id;
        }
        n_all += n;
    }
    return n_all;
}

/* Takes completions of sends. A completion covers all sends before it. */
static bool take_sent(struct bench_node *node)
{
    uint64_t last = node->n_completed;
    bool ok = take_completions(node->right_cq, &last) >= 0;

    node->n_completed = (uint32_t)last;
    return ok;
}

static bool send_next(struct bench_ring *ring, struct bench_node *node)
{
    uint64_t source = 0;
    uint64_t target = ring->bench->message_bytes;
    struct ibv_send_wr *bad;

    if (ring->bench->payload != BENCH_BY_REFERENCE) {
        uint32_t index = (uint32_t)(node - ring->nodes);

        source = chunk_sent(ring, index, node->n_sent) * ring->bench->message_bytes;
        target = target_of(ring, index, node->n_sent) * ring->bench->message_bytes;
    }
    bool is_full = node->n_sent - node->n_completed == ring->depth;

    node->n_sent++;
    bool is_signaled =
        node->n_sent % BENCH_BATCH == 0 || node->n_sent == ring->bench->n_steps;
    ring->sge.addr = (uintptr_t)node->memory + source;
    ring->sge.lkey = node->lkey;
    ring->wr.wr_id = node->n_sent;
    ring->wr.send_flags = is_signaled ? IBV_SEND_SIGNALED : 0;
    ring->wr.wr.rdma.remote_addr =
        (uintptr_t)bench_ring_right_memory(ring, node) + target;
    ring->wr.wr.rdma.rkey = node->right_rkey;
    return (!is_full || take_sent(node)) &&
           sim_nic_post_send(node->right_qp, &ring->wr, &bad) == 0;
}

/* Handles messages that arrived from the left; each starts the next step. */
static bool serve(struct bench_ring *ring, struct bench_node *node)
{
    uint32_t step = node->n_received;
    uint64_t last;
    int n = take_completions(node->left_cq, &last);

    if (n < 0) {
        return false;
    }
    node->n_received += (uint32_t)n;
    for (; step < node->n_received; step++) {
        if (step % BENCH_BATCH == 0) {
            post_receives(ring, node);
        }
        reduce(ring, node, step);
        if (ring->n > 2 && node->n_sent < ring->bench->n_steps &&
            !send_next(ring, node)) {
            return false;
        }
    }
    sim_nic_req_notify(node->left_cq, false);
    return true;
}

static bool start(struct bench_ring *ring)
{
    uint32_t n_senders = ring->n == 2 ? 1 : ring->n;
    uint32_t n_first = ring->n == 2 ? ring->bench->n_steps : 1;
    bool ok = n_first <= BENCH_DEPTH_MAX;

    for (uint32_t i = 0; i < ring->n; i++) {
        /* With two nodes, the first has no left neighbour. */
        if (ring->n > 2 || i > 0) {
            post_receives(ring, &ring->nodes[i]);
        }
        ok = ok && serve(ring, &ring->nodes[i]);
    }
    for (uint32_t i = 0; i < n_senders; i++) {
        for (uint32_t k = 0; k < n_first; k++) {
            ok = ok && send_next(ring, &ring->nodes[i]);
        }
    }
    return ok;
}

/* Runs until the last message has arrived. */
static bool run_ring(struct bench_ring *ring, weft_ps *out_time)
{
    uint64_t n_left = (uint64_t)(ring->n == 2 ? 1 : ring->n) * ring->bench->n_steps;
    weft_ps started = sim_now(ring->engine);
    bool ok = start(ring);

    while (ok && n_left > 0 && sim_run(ring->engine, &ring->n_woken)) {
        for (uint32_t i = 0; i < ring->n_woken && ok; i++) {
            struct bench_node *node = ring->woken[i];
            uint32_t before = node->n_received;

            ok = serve(ring, node);
            n_left -= node->n_received - before;
        }
        ring->n_woken = 0;
    }
    *out_time = sim_now(ring->engine) - started;
    return ok && n_left == 0;
}

/* Runs until the last acknowledgement has arrived. */
static bool drain(struct bench_ring *ring)
{
    bool ok = true;

    for (uint32_t i = 0; i < ring->n && ok; i++) {
        struct bench_node *node = &ring->nodes[i];

        ok = take_sent(node);
        while (ok && node->n_completed < node->n_sent) {
            ok = sim_step(ring->engine, SIM_NEVER) && take_sent(node);
        }
    }
    return ok;
}

static double seconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* 0.08 ns per byte at 100 Gbit/s, payloads padded to 4 bytes, plus the delays of the cables. */
static uint64_t limit_ns(const struct bench *bench, uint64_t n_packets)
{
    uint64_t bytes = ((bench->message_bytes + 3) & ~UINT64_C(3)) +
                     n_packets * OVERHEAD_BYTES + RETH_AND_IMM_BYTES;
    uint64_t n_delays = bench->n_nodes == 2 ? 1 : bench->n_steps;

    return bench->n_steps * bytes * 8 / 100 + n_delays * DELAY_NS;
}

bool sim_bench_ring(const struct bench *bench, struct bench_result *out)
{
    uint64_t n_messages =
        (uint64_t)(bench->n_nodes == 2 ? 1 : bench->n_nodes) * bench->n_steps;
    uint64_t n_packets = (bench->message_bytes + MTU_BYTES - 1) / MTU_BYTES;
    bool is_moved = bench->payload != BENCH_BY_REFERENCE;
    uint64_t n_chunks = is_moved ? bench->n_nodes + 2 : 2;
    struct bench_ring ring;
    struct rusage usage;
    weft_ps time = 0;
    bool ok;

    memset(out, 0, sizeof(*out));
    ok = bench_ring_make(&ring, bench, n_chunks * bench->message_bytes);
    if (ok && is_moved) {
        fill(&ring);
    }
    out->events = sim_n_events(ring.engine);
    out->cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID);
    out->wall_s = seconds(CLOCK_MONOTONIC);
    ok = ok && run_ring(&ring, &time) && drain(&ring);
    ok = ok && (!is_moved || check_sums(&ring));
    out->cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID) - out->cpu_s;
    out->wall_s = seconds(CLOCK_MONOTONIC) - out->wall_s;
    getrusage(RUSAGE_SELF, &usage);
    out->peak_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
    out->packets = n_messages * n_packets;
    out->events = sim_n_events(ring.engine) - out->events;
    out->sim_time_ps = (uint64_t)time;
    out->sim_time_ns = out->sim_time_ps / 1000;
    out->limit_ns = limit_ns(bench, n_packets);
    bench_ring_destroy(&ring);
    return ok;
}
