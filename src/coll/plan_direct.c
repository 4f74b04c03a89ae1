/* Plans that do not follow trees: all pairs, butterflies, barriers. */
#include <stdlib.h>

#include "base/check.h"
#include "coll/plan_draft.h"

static const uint32_t no_steps[2] = {COLL_NO_STEP, COLL_NO_STEP};

static struct coll_step step_of(enum coll_step_kind kind, uint32_t peer)
{
    return (struct coll_step){
        .kind = kind, .peer = peer, .after = {no_steps[0], no_steps[1]}};
}

static uint32_t join(struct coll_draft *draft, struct coll_key key, uint32_t joined,
                     uint32_t step)
{
    return coll_draft_join(draft, key, joined, step, COLL_NO_STEP);
}

/* In place, the first reduction overwrites the data that is sent, so it waits for all sends of
 * the slice. */
void coll_draft_direct(struct coll_draft *draft)
{
    uint32_t n = draft->plan->n_ranks, rank = draft->plan->rank;
    uint64_t count = draft->job->count;
    uint64_t slice = coll_slice_count(draft, count);
    struct coll_key key = {0};

    for (uint64_t at = 0; at < count; at += slice, key.time++) {
        uint32_t sends = COLL_NO_STEP;
        struct coll_step step = step_of(COLL_SEND, 0);

        step.count = count - at < slice ? count - at : slice;
        step.from_at = at;
        for (uint32_t i = 1; i < n; i++) {
            uint32_t send;

            step.peer = (rank + i) % n;
            send = coll_draft_add(draft, key, &step, COLL_NO_STEP);
            sends = draft->job->in_place ? join(draft, key, sends, send) : COLL_NO_STEP;
        }
        step.kind = COLL_RECV_REDUCE;
        step.to = COLL_OUTPUT;
        step.to_at = at;
        step.after[0] = sends;
        for (uint32_t i = 1; i < n; i++) {
            step.peer = (rank + n - i) % n;
            step.divides = i + 1 == n && draft->job->op == WEFT_AVG;
            step.after[0] = coll_draft_add(draft, key, &step, COLL_NO_STEP);
            step.from = COLL_OUTPUT;
        }
    }
}

/* ---- butterfly ---- */

struct round {
    struct coll_key key;
    struct coll_step step; /* with the range */
    enum coll_buffer from; /* buffer that holds the current value */
    uint32_t last;         /* step that made the value, or COLL_NO_STEP for the input */
    uint32_t sent;         /* last send of the value */
};

static void round_send(struct coll_draft *draft, struct round *round, uint32_t peer)
{
    struct coll_step step = round->step;

    step.kind = COLL_SEND;
    step.peer = peer;
    step.from = round->from;
    step.from_at = round->step.to_at;
    step.to_at = 0;
    step.after[0] = round->last;
    round->sent = coll_draft_add(draft, round->key, &step, COLL_NO_STEP);
}

static void round_receive(struct coll_draft *draft, struct round *round, uint32_t peer,
                          bool reduces, bool divides)
{
    struct coll_step step = round->step;
    bool is_read = round->from == COLL_OUTPUT || draft->job->in_place;

    step.kind = reduces ? COLL_RECV_REDUCE : COLL_RECV;
    step.peer = peer;
    step.to = COLL_OUTPUT;
    if (reduces) {
        step.from = round->from;
        step.from_at = round->step.to_at;
    }
    step.divides = divides;
    /* The data that is overwritten must have been sent, and therefore made. */
    step.after[0] = is_read ? round->sent : COLL_NO_STEP;
    round->last = coll_draft_add(draft, round->key, &step, COLL_NO_STEP);
    round->from = COLL_OUTPUT;
}

/* Ranks beyond the largest power of two send their input to a partner and receive the result
 * from it. Both partners of a round compute the same sum, so that all ranks get the same bits. */
void coll_draft_doubling(struct coll_draft *draft)
{
    uint32_t n = draft->plan->n_ranks, rank = draft->plan->rank, whole = 1;
    uint64_t count = draft->job->count;
    uint64_t slice = coll_slice_count(draft, count);
    bool is_avg = draft->job->op == WEFT_AVG;

    while (whole * 2 <= n) {
        whole *= 2;
    }
    for (uint64_t at = 0; at < count; at += slice) {
        struct round round = {.key = {.time = at / slice},
                              .step = step_of(COLL_SEND, 0),
                              .last = COLL_NO_STEP,
                              .sent = COLL_NO_STEP};

        round.step.count = count - at < slice ? count - at : slice;
        round.step.to_at = at;
        if (rank >= whole) {
            round_send(draft, &round, rank - whole);
        } else if (rank + whole < n) {
            round_receive(draft, &round, rank + whole, true, false);
        }
        for (uint32_t far = 1; far < whole; far *= 2) {
            round.key.time += 2;
            if (rank < whole) {
                round_send(draft, &round, rank ^ far);
                round_receive(draft, &round, rank ^ far, true,
                              is_avg && far * 2 == whole);
            }
        }
        round.key.time += 2;
        if (rank >= whole) {
            round_receive(draft, &round, rank - whole, false, false);
        } else if (rank + whole < n) {
            round_send(draft, &round, rank + whole);
        }
    }
}

/* ---- without reductions ---- */

void coll_draft_all_to_all(struct coll_draft *draft)
{
    uint32_t n = draft->plan->n_ranks, rank = draft->plan->rank;
    uint64_t share = draft->job->count / n;
    uint64_t slice = coll_slice_count(draft, share);

    for (uint64_t at = 0; at < share; at += slice) {
        struct coll_key key = {.time = at / slice};
        struct coll_step step = step_of(COLL_COPY, rank);

        step.count = share - at < slice ? share - at : slice;
        step.from_at = step.to_at = rank * share + at;
        step.to = COLL_OUTPUT;
        coll_draft_add(draft, key, &step, COLL_NO_STEP);
        for (uint32_t i = 1; i < n; i++) {
            step.kind = COLL_SEND;
            step.peer = (rank + i) % n;
            step.from_at = step.peer * share + at;
            step.to_at = 0;
            step.to = COLL_INPUT;
            coll_draft_add(draft, key, &step, COLL_NO_STEP);
            step.kind = COLL_RECV;
            step.peer = (rank + n - i) % n;
            step.from_at = 0;
            step.to_at = step.peer * share + at;
            step.to = COLL_OUTPUT;
            coll_draft_add(draft, key, &step, COLL_NO_STEP);
        }
    }
}

/* Sends from rank i to rank i + 1, and from the last to the first. */
void coll_draft_send_recv(struct coll_draft *draft)
{
    uint32_t n = draft->plan->n_ranks, rank = draft->plan->rank;
    uint64_t count = draft->job->count;
    uint64_t slice = coll_slice_count(draft, count);

    for (uint64_t at = 0; at < count; at += slice) {
        struct coll_key key = {.time = at / slice};
        struct coll_step step = step_of(COLL_SEND, (rank + 1) % n);

        step.count = count - at < slice ? count - at : slice;
        step.from_at = at;
        coll_draft_add(draft, key, &step, COLL_NO_STEP);
        step = (struct coll_step){.kind = COLL_RECV,
                                  .peer = (rank + n - 1) % n,
                                  .to = COLL_OUTPUT,
                                  .to_at = at,
                                  .count = step.count,
                                  .after = {COLL_NO_STEP, COLL_NO_STEP}};
        coll_draft_add(draft, key, &step, COLL_NO_STEP);
    }
}

/* ---- barriers: messages without data ---- */

static uint32_t signal(struct coll_draft *draft, struct coll_key key, uint32_t peer,
                       uint32_t after)
{
    struct coll_step step = step_of(COLL_SEND, peer);

    step.after[0] = after;
    return coll_draft_add(draft, key, &step, COLL_NO_STEP);
}

static uint32_t await(struct coll_draft *draft, struct coll_key key, uint32_t peer)
{
    struct coll_step step = step_of(COLL_RECV, peer);

    step.to = COLL_OUTPUT;
    return coll_draft_add(draft, key, &step, COLL_NO_STEP);
}

static void barrier_tree(struct coll_draft *draft)
{
    const struct mesh_packed_tree *tree = &draft->mesh->trees.trees[0];
    uint32_t n = draft->plan->n_ranks;
    struct coll_child *room = weft_calloc(n, sizeof(*room));
    struct coll_hanging hanging;
    struct coll_view view;
    uint32_t all = COLL_NO_STEP;

    coll_hanging_make(tree->parent, n, draft->plan->rank, &hanging);
    coll_view_hanging(&hanging, tree->root, room, &view);
    for (uint32_t i = 0; i < view.n_children; i++) {
        struct coll_key key = {.time = view.deepest - view.children[i].depth};

        all = join(draft, key, all, await(draft, key, view.children[i].rank));
    }
    if (view.parent != COLL_NO_STEP) {
        signal(draft, (struct coll_key){.time = view.deepest - view.depth}, view.parent,
               all);
        all = await(draft,
                    (struct coll_key){.time = view.deepest + view.depth - 1, .phase = 1},
                    view.parent);
    }
    for (uint32_t i = 0; i < view.n_children; i++) {
        signal(draft, (struct coll_key){.time = view.deepest + view.depth, .phase = 1},
               view.children[i].rank, all);
    }
    coll_hanging_fini(&hanging);
    free(room);
}

/* Dissemination: after round k each rank knows of the 2^(k + 1) - 1 ranks before it. */
static void barrier_doubling(struct coll_draft *draft)
{
    uint32_t n = draft->plan->n_ranks, rank = draft->plan->rank, known = COLL_NO_STEP;
    struct coll_key key = {0};

    for (uint32_t far = 1; far < n; far *= 2, key.time++) {
        uint32_t more;

        signal(draft, key, (rank + far) % n, known);
        more = await(draft, key, (rank + n - far) % n);
        known = far * 2 < n ? join(draft, key, known, more) : COLL_NO_STEP;
    }
}

void coll_draft_barrier(struct coll_draft *draft, enum weft_algorithm algorithm)
{
    uint32_t n = draft->plan->n_ranks, rank = draft->plan->rank;

    if (algorithm == WEFT_ALGORITHM_TREE) {
        barrier_tree(draft);
        return;
    }
    if (algorithm == WEFT_ALGORITHM_DOUBLING) {
        barrier_doubling(draft);
        return;
    }
    for (uint32_t i = 1; i < n; i++) {
        signal(draft, (struct coll_key){0}, (rank + i) % n, COLL_NO_STEP);
        await(draft, (struct coll_key){0}, (rank + n - i) % n);
    }
}
