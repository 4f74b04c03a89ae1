/* A job of three ranks that meet at a rendezvous, for tests: the machines of all of them on one
 * simulated triangle, with what the last progress of each said. */
#ifndef WEFT_BOOT_JOB_TESTING_H
#define WEFT_BOOT_JOB_TESTING_H

#include "boot/boot.h"
#include "conn/conn_testing.h"

#define JOB_RANKS 3

struct job {
    struct bed bed;
    struct boot_config config;     /* of the next that is opened */
    struct boot *boots[JOB_RANKS]; /* NULL: it is not there */
    weft_status status[JOB_RANKS]; /* of the last progress */
    struct weft_error errors[JOB_RANKS];
};

/* job_open with this delay of the management network; 0: 50 us. */
void job_open_slow(struct job *job, uint64_t seed, const char *tcp_chunk,
                   int64_t delay_ps);
/* No rank yet. Rank 0 is to serve the rendezvous; patience 60 s, 30 s a step. */
void job_open(struct job *job, uint64_t seed, const char *tcp_chunk);
void job_close(struct job *job);

/* On host r, with job->config as it is. */
weft_status job_try_open(struct job *job, uint32_t r, struct weft_error *error);
/* The same as rank r; must succeed. */
void job_open_rank(struct job *job, uint32_t r);
void job_close_rank(struct job *job, uint32_t r);

/* Whether no rank that is there waits for anything; for bed_run. */
bool job_is_settled(const struct bed *bed);

#endif
