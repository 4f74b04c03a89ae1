/* The environment: everything one host is given. Nothing in src/ reaches past it; that
 * is what makes a simulated host and a real one the same program. */
#ifndef WEFT_IO_ENV_H
#define WEFT_IO_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/status.h"
#include "base/trace.h"
#include "io/gpu.h"
#include "io/hostinfo.h"
#include "io/loop.h"
#include "io/oob.h"
#include "io/shm.h"
#include "io/verbs.h"

struct io_env;

/* Where a process is in its job, for faults that come at a moment of it. */
enum io_stage {
    IO_STAGE_JOBS, /* it is a rank, is connected, and so are all others; n is 0 */
    IO_STAGE_ROW,  /* it begins row n, from 1 */
    IO_STAGE_SENT, /* the work requests that send and that it posted have n bytes in all */
    IO_N_STAGES
};

struct io_env_ops {
    /* Monotonic; never goes back. */
    weft_ns (*now)(struct io_env *env);
    /* Unpredictable bytes for nonces, cookies and PSNs (seeded, per host, in
     * simulation). */
    void (*random)(struct io_env *env, void *out, size_t n_bytes);
    /* A setting of this host's environment, or NULL. Valid for the life of the env. */
    const char *(*setting)(struct io_env *env, const char *name);
    /* The facts as of now. Valid until the next call. */
    const struct io_hostinfo *(*hostinfo)(struct io_env *env);
    /* hostinfo's host_id, which does not change, for who asks nothing else: hostinfo costs a real
     * host some ten system calls an interface. NULL: hostinfo tells. */
    const uint8_t *(*host_id)(struct io_env *env);
    /* The next member of the job whose process ended before the job did, as whoever started
     * the processes knows; false: none so far. NULL: nobody tells. */
    bool (*next_ended)(struct io_env *env, uint32_t *out_member);
    /* The process has come to a stage. What comes of it comes later, never within this call. NULL:
     * nobody asks. */
    void (*reached)(struct io_env *env, enum io_stage stage, uint64_t n);
};

/* Belongs to the world (or the plugin's process); outlives every user. */
struct io_env {
    const struct io_env_ops *ops;
    const struct io_oob_ops *oob;
    const struct io_shm_ops *shm; /* NULL: processes of the host share no memory */
    struct io_loop *loop;         /* Not owned. */
    uint32_t host;                /* index in the loop: of the process, over all hosts */
    uint32_t world_host;          /* index of its host in the world */
    uint32_t process;             /* of that host, from 0 */
    char name[64];                /* "titanic" */
    struct io_device **devices;   /* [n_devices], in device order; Not owned by users. */
    uint32_t n_devices;
    struct io_gpu *gpu;         /* never NULL: at least host memory */
    struct io_task *ended_task; /* the user's: woken when next_ended has one; or NULL */
    struct weft_trace *trace;   /* may be NULL */
    struct weft_log *log;       /* may be NULL */
};

/* Shorthands. */
static inline weft_ns io_now(struct io_env *env)
{
    return env->ops->now(env);
}

/* [16] */
static inline const uint8_t *io_host_id(struct io_env *env)
{
    return env->ops->host_id != NULL ? env->ops->host_id(env)
                                     : env->ops->hostinfo(env)->host_id;
}

/* When what `is_so` now began to be so, given when it did before (0: it was not); 0: it is not. */
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
