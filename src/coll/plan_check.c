/* The proof that plans are right, without moving data: elements are cut into the
 * intervals that steps distinguish, and each interval of each buffer holds the set of
 * ranks whose input has gone into it. Messages are rendezvous (no buffering), which is
 * the strictest a fabric may be: what ends under it ends under any window. */
#include <stdlib.h>

#include "base/check.h"
#include "coll/coll.h"

#define RANKS_MAX 64

struct staged;

struct proof {
    const struct coll_job *job;
    const struct coll_plan *plans;
    uint32_t n_ranks;
    uint64_t *cuts; /* [n_cuts], rising; interval i is [cuts[i], cuts[i + 1]) */
    size_t n_cuts;
    uint64_t *output;      /* [n_ranks * n_cuts]: bit r: rank r's input is in it, once */
    bool **done;           /* [n_ranks][n_steps] */
    struct staged *staged; /* [n_ranks * n_ranks]: at most one message from each peer */
    uint32_t *queue;       /* [n_ranks * n_ranks * 2]: next step to or from a peer */
    uint32_t *local;       /* [n_ranks]: next COPY or JOIN */
    struct weft_error *error;
};

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static weft_status wrong(struct proof *proof, uint32_t rank, uint32_t index,
                         const char *what)
{
    return weft_fail(proof->error, WEFT_ERR_PROTOCOL, "plan", "rank %u, step %u: %s",
                     rank, index, what);
}

static size_t interval_at(const struct proof *proof, uint64_t offset)
{
    const uint64_t *found =
        bsearch(&offset, proof->cuts, proof->n_cuts, sizeof(offset), compare_u64);

    weft_check(found != NULL);
    return (size_t)(found - proof->cuts);
}

static void cut(struct proof *proof)
{
    size_t n = 0, n_unique = 0, n_steps = 0;

    for (uint32_t rank = 0; rank < proof->n_ranks; rank++) {
        n_steps += proof->plans[rank].n_steps;
    }
    proof->cuts = weft_calloc(2 * n_steps + 2, sizeof(*proof->cuts));
    proof->cuts[n++] = 0;
    proof->cuts[n++] = proof->job->count;
    for (uint32_t rank = 0; rank < proof->n_ranks; rank++) {
        const struct coll_plan *plan = &proof->plans[rank];

        for (uint32_t i = 0; i < plan->n_steps; i++) {
            proof->cuts[n++] = plan->steps[i].offset;
            proof->cuts[n++] = plan->steps[i].offset + plan->steps[i].count;
        }
    }
    qsort(proof->cuts, n, sizeof(*proof->cuts), compare_u64);
    for (size_t i = 0; i < n; i++) {
        if (n_unique == 0 || proof->cuts[n_unique - 1] != proof->cuts[i]) {
            proof->cuts[n_unique++] = proof->cuts[i];
        }
    }
    proof->n_cuts = n_unique;
}

/* ---- shape and races ---- */

static weft_status check_shape(struct proof *proof, uint32_t rank)
{
    const struct coll_plan *plan = &proof->plans[rank];

    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct coll_step *step = &plan->steps[i];
        bool is_local = step->kind == COLL_COPY || step->kind == COLL_JOIN;

        if (step->peer >= proof->n_ranks || is_local != (step->peer == rank)) {
            return wrong(proof, rank, i, "its peer cannot be");
        }
        if (step->offset > proof->job->count ||
            step->count > proof->job->count - step->offset) {
            return wrong(proof, rank, i, "it reaches past the buffer");
        }
        for (int k = 0; k < 2; k++) {
            if (step->after[k] != COLL_NO_STEP && step->after[k] >= i) {
                return wrong(proof, rank, i, "it waits for a later step");
            }
        }
    }
    return WEFT_OK;
}

/* Whether `late` starts after `early` ended, by the waits alone. Chains are short: they
 * go through the steps of one slice only. */
static bool happens_before(const struct coll_plan *plan, uint32_t early, uint32_t late)
{
    while (late != COLL_NO_STEP && late > early) {
        const struct coll_step *step = &plan->steps[late];

        if (step->after[1] != COLL_NO_STEP &&
            (step->after[1] == early || happens_before(plan, early, step->after[1]))) {
            return true;
        }
        late = step->after[0];
    }
    return late == early;
}

/* Who last wrote an interval of the output and who read it since. */
struct access {
    uint32_t writer;
    uint32_t *readers;
    uint32_t n_readers, cap;
};

static bool is_written_after(const struct coll_plan *plan, const struct access *access,
                             uint32_t index)
{
    if (access->writer != COLL_NO_STEP && !happens_before(plan, access->writer, index)) {
        return false;
    }
    for (uint32_t i = 0; i < access->n_readers; i++) {
        if (!happens_before(plan, access->readers[i], index)) {
            return false;
        }
    }
    return true;
}

static bool reads_output(const struct coll_job *job, const struct coll_step *step)
{
    return (step->kind == COLL_SEND || step->kind == COLL_RECV_REDUCE) &&
           (step->from == COLL_OUTPUT || job->in_place);
}

static weft_status check_access(struct proof *proof, uint32_t rank, uint32_t index,
                                struct access *access)
{
    const struct coll_plan *plan = &proof->plans[rank];
    const struct coll_step *step = &plan->steps[index];

    if (step->kind == COLL_SEND) {
        if (!reads_output(proof->job, step)) {
            return WEFT_OK;
        }
        if (access->writer != COLL_NO_STEP &&
            !happens_before(plan, access->writer, index)) {
            return wrong(proof, rank, index, "it may send before its data is there");
        }
        if (access->n_readers == access->cap) {
            access->cap = access->cap == 0 ? 4 : access->cap * 2;
            access->readers =
                weft_realloc(access->readers, access->cap * sizeof(*access->readers));
        }
        access->readers[access->n_readers++] = index;
        return WEFT_OK;
    }
    if (!is_written_after(plan, access, index)) {
        return wrong(proof, rank, index, "it may overwrite what another step still uses");
    }
    access->writer = index;
    access->n_readers = 0;
    return WEFT_OK;
}

/* No two steps of a rank touch an interval at the same time when one of them writes it.
 */
static weft_status check_races(struct proof *proof, uint32_t rank)
{
    const struct coll_plan *plan = &proof->plans[rank];
    struct access *accesses = weft_calloc(proof->n_cuts, sizeof(*accesses));
    weft_status status = WEFT_OK;

    for (size_t i = 0; i < proof->n_cuts; i++) {
        accesses[i].writer = COLL_NO_STEP;
    }
    for (uint32_t i = 0; i < plan->n_steps && status == WEFT_OK; i++) {
        const struct coll_step *step = &plan->steps[i];
        size_t at = interval_at(proof, step->offset);

        for (; status == WEFT_OK && proof->cuts[at] < step->offset + step->count; at++) {
            status = check_access(proof, rank, i, &accesses[at]);
        }
    }
    for (size_t i = 0; i < proof->n_cuts; i++) {
        free(accesses[i].readers);
    }
    free(accesses);
    return status;
}

/* ---- what the steps compute ---- */

static uint64_t *output_of(const struct proof *proof, uint32_t rank)
{
    return &proof->output[rank * proof->n_cuts];
}

static uint64_t value_of(const struct proof *proof, uint32_t rank, enum coll_buffer from,
                         size_t interval)
{
    return from == COLL_INPUT && !proof->job->in_place ? UINT64_C(1) << rank
                                                       : output_of(proof, rank)[interval];
}

static uint32_t *queue_of(const struct proof *proof, uint32_t rank, uint32_t peer,
                          bool is_send)
{
    return &proof->queue[(rank * proof->n_ranks + peer) * 2 + is_send];
}

static bool is_local(const struct coll_step *step)
{
    return step->kind == COLL_COPY || step->kind == COLL_JOIN;
}

/* Moves a queue's cursor to its next step. */
static void advance(const struct proof *proof, uint32_t rank, uint32_t peer, bool is_send,
                    uint32_t *cursor)
{
    const struct coll_plan *plan = &proof->plans[rank];

    while (*cursor < plan->n_steps) {
        const struct coll_step *step = &plan->steps[*cursor];

        if (step->peer == peer && (peer == rank) == is_local(step) &&
            (peer == rank || (step->kind == COLL_SEND) == is_send)) {
            return;
        }
        (*cursor)++;
    }
}

static bool is_ready(const struct proof *proof, uint32_t rank, uint32_t index)
{
    const struct coll_step *step = &proof->plans[rank].steps[index];

    return (step->after[0] == COLL_NO_STEP || proof->done[rank][step->after[0]]) &&
           (step->after[1] == COLL_NO_STEP || proof->done[rank][step->after[1]]);
}

/* A message whose reduction still waits. */
struct staged {
    bool is_full;
    uint32_t step;
    uint64_t *values; /* Owned [cap]: by interval of the step */
    size_t cap;
};

static struct staged *staged_of(const struct proof *proof, uint32_t rank, uint32_t peer)
{
    return &proof->staged[rank * proof->n_ranks + peer];
}

/* Reduces what is staged into the output. */
static weft_status reduce(struct proof *proof, uint32_t rank, struct staged *staged)
{
    const struct coll_step *step = &proof->plans[rank].steps[staged->step];
    size_t first = interval_at(proof, step->offset);

    for (size_t i = first; proof->cuts[i] < step->offset + step->count; i++) {
        uint64_t own = value_of(proof, rank, step->from, i);

        if (own == 0) {
            return wrong(proof, rank, staged->step, "its operand was never written");
        }
        if ((own & staged->values[i - first]) != 0) {
            return wrong(proof, rank, staged->step, "it reduces an input twice");
        }
        output_of(proof, rank)[i] = own | staged->values[i - first];
    }
    staged->is_full = false;
    proof->done[rank][staged->step] = true;
    return WEFT_OK;
}

/* Carries one message into the output, or into staging. */
static weft_status deliver(struct proof *proof, uint32_t from, uint32_t send_index,
                           uint32_t to, uint32_t recv_index)
{
    const struct coll_step *send = &proof->plans[from].steps[send_index];
    const struct coll_step *recv = &proof->plans[to].steps[recv_index];
    struct staged *staged = staged_of(proof, to, from);
    size_t first, n = 0;

    if (send->offset != recv->offset || send->count != recv->count) {
        return wrong(proof, to, recv_index, "it expects other elements than are sent");
    }
    first = interval_at(proof, send->offset);
    for (size_t i = first; proof->cuts[i] < send->offset + send->count; i++, n++) {
        uint64_t came = value_of(proof, from, send->from, i);

        if (came == 0) {
            return wrong(proof, from, send_index,
                         "it sends output that nothing has written");
        }
        if (recv->kind == COLL_RECV) {
            output_of(proof, to)[i] = came;
            continue;
        }
        if (n == staged->cap) {
            staged->cap = 2 * staged->cap + 4;
            staged->values =
                weft_realloc(staged->values, staged->cap * sizeof(*staged->values));
        }
        staged->values[n] = came;
    }
    proof->done[from][send_index] = true;
    if (recv->kind == COLL_RECV) {
        proof->done[to][recv_index] = true;
    } else {
        staged->is_full = true;
        staged->step = recv_index;
    }
    return WEFT_OK;
}

static weft_status run_local(struct proof *proof, uint32_t rank, bool *moved)
{
    const struct coll_plan *plan = &proof->plans[rank];
    uint32_t *cursor = &proof->local[rank];

    for (;;) {
        const struct coll_step *step;

        advance(proof, rank, rank, false, cursor);
        if (*cursor == plan->n_steps || !is_ready(proof, rank, *cursor)) {
            return WEFT_OK;
        }
        step = &plan->steps[*cursor];
        for (size_t i = interval_at(proof, step->offset);
             step->kind == COLL_COPY && proof->cuts[i] < step->offset + step->count;
             i++) {
            output_of(proof, rank)[i] = value_of(proof, rank, COLL_INPUT, i);
        }
        proof->done[rank][(*cursor)++] = true;
        *moved = true;
    }
}

/* Every message from one rank to another that can go now. */
static weft_status run_pair(struct proof *proof, uint32_t from, uint32_t to, bool *moved)
{
    uint32_t *send = queue_of(proof, from, to, true);
    uint32_t *recv = queue_of(proof, to, from, false);
    struct staged *staged = staged_of(proof, to, from);
    weft_status status = WEFT_OK;

    while (status == WEFT_OK) {
        if (staged->is_full) {
            if (!is_ready(proof, to, staged->step)) {
                return WEFT_OK;
            }
            status = reduce(proof, to, staged);
            *moved = true;
            continue;
        }
        advance(proof, from, to, true, send);
        advance(proof, to, from, false, recv);
        if (*send == proof->plans[from].n_steps || *recv == proof->plans[to].n_steps ||
            !is_ready(proof, from, *send) ||
            (proof->plans[to].steps[*recv].kind == COLL_RECV &&
             !is_ready(proof, to, *recv))) {
            return WEFT_OK;
        }
        status = deliver(proof, from, *send, to, *recv);
        (*send)++;
        (*recv)++;
        *moved = true;
    }
    return status;
}

static weft_status run_all(struct proof *proof)
{
    bool moved = true;
    weft_status status = WEFT_OK;

    while (moved && status == WEFT_OK) {
        moved = false;
        for (uint32_t rank = 0; rank < proof->n_ranks && status == WEFT_OK; rank++) {
            status = run_local(proof, rank, &moved);
            for (uint32_t to = 0; to < proof->n_ranks && status == WEFT_OK; to++) {
                status = to == rank ? WEFT_OK : run_pair(proof, rank, to, &moved);
            }
        }
    }
    return status;
}

static weft_status check_result(struct proof *proof)
{
    uint64_t all =
        proof->n_ranks == 64 ? UINT64_MAX : (UINT64_C(1) << proof->n_ranks) - 1;

    for (uint32_t rank = 0; rank < proof->n_ranks; rank++) {
        const struct coll_plan *plan = &proof->plans[rank];
        uint32_t previous = (rank + proof->n_ranks - 1) % proof->n_ranks;
        uint64_t want =
            proof->job->kind == COLL_ALL_REDUCE ? all : UINT64_C(1) << previous;

        for (uint32_t i = 0; i < plan->n_steps; i++) {
            if (!proof->done[rank][i]) {
                return wrong(proof, rank, i, "it waits for ever");
            }
        }
        for (size_t i = 0; i + 1 < proof->n_cuts; i++) {
            if (output_of(proof, rank)[i] != want) {
                return weft_fail(proof->error, WEFT_ERR_PROTOCOL, "plan",
                                 "rank %u, element %llu: inputs %llx instead of %llx",
                                 rank, (unsigned long long)proof->cuts[i],
                                 (unsigned long long)output_of(proof, rank)[i],
                                 (unsigned long long)want);
            }
        }
    }
    return WEFT_OK;
}

static void proof_init(struct proof *proof)
{
    uint32_t n = proof->n_ranks;

    cut(proof);
    proof->output = weft_calloc(n * proof->n_cuts, sizeof(*proof->output));
    proof->staged = weft_calloc((size_t)n * n, sizeof(*proof->staged));
    proof->queue = weft_calloc((size_t)n * n * 2, sizeof(*proof->queue));
    proof->local = weft_calloc(n, sizeof(*proof->local));
    proof->done = weft_calloc(n, sizeof(*proof->done));
    for (uint32_t rank = 0; rank < n; rank++) {
        proof->done[rank] = weft_calloc(proof->plans[rank].n_steps + 1, sizeof(bool));
        for (size_t i = 0; i < proof->n_cuts && proof->job->in_place; i++) {
            output_of(proof, rank)[i] = UINT64_C(1) << rank;
        }
    }
}

static void proof_fini(struct proof *proof)
{
    for (uint32_t rank = 0; rank < proof->n_ranks; rank++) {
        free(proof->done[rank]);
    }
    for (uint32_t i = 0; i < proof->n_ranks * proof->n_ranks; i++) {
        free(proof->staged[i].values);
    }
    free(proof->staged);
    free(proof->done);
    free(proof->local);
    free(proof->queue);
    free(proof->output);
    free(proof->cuts);
}

weft_status coll_plan_check(const struct coll_job *job, const struct coll_plan *plans,
                            struct weft_error *error)
{
    struct proof proof = {
        .job = job, .plans = plans, .n_ranks = plans[0].n_ranks, .error = error};
    weft_status status = WEFT_OK;

    if (proof.n_ranks > RANKS_MAX ||
        (job->kind != COLL_ALL_REDUCE && job->kind != COLL_SEND_RECV)) {
        return weft_fail(error, WEFT_ERR_UNSUPPORTED, "plan",
                         "cannot check %s on %u ranks, at most %d",
                         coll_kind_name(job->kind), proof.n_ranks, RANKS_MAX);
    }
    for (uint32_t rank = 0; rank < proof.n_ranks && status == WEFT_OK; rank++) {
        status = check_shape(&proof, rank);
    }
    if (status != WEFT_OK) {
        return status;
    }
    proof_init(&proof);
    for (uint32_t rank = 0; rank < proof.n_ranks && status == WEFT_OK; rank++) {
        status = check_races(&proof, rank);
    }
    if (status == WEFT_OK) {
        status = run_all(&proof);
    }
    if (status == WEFT_OK) {
        status = check_result(&proof);
    }
    proof_fini(&proof);
    return status;
}
