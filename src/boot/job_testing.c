#include "boot/job_testing.h"

#include <check.h>
#include <string.h>

static void on_task(struct bed *bed, struct io_task *task)
{
    struct job *job = bed->user;
    uint32_t r = task->host;

    if (job->boots[r] != NULL && task == boot_task(job->boots[r])) {
        weft_error_clear(&job->errors[r]);
        job->status[r] = boot_progress(job->boots[r], &job->errors[r]);
    }
}

void job_open(struct job *job, uint64_t seed, const char *tcp_chunk)
{
    job_open_slow(job, seed, tcp_chunk, 0);
}

void job_open_slow(struct job *job, uint64_t seed, const char *tcp_chunk,
                   int64_t delay_ps)
{
    *job =
        (struct job){.config = {.n_ranks = JOB_RANKS,
                                .rendezvous = {.ip = io_ip_v4(10, 0, 0, 1), .port = 7000},
                                .patience_ns = 60 * BED_S,
                                .step_ns = 30 * BED_S}};
    memset(job->config.job_key, 7, sizeof(job->config.job_key));
    bed_open(&job->bed, &(struct bed_config){.seed = seed,
                                             .triangle = true,
                                             .tcp_chunk = tcp_chunk,
                                             .management_delay_ps = delay_ps});
    job->bed.user = job;
    job->bed.on_task = on_task;
}

void job_close(struct job *job)
{
    for (uint32_t r = 0; r < JOB_RANKS; r++) {
        job_close_rank(job, r);
    }
    bed_close(&job->bed);
}

weft_status job_try_open(struct job *job, uint32_t r, struct weft_error *error)
{
    weft_error_clear(error);
    job->status[r] = WEFT_AGAIN;
    return boot_open(job->bed.hosts[r].env, &job->config, BED_KIND_TEST, &job->boots[r],
                     error);
}

void job_open_rank(struct job *job, uint32_t r)
{
    job->config.rank = r;
    ck_assert_int_eq(job_try_open(job, r, &job->errors[r]), WEFT_OK);
}

void job_close_rank(struct job *job, uint32_t r)
{
    boot_close(job->boots[r]);
    job->boots[r] = NULL;
}

bool job_is_settled(const struct bed *bed)
{
    const struct job *job = bed->user;

    for (uint32_t r = 0; r < JOB_RANKS; r++) {
        if (job->boots[r] != NULL && job->status[r] == WEFT_AGAIN) {
            return false;
        }
    }
    return true;
}
