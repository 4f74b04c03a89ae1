#include "coll/check_races_testing.h"

#include <stdlib.h>

#include "base/check.h"

/* A range of the memory that steps write: the output (in place: the one buffer), and SCRATCH
 * behind it. */
struct span {
    uint64_t begin, end;
};

/* The last writer of a piece of memory, and its readers since. */
struct access {
    uint32_t writer;
    uint32_t *readers; /* Owned [n_readers] */
    uint32_t n_readers, cap;
};

struct races {
    const struct coll_job *job;
    const struct coll_plan *plan;
    struct coll_extent extent;
    uint64_t *cuts; /* Owned [n_cuts], rising */
    size_t n_cuts;
    struct access *accesses; /* Owned [n_cuts]: accesses to [cuts[i], cuts[i + 1]) */
    /* Owned [n_steps]: stamp of the last search that visited the step */
    uint32_t *seen;
    uint32_t stamp;
    uint32_t *stack; /* Owned [n_steps + 1] */
};

/* Locates a range. Returns false if it is empty or in an input that no step writes. */
static bool span_of(const struct races *races, enum coll_buffer buffer, uint64_t at,
                    uint64_t count, struct span *out)
{
    uint64_t begin = at;

    if (buffer == COLL_INPUT && !races->job->in_place) {
        return false;
    }
    if (buffer == COLL_SCRATCH) {
        begin += races->extent.input + races->extent.output;
    } else {
        begin += buffer == COLL_INPUT ? races->extent.input_at : races->extent.output_at;
    }
    *out = (struct span){begin, begin + count};
    return count > 0;
}

static bool reads(const struct coll_step *step)
{
    return step->kind == COLL_SEND || step->kind == COLL_RECV_REDUCE ||
           step->kind == COLL_COPY;
}

static bool writes(const struct coll_step *step)
{
    return step->kind != COLL_SEND && step->kind != COLL_JOIN;
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void add_cuts(struct races *races, const struct span *span)
{
    races->cuts[races->n_cuts++] = span->begin;
    races->cuts[races->n_cuts++] = span->end;
}

static void cut(struct races *races)
{
    const struct coll_plan *plan = races->plan;
    size_t n_unique = 0;
    struct span span;

    races->cuts = weft_calloc(4 * (size_t)plan->n_steps + 1, sizeof(*races->cuts));
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const struct coll_step *step = &plan->steps[i];

        if (reads(step) &&
            span_of(races, step->from, step->from_at, step->count, &span)) {
            add_cuts(races, &span);
        }
        if (writes(step) && span_of(races, step->to, step->to_at, step->count, &span)) {
            add_cuts(races, &span);
        }
    }
    if (races->n_cuts > 0) {
        qsort(races->cuts, races->n_cuts, sizeof(*races->cuts), compare_u64);
    }
    for (size_t i = 0; i < races->n_cuts; i++) {
        if (n_unique == 0 || races->cuts[n_unique - 1] != races->cuts[i]) {
            races->cuts[n_unique++] = races->cuts[i];
        }
    }
    races->n_cuts = n_unique;
    races->accesses = weft_calloc(n_unique + 1, sizeof(*races->accesses));
    for (size_t i = 0; i < n_unique; i++) {
        races->accesses[i].writer = COLL_NO_STEP;
    }
}

/* Returns true if the waits alone ensure that `late` starts after `early` has ended. */
static bool happens_before(struct races *races, uint32_t early, uint32_t late)
{
    uint32_t n = 0;

    races->stamp++;
    races->stack[n++] = late;
    while (n > 0) {
        const struct coll_step *step = &races->plan->steps[races->stack[--n]];

        for (int k = 0; k < 2; k++) {
            uint32_t before = step->after[k];

            if (before == early) {
                return true;
            }
            if (before != COLL_NO_STEP && before > early &&
                races->seen[before] != races->stamp) {
                races->seen[before] = races->stamp;
                races->stack[n++] = before;
            }
        }
    }
    return false;
}

static const char *note_read(struct races *races, uint32_t index, struct access *access)
{
    if (access->writer != COLL_NO_STEP && access->writer != index &&
        !happens_before(races, access->writer, index)) {
        return "it may read before its data is there";
    }
    if (access->n_readers == access->cap) {
        access->cap = access->cap == 0 ? 4 : access->cap * 2;
        access->readers =
            weft_realloc(access->readers, access->cap * sizeof(*access->readers));
    }
    access->readers[access->n_readers++] = index;
    return NULL;
}

static const char *note_write(struct races *races, uint32_t index, struct access *access)
{
    static const char *const what = "it may overwrite what another step still uses";

    if (access->writer != COLL_NO_STEP && !happens_before(races, access->writer, index)) {
        return what;
    }
    for (uint32_t i = 0; i < access->n_readers; i++) {
        if (access->readers[i] != index &&
            !happens_before(races, access->readers[i], index)) {
            return what;
        }
    }
    access->writer = index;
    access->n_readers = 0;
    return NULL;
}

static const char *note(struct races *races, uint32_t index, const struct span *span,
                        bool is_write)
{
    const uint64_t *found = bsearch(&span->begin, races->cuts, races->n_cuts,
                                    sizeof(*races->cuts), compare_u64);
    const char *what = NULL;

    weft_check(found != NULL);
    for (size_t i = (size_t)(found - races->cuts);
         what == NULL && races->cuts[i] < span->end; i++) {
        what = is_write ? note_write(races, index, &races->accesses[i])
                        : note_read(races, index, &races->accesses[i]);
    }
    return what;
}

static const char *look(struct races *races, uint32_t *out_index)
{
    for (uint32_t i = 0; i < races->plan->n_steps; i++) {
        const struct coll_step *step = &races->plan->steps[i];
        const char *what = NULL;
        struct span span;

        if (reads(step) &&
            span_of(races, step->from, step->from_at, step->count, &span)) {
            what = note(races, i, &span, false);
        }
        if (what == NULL && writes(step) &&
            span_of(races, step->to, step->to_at, step->count, &span)) {
            what = note(races, i, &span, true);
        }
        if (what != NULL) {
            *out_index = i;
            return what;
        }
    }
    return NULL;
}

const char *check_races(const struct coll_job *job, const struct coll_plan *plan,
                        uint32_t *out_index)
{
    struct races races = {.job = job,
                          .plan = plan,
                          .extent = coll_extent_of(job, plan->rank, plan->n_ranks)};
    const char *what;

    cut(&races);
    races.seen = weft_calloc((size_t)plan->n_steps + 1, sizeof(*races.seen));
    races.stack = weft_calloc(2 * (size_t)plan->n_steps + 2, sizeof(*races.stack));
    what = look(&races, out_index);
    for (size_t i = 0; i < races.n_cuts; i++) {
        free(races.accesses[i].readers);
    }
    free(races.accesses);
    free(races.cuts);
    free(races.seen);
    free(races.stack);
    return what;
}
