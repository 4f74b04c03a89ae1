/* Runs the rows, one after another. A row is a few runs of the executor:
 *
 * - small rows: one run with the warm-up and `repeat` timed iterations back to back, so that the
 *   clear-to-sends of the next iteration are sent before it starts; then one more run, whose result
 *   is verified;
 * - large rows, and those in place: one run per iteration, of which the last is verified.
 *
 * Before the verified run the output is overwritten with a pattern (in place: filled again before
 * every run), so that a run that moves no data fails verification. No barrier is needed, because a
 * rank's peers write into its output only after the clear-to-sends of its new run. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "coll/oracle.h"
#include "host/private.h"

/* Size from which a missing clear-to-send at the start of an iteration is not measurable, and an
 * additional verified run would cost too much. */
#define LARGE_BYTES (16u << 20)
#define POISON 0xa5

static struct host_jobs *jobs_of(struct host *host)
{
    return &host->private->jobs;
}

static weft_status fail_gpu(struct host *host, int error, const char *what,
                            size_t n_bytes)
{
    return weft_fail_errno(&host->error, error, WEFT_PHASE_MEMORY,
                           "%s of %zu bytes on %s", what, n_bytes, host->env->gpu->name);
}

static weft_status allocate(struct host *host, size_t n_bytes, void **out)
{
    struct io_gpu *gpu = host->env->gpu;
    int error;

    if (n_bytes == 0) {
        return WEFT_OK;
    }
    error = gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, n_bytes, out);
    return error == 0 ? WEFT_OK : fail_gpu(host, error, "allocation", n_bytes);
}

/* Allocates one pair of buffers for all rows; rows in place use only the output. */
static weft_status allocate_largest(struct host *host)
{
    struct host_jobs *jobs = jobs_of(host);
    size_t input = 0;
    size_t output = 0;
    weft_status status;

    for (uint32_t i = 0; i < host->config.n_rows; i++) {
        const struct coll_job *job = &host->config.rows[i].coll;
        size_t in;
        size_t out;

        oracle_buffer_bytes(job, host->config.n_ranks, &in, &out);
        input = !job->in_place && in > input ? in : input;
        output = out > output ? out : output;
        output = job->in_place && in > output ? in : output;
    }
    status = allocate(host, input, &jobs->input);
    if (status == WEFT_OK) {
        status = allocate(host, output, &jobs->output);
    }
    jobs->allocated_input = input;
    jobs->allocated_output = output;
    if (status == WEFT_OK && !host->env->gpu->is_host_memory &&
        !host->config.is_timing_only) {
        jobs->shadow = weft_alloc(input > output ? input : output);
    }
    return status;
}

weft_status host_jobs_channels(struct host *host, uint32_t *send_channels,
                               uint32_t *receive_channels)
{
    for (uint32_t i = 0; i < host->config.n_rows; i++) {
        struct coll_plan plan;
        weft_status status = coll_plan_make(&host->config.rows[i].coll, host->config.rank,
                                            host->config.mesh, &plan, &host->error);

        if (status != WEFT_OK) {
            return status;
        }
        coll_plan_channels(&plan, send_channels, receive_channels);
        coll_plan_fini(&plan);
    }
    return WEFT_OK;
}

weft_status host_jobs_peers(struct host *host, bool *sends_to, bool *receives_from)
{
    uint32_t n = host->config.n_ranks;
    uint32_t *channels = weft_calloc(2 * (size_t)n + 1, sizeof(*channels));
    weft_status status = host_jobs_channels(host, channels, channels + n);

    for (uint32_t rank = 0; rank < n; rank++) {
        sends_to[rank] = sends_to[rank] || channels[rank] != 0;
        receives_from[rank] = receives_from[rank] || channels[n + rank] != 0;
    }
    free(channels);
    return status;
}

/* Sets the connectors of a peer that the rows need. */
static void open_links(struct host *host, uint32_t rank)
{
    struct coll_links *links = &jobs_of(host)->links;
    struct host_peer *peer = &host->peers[rank];
    uint32_t at = rank * links->n_channels;

    for (uint32_t c = 0; host->inside != NULL && c < links->n_channels; c++) {
        links->send_to[at + c] = inside_connector(host->inside, rank, true, c);
        links->receive_from[at + c] = inside_connector(host->inside, rank, false, c);
    }
    if (peer->send != NULL) {
        transport_net(&peer->to, peer->send);
        links->send_to[at] = &peer->to;
    }
    if (peer->receive != NULL) {
        transport_net(&peer->from, peer->receive);
        links->receive_from[at] = &peer->from;
    }
}

weft_status host_jobs_open(struct host *host)
{
    struct host_jobs *jobs = jobs_of(host);
    uint32_t n = host->config.n_ranks, n_channels = host->config.mesh->n_channels;
    size_t n_links = (size_t)n * n_channels;
    weft_status status;

    if (host->config.rank >= n) {
        return WEFT_OK; /* a member without a rank has no rows */
    }
    status = allocate_largest(host);
    if (status != WEFT_OK) {
        return status;
    }
    jobs->links = (struct coll_links){
        .rank = host->config.rank,
        .n_ranks = n,
        .n_channels = n_channels,
        .send_to = weft_calloc(n_links, sizeof(struct transport_connector *)),
        .receive_from = weft_calloc(n_links, sizeof(struct transport_connector *)),
    };
    for (uint32_t rank = 0; rank < n; rank++) {
        open_links(host, rank);
    }
    host->row = 0;
    return coll_exec_open(host->env, &jobs->links, &host->task, &jobs->exec,
                          &host->error);
}

/* ---- the bytes of a row ---- */

static const struct host_row *row_of(const struct host *host)
{
    return &host->config.rows[host->row];
}

static uint8_t *at_element(const struct host *host, void *buffer, uint64_t element)
{
    return buffer == NULL
               ? NULL
               : (uint8_t *)buffer + element * weft_dtype_bytes(row_of(host)->coll.dtype);
}

static struct coll_extent extent_of(const struct host *host)
{
    return coll_extent_of(&row_of(host)->coll, host->config.rank, host->config.n_ranks);
}

static void *input_of(struct host *host)
{
    bool is_in_place = row_of(host)->coll.in_place;

    return at_element(host, is_in_place ? jobs_of(host)->output : jobs_of(host)->input,
                      extent_of(host).input_at);
}

static void *output_of(struct host *host)
{
    return at_element(host, jobs_of(host)->output, extent_of(host).output_at);
}

static weft_status upload(struct host *host, void *to, const void *from, size_t n_bytes)
{
    struct io_gpu *gpu = host->env->gpu;
    int error = from == to ? 0 : gpu->ops->upload(gpu, to, from, n_bytes);

    return error == 0 ? WEFT_OK : fail_gpu(host, error, "upload", n_bytes);
}

static weft_status fill(struct host *host)
{
    struct host_jobs *jobs = jobs_of(host);
    void *input = input_of(host);
    void *at = jobs->shadow != NULL ? jobs->shadow : input;

    if (jobs->input_bytes == 0 || host->config.is_timing_only) {
        return WEFT_OK;
    }
    oracle_fill(&row_of(host)->coll, host->config.seed, host->config.rank,
                host->config.n_ranks, at, jobs->input_bytes);
    return upload(host, input, at, jobs->input_bytes);
}

static weft_status poison(struct host *host)
{
    struct host_jobs *jobs = jobs_of(host);
    void *at = jobs->shadow != NULL ? jobs->shadow : jobs->output;

    if (jobs->output_bytes == 0 || host->config.is_timing_only) {
        return WEFT_OK;
    }
    memset(at, POISON, jobs->output_bytes);
    return upload(host, jobs->output, at, jobs->output_bytes);
}

static weft_status verify(struct host *host)
{
    struct host_jobs *jobs = jobs_of(host);
    struct host_row_result *result = &host->results[host->row];
    struct io_gpu *gpu = host->env->gpu;
    void *at = output_of(host);

    if (jobs->output_bytes == 0 || host->config.is_timing_only) {
        return WEFT_OK;
    }
    if (jobs->shadow != NULL) {
        int error = gpu->ops->download(gpu, jobs->shadow, at, jobs->output_bytes);

        if (error != 0) {
            return fail_gpu(host, error, "download", jobs->output_bytes);
        }
        at = jobs->shadow;
    }
    result->n_wrong = oracle_check_with(
        host->config.answers, &row_of(host)->coll, host->config.seed, host->config.rank,
        host->config.n_ranks, at, jobs->output_bytes, &result->first_wrong);
    return WEFT_OK;
}

/* ---- runs ---- */

static bool is_back_to_back(const struct host_row *row)
{
    return !row->coll.in_place && row->size_bytes < LARGE_BYTES;
}

static bool is_last_run(const struct host_jobs *jobs)
{
    return jobs->run + 1 == jobs->n_runs;
}

static weft_status start_run(struct host *host)
{
    struct host_jobs *jobs = jobs_of(host);
    const struct host_row *row = row_of(host);
    weft_status status = WEFT_OK;

    if (row->coll.in_place) {
        status = fill(host);
    } else if (is_last_run(jobs)) {
        status = poison(host);
    }
    if (status != WEFT_OK) {
        return status;
    }
    jobs->iterations = is_back_to_back(row) && jobs->run == 0 ? row->repeat + 1 : 1;
    coll_exec_start(jobs->exec, &row->coll, &jobs->plan, jobs->iterations);
    return WEFT_OK;
}

/* Registers the whole allocations, once; again only when rows in place alternate with others. */
static weft_status register_buffers(struct host *host)
{
    struct host_jobs *jobs = jobs_of(host);
    bool is_in_place = row_of(host)->coll.in_place;
    struct coll_buffers buffers = {
        .input = is_in_place ? jobs->output : jobs->input,
        .input_bytes = is_in_place ? jobs->allocated_output : jobs->allocated_input,
        .output = jobs->output,
        .output_bytes = jobs->allocated_output,
    };

    if (jobs->is_registered && jobs->is_in_place == is_in_place) {
        return WEFT_OK;
    }
    jobs->is_registered = true;
    jobs->is_in_place = is_in_place;
    return coll_exec_buffers(jobs->exec, &buffers, &host->error);
}

static weft_status begin_row(struct host *host)
{
    struct host_jobs *jobs = jobs_of(host);
    const struct host_row *row = row_of(host);
    struct host_row_result *result = &host->results[host->row];
    char object[24];
    weft_status status;

    io_reached(host->env, IO_STAGE_ROW, (uint64_t)host->row + 1);
    oracle_buffer_bytes(&row->coll, host->config.n_ranks, &jobs->input_bytes,
                        &jobs->output_bytes);
    status = coll_plan_make(&row->coll, host->config.rank, host->config.mesh, &jobs->plan,
                            &host->error);
    if (status != WEFT_OK) {
        return status;
    }
    jobs->has_plan = true;
    status = register_buffers(host);
    if (status != WEFT_OK) {
        return status;
    }
    jobs->is_running = true;
    jobs->run = 0;
    jobs->n_runs = is_back_to_back(row) ? 2 : row->repeat + 1;
    jobs->iterations_done = 0;
    result->algorithm = jobs->plan.algorithm;
    result->finished_ns = weft_calloc(row->repeat + 1, sizeof(*result->finished_ns));
    host_watchdog(host, io_now(host->env) + row->limit_ns);
    weft_format(object, sizeof(object), "job%u", row->job);
    weft_trace_event(host->env->trace, io_now(host->env), host->env->name, object,
                     "start", "bytes=%llu algorithm=%s",
                     (unsigned long long)row->size_bytes,
                     weft_algorithm_name(result->algorithm));
    status = row->coll.in_place ? WEFT_OK : fill(host);
    return status == WEFT_OK ? start_run(host) : status;
}

static weft_status end_row(struct host *host)
{
    struct host_jobs *jobs = jobs_of(host);
    const struct host_row *row = row_of(host);
    struct host_row_result *result = &host->results[host->row];
    weft_status status = verify(host);
    char object[24];

    if (status != WEFT_OK) {
        return status;
    }
    weft_format(object, sizeof(object), "job%u", row->job);
    weft_trace_event(host->env->trace, io_now(host->env), host->env->name, object, "done",
                     "bytes=%llu wrong=%llu", (unsigned long long)row->size_bytes,
                     (unsigned long long)result->n_wrong);
    result->is_done = true;
    coll_plan_fini(&jobs->plan);
    jobs->has_plan = false;
    jobs->is_running = false;
    host->row++;
    return WEFT_OK;
}

/* Records the times of a completed run, then starts the next one or ends the row. */
static weft_status end_run(struct host *host)
{
    struct host_jobs *jobs = jobs_of(host);
    const struct host_row *row = row_of(host);
    struct host_row_result *result = &host->results[host->row];

    for (uint32_t i = 0; i < jobs->iterations; i++) {
        /* The verified run of a small row is not timed. */
        if (jobs->iterations_done < row->repeat + 1) {
            result->finished_ns[jobs->iterations_done++] =
                coll_exec_finished_ns(jobs->exec, i);
        }
    }
    if (is_last_run(jobs)) {
        return end_row(host);
    }
    jobs->run++;
    return start_run(host);
}

weft_status host_jobs_progress(struct host *host)
{
    struct host_jobs *jobs = jobs_of(host);
    weft_status status = WEFT_OK;

    while (status == WEFT_OK) {
        if (host->row == host->config.n_rows) {
            return WEFT_OK;
        }
        if (!jobs->is_running) {
            status = begin_row(host);
            continue;
        }
        status = coll_exec_progress(jobs->exec, &host->error);
        if (status == WEFT_OK) {
            status = end_run(host);
        }
    }
    return status;
}

void host_jobs_close(struct host *host)
{
    struct host_jobs *jobs = jobs_of(host);

    coll_exec_stop(jobs->exec);
}

void host_jobs_fini(struct host *host)
{
    struct host_jobs *jobs = jobs_of(host);
    struct io_gpu *gpu = host->env->gpu;

    coll_exec_close(jobs->exec);
    jobs->exec = NULL;
    if (jobs->has_plan) {
        coll_plan_fini(&jobs->plan);
        jobs->has_plan = false;
    }
    free(jobs->links.send_to);
    free(jobs->links.receive_from);
    jobs->links = (struct coll_links){0};
    gpu->ops->free(gpu, jobs->input);
    gpu->ops->free(gpu, jobs->output);
    free(jobs->shadow);
    jobs->input = NULL;
    jobs->output = NULL;
    jobs->shadow = NULL;
}
