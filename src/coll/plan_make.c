#include <stdlib.h>

#include "base/check.h"
#include "coll/plan_private.h"

/* ---- rings ----
 *
 * A ring works on a range of elements cut into n chunks. For n - 1 steps rank r sends a
 * chunk onwards, starting with its own (chunk r), and adds its input to the one that
 * comes in; then chunk r + 1 is complete on r, and for n - 1 more steps complete chunks
 * go round. Two opposite rings work on one half each, so that both directions of every
 * cable carry half of the bytes.
 *
 * Steps are listed chunk by chunk, slice by slice: when a chunk's last slice leaves, the
 * first slice of the next chunk has long been reduced, so that the wire never waits. */

struct ring {
    uint32_t next, previous; /* ranks */
    bool is_reversed;
    uint64_t offset, count; /* the ring's range */
    uint64_t slice;
    uint32_t *came; /* [n * n_slices]: the step that completed slice s of chunk c here */
    uint32_t *sent; /* [n * n_slices]: the first send of it */
    uint32_t n_slices; /* of the largest chunk */
};

static uint64_t chunk_begin(const struct ring *ring, uint32_t chunk, uint32_t n)
{
    return ring->offset + ring->count / n * chunk +
           (ring->count % n < chunk ? ring->count % n : chunk);
}

/* The chunk `steps_back` steps behind rank r's own. In ring step k, rank r sends the one
 * k steps back and gets the one k + 1 steps back, while reducing and while gathering. */
static uint32_t chunk_at(const struct ring *ring, uint32_t rank, uint32_t steps_back,
                         uint32_t n)
{
    return ring->is_reversed ? (rank + steps_back) % n : (rank + n - steps_back % n) % n;
}

struct slice {
    uint32_t key; /* into came and sent */
    uint64_t offset, count;
};

static bool slice_of(const struct ring *ring, uint32_t chunk, uint32_t index, uint32_t n,
                     struct slice *out)
{
    uint64_t begin = chunk_begin(ring, chunk, n) + index * ring->slice;
    uint64_t end = chunk_begin(ring, chunk + 1, n);

    if (begin >= end) {
        return false;
    }
    *out = (struct slice){.key = chunk * ring->n_slices + index,
                          .offset = begin,
                          .count = end - begin < ring->slice ? end - begin : ring->slice};
    return true;
}

/* Slice `index` of ring step k (0 .. 2n - 3): what is sent and what comes in. */
static void ring_step(struct coll_maker *maker, struct ring *ring, uint32_t k,
                      uint32_t index)
{
    uint32_t n = maker->plan->n_ranks, rank = maker->plan->rank;
    bool is_gather = k >= n - 1;
    struct slice slice;

    if (slice_of(ring, chunk_at(ring, rank, k, n), index, n, &slice)) {
        struct coll_step send = {.kind = COLL_SEND,
                                 .peer = ring->next,
                                 .from = k == 0 ? COLL_INPUT : COLL_OUTPUT,
                                 .offset = slice.offset,
                                 .count = slice.count,
                                 .after = {ring->came[slice.key], COLL_NO_STEP}};
        uint32_t step = coll_maker_add(maker, &send);

        if (!is_gather) {
            ring->sent[slice.key] = step;
        }
    }
    if (slice_of(ring, chunk_at(ring, rank, k + 1, n), index, n, &slice)) {
        struct coll_step recv = {
            .kind = is_gather ? COLL_RECV : COLL_RECV_REDUCE,
            .peer = ring->previous,
            .from = COLL_INPUT,
            .offset = slice.offset,
            .count = slice.count,
            .after = {is_gather ? ring->sent[slice.key] : COLL_NO_STEP, COLL_NO_STEP}};

        ring->came[slice.key] = coll_maker_add(maker, &recv);
    }
}

static void ring_init(struct ring *ring, const struct coll_maker *maker, bool is_reversed,
                      uint64_t offset, uint64_t count)
{
    uint32_t n = maker->plan->n_ranks, rank = maker->plan->rank;
    uint32_t up = (rank + 1) % n, down = (rank + n - 1) % n;
    uint64_t longest = (count + n - 1) / n;
    size_t n_entries;

    *ring = (struct ring){.next = is_reversed ? down : up,
                          .previous = is_reversed ? up : down,
                          .is_reversed = is_reversed,
                          .offset = offset,
                          .count = count};
    ring->slice = coll_slice_count(longest, weft_dtype_bytes(maker->job->dtype));
    ring->n_slices = (uint32_t)((longest + ring->slice - 1) / ring->slice);
    n_entries = (size_t)n * ring->n_slices;
    ring->came = weft_calloc(n_entries + 1, sizeof(*ring->came));
    ring->sent = weft_calloc(n_entries + 1, sizeof(*ring->sent));
    for (size_t i = 0; i < n_entries; i++) {
        ring->came[i] = COLL_NO_STEP;
        ring->sent[i] = COLL_NO_STEP;
    }
}

void coll_make_rings(struct coll_maker *maker, uint32_t n_rings)
{
    uint32_t n = maker->plan->n_ranks;
    uint64_t first_half = n_rings == 1 ? maker->job->count : maker->job->count / 2;
    struct ring rings[2];
    uint32_t n_slices = 0;

    weft_check(n_rings == 1 || n_rings == 2);
    for (uint32_t i = 0; i < n_rings; i++) {
        ring_init(&rings[i], maker, i == 1, i == 0 ? 0 : first_half,
                  i == 0 ? first_half : maker->job->count - first_half);
        n_slices = rings[i].n_slices > n_slices ? rings[i].n_slices : n_slices;
    }
    for (uint32_t k = 0; k < 2 * (n - 1); k++) {
        for (uint32_t index = 0; index < n_slices; index++) {
            for (uint32_t i = 0; i < n_rings; i++) {
                ring_step(maker, &rings[i], k, index);
            }
        }
    }
    for (uint32_t i = 0; i < n_rings; i++) {
        free(rings[i].came);
        free(rings[i].sent);
    }
}

/* ---- direct exchange ---- */

/* In place, the first reduction overwrites what is being sent: it waits for all sends of
 * the slice, joined two by two. */
static void join(struct coll_maker *maker, uint32_t step, uint32_t *joined)
{
    struct coll_step both = {.kind = COLL_JOIN,
                             .peer = maker->plan->rank,
                             .from = COLL_INPUT,
                             .after = {*joined, step}};

    *joined = *joined == COLL_NO_STEP ? step : coll_maker_add(maker, &both);
}

void coll_make_direct(struct coll_maker *maker)
{
    uint32_t n = maker->plan->n_ranks, rank = maker->plan->rank;
    uint64_t count = maker->job->count;
    uint64_t slice = coll_slice_count(count, weft_dtype_bytes(maker->job->dtype));

    for (uint64_t at = 0; at < count; at += slice) {
        struct coll_step step = {.kind = COLL_SEND,
                                 .from = COLL_INPUT,
                                 .offset = at,
                                 .count = count - at < slice ? count - at : slice,
                                 .after = {COLL_NO_STEP, COLL_NO_STEP}};
        uint32_t sends = COLL_NO_STEP, reduced = COLL_NO_STEP;

        for (uint32_t i = 1; i < n; i++) {
            uint32_t send;

            step.peer = (rank + i) % n;
            send = coll_maker_add(maker, &step);
            if (maker->job->in_place) {
                join(maker, send, &sends);
            }
        }
        step.kind = COLL_RECV_REDUCE;
        step.after[0] = sends;
        for (uint32_t i = 1; i < n; i++) {
            step.peer = (rank + n - i) % n;
            reduced = coll_maker_add(maker, &step);
            step.from = COLL_OUTPUT;
            step.after[0] = reduced;
        }
    }
}
