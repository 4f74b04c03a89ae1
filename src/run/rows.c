#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "run/private.h"

/* A row counts as stuck after this many times its physical bound plus TIMER_ROW_NS. Recoveries take
 * seconds; hangs never end. */
#define PATIENCE_FACTOR 20

static void make_row(struct run *run, uint32_t job_index, uint64_t bytes)
{
    const struct scenario_job *job = &run->scenario->jobs[job_index];
    struct host_row *row = &run->rows[run->n_rows];
    uint64_t count = coll_whole_count(job->kind, job->dtype, bytes, run->n_ranks);
    weft_ps limit;

    *row = (struct host_row){
        .job = job_index,
        .coll = {.kind = job->kind,
                 .algorithm = job->algorithm,
                 .dtype = job->dtype,
                 .op = job->op,
                 .count = count,
                 .root = job->root,
                 .in_place = job->in_place},
        .size_bytes = count * weft_dtype_bytes(job->dtype),
        .repeat = job->repeat,
    };
    limit = run_limit_ps(&run->insides, &run->graph, run->member_hosts, run->n_ranks,
                         job->kind, row->size_bytes);
    run->limits_ps[run->n_rows] = limit;
    row->limit_ns = timer_limit(TIMER_ROW_NS, run->scenario->patience) +
                    PATIENCE_FACTOR * (limit / 1000) * ((weft_ns)row->repeat + 2);
    run->n_rows++;
}

void run_rows_make(struct run *run)
{
    size_t n = 0;

    for (uint32_t i = 0; i < run->scenario->n_jobs; i++) {
        n += run->scenario->jobs[i].n_bytes;
    }
    run->rows = weft_calloc(n + 1, sizeof(*run->rows));
    run->limits_ps = weft_calloc(n + 1, sizeof(*run->limits_ps));
    run->outcomes = weft_calloc(n + 1, sizeof(*run->outcomes));
    for (uint32_t i = 0; i < run->scenario->n_jobs; i++) {
        const struct scenario_job *job = &run->scenario->jobs[i];

        for (uint32_t j = 0; j < job->n_bytes; j++) {
            make_row(run, i, job->bytes[j]);
        }
    }
}

void run_mesh_make(struct run *run)
{
    uint32_t *roots = weft_calloc((size_t)run->n_rows + 1, sizeof(*roots)), n_roots = 0;
    struct mesh_overlay overlay;

    for (uint32_t i = 0; i < run->n_rows; i++) {
        enum weft_collective kind = run->rows[i].coll.kind;

        if (kind == WEFT_BROADCAST || kind == WEFT_REDUCE) {
            roots[n_roots++] = run->rows[i].coll.root;
        }
    }
    mesh_overlay_make(&run->graph, run->member_hosts, run->n_ranks, &overlay);
    coll_mesh_make(&overlay, roots, n_roots, run->insides.hosts, run->insides.n,
                   &run->mesh);
    free(roots);
}

/* Returns true if the default algorithm needs no more relays than are allowed. */
static bool choice_without(const struct coll_job *job, const struct coll_mesh *mesh)
{
    struct coll_job other = *job;
    struct coll_choice choice;

    other.algorithm = WEFT_ALGORITHM_AUTO;
    coll_choose(&other, mesh, &choice);
    return coll_relays(&other, mesh, choice.algorithm) <= COLL_RELAYS_MAX;
}

static weft_status too_far(const struct run *run, const struct coll_job *job,
                           enum weft_algorithm algorithm, uint32_t n_cables,
                           struct weft_error *error)
{
    const struct world_spec *spec = &run->plan->spec;
    uint32_t far[2];

    coll_farthest(job, &run->mesh, algorithm, far);
    return weft_fail(
        error, WEFT_ERR_INPUT, WEFT_PHASE_PLAN,
        "%s (%s) joins %.20s and %.20s, %u cables apart; a connection passes %u; %s",
        weft_collective_name(job->kind), weft_algorithm_name(algorithm),
        spec->hosts[run->member_hosts[far[0]]].name,
        spec->hosts[run->member_hosts[far[1]]].name, n_cables, COLL_RELAYS_MAX + 1,
        job->algorithm != WEFT_ALGORITHM_AUTO && choice_without(job, &run->mesh)
            ? "leave out `algorithm`"
            : "give ranks to nearer hosts (`ranks: 0`), or add cables");
}

weft_status run_rows_check(const struct run *run, struct weft_error *error)
{
    for (uint32_t i = 0; run->policy == WEFT_POLICY_WEFT && i < run->n_rows; i++) {
        const struct coll_job *job = &run->rows[i].coll;
        struct coll_choice choice;
        uint32_t n;

        coll_choose(job, &run->mesh, &choice);
        n = coll_relays(job, &run->mesh, choice.algorithm);
        if (n > COLL_RELAYS_MAX) {
            return too_far(run, job, choice.algorithm, n + 1, error);
        }
    }
    return WEFT_OK;
}

/* ---- results ---- */

static const struct host_row_result *result_of(const struct run *run, uint32_t rank,
                                               uint32_t row)
{
    return &run->hosts[rank]->results[row];
}

/* Returns when the last rank ended iteration `k`. All ranks share the world's clock. */
static weft_ns last_finish(const struct run *run, uint32_t row, uint32_t k)
{
    weft_ns last = 0;

    for (uint32_t rank = 0; rank < run->n_ranks; rank++) {
        weft_ns at = result_of(run, rank, row)->finished_ns[k];

        last = at > last ? at : last;
    }
    return last;
}

static int compare_ns(const void *a, const void *b)
{
    weft_ns x = *(const weft_ns *)a;
    weft_ns y = *(const weft_ns *)b;

    return (x > y) - (x < y);
}

static weft_ns median_time(const struct run *run, uint32_t row)
{
    uint32_t repeat = run->rows[row].repeat;
    weft_ns *times = weft_calloc(repeat, sizeof(*times));
    weft_ns median;

    for (uint32_t k = 0; k < repeat; k++) {
        times[k] = last_finish(run, row, k + 1) - last_finish(run, row, k);
    }
    qsort(times, repeat, sizeof(*times), compare_ns);
    median = (times[(repeat - 1) / 2] + times[repeat / 2]) / 2;
    free(times);
    return median;
}

void run_rows_evaluate(struct run *run)
{
    for (uint32_t row = 0; row < run->n_rows; row++) {
        struct run_outcome *outcome = &run->outcomes[row];

        outcome->is_done = true;
        for (uint32_t rank = 0; rank < run->n_ranks; rank++) {
            const struct host_row_result *result = result_of(run, rank, row);

            outcome->is_done = outcome->is_done && result->is_done;
            outcome->n_wrong += result->n_wrong;
            outcome->algorithm = result->algorithm;
        }
        if (outcome->is_done) {
            outcome->time_ns = median_time(run, row);
        }
    }
}

double run_bus_bandwidth(const struct run *run, const struct host_row *row,
                         weft_ps time_ps)
{
    uint32_t numerator;
    uint32_t denominator;

    if (time_ps <= 0) {
        return 0;
    }
    mesh_bus_factor(row->coll.kind, run->n_ranks, &numerator, &denominator);
    return (double)row->size_bytes * numerator / denominator * 1e12 / (double)time_ps;
}
