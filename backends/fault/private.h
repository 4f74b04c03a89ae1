/* What the files of backends/fault share. */
#ifndef WEFT_BACKENDS_FAULT_PRIVATE_H
#define WEFT_BACKENDS_FAULT_PRIVATE_H

#include "backends/fault/fault.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/rng.h"
#include "base/text.h"

struct fault_world;
struct fault_env;
struct fault_device;

/* ---- rules.c ---- */

struct fault_rule {
    const struct world_fault *spec;
    enum world_call call;
    uint64_t n_seen; /* calls since it began */
    weft_ns until;   /* WEFT_NEVER: for good */
    struct fault_rule *next;
};

/* What becomes of a call. */
struct fault_verdict {
    int error;     /* or 0 */
    weft_ns by_ns; /* later by so much; 0: now */
    size_t cap;    /* at most so many bytes */
    bool is_lost;
};

/* Counts the call and says what becomes of it. `device`: its index, or FAULT_NO_DEVICE. */
#define FAULT_NO_DEVICE UINT32_MAX
struct fault_verdict fault_judge(struct fault_env *env, uint32_t device,
                                 enum world_call call);

/* ---- world.c: what is to happen later ---- */

struct fault_timer {
    struct weft_heap_node due;
    void (*fire)(struct fault_timer *timer);
};
/* Once; again moves it. */
void fault_timer_set(struct fault_world *world, struct fault_timer *timer, weft_ns at);
void fault_timer_stop(struct fault_world *world, struct fault_timer *timer);

/* What has nothing to give until a time, and then wakes who waits. */
struct fault_gate {
    struct fault_timer timer;
    struct fault_env *env; /* Not owned */
    struct io_task *task;  /* Not owned */
    weft_ns until;
};
void fault_gate_init(struct fault_gate *gate, struct fault_env *env,
                     struct io_task *task);
/* Whether the call, which may close it, is to come back later. */
bool fault_gate_is_shut(struct fault_gate *gate, const struct fault_verdict *verdict);
void fault_gate_fini(struct fault_gate *gate);

/* ---- device.c ---- */

struct fault_event {
    enum ibv_event_type type;
    uint8_t port;
    uint32_t n; /* times that it is still to be told */
};

struct fault_device {
    struct io_device io;
    struct io_device *inner; /* Not owned */
    struct fault_env *env;   /* Not owned */
    uint32_t index;
    bool is_gone;
    struct fault_call *calls;   /* Owned: verbs under way */
    struct fault_qp *qps;       /* Owned */
    struct fault_cq *cqs;       /* Owned */
    struct fault_event *events; /* Owned [n_events], to be told before the backend's */
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
/* Their process is gone: EIO, and no more of them. */
void fault_calls_stop(struct fault_device *device);

/* Objects as their users have them: the data path has no other way to the device. */
struct fault_qp {
    struct ibv_qp base;
    struct ibv_qp *inner; /* NULL: a destruction that failed left this */
    struct fault_device *device;
    struct io_op to_error; /* its way out when the device goes */
    struct fault_qp *next;
};

struct fault_cq {
    struct ibv_cq base;
    struct ibv_cq *inner; /* NULL: likewise */
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

/* sharing.c */
extern const struct io_gpu_sharing_ops fault_sharing_ops;

/* The environment of one process. */
struct fault_env {
    struct io_env io;
    struct io_env *inner; /* Not owned */
    struct fault_world *world;
    uint32_t host, process;       /* of the spec */
    struct fault_device *devices; /* Owned [n_devices] */
    struct fault_gpu gpu;
    struct io_shm_ops shm;
    struct fault_rule *rules; /* Owned */
    uint64_t n_calls[WORLD_N_CALLS];
    uint64_t n_hits;
    bool counts_sent; /* a fault waits for what the host has sent */
    uint64_t sent_bytes;
    struct weft_rng rng; /* of rare outcomes */
    enum world_call last_hit;
};
void fault_env_init(struct fault_env *env, struct fault_world *world,
                    struct io_env *inner, uint32_t host, uint32_t process);
void fault_env_fini(struct fault_env *env);
/* Its process is gone: its operations are over. */
void fault_env_stop(struct fault_env *env);
/* Users tell whom to wake by writing into the environment and its devices. */
void fault_env_pass_tasks(struct fault_env *env);
static inline struct fault_env *fault_env_of(struct io_env *io)
{
    return weft_container_of(io, struct fault_env, io);
}

/* A fault at its time: a rule begins, or something happens. */
struct fault_timed {
    struct fault_timer timer;
    struct fault_world *world; /* Not owned */
    struct fault_env
        *env; /* Not owned; the one that it is of, or NULL: all of the host */
    struct world_fault spec;
    uint32_t index; /* of the world's spec; UINT32_MAX: it was injected */
    bool is_met;    /* its moment came, and its time counts */
    struct fault_timed *next;
};

struct fault_world {
    struct world base;
    struct world_ops ops; /* the inner world's, but for what is done here */
    struct world *inner;  /* Owned */
    const struct world_spec *spec;
    struct fault_config config;
    struct weft_heap timers;
    struct fault_env *envs; /* Owned [n_envs], in the loop's order */
    uint32_t n_envs;
    struct fault_timed *timed; /* Owned */
    weft_ns *began_ns;         /* Owned [spec->n_faults]: of those that are ours */
};
/* The process has come to a stage: faults that wait for it count from now. */
void fault_world_reached(struct fault_env *env, enum io_stage stage, uint64_t n);

#endif
