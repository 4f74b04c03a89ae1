/* Definitions shared by the files of backends/fault. */
#ifndef WEFT_BACKENDS_FAULT_PRIVATE_H
#define WEFT_BACKENDS_FAULT_PRIVATE_H

#include "backends/fault/fault.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/rng.h"
#include "base/text.h"
#include "io/gpu.h"
#include "io/oob.h"
#include "io/shm.h"
#include "io/verbs.h"

struct fault_world;
struct fault_env;
struct fault_device;

/* ---- rules.c ---- */

struct fault_rule {
    const struct world_fault *spec;
    uint64_t n_seen; /* calls since the rule began */
    weft_ns until;   /* WEFT_NEVER if it does not end */
    struct fault_rule *next;
};

/* The outcome of a call. */
struct fault_verdict {
    int error;     /* errno, or 0 */
    weft_ns by_ns; /* delay; 0 if none */
    size_t cap;    /* maximum number of bytes, or of completions */
    bool is_lost;
};

/* Counts the call and returns its outcome. `device` is an index, or FAULT_NO_DEVICE. */
#define FAULT_NO_DEVICE UINT32_MAX
struct fault_verdict fault_judge(struct fault_env *env, uint32_t device,
                                 enum world_call call);

/* ---- gate.c: timers and gates ---- */

struct fault_timer {
    struct weft_heap_node due;
    void (*fire)(struct fault_timer *timer);
};
/* Sets the timer; moves it if it is set already. */
void fault_timer_set(struct fault_world *world, struct fault_timer *timer, weft_ns at);
void fault_timer_stop(struct fault_world *world, struct fault_timer *timer);
/* Returns when the next timer fires; WEFT_NEVER if none is set. */
weft_ns fault_next_timer(const struct fault_world *world);
/* Fires all timers that are due at `now`. */
void fault_fire_due(struct fault_world *world, weft_ns now);

/* Blocks calls until a time, then wakes their task. */
struct fault_gate {
    struct fault_timer timer;
    struct fault_env *env; /* Not owned */
    struct io_task *task;  /* Not owned */
    weft_ns until;
};
void fault_gate_init(struct fault_gate *gate, struct fault_env *env,
                     struct io_task *task);
/* Returns true if the call must return EAGAIN (or nothing). Closes the gate if the verdict has a
 * delay. */
bool fault_gate_is_shut(struct fault_gate *gate, const struct fault_verdict *verdict);
void fault_gate_fini(struct fault_gate *gate);

/* ---- device.c ---- */

struct fault_event {
    enum ibv_event_type type;
    uint8_t port;
    uint32_t n; /* remaining deliveries */
};

struct fault_device {
    struct io_device io;
    struct io_device *inner; /* Not owned */
    struct fault_env *env;   /* Not owned */
    uint32_t index;
    bool is_gone;
    struct fault_call *calls; /* Owned: verbs in progress */
    struct fault_qp *qps;     /* Owned */
    struct fault_cq *cqs;     /* Owned */
    /* Owned [n_events]; delivered before the backend's events. */
    struct fault_event *events;
    size_t n_events, next_event;
};
void fault_device_init(struct fault_device *device, struct fault_env *env,
                       uint32_t index);
void fault_device_fini(struct fault_device *device);
void fault_device_tell(struct fault_device *device, enum ibv_event_type type,
                       uint8_t port, uint32_t n);
void fault_device_go(struct fault_device *device);

/* ---- call.c: control verbs ---- */

int fault_submit(struct io_device *io, struct io_op *op);
int fault_poll(struct io_device *io, struct io_op *op);
void fault_abandon(struct io_device *io, struct io_op *op);
/* Ends all calls with EIO, because their process has ended. */
void fault_calls_stop(struct fault_device *device);

/* Objects as users see them. All calls of the data path go through these. */
struct fault_qp {
    struct ibv_qp base;
    struct ibv_qp *inner; /* NULL after a failed destroy_qp */
    struct fault_device *device;
    struct io_op to_error; /* moves the QP to ERR when the device is lost */
    struct fault_qp *next;
};

struct fault_cq {
    struct ibv_cq base;
    struct ibv_cq *inner; /* NULL after a failed destroy_cq */
    struct fault_device *device;
    struct fault_gate gate;
    struct fault_cq *next;
};

/* ---- oob.c, env.c ---- */

extern const struct io_oob_ops fault_oob_ops;

struct fault_gpu {
    struct io_gpu io;
    struct io_gpu_ops ops;
    struct io_gpu *inner; /* Not owned */
    struct fault_env *env;
};

/* ---- sharing.c ---- */
extern const struct io_gpu_sharing_ops fault_sharing_ops;

/* The environment of one process. */
struct fault_env {
    struct io_env io;
    struct io_env *inner; /* Not owned */
    struct fault_world *world;
    uint32_t host, process;       /* indexes in the spec */
    struct fault_device *devices; /* Owned [n_devices] */
    struct fault_gpu gpu;
    struct io_shm_ops shm;
    struct fault_rule *rules; /* Owned */
    uint64_t n_calls[WORLD_N_CALLS];
    uint64_t n_hits;
    bool counts_sent; /* a fault waits for the number of bytes that the host has sent */
    uint64_t sent_bytes;
    struct weft_rng rng; /* for rare outcomes */
    enum world_call last_hit;
};
void fault_env_init(struct fault_env *env, struct fault_world *world,
                    struct io_env *inner, uint32_t host, uint32_t process);
void fault_env_fini(struct fault_env *env);
/* Ends all operations, because the process has ended. */
void fault_env_stop(struct fault_env *env);
/* Copies the tasks to wake, which users set in the environment and its devices, to the inner
 * ones. */
static inline void fault_env_pass_tasks(struct fault_env *env)
{
    env->inner->ended_task = env->io.ended_task;
    for (uint32_t i = 0; i < env->io.n_devices; i++) {
        env->devices[i].inner->async_task = env->devices[i].io.async_task;
    }
}
static inline struct fault_env *fault_env_of(struct io_env *io)
{
    return weft_container_of(io, struct fault_env, io);
}

/* A fault at its time: a rule begins, or an event occurs. */
struct fault_timed {
    struct fault_timer timer;
    struct fault_world *world; /* Not owned */
    struct fault_env
        *env; /* Not owned; the only process affected, or NULL: all of the host */
    struct world_fault spec;
    uint32_t index; /* in the spec; UINT32_MAX: injected */
    bool is_met;    /* its moment has come and its timer is set */
    struct fault_timed *next;
};

struct fault_world {
    struct world base;
    struct world_ops ops; /* the inner world's, except those implemented here */
    struct world *inner;  /* Owned */
    const struct world_spec *spec;
    struct fault_config config;
    struct weft_heap timers;
    struct fault_env *envs; /* Owned [n_envs], in loop order */
    uint32_t n_envs;
    struct fault_timed *timed; /* Owned */
    /* Owned [spec->n_faults]; only those applied by this world. */
    weft_ns *began_ns;
};

/* ---- timed.c ---- */

/* Returns true for a fault that this world applies, not the inner one. */
bool fault_is_ours(const struct fault_config *config, const struct world_fault *fault);
/* Adds a fault that has not begun; `index` is UINT32_MAX if it was injected. */
struct fault_timed *fault_timed_add(struct fault_world *world,
                                    const struct world_fault *spec, uint32_t index);
/* Lets it begin at a time. */
void fault_timed_plan(struct fault_timed *timed, weft_ns at);
/* Adds the fault for each process separately, so that it also works where processes run in
 * different worlds. */
void fault_timed_await(struct fault_world *world, uint32_t index);
/* Starts the faults of this process whose moment is this stage. */
void fault_world_reached(struct fault_env *env, enum io_stage stage, uint64_t n);

#endif
