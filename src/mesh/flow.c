#include "mesh/flow.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

/* A residual network. Half-arcs 2i and 2i + 1 are arc i and its reverse. */
struct flow {
    const struct mesh_arc *arcs;
    size_t n_arcs;
    uint32_t n_hosts;
    uint64_t *left;  /* [2 n_arcs]: residual capacity */
    size_t *next;    /* [2 n_arcs]: next half-arc out of the same host */
    size_t *first;   /* [n_hosts] */
    size_t *arrived; /* [n_hosts]: half-arc by which the search reached the host */
    uint32_t *queue; /* [n_hosts] */
    bool *seen;      /* [n_hosts], owned by the caller */
};

#define NO_ARC SIZE_MAX

static uint32_t head(const struct flow *flow, size_t half)
{
    const struct mesh_arc *arc = &flow->arcs[half / 2];
    return half % 2 == 0 ? arc->to : arc->from;
}

static void add_half(struct flow *flow, uint32_t from, size_t half)
{
    flow->next[half] = flow->first[from];
    flow->first[from] = half;
}

/* Searches breadth first from `source` over residual capacity. Returns true if it reached
 * `sink`. */
static bool search(struct flow *flow, uint32_t source, uint32_t sink)
{
    memset(flow->seen, 0, flow->n_hosts * sizeof(*flow->seen));
    uint32_t n_queued = 0;
    flow->seen[source] = true;
    flow->arrived[source] = NO_ARC;
    flow->queue[n_queued++] = source;
    for (uint32_t at = 0; at < n_queued; at++) {
        uint32_t host = flow->queue[at];
        for (size_t half = flow->first[host]; half != NO_ARC; half = flow->next[half]) {
            uint32_t to = head(flow, half);
            if (flow->left[half] > 0 && !flow->seen[to]) {
                flow->seen[to] = true;
                flow->arrived[to] = half;
                flow->queue[n_queued++] = to;
            }
        }
    }
    return flow->seen[sink];
}

/* Pushes as much as possible along the path found. Returns the amount. */
static uint64_t augment(struct flow *flow, uint32_t source, uint32_t sink)
{
    uint64_t amount = UINT64_MAX;
    for (uint32_t host = sink; host != source;
         host = head(flow, flow->arrived[host] ^ 1)) {
        uint64_t left = flow->left[flow->arrived[host]];
        amount = left < amount ? left : amount;
    }
    for (uint32_t host = sink; host != source;
         host = head(flow, flow->arrived[host] ^ 1)) {
        flow->left[flow->arrived[host]] -= amount;
        flow->left[flow->arrived[host] ^ 1] += amount;
    }
    return amount;
}

uint64_t mesh_least_cut(uint32_t n_hosts, const struct mesh_arc *arcs, size_t n_arcs,
                        uint32_t source, uint32_t sink, bool *out_source_side)
{
    weft_check(source != sink && source < n_hosts && sink < n_hosts);
    struct flow flow = {
        .arcs = arcs,
        .n_arcs = n_arcs,
        .n_hosts = n_hosts,
        .left = weft_alloc((2 * n_arcs + 1) * sizeof(uint64_t)),
        .next = weft_alloc((2 * n_arcs + 1) * sizeof(size_t)),
        .first = weft_alloc(n_hosts * sizeof(size_t)),
        .arrived = weft_alloc(n_hosts * sizeof(size_t)),
        .queue = weft_alloc(n_hosts * sizeof(uint32_t)),
        .seen = out_source_side,
    };
    for (uint32_t h = 0; h < n_hosts; h++) {
        flow.first[h] = NO_ARC;
    }
    for (size_t i = 0; i < n_arcs; i++) {
        flow.left[2 * i] = arcs[i].capacity;
        flow.left[2 * i + 1] = 0;
        add_half(&flow, arcs[i].from, 2 * i);
        add_half(&flow, arcs[i].to, 2 * i + 1);
    }
    uint64_t total = 0;
    while (search(&flow, source, sink)) {
        total += augment(&flow, source, sink);
    }
    free(flow.left);
    free(flow.next);
    free(flow.first);
    free(flow.arrived);
    free(flow.queue);
    return total;
}
