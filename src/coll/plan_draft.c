#include "coll/plan_draft.h"

#include <stdlib.h>

#include "base/check.h"

/* This many partials get a place each before places are reused, so that their sends need not have
 * ended. */
#define PLACES_MIN 32

uint64_t coll_slice_count(const struct coll_draft *draft, uint64_t count)
{
    uint64_t most = draft->slice_bytes / weft_dtype_bytes(draft->job->dtype);
    uint64_t n_slices;

    most = most == 0 ? 1 : most;
    n_slices = (count + most - 1) / most;
    /* All slices are about equal, so that the last is not tiny. */
    return n_slices == 0 ? 1 : (count + n_slices - 1) / n_slices;
}

/* Between hosts there is one connection for all channels. */
static uint32_t channel_of(const struct coll_draft *draft, const struct coll_step *step)
{
    const uint32_t *hosts = draft->mesh->overlay.hosts;
    uint32_t rank = draft->plan->rank;

    return step->peer != rank && hosts != NULL && hosts[step->peer] == hosts[rank]
               ? draft->channel
               : 0;
}

uint32_t coll_draft_add(struct coll_draft *draft, struct coll_key key,
                        const struct coll_step *step, uint32_t partial)
{
    struct coll_drafted *at;

    if (draft->n_steps == draft->cap) {
        draft->cap = draft->cap == 0 ? 64 : draft->cap * 2;
        draft->steps = weft_realloc(draft->steps, draft->cap * sizeof(*draft->steps));
    }
    at = &draft->steps[draft->n_steps];
    *at = (struct coll_drafted){
        .key = key, .index = draft->n_steps, .partial = partial, .step = *step};
    at->step.channel = channel_of(draft, step);
    return draft->n_steps++;
}

uint32_t coll_draft_join(struct coll_draft *draft, struct coll_key key, uint32_t joined,
                         uint32_t step, uint32_t partial)
{
    struct coll_step both = {
        .kind = COLL_JOIN, .peer = draft->plan->rank, .after = {joined, step}};

    if (joined == COLL_NO_STEP || step == COLL_NO_STEP) {
        return joined == COLL_NO_STEP ? step : joined;
    }
    return coll_draft_add(draft, key, &both, partial);
}

static int compare(const void *a, const void *b)
{
    const struct coll_drafted *x = a, *y = b;

    if (x->key.time != y->key.time) {
        return x->key.time < y->key.time ? -1 : 1;
    }
    if (x->key.flow != y->key.flow) {
        return x->key.flow < y->key.flow ? -1 : 1;
    }
    if (x->key.phase != y->key.phase) {
        return x->key.phase < y->key.phase ? -1 : 1;
    }
    return x->index < y->index ? -1 : x->index > y->index;
}

/* ---- places in SCRATCH ---- */

struct place {
    uint32_t last_use; /* index in the plan; COLL_NO_STEP if never used */
};

struct places {
    struct place *places; /* Owned [n] */
    uint32_t n, cap;
    uint32_t *free; /* Owned [cap]: a ring of places whose last use is listed */
    uint32_t first_free, n_free;
    uint32_t *of_partial; /* Owned [n_partials] */
    uint32_t *last;       /* Owned [n_partials]: index in the plan of the last step */
};

static uint32_t take_place(struct places *places)
{
    if (places->n_free > 0 && places->n >= PLACES_MIN) {
        uint32_t place = places->free[places->first_free];

        places->first_free = (places->first_free + 1) % places->cap;
        places->n_free--;
        return place;
    }
    weft_check(places->n < places->cap);
    places->places[places->n].last_use = COLL_NO_STEP;
    return places->n++;
}

/* Assigns the place of the step's partial. A reused place waits for the last use of its previous
 * partial. */
static void find_place(struct places *places, const struct coll_drafted *drafted,
                       struct coll_step *step, uint32_t index, uint64_t slice)
{
    uint32_t *place = &places->of_partial[drafted->partial];

    if (*place == COLL_NO_STEP) {
        weft_check(step->to == COLL_SCRATCH && step->after[0] == COLL_NO_STEP);
        *place = take_place(places);
        step->after[0] = places->places[*place].last_use;
    }
    if (step->from == COLL_SCRATCH) {
        step->from_at += *place * slice;
    }
    if (step->to == COLL_SCRATCH) {
        step->to_at += *place * slice;
    }
    if (index == places->last[drafted->partial]) {
        places->places[*place].last_use = index;
        places->free[(places->first_free + places->n_free++) % places->cap] = *place;
    }
}

static void find_places(struct coll_draft *draft)
{
    struct coll_plan *plan = draft->plan;
    struct places places = {.cap = draft->n_partials};
    uint64_t slice = 0;

    if (draft->n_partials == 0) {
        return;
    }
    places.places = weft_calloc(places.cap, sizeof(*places.places));
    places.free = weft_calloc(places.cap, sizeof(*places.free));
    places.of_partial = weft_calloc(places.cap, sizeof(*places.of_partial));
    places.last = weft_calloc(places.cap, sizeof(*places.last));
    for (uint32_t i = 0; i < draft->n_partials; i++) {
        places.of_partial[i] = COLL_NO_STEP;
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        uint32_t partial = draft->steps[i].partial;

        if (partial != COLL_NO_STEP) {
            slice = plan->steps[i].count > slice ? plan->steps[i].count : slice;
            places.last[partial] = i;
        }
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        if (draft->steps[i].partial != COLL_NO_STEP) {
            find_place(&places, &draft->steps[i], &plan->steps[i], i, slice);
        }
    }
    plan->scratch_count = places.n * slice;
    free(places.places);
    free(places.free);
    free(places.of_partial);
    free(places.last);
}

void coll_draft_finish(struct coll_draft *draft)
{
    struct coll_plan *plan = draft->plan;
    uint32_t *listed = weft_calloc((size_t)draft->n_steps + 1, sizeof(*listed));

    if (draft->n_steps > 0) {
        qsort(draft->steps, draft->n_steps, sizeof(*draft->steps), compare);
    }
    for (uint32_t i = 0; i < draft->n_steps; i++) {
        listed[draft->steps[i].index] = i;
    }
    plan->n_steps = draft->n_steps;
    plan->steps = weft_calloc((size_t)draft->n_steps + 1, sizeof(*plan->steps));
    for (uint32_t i = 0; i < draft->n_steps; i++) {
        struct coll_step *step = &plan->steps[i];

        *step = draft->steps[i].step;
        for (int k = 0; k < 2; k++) {
            if (step->after[k] != COLL_NO_STEP) {
                step->after[k] = listed[step->after[k]];
                weft_check(step->after[k] < i);
            }
        }
        plan->slice_count =
            step->count > plan->slice_count ? step->count : plan->slice_count;
    }
    find_places(draft);
    free(listed);
    free(draft->steps);
    draft->steps = NULL;
}

/* ---- flows ---- */

struct slice {
    uint32_t flow, index;
    uint64_t input_at, output_at, count;
    uint32_t partial;
};

static struct coll_key key_of(const struct coll_flow *flow, const struct slice *slice,
                              uint32_t hop, bool is_down)
{
    return (struct coll_key){.time = slice->index + (uint64_t)flow->spread * hop,
                             .flow = slice->flow,
                             .phase = is_down};
}

/* Drafts the reduction of the children's messages and the send of the result. Returns the step
 * that made the result on the root, or that sent it elsewhere; *out_from is the buffer of the
 * result. */
static uint32_t draft_up(struct coll_draft *draft, const struct coll_flow *flow,
                         const struct slice *slice, enum coll_buffer *out_from)
{
    const struct coll_view *up = flow->up;
    bool is_root = up->parent == COLL_NO_STEP;
    bool in_scratch = flow->keeps_output && !is_root;
    uint32_t partial = in_scratch && up->n_children > 0 ? slice->partial : COLL_NO_STEP;
    struct coll_step step = {.kind = COLL_RECV_REDUCE,
                             .from = COLL_INPUT,
                             .from_at = slice->input_at,
                             .to = in_scratch ? COLL_SCRATCH : COLL_OUTPUT,
                             .to_at = in_scratch ? 0 : slice->output_at,
                             .count = slice->count,
                             .after = {COLL_NO_STEP, COLL_NO_STEP}};
    uint32_t last = COLL_NO_STEP;

    /* In reverse order, because the children listed last are the deepest and send first. */
    for (uint32_t i = up->n_children; i-- > 0;) {
        step.peer = up->children[i].rank;
        step.divides = is_root && i == 0 && draft->job->op == WEFT_AVG;
        step.after[0] = last;
        last = coll_draft_add(
            draft, key_of(flow, slice, up->deepest - up->children[i].depth, false), &step,
            partial);
        step.from = step.to;
        step.from_at = step.to_at;
    }
    *out_from = step.from;
    if (is_root) {
        return last;
    }
    step.kind = COLL_SEND;
    step.peer = up->parent;
    step.divides = false;
    step.to = COLL_INPUT;
    step.to_at = 0;
    step.after[0] = last;
    return coll_draft_add(draft, key_of(flow, slice, up->deepest - up->depth, false),
                          &step, partial);
}

/* Drafts the receive of the result, or its copy at the root, and the sends to the children. */
static void draft_down(struct coll_draft *draft, const struct coll_flow *flow,
                       const struct slice *slice, uint32_t last, bool was_input)
{
    const struct coll_view *down = flow->down;
    uint32_t first_hop = flow->up != NULL ? flow->up->deepest : 0;
    struct coll_step step = {.kind = COLL_SEND,
                             .from = COLL_OUTPUT,
                             .from_at = slice->output_at,
                             .to = COLL_OUTPUT,
                             .to_at = slice->output_at,
                             .count = slice->count,
                             .after = {last, COLL_NO_STEP}};

    if (down->parent != COLL_NO_STEP) {
        step.kind = COLL_RECV;
        step.peer = down->parent;
        step.from = COLL_INPUT;
        step.from_at = 0;
        if (was_input && !draft->job->in_place) {
            step.after[0] = COLL_NO_STEP; /* the buffer sent from is not overwritten */
        }
        step.after[0] =
            coll_draft_add(draft, key_of(flow, slice, first_hop + down->depth - 1, true),
                           &step, COLL_NO_STEP);
    } else if (flow->up == NULL) {
        step.from = COLL_INPUT;
        step.from_at = slice->input_at;
        if (!draft->job->in_place) {
            step.kind = COLL_COPY;
            step.peer = draft->plan->rank;
            coll_draft_add(draft, key_of(flow, slice, 0, true), &step, COLL_NO_STEP);
        }
    }
    if (down->parent != COLL_NO_STEP || flow->up != NULL) {
        step.from = COLL_OUTPUT;
        step.from_at = slice->output_at;
    }
    step.kind = COLL_SEND;
    step.to = COLL_INPUT;
    step.to_at = 0;
    for (uint32_t i = 0; i < down->n_children; i++) {
        step.peer = down->children[i].rank;
        coll_draft_add(draft,
                       key_of(flow, slice, first_hop + down->children[i].depth - 1, true),
                       &step, COLL_NO_STEP);
    }
}

void coll_draft_flow(struct coll_draft *draft, const struct coll_flow *flow)
{
    uint64_t slice = coll_slice_count(draft, flow->count);
    uint32_t number = draft->n_flows++;

    for (uint64_t at = 0; at < flow->count; at += slice) {
        struct slice now = {.flow = number,
                            .index = (uint32_t)(at / slice),
                            .input_at = flow->input_at + at,
                            .output_at = flow->output_at + at,
                            .count = flow->count - at < slice ? flow->count - at : slice,
                            .partial = draft->n_partials};
        enum coll_buffer from = COLL_INPUT;
        uint32_t last = COLL_NO_STEP;

        if (flow->up != NULL) {
            last = draft_up(draft, flow, &now, &from);
            draft->n_partials += flow->keeps_output && flow->up->n_children > 0 &&
                                 flow->up->parent != COLL_NO_STEP;
        }
        if (flow->down != NULL) {
            draft_down(draft, flow, &now, last, from == COLL_INPUT);
        }
    }
}
