#include <stdlib.h>

#include "base/check.h"
#include "coll/plan_private.h"

const char *coll_kind_name(enum coll_kind kind)
{
    switch (kind) {
    case COLL_ALL_REDUCE:
        return "all_reduce";
    case COLL_REDUCE_SCATTER:
        return "reduce_scatter";
    case COLL_ALL_GATHER:
        return "all_gather";
    case COLL_BROADCAST:
        return "broadcast";
    case COLL_REDUCE:
        return "reduce";
    case COLL_ALL_TO_ALL:
        return "all_to_all";
    case COLL_SEND_RECV:
        return "send_recv";
    case COLL_BARRIER:
        return "barrier";
    }
    return "?";
}

const char *coll_algorithm_name(enum coll_algorithm algorithm)
{
    switch (algorithm) {
    case COLL_AUTO:
        return "auto";
    case COLL_RING:
        return "ring";
    case COLL_RINGS:
        return "rings";
    case COLL_DIRECT:
        return "direct";
    }
    return "?";
}

uint64_t coll_slice_count(uint64_t chunk_count, size_t element_bytes)
{
    uint64_t least = COLL_SLICE_BYTES_MIN / element_bytes;
    uint64_t most = COLL_SLICE_BYTES_MAX / element_bytes;
    uint64_t eighth = (chunk_count + 7) / 8;

    return eighth < least ? least : eighth > most ? most : eighth;
}

uint32_t coll_maker_add(struct coll_maker *maker, const struct coll_step *step)
{
    struct coll_plan *plan = maker->plan;

    if (step->count == 0 && step->kind != COLL_JOIN) {
        return COLL_NO_STEP;
    }
    if (plan->n_steps == maker->cap) {
        maker->cap = maker->cap == 0 ? 64 : maker->cap * 2;
        plan->steps = weft_realloc(plan->steps, maker->cap * sizeof(*plan->steps));
    }
    plan->steps[plan->n_steps] = *step;
    if (step->count > plan->slice_count) {
        plan->slice_count = step->count;
    }
    return plan->n_steps++;
}

/* Rank i to rank i + 1, the last to the first. */
static void make_send_recv(struct coll_maker *maker)
{
    const struct coll_plan *plan = maker->plan;
    uint64_t count = maker->job->count;
    uint64_t slice = coll_slice_count(count, weft_dtype_bytes(maker->job->dtype));
    uint32_t next = (plan->rank + 1) % plan->n_ranks;
    uint32_t previous = (plan->rank + plan->n_ranks - 1) % plan->n_ranks;

    for (uint64_t at = 0; at < count; at += slice) {
        struct coll_step step = {.kind = COLL_SEND,
                                 .peer = next,
                                 .from = COLL_INPUT,
                                 .offset = at,
                                 .count = count - at < slice ? count - at : slice,
                                 .after = {COLL_NO_STEP, COLL_NO_STEP}};

        coll_maker_add(maker, &step);
        step.kind = COLL_RECV;
        step.peer = previous;
        coll_maker_add(maker, &step);
    }
}

static void make_alone(struct coll_maker *maker)
{
    struct coll_step step = {.kind = COLL_COPY,
                             .peer = maker->plan->rank,
                             .from = COLL_INPUT,
                             .offset = 0,
                             .count = maker->job->count,
                             .after = {COLL_NO_STEP, COLL_NO_STEP}};

    if (!maker->job->in_place) {
        coll_maker_add(maker, &step);
    }
}

static void make_all_reduce(struct coll_maker *maker, const struct coll_cost_input *cost)
{
    enum coll_algorithm algorithm = maker->job->algorithm;

    if (algorithm == COLL_AUTO) {
        struct coll_cost_input input = *cost;

        input.n_ranks = maker->plan->n_ranks;
        algorithm =
            coll_choose(maker->job->count * weft_dtype_bytes(maker->job->dtype), &input);
    }
    if (algorithm == COLL_RINGS && maker->plan->n_ranks < 3) {
        algorithm = COLL_RING;
    }
    maker->plan->algorithm = algorithm;
    if (algorithm == COLL_DIRECT) {
        coll_make_direct(maker);
    } else {
        coll_make_rings(maker, algorithm == COLL_RINGS ? 2 : 1);
    }
}

weft_status coll_plan_make(const struct coll_job *job, uint32_t rank, uint32_t n_ranks,
                           const struct coll_cost_input *cost, struct coll_plan *out,
                           struct weft_error *error)
{
    struct coll_maker maker = {.plan = out, .job = job};

    weft_check(rank < n_ranks);
    *out = (struct coll_plan){.algorithm = COLL_DIRECT, .rank = rank, .n_ranks = n_ranks};
    if (job->kind != COLL_ALL_REDUCE && job->kind != COLL_SEND_RECV) {
        return weft_fail(error, WEFT_ERR_UNSUPPORTED, "plan", "%s has no plan yet",
                         coll_kind_name(job->kind));
    }
    if (job->kind == COLL_SEND_RECV && job->in_place) {
        return weft_fail(
            error, WEFT_ERR_INPUT, "plan",
            "send_recv cannot be in place: what arrives would overwrite what is "
            "being sent");
    }
    if (n_ranks == 1) {
        make_alone(&maker);
    } else if (job->kind == COLL_SEND_RECV) {
        make_send_recv(&maker);
    } else {
        make_all_reduce(&maker, cost);
    }
    return WEFT_OK;
}

void coll_plan_fini(struct coll_plan *plan)
{
    free(plan->steps);
    *plan = (struct coll_plan){0};
}

static const char *step_name(enum coll_step_kind kind)
{
    switch (kind) {
    case COLL_SEND:
        return "send";
    case COLL_RECV:
        return "recv";
    case COLL_RECV_REDUCE:
        return "recv_reduce";
    case COLL_COPY:
        return "copy";
    case COLL_JOIN:
        return "join";
    }
    return "?";
}

void coll_plan_print(const struct coll_plan *plan, struct weft_text *out)
{
    weft_text_add(out, "rank %u of %u, %s, %u steps\n", plan->rank, plan->n_ranks,
                  coll_algorithm_name(plan->algorithm), plan->n_steps);
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct coll_step *step = &plan->steps[i];

        weft_text_add(out, "%4u %s", i, step_name(step->kind));
        if (step->peer != plan->rank) {
            weft_text_add(out, " %s %u", step->kind == COLL_SEND ? "to" : "from",
                          step->peer);
        }
        if (step->kind == COLL_SEND || step->kind == COLL_RECV_REDUCE) {
            weft_text_add(out, " %s", step->from == COLL_INPUT ? "input" : "output");
        }
        weft_text_add(out, " [%llu, +%llu)", (unsigned long long)step->offset,
                      (unsigned long long)step->count);
        for (int k = 0; k < 2; k++) {
            if (step->after[k] != COLL_NO_STEP) {
                weft_text_add(out, "%s%u", k == 0 ? " after " : ", ", step->after[k]);
            }
        }
        weft_text_add(out, "\n");
    }
}
