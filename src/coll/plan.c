#include <stdlib.h>

#include "base/check.h"
#include "coll/plan_draft.h"

uint64_t coll_whole_count(enum weft_collective kind, enum weft_dtype dtype,
                          uint64_t bytes, uint32_t n_ranks)
{
    uint64_t count = bytes / weft_dtype_bytes(dtype);
    bool is_dealt =
        kind == WEFT_REDUCE_SCATTER || kind == WEFT_ALL_GATHER || kind == WEFT_ALL_TO_ALL;

    return is_dealt ? count - count % n_ranks : count;
}

struct coll_extent coll_extent_of(const struct coll_job *job, uint32_t rank,
                                  uint32_t n_ranks)
{
    uint64_t share = job->count / n_ranks;
    struct coll_extent extent = {.input = job->count, .output = job->count};

    switch (job->kind) {
    case WEFT_REDUCE_SCATTER:
        extent.output = share;
        extent.output_at = job->in_place ? rank * share : 0;
        break;
    case WEFT_ALL_GATHER:
        extent.input = share;
        extent.input_at = job->in_place ? rank * share : 0;
        break;
    case WEFT_BARRIER:
        extent.input = extent.output = 0;
        break;
    case WEFT_ALL_REDUCE:
    case WEFT_BROADCAST:
    case WEFT_REDUCE:
    case WEFT_ALL_TO_ALL:
    case WEFT_SEND_RECV:
        break;
    }
    return extent;
}

/* Drafts the plan of a single rank. */
static void draft_alone(struct coll_draft *draft)
{
    struct coll_step step = {.kind = COLL_COPY,
                             .from = COLL_INPUT,
                             .to = COLL_OUTPUT,
                             .count = draft->job->count,
                             .after = {COLL_NO_STEP, COLL_NO_STEP}};

    if (!draft->job->in_place && draft->job->kind != WEFT_BARRIER && step.count > 0) {
        coll_draft_add(draft, (struct coll_key){0}, &step, COLL_NO_STEP);
    }
}

static void draft_all(struct coll_draft *draft, enum weft_algorithm algorithm)
{
    switch (draft->job->kind) {
    case WEFT_ALL_TO_ALL:
        if (algorithm == WEFT_ALGORITHM_FORWARD) {
            coll_draft_forward(draft);
        } else {
            coll_draft_all_to_all(draft);
        }
        return;
    case WEFT_SEND_RECV:
        coll_draft_send_recv(draft);
        return;
    case WEFT_BARRIER:
        coll_draft_barrier(draft, algorithm);
        return;
    case WEFT_ALL_REDUCE:
        if (algorithm == WEFT_ALGORITHM_DIRECT) {
            coll_draft_direct(draft);
            return;
        }
        if (algorithm == WEFT_ALGORITHM_DOUBLING) {
            coll_draft_doubling(draft);
            return;
        }
        break;
    case WEFT_REDUCE_SCATTER:
    case WEFT_ALL_GATHER:
    case WEFT_BROADCAST:
    case WEFT_REDUCE:
        break;
    }
    coll_draft_flows(draft, algorithm);
}

static weft_status refuse(const struct coll_job *job, struct weft_error *error)
{
    bool moves_both_ways = job->kind == WEFT_ALL_TO_ALL || job->kind == WEFT_SEND_RECV;

    if (job->in_place && moves_both_ways) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_PLAN,
                         "%s cannot be in place: what arrives would overwrite what is "
                         "being sent",
                         weft_collective_name(job->kind));
    }
    if (!weft_collective_has(job->kind, job->algorithm)) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_PLAN, "%s has no algorithm %s",
                         weft_collective_name(job->kind),
                         weft_algorithm_name(job->algorithm));
    }
    return WEFT_OK;
}

weft_status coll_plan_make(const struct coll_job *job, uint32_t rank,
                           const struct coll_mesh *mesh, struct coll_plan *out,
                           struct weft_error *error)
{
    struct coll_draft draft = {.plan = out, .job = job, .mesh = mesh};
    struct coll_choice choice = {.algorithm = WEFT_ALGORITHM_DIRECT,
                                 .slice_bytes = COLL_SLICE_BYTES_MAX};
    weft_status status = refuse(job, error);

    weft_check(rank < mesh->n_ranks && job->root < mesh->n_ranks);
    *out = (struct coll_plan){.rank = rank, .n_ranks = mesh->n_ranks};
    if (status != WEFT_OK) {
        return status;
    }
    if (mesh->n_ranks == 1) {
        draft_alone(&draft);
    } else {
        coll_choose(job, mesh, &choice);
        if (choice.time_ps == INT64_MAX && choice.algorithm != WEFT_ALGORITHM_DIRECT) {
            return weft_fail(error, WEFT_ERR_ROUTE, WEFT_PHASE_PLAN,
                             "%s by %s: the mesh does not join all ranks",
                             weft_collective_name(job->kind),
                             weft_algorithm_name(choice.algorithm));
        }
        draft.slice_bytes = choice.slice_bytes;
        draft_all(&draft, choice.algorithm);
    }
    out->algorithm = choice.algorithm;
    coll_draft_finish(&draft);
    return WEFT_OK;
}

void coll_plan_channels(const struct coll_plan *plan, uint32_t *send_channels,
                        uint32_t *receive_channels)
{
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct coll_step *step = &plan->steps[i];

        weft_check(step->channel < MESH_PACKING_MAX);
        if (step->kind == COLL_SEND) {
            send_channels[step->peer] |= 1u << step->channel;
        } else if (step->kind == COLL_RECV || step->kind == COLL_RECV_REDUCE) {
            receive_channels[step->peer] |= 1u << step->channel;
        }
    }
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

static void print_range(struct weft_text *out, enum coll_buffer buffer, uint64_t at,
                        uint64_t count)
{
    static const char *const names[COLL_N_BUFFERS] = {"input", "output", "scratch"};

    weft_text_add(out, " %s [%llu, +%llu)", names[buffer], (unsigned long long)at,
                  (unsigned long long)count);
}

static void print_step(const struct coll_step *step, struct weft_text *out)
{
    weft_text_add(out, "%s", step_name(step->kind));
    if (step->kind != COLL_COPY && step->kind != COLL_JOIN) {
        weft_text_add(out, " %s %u", step->kind == COLL_SEND ? "to" : "from", step->peer);
        if (step->channel > 0) {
            weft_text_add(out, " channel %u", step->channel);
        }
    }
    if (step->kind != COLL_RECV && step->kind != COLL_JOIN) {
        print_range(out, step->from, step->from_at, step->count);
    }
    if (step->kind == COLL_RECV_REDUCE || step->kind == COLL_COPY) {
        weft_text_add(out, " ->");
    }
    if (step->kind != COLL_SEND && step->kind != COLL_JOIN) {
        print_range(out, step->to, step->to_at, step->count);
    }
    weft_text_add(out, "%s", step->divides ? " / ranks" : "");
    for (int k = 0, n = 0; k < 2; k++) {
        if (step->after[k] != COLL_NO_STEP) {
            weft_text_add(out, "%s%u", n++ == 0 ? " after " : ", ", step->after[k]);
        }
    }
    weft_text_add(out, "\n");
}

void coll_plan_print(const struct coll_plan *plan, struct weft_text *out)
{
    weft_text_add(out, "rank %u of %u, %s, %u steps", plan->rank, plan->n_ranks,
                  weft_algorithm_name(plan->algorithm), plan->n_steps);
    if (plan->scratch_count > 0) {
        weft_text_add(out, ", scratch %llu", (unsigned long long)plan->scratch_count);
    }
    weft_text_add(out, "\n");
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        weft_text_add(out, "%4u ", i);
        print_step(&plan->steps[i], out);
    }
}
