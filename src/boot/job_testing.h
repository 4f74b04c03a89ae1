/* Fixture: a job of three ranks that meet at a rendezvous, on a simulated triangle, with the result
 * of the last boot_progress of each. */
#ifndef WEFT_BOOT_JOB_TESTING_H
#define WEFT_BOOT_JOB_TESTING_H

#include "boot/boot.h"
#include "conn/conn_testing.h"

#define JOB_RANKS 3

struct job {
    struct bed bed;
    struct boot_config config;     /* for the next rank to be opened */
    struct boot *boots[JOB_RANKS]; /* NULL if not open */
    weft_status status[JOB_RANKS]; /* result of the last boot_progress */
    struct weft_error errors[JOB_RANKS];
};

/* Like job_open, with this delay of the management network; 0 for 50 us. */
void job_open_slow(struct job *job, uint64_t seed, const char *tcp_chunk,
                   int64_t delay_ps);
/* Creates the triangle, without ranks. Rank 0 is to serve the rendezvous; patience 60 s, 30 s a
 * step. */
void job_open(struct job *job, uint64_t seed, const char *tcp_chunk);
void job_close(struct job *job);

/* Opens a boot on host r with job->config as it is. */
weft_status job_try_open(struct job *job, uint32_t r, struct weft_error *error);
/* Opens the boot of rank r on host r, and asserts that it succeeds. */
void job_open_rank(struct job *job, uint32_t r);
void job_close_rank(struct job *job, uint32_t r);

/* Returns true if no open rank waits for anything. A condition for bed_run. */
bool job_is_settled(const struct bed *bed);

#endif
