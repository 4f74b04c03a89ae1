/* Proves that plans are right without moving data: every buffer is a strip of symbolic values.
 * Messages are rendezvous (no buffering) except for one staged reduction from each peer. No
 * fabric can be stricter, so plans that end here end with any window. */
#include <stdlib.h>

#include "base/check.h"
#include "coll/check_proof_testing.h"
#include "coll/check_races_testing.h"
#include "coll/plan_check_testing.h"

static bool is_local(const struct coll_step *step)
{
    return step->kind == COLL_COPY || step->kind == COLL_JOIN;
}

/* ---- shape ---- */

static uint64_t room_of(const struct rank_proof *rank, enum coll_buffer buffer)
{
    return buffer == COLL_INPUT    ? rank->extent.input
           : buffer == COLL_OUTPUT ? rank->extent.output
                                   : rank->plan->scratch_count;
}

static bool fits(const struct rank_proof *rank, enum coll_buffer buffer, uint64_t at,
                 uint64_t count)
{
    uint64_t room = room_of(rank, buffer);

    return at <= room && count <= room - at;
}

static const char *shape_error(const struct proof *proof, const struct rank_proof *rank,
                               uint32_t index)
{
    const struct coll_step *step = &rank->plan->steps[index];
    bool is_empty = step->kind == COLL_JOIN || proof->job->kind == WEFT_BARRIER;

    if (step->peer >= proof->n_ranks ||
        is_local(step) != (step->peer == rank->plan->rank)) {
        return "its peer cannot be";
    }
    if ((step->count == 0) != is_empty) {
        return "it moves nothing, or should";
    }
    if (step->kind != COLL_RECV && !fits(rank, step->from, step->from_at, step->count)) {
        return "it reaches past the buffer that it reads";
    }
    if (step->kind != COLL_SEND && !fits(rank, step->to, step->to_at, step->count)) {
        return "it reaches past the buffer that it writes";
    }
    if (step->kind != COLL_SEND && step->to == COLL_INPUT && step->count > 0) {
        return "it writes the input";
    }
    if (step->divides && (step->kind != COLL_RECV_REDUCE || proof->job->op != WEFT_AVG)) {
        return "nothing is to be divided";
    }
    for (int k = 0; k < 2; k++) {
        if (step->after[k] != COLL_NO_STEP && step->after[k] >= index) {
            return "it waits for a later step";
        }
    }
    return NULL;
}

static weft_status check_shape(struct proof *proof, const struct rank_proof *rank)
{
    for (uint32_t i = 0; i < rank->plan->n_steps; i++) {
        const char *what = shape_error(proof, rank, i);

        if (what != NULL) {
            return proof_wrong(proof, rank->plan->rank, i, what);
        }
    }
    return WEFT_OK;
}

/* ---- what the steps compute ---- */

static bool is_ready(const struct rank_proof *rank, uint32_t index)
{
    const struct coll_step *step = &rank->plan->steps[index];

    return (step->after[0] == COLL_NO_STEP || rank->done[step->after[0]]) &&
           (step->after[1] == COLL_NO_STEP || rank->done[step->after[1]]);
}

static void queue_up(struct proof *proof, uint32_t rank)
{
    if (!proof->ranks[rank].is_queued) {
        proof->ranks[rank].is_queued = true;
        proof->queue[proof->n_queued++] = rank;
    }
}

/* Records the set of ranks known after a step of a barrier. */
static void learn(struct proof *proof, struct rank_proof *rank, uint32_t index,
                  uint32_t more)
{
    const struct coll_step *step = &rank->plan->steps[index];
    uint32_t known = check_set_union(&proof->sets, proof->one[rank->plan->rank], more);

    for (int k = 0; k < 2; k++) {
        if (step->after[k] != COLL_NO_STEP) {
            known = check_set_union(&proof->sets, known, rank->known[step->after[k]]);
        }
    }
    rank->known[index] = known;
}

static void finish(struct proof *proof, struct rank_proof *rank, uint32_t index,
                   uint32_t more)
{
    rank->done[index] = true;
    if (proof->job->kind == WEFT_BARRIER) {
        learn(proof, rank, index, more);
    }
    queue_up(proof, rank->plan->rank);
}

static const char *merge(struct proof *proof, struct check_piece *own,
                         const struct check_piece *came)
{
    if (own->set == CHECK_NOTHING) {
        return "its operand was never written";
    }
    if (own->source != came->source) {
        return "it reduces elements of different places";
    }
    if (own->is_divided || came->is_divided) {
        return "it reduces what was divided";
    }
    return check_set_join(&proof->sets, own->set, came->set, &own->set)
               ? NULL
               : "it reduces an input twice";
}

/* Executes a staged reduction. */
static weft_status reduce(struct proof *proof, struct rank_proof *rank,
                          struct staged *staged)
{
    const struct coll_step *step = &rank->plan->steps[staged->step];
    uint64_t from_at = step->from_at, to_at = step->to_at;
    struct check_strip *from = proof_strip(proof, rank, step->from, &from_at);
    struct check_strip *to = proof_strip(proof, rank, step->to, &to_at);
    struct check_strip result;
    size_t k = 0;

    check_strip_open(&result, step->count, CHECK_NOTHING);
    check_strip_copy(&result, 0, from, from_at, step->count);
    /* Cut both at the same elements. */
    for (size_t i = 0; i < staged->values.n; i++) {
        check_strip_cut(&result, staged->values.pieces[i].begin);
    }
    for (size_t i = 0; i < result.n; i++) {
        check_strip_cut(&staged->values, result.pieces[i].begin);
    }
    for (; k < result.n; k++) {
        const char *what = merge(proof, &result.pieces[k], &staged->values.pieces[k]);

        result.pieces[k].is_divided = step->divides;
        if (what != NULL) {
            check_strip_close(&result);
            return proof_wrong(proof, rank->plan->rank, staged->step, what);
        }
    }
    check_strip_copy(to, to_at, &result, 0, step->count);
    check_strip_close(&result);
    check_strip_close(&staged->values);
    staged->is_full = false;
    finish(proof, rank, staged->step, CHECK_NOTHING);
    return WEFT_OK;
}

static bool is_written(struct check_strip *strip, uint64_t at, uint64_t count)
{
    size_t i = check_strip_cut(strip, at);

    for (; i < strip->n && strip->pieces[i].begin < at + count; i++) {
        if (strip->pieces[i].set == CHECK_NOTHING) {
            return false;
        }
    }
    return true;
}

/* Delivers one message to its place, or to staging. */
static weft_status deliver(struct proof *proof, struct rank_proof *from,
                           uint32_t send_index, struct rank_proof *to,
                           uint32_t recv_index, struct staged *staged)
{
    const struct coll_step *send = &from->plan->steps[send_index];
    const struct coll_step *recv = &to->plan->steps[recv_index];
    uint64_t from_at = send->from_at, to_at = recv->to_at;
    struct check_strip *source = proof_strip(proof, from, send->from, &from_at);

    if (send->channel != recv->channel) {
        return proof_wrong(proof, to->plan->rank, recv_index,
                           "it expects another channel than is sent on");
    }
    if (send->count != recv->count) {
        return proof_wrong(proof, to->plan->rank, recv_index,
                           "it expects another length than is sent");
    }
    if (!is_written(source, from_at, send->count)) {
        return proof_wrong(proof, from->plan->rank, send_index,
                           "it sends what nothing has written");
    }
    finish(proof, from, send_index, CHECK_NOTHING);
    if (recv->kind == COLL_RECV) {
        struct check_strip *target = proof_strip(proof, to, recv->to, &to_at);

        check_strip_copy(target, to_at, source, from_at, send->count);
        finish(proof, to, recv_index,
               proof->job->kind == WEFT_BARRIER ? from->known[send_index]
                                                : CHECK_NOTHING);
        return WEFT_OK;
    }
    check_strip_open(&staged->values, send->count, CHECK_NOTHING);
    check_strip_copy(&staged->values, 0, source, from_at, send->count);
    staged->is_full = true;
    staged->step = recv_index;
    queue_up(proof, to->plan->rank);
    return WEFT_OK;
}

static weft_status run_local(struct proof *proof, struct rank_proof *rank)
{
    while (rank->local.at < rank->local.n) {
        uint32_t index = rank->local.steps[rank->local.at];
        const struct coll_step *step = &rank->plan->steps[index];
        uint64_t from_at = step->from_at, to_at = step->to_at;

        if (!is_ready(rank, index)) {
            return WEFT_OK;
        }
        if (step->kind == COLL_COPY) {
            struct check_strip *from = proof_strip(proof, rank, step->from, &from_at);
            struct check_strip *to = proof_strip(proof, rank, step->to, &to_at);

            if (from == to) {
                return proof_wrong(proof, rank->plan->rank, index,
                                   "it copies a buffer into itself");
            }
            check_strip_copy(to, to_at, from, from_at, step->count);
        }
        rank->local.at++;
        finish(proof, rank, index, CHECK_NOTHING);
    }
    return WEFT_OK;
}

static struct lane *lane_to(struct lane *lanes, uint32_t n, uint32_t peer)
{
    for (uint32_t i = 0; i < n; i++) {
        if (lanes[i].peer == peer) {
            return &lanes[i];
        }
    }
    return NULL;
}

/* Delivers every message of a lane that can be sent now. */
static weft_status run_lane(struct proof *proof, struct rank_proof *to,
                            struct lane *receive)
{
    struct staged *staged = &to->staged[receive - to->receives];
    struct rank_proof *from = &proof->ranks[receive->peer];
    struct lane *send = lane_to(from->sends, from->n_sends, to->plan->rank);
    weft_status status = WEFT_OK;

    while (status == WEFT_OK) {
        uint32_t recv_index, send_index;

        if (staged->is_full) {
            if (!is_ready(to, staged->step)) {
                return WEFT_OK;
            }
            status = reduce(proof, to, staged);
            continue;
        }
        if (send == NULL || send->at == send->n || receive->at == receive->n) {
            return WEFT_OK;
        }
        send_index = send->steps[send->at];
        recv_index = receive->steps[receive->at];
        if (!is_ready(from, send_index) ||
            (to->plan->steps[recv_index].kind == COLL_RECV &&
             !is_ready(to, recv_index))) {
            return WEFT_OK;
        }
        send->at++;
        receive->at++;
        status = deliver(proof, from, send_index, to, recv_index, staged);
    }
    return status;
}

/* Tries every step that can wait for this rank: its own receives, and those of the peers it
 * sends to. */
static weft_status run_rank(struct proof *proof, struct rank_proof *rank)
{
    weft_status status = run_local(proof, rank);

    for (uint32_t i = 0; i < rank->n_receives && status == WEFT_OK; i++) {
        status = run_lane(proof, rank, &rank->receives[i]);
    }
    for (uint32_t i = 0; i < rank->n_sends && status == WEFT_OK; i++) {
        struct rank_proof *peer = &proof->ranks[rank->sends[i].peer];
        struct lane *lane = lane_to(peer->receives, peer->n_receives, rank->plan->rank);

        status = lane == NULL ? WEFT_OK : run_lane(proof, peer, lane);
    }
    return status;
}

static weft_status run_all(struct proof *proof)
{
    weft_status status = WEFT_OK;

    for (uint32_t rank = 0; rank < proof->n_ranks; rank++) {
        queue_up(proof, rank);
    }
    while (proof->n_queued > 0 && status == WEFT_OK) {
        struct rank_proof *rank = &proof->ranks[proof->queue[--proof->n_queued]];

        rank->is_queued = false;
        status = run_rank(proof, rank);
    }
    return status;
}

/* ---- the proof ---- */

static void lane_add(struct lane **lanes, uint32_t *n, uint32_t *of_peer, uint32_t peer,
                     uint32_t index)
{
    struct lane *lane;

    if (of_peer[peer] == COLL_NO_STEP) {
        *lanes = weft_realloc(*lanes, (*n + 1) * sizeof(**lanes));
        (*lanes)[*n] = (struct lane){.peer = peer};
        of_peer[peer] = (*n)++;
    }
    lane = &(*lanes)[of_peer[peer]];
    if (lane->n == lane->cap) {
        lane->cap = lane->cap == 0 ? 8 : 2 * lane->cap;
        lane->steps = weft_realloc(lane->steps, lane->cap * sizeof(*lane->steps));
    }
    lane->steps[lane->n++] = index;
}

static void lanes_make(struct proof *proof, struct rank_proof *rank)
{
    uint32_t *of_peer = weft_calloc(3 * (size_t)proof->n_ranks, sizeof(*of_peer));
    uint32_t n_local = 0;
    struct lane *local = NULL;

    for (uint32_t i = 0; i < 3 * proof->n_ranks; i++) {
        of_peer[i] = COLL_NO_STEP;
    }
    for (uint32_t i = 0; i < rank->plan->n_steps; i++) {
        const struct coll_step *step = &rank->plan->steps[i];

        if (is_local(step)) {
            lane_add(&local, &n_local, of_peer, step->peer, i);
        } else if (step->kind == COLL_SEND) {
            lane_add(&rank->sends, &rank->n_sends, of_peer + proof->n_ranks, step->peer,
                     i);
        } else {
            lane_add(&rank->receives, &rank->n_receives, of_peer + 2 * proof->n_ranks,
                     step->peer, i);
        }
    }
    if (local != NULL) {
        rank->local = *local;
    }
    free(local);
    free(of_peer);
    rank->staged = weft_calloc((size_t)rank->n_receives + 1, sizeof(*rank->staged));
}

static void proof_init(struct proof *proof)
{
    check_sets_open(&proof->sets, proof->n_ranks);
    proof->all = CHECK_NOTHING;
    for (uint32_t r = 0; r < proof->n_ranks; r++) {
        proof->one[r] = check_set_one(&proof->sets, r);
        proof->all = check_set_union(&proof->sets, proof->all, proof->one[r]);
    }
    for (uint32_t r = 0; r < proof->n_ranks; r++) {
        struct rank_proof *rank = &proof->ranks[r];
        uint64_t whole = rank->extent.input > rank->extent.output ? rank->extent.input
                                                                  : rank->extent.output;
        uint64_t at = 0;

        lanes_make(proof, rank);
        rank->done = weft_calloc((size_t)rank->plan->n_steps + 1, sizeof(*rank->done));
        rank->known = weft_calloc((size_t)rank->plan->n_steps + 1, sizeof(*rank->known));
        check_strip_open(&rank->strips[COLL_INPUT], rank->extent.input, proof->one[r]);
        check_strip_open(&rank->strips[COLL_SCRATCH], rank->plan->scratch_count,
                         CHECK_NOTHING);
        check_strip_open(&rank->strips[COLL_OUTPUT],
                         proof->job->in_place ? whole : rank->extent.output,
                         CHECK_NOTHING);
        if (proof->job->in_place) {
            struct check_strip *both = proof_strip(proof, rank, COLL_INPUT, &at);

            check_strip_copy(both, at, &rank->strips[COLL_INPUT], 0, rank->extent.input);
        }
    }
}

static void lanes_fini(struct lane *lanes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        free(lanes[i].steps);
    }
    free(lanes);
}

static void proof_fini(struct proof *proof)
{
    for (uint32_t r = 0; r < proof->n_ranks; r++) {
        struct rank_proof *rank = &proof->ranks[r];

        for (uint32_t i = 0; i < rank->n_receives; i++) {
            if (rank->staged[i].is_full) {
                check_strip_close(&rank->staged[i].values);
            }
        }
        for (int i = 0; i < COLL_N_BUFFERS; i++) {
            check_strip_close(&rank->strips[i]);
        }
        lanes_fini(rank->sends, rank->n_sends);
        lanes_fini(rank->receives, rank->n_receives);
        free(rank->local.steps);
        free(rank->staged);
        free(rank->done);
        free(rank->known);
    }
    check_sets_close(&proof->sets);
}

static weft_status prove(struct proof *proof)
{
    weft_status status = WEFT_OK;

    for (uint32_t r = 0; r < proof->n_ranks && status == WEFT_OK; r++) {
        uint32_t index = COLL_NO_STEP;
        const char *what = check_races(proof->job, proof->ranks[r].plan, &index);

        status = what == NULL ? WEFT_OK : proof_wrong(proof, r, index, what);
    }
    if (status == WEFT_OK) {
        status = run_all(proof);
    }
    for (uint32_t r = 0; r < proof->n_ranks && status == WEFT_OK; r++) {
        status = proof_result(proof, &proof->ranks[r]);
    }
    return status;
}

weft_status coll_plan_check(const struct coll_job *job, const struct coll_plan *plans,
                            struct weft_error *error)
{
    uint32_t n = plans[0].n_ranks;
    struct proof proof = {.job = job,
                          .n_ranks = n,
                          .one = weft_calloc(n, sizeof(*proof.one)),
                          .ranks = weft_calloc(n, sizeof(*proof.ranks)),
                          .queue = weft_calloc(n, sizeof(*proof.queue)),
                          .error = error};
    weft_status status = WEFT_OK;

    for (uint32_t r = 0; r < n && status == WEFT_OK; r++) {
        proof.ranks[r].plan = &plans[r];
        proof.ranks[r].extent = coll_extent_of(job, r, n);
        status = check_shape(&proof, &proof.ranks[r]);
    }
    if (status == WEFT_OK) {
        proof_init(&proof);
        status = prove(&proof);
        proof_fini(&proof);
    }
    free(proof.one);
    free(proof.ranks);
    free(proof.queue);
    return status;
}

void coll_plan_peers(const struct coll_plan *plan, bool *sends_to, bool *receives_from)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct coll_step *step = &plan->steps[i];

        if (step->kind == COLL_SEND) {
            sends_to[step->peer] = true;
        } else if (step->kind == COLL_RECV || step->kind == COLL_RECV_REDUCE) {
            receives_from[step->peer] = true;
        }
    }
}
