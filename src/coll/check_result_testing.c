#include "base/check.h"
#include "coll/check_proof_testing.h"

weft_status proof_wrong(struct proof *proof, uint32_t rank, uint32_t index,
                        const char *what)
{
    return weft_fail(proof->error, WEFT_ERR_PROTOCOL, WEFT_PHASE_PLAN,
                     "rank %u, step %u: %s", rank, index, what);
}

struct check_strip *proof_strip(const struct proof *proof, struct rank_proof *rank,
                                enum coll_buffer buffer, uint64_t *at)
{
    if (buffer == COLL_SCRATCH || !proof->job->in_place) {
        return &rank->strips[buffer];
    }
    *at += buffer == COLL_INPUT ? rank->extent.input_at : rank->extent.output_at;
    return &rank->strips[COLL_OUTPUT];
}

struct wanted {
    uint64_t begin, count, source; /* in elements; `begin` is in the output */
    uint32_t set;
};

static weft_status check_stretch(struct proof *proof, struct rank_proof *rank,
                                 struct wanted wanted)
{
    uint64_t at = wanted.begin;
    struct check_strip *strip = proof_strip(proof, rank, COLL_OUTPUT, &at);
    bool is_avg = coll_reduces(proof->job->kind) && proof->job->op == WEFT_AVG &&
                  proof->n_ranks > 1;

    for (size_t i = check_strip_cut(strip, at);
         i < strip->n && strip->pieces[i].begin < at + wanted.count; i++) {
        const struct check_piece *piece = &strip->pieces[i];
        uint64_t source = wanted.source + (piece->begin - at);

        if (!check_set_equal(&proof->sets, piece->set, wanted.set) ||
            piece->source != source || piece->is_divided != is_avg) {
            return weft_fail(proof->error, WEFT_ERR_PROTOCOL, WEFT_PHASE_PLAN,
                             "rank %u: the output from element %llu on is not the result",
                             rank->plan->rank,
                             (unsigned long long)(piece->begin - at + wanted.begin));
        }
    }
    return WEFT_OK;
}

static weft_status check_blocks(struct proof *proof, struct rank_proof *rank)
{
    uint64_t share = proof->job->count / proof->n_ranks;
    bool is_exchange = proof->job->kind == WEFT_ALL_TO_ALL;
    weft_status status = WEFT_OK;

    for (uint32_t r = 0; r < proof->n_ranks && status == WEFT_OK; r++) {
        status = check_stretch(
            proof, rank,
            (struct wanted){.begin = r * share,
                            .count = share,
                            .source = is_exchange ? rank->plan->rank * share : 0,
                            .set = proof->one[r]});
    }
    return status;
}

static weft_status check_barrier(struct proof *proof, struct rank_proof *rank)
{
    uint32_t known = proof->one[rank->plan->rank];

    for (uint32_t i = 0; i < rank->plan->n_steps; i++) {
        known = check_set_union(&proof->sets, known, rank->known[i]);
    }
    return check_set_equal(&proof->sets, known, proof->all)
               ? WEFT_OK
               : weft_fail(proof->error, WEFT_ERR_PROTOCOL, WEFT_PHASE_PLAN,
                           "rank %u does not wait for all others", rank->plan->rank);
}

weft_status proof_result(struct proof *proof, struct rank_proof *rank)
{
    const struct coll_job *job = proof->job;
    uint32_t me = rank->plan->rank, n = proof->n_ranks;
    struct wanted wanted = {.count = rank->extent.output, .set = proof->all};

    for (uint32_t i = 0; i < rank->plan->n_steps; i++) {
        if (!rank->done[i]) {
            return proof_wrong(proof, me, i, "it waits for ever");
        }
    }
    switch (job->kind) {
    case WEFT_BARRIER:
        return check_barrier(proof, rank);
    case WEFT_ALL_GATHER:
    case WEFT_ALL_TO_ALL:
        return check_blocks(proof, rank);
    case WEFT_REDUCE_SCATTER:
        wanted.source = me * (job->count / n);
        break;
    case WEFT_BROADCAST:
        wanted.set = proof->one[job->root];
        break;
    case WEFT_SEND_RECV:
        wanted.set = proof->one[(me + n - 1) % n];
        break;
    case WEFT_REDUCE:
        if (me != job->root) {
            /* The output is not written; in place it still holds the input. */
            for (uint32_t i = 0; i < rank->plan->n_steps; i++) {
                const struct coll_step *step = &rank->plan->steps[i];

                if (step->kind != COLL_SEND && step->to == COLL_OUTPUT) {
                    return proof_wrong(proof, me, i, "it writes output off the root");
                }
            }
            return WEFT_OK;
        }
        break;
    case WEFT_ALL_REDUCE:
        break;
    }
    return check_stretch(proof, rank, wanted);
}
