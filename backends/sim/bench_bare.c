/* The bare event core: a ring of RC senders with PSN check, window and ACK frames only. It has no
 * queue pair states, timers, CQs, memory regions or event log. The baseline for the cost of the
 * whole NIC. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "backends/sim/bench.h"
#include "base/check.h"
#include "base/text.h"
#include "sim/pending.h"

enum {
    MTU_BYTES = 4096,
    DATA_OVERHEAD_BYTES = 82,
    ACK_BYTES = 86,
    PS_PER_BYTE = 80,
    DELAY_PS = 1000000,
    WINDOW = 64, /* packets; a power of two, and what fits a direction */
    RING = 2 * WINDOW
};

struct bare_frame {
    weft_ps at;
    uint32_t psn, n_bytes;
    bool is_last;
};

/* One direction of a cable. Only the arrival of the first frame in flight is scheduled. */
struct bare_link {
    struct sim_event arrival;
    struct bare_frame frames[RING];
    uint32_t head, n;
    weft_ps free_at;
};

/* A sender, and the receiver at the other end of its cable. */
struct bare_node {
    struct bare *bare;
    struct sim_event transmit;
    struct bare_link data, acks;
    uint64_t left; /* remaining bytes of the current message */
    uint32_t next_psn, una_psn, expected_psn;
    uint32_t n_queued; /* messages after the current one */
    uint32_t n_started;
};

struct bare {
    const struct bench *bench;
    struct sim_pending pending;
    struct bare_node *nodes; /* Owned [n] */
    uint32_t n;
    weft_ps now, done_at;
    uint64_t n_packets, n_events;
};

static void put(struct bare *bare, struct bare_link *link, struct bare_frame frame,
                uint32_t wire_bytes)
{
    weft_ps start = link->free_at > bare->now ? link->free_at : bare->now;

    weft_check(link->n < RING);
    link->free_at = start + (weft_ps)wire_bytes * PS_PER_BYTE;
    frame.at = link->free_at + DELAY_PS;
    link->frames[(link->head + link->n) % RING] = frame;
    link->n++;
    if (link->n == 1) {
        sim_pending_set(&bare->pending, &link->arrival, frame.at);
    }
}

static struct bare_frame take(struct bare *bare, struct bare_link *link)
{
    struct bare_frame frame = link->frames[link->head];

    link->head = (link->head + 1) % RING;
    link->n--;
    if (link->n > 0) {
        sim_pending_set(&bare->pending, &link->arrival, link->frames[link->head].at);
    }
    return frame;
}

static void kick(struct bare_node *node)
{
    struct bare *bare = node->bare;
    weft_ps at = node->data.free_at > bare->now ? node->data.free_at : bare->now;
    bool may_send = node->left > 0 && node->next_psn - node->una_psn < WINDOW;

    if (may_send && !sim_is_scheduled(&node->transmit)) {
        sim_pending_set(&bare->pending, &node->transmit, at);
    }
}

static void start_message(struct bare_node *node)
{
    if (node->left > 0) {
        node->n_queued++;
        return;
    }
    node->left = node->bare->bench->message_bytes;
    node->n_started++;
    kick(node);
}

static void on_transmit(struct sim_event *event)
{
    struct bare_node *node = weft_container_of(event, struct bare_node, transmit);
    struct bare_frame frame = {.psn = node->next_psn++};

    frame.n_bytes = node->left < MTU_BYTES ? (uint32_t)node->left : MTU_BYTES;
    node->left -= frame.n_bytes;
    frame.is_last = node->left == 0;
    put(node->bare, &node->data, frame, frame.n_bytes + DATA_OVERHEAD_BYTES);
    if (node->left == 0 && node->n_queued > 0) {
        node->n_queued--;
        start_message(node);
    }
    kick(node);
}

static void on_data(struct sim_event *event)
{
    struct bare_node *node = weft_container_of(event, struct bare_node, data.arrival);
    struct bare *bare = node->bare;
    struct bare_frame frame = take(bare, &node->data);

    weft_check(frame.psn == node->expected_psn);
    node->expected_psn++;
    bare->n_packets++;
    put(bare, &node->acks, (struct bare_frame){.psn = frame.psn}, ACK_BYTES);
    if (frame.is_last) {
        size_t index = (size_t)(node - bare->nodes);
        struct bare_node *next = &bare->nodes[(index + 1) % bare->n];

        bare->done_at = bare->now;
        if (bare->n > 1 && next->n_started + next->n_queued < bare->bench->n_steps) {
            start_message(next);
        }
    }
}

static void on_ack(struct sim_event *event)
{
    struct bare_node *node = weft_container_of(event, struct bare_node, acks.arrival);
    struct bare_frame frame = take(node->bare, &node->acks);

    weft_check(frame.psn == node->una_psn);
    node->una_psn++;
    kick(node);
}

static void make_nodes(struct bare *bare)
{
    bare->nodes = weft_calloc(bare->n, sizeof(*bare->nodes));
    for (uint32_t i = 0; i < bare->n; i++) {
        struct bare_node *node = &bare->nodes[i];

        node->bare = bare;
        sim_event_init(&node->transmit, on_transmit);
        sim_event_init(&node->data.arrival, on_data);
        sim_event_init(&node->acks.arrival, on_ack);
        node->transmit.rank = 3 * i + 1;
        node->data.arrival.rank = 3 * i + 2;
        node->acks.arrival.rank = 3 * i + 3;
    }
}

static void run(struct bare *bare)
{
    struct sim_event *event;
    uint32_t n_first = bare->n == 1 ? bare->bench->n_steps : 1;

    for (uint32_t i = 0; i < bare->n * n_first; i++) {
        start_message(&bare->nodes[i % bare->n]);
    }
    while ((event = sim_pending_peek(&bare->pending)) != NULL) {
        sim_pending_take(&bare->pending, event);
        bare->now = event->at;
        bare->n_events++;
        event->fire(event);
    }
}

static double seconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

bool sim_bench_bare(const struct bench *bench, struct bench_result *out)
{
    struct bare bare = {.bench = bench, .n = bench->n_nodes == 2 ? 1 : bench->n_nodes};
    uint64_t n_packets = (bench->message_bytes + MTU_BYTES - 1) / MTU_BYTES;
    uint64_t bytes = bench->message_bytes + n_packets * DATA_OVERHEAD_BYTES;
    uint64_t n_delays = bare.n == 1 ? 1 : bench->n_steps;
    struct rusage usage;

    memset(out, 0, sizeof(*out));
    sim_pending_init(&bare.pending);
    make_nodes(&bare);
    out->cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID);
    out->wall_s = seconds(CLOCK_MONOTONIC);
    run(&bare);
    out->cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID) - out->cpu_s;
    out->wall_s = seconds(CLOCK_MONOTONIC) - out->wall_s;
    getrusage(RUSAGE_SELF, &usage);
    out->peak_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
    out->packets = bare.n_packets;
    out->events = bare.n_events;
    out->sim_time_ps = (uint64_t)bare.done_at;
    out->sim_time_ns = out->sim_time_ps / 1000;
    out->limit_ns = (bench->n_steps * bytes * PS_PER_BYTE + n_delays * DELAY_PS) / 1000;
    sim_pending_fini(&bare.pending);
    free(bare.nodes);
    return out->packets == n_packets * bench->n_steps * bare.n;
}
