/* The I/O environment of one process: clock, randomness, settings, host facts, TCP, shared memory,
 * RDMA devices, GPU. Code in src/ (except cli/ and plugin/) has no other source of these, so the
 * same code runs on simulated and real hosts. */
#ifndef WEFT_IO_ENV_H
#define WEFT_IO_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/observe.h"
#include "base/status.h"
#include "base/trace.h"
#include "io/hostinfo.h"
#include "io/loop.h"

struct io_device; /* io/verbs.h */
struct io_env;
struct io_gpu;     /* io/gpu.h */
struct io_oob_ops; /* io/oob.h */
struct io_shm_ops; /* io/shm.h */

/* Stages of a process in its job, from which the times of some faults count. */
enum io_stage {
    IO_STAGE_JOBS, /* it is a rank, and all ranks are connected; n is 0 */
    IO_STAGE_ROW,  /* it begins row n (from 1) of the result table */
    IO_STAGE_SENT, /* it has posted n bytes in send work requests in total */
    IO_N_STAGES
};

struct io_env_ops {
    /* Returns the time of a monotonic clock. */
    weft_ns (*now)(struct io_env *env);
    /* Writes unpredictable bytes for nonces, cookies and PSNs (in simulation from a seeded
     * generator per host). */
    void (*random)(struct io_env *env, void *out, size_t n_bytes);
    /* Returns a setting of this process's environment, or NULL. Valid for the life of the env. */
    const char *(*setting)(struct io_env *env, const char *name);
    /* Returns the present facts of the host. Valid until the next call. */
    const struct io_hostinfo *(*hostinfo)(struct io_env *env);
    /* Returns the host_id of hostinfo(), which never changes, without its cost (about ten system
     * calls per interface on a real host). If NULL, io_host_id() calls hostinfo(). */
    const uint8_t *(*host_id)(struct io_env *env);
    /* Takes the next member whose process ended before the job did, as reported by the program that
     * started the processes. Returns false if there is none. NULL if no program reports this. */
    bool (*next_ended)(struct io_env *env, uint32_t *out_member);
    /* Reports that the process has reached a stage. Its effects occur later, never within this
     * call. NULL if no fault depends on stages. */
    void (*reached)(struct io_env *env, enum io_stage stage, uint64_t n);
};

/* Belongs to the world (or the plugin's process) and outlives every user. */
struct io_env {
    const struct io_env_ops *ops;
    const struct io_oob_ops *oob;
    const struct io_shm_ops *shm; /* NULL if processes of the host cannot share memory */
    struct io_loop *loop;         /* Not owned. */
    uint32_t host;                /* index of the process in the loop, over all hosts */
    uint32_t world_host;          /* index of its host in the world */
    uint32_t process;             /* number of the process on its host, from 0 */
    char name[64];                /* "titanic" */
    struct io_device **devices;   /* [n_devices], in device order; Not owned by users. */
    uint32_t n_devices;
    struct io_gpu *gpu; /* never NULL; host memory if there is no GPU */
    /* Set by the user; woken when next_ended has a member; may be NULL. */
    struct io_task *ended_task;
    struct weft_trace *trace; /* may be NULL */
    struct weft_log *log;     /* may be NULL */
};

static inline weft_ns io_now(struct io_env *env)
{
    return env->ops->now(env);
}

/* Returns the time for a line that is built only if the event log is on. In virtual time this look
 * at the clock does not delay the job. */
static inline weft_ns io_log_now(struct io_env *env)
{
    weft_ns now;

    weft_observe_begin();
    now = io_now(env);
    weft_observe_end();
    return now;
}

/* Returns the host_id [16] of this host. */
static inline const uint8_t *io_host_id(struct io_env *env)
{
    return env->ops->host_id != NULL ? env->ops->host_id(env)
                                     : env->ops->hostinfo(env)->host_id;
}

/* Tracks how long a condition has held. Returns 0 if `is_so` is false; otherwise `began`, or `now`
 * if `began` is 0 (the condition did not hold before). */
static inline weft_ns io_since(weft_ns began, bool is_so, weft_ns now)
{
    if (!is_so) {
        return 0;
    }
    return began == 0 ? now : began;
}

static inline bool io_next_ended(struct io_env *env, uint32_t *out_member)
{
    return env->ops->next_ended != NULL && env->ops->next_ended(env, out_member);
}

static inline void io_reached(struct io_env *env, enum io_stage stage, uint64_t n)
{
    if (env->ops->reached != NULL) {
        env->ops->reached(env, stage, n);
    }
}

#endif
