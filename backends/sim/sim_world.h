/* Definitions shared by the files of backends/sim. */
#ifndef WEFT_BACKENDS_SIM_WORLD_H
#define WEFT_BACKENDS_SIM_WORLD_H

#include "base/check.h"
#include "io/gpu.h"
#include "io/machine.h"
#include "io/verbs.h"
#include "io/world.h"
#include "sim/gpu.h"
#include "sim/memory.h"
#include "sim/nic.h"
#include "sim/nic_model.h"
#include "sim/root.h"
#include "sim/stack.h"
#include "sim/switch.h"

struct sim_host;

struct sim_verb_call; /* an io_op in progress; verbs.c */

/* An RDMA device as opened by a process. */
struct sim_device {
    struct io_device io;
    struct sim_process *process;
    struct sim_nic *nic;       /* Not owned */
    struct sim_port *ports[2]; /* Not owned */
    uint32_t ifindexes[2];
    struct sim_verb_call *calls; /* Owned; in progress, newest first */
};

struct sim_gpu_call;
struct sim_import;
struct sim_allocation;

/* Addresses without memory behind them, for worlds that are timing only. */
struct sim_phantoms {
    struct sim_phantom range;
    size_t n_used;               /* high-water mark, from the start of the range */
    struct sim_allocation *idle; /* Owned; freed ranges, of any size */
};

struct sim_gpu_device {
    struct io_gpu io;
    struct sim_gpu *clock;
    struct sim_phantoms *phantoms; /* Not owned */
    struct sim_gpu_call *calls;    /* Owned; pending, newest first */
    struct io_gpu_stream *own;     /* Owned; the default stream */
    /* Owned; created streams, newest first. */
    struct io_gpu_stream *streams;
    struct io_gpu_event *events; /* Owned; newest first */
    /* Totals of all that ever existed. */
    uint64_t n_buffers, n_calls, n_streams, n_events;
    struct sim_allocation *first; /* Owned; newest first */
    struct sim_import *imports;   /* Owned; opened memory of other GPUs, newest first */
};

struct sim_shm;
struct sim_shm_block;

struct sim_process {
    struct io_env env;
    struct sim_host *host;
    uint32_t index;             /* within the host; also its number as a user of NICs */
    bool is_dead;               /* killed, itself or with its host */
    struct sim_device *devices; /* Owned [env.n_devices] */
    struct sim_gpu_device gpu;
    int64_t pinned_limit; /* remaining memlock limit, decremented by NICs */
    struct weft_rng rng;
    struct io_hostinfo info;  /* refreshed by each hostinfo() */
    struct sim_shm *segments; /* Owned; attached, newest first */
    uint64_t sent_bytes;      /* bytes posted so far, as reported with IO_STAGE_SENT */
    /* Number of the world's `ended` that this process has read. */
    uint32_t n_ended_taken;
};

struct sim_host {
    struct sim_world *world;
    const struct world_host *spec;
    uint32_t index;
    struct sim_process *processes; /* Owned [n_processes] */
    uint32_t n_processes;
    uint32_t first_task; /* loop index of its first process */
    bool is_dead;
    struct sim_stack *stack;
    /* Hardware inside; port states as of the last hostinfo(). */
    struct io_machine machine;
    bool has_machine;
    struct sim_port **ports;     /* Owned [spec->n_ports] */
    struct sim_port *management; /* Owned; may be NULL */
    /* Owned [spec->n_pcie_roots]; NULL if there is no contention. */
    struct sim_root **roots;
    struct sim_nic **nics; /* Owned [n_nics], with elements */
    uint32_t n_nics;
    struct sim_tap_context *taps;   /* Owned [spec->n_ports] */
    struct sim_shm_block *blocks;   /* Owned; newest first */
    struct sim_gpu_link *gpu_links; /* Owned; links of spec->ways; NULL if none */
    uint32_t n_gpu_waits;           /* pending waits of its GPUs' streams */
};

/* Current state of a cable. A fault changes parts of it, and its end restores these. */
struct sim_cable_now {
    struct sim_impairment impairment[2]; /* of frames sent by ends[0] and by ends[1] */
    weft_ps delay_ps[2], jitter_ps[2];
};

struct sim_tap_context {
    struct sim_world *world;
    uint32_t host, port;
};

struct sim_stranger; /* stranger.c */

/* A timed fault, which schedules its beginning and its end. */
struct sim_fault {
    struct sim_event event;
    struct sim_world *world;
    const struct world_fault *spec; /* Not owned, or &own */
    struct world_fault own;         /* of an injected fault */
    bool is_met;                    /* its moment has come and it is scheduled */
    bool is_active;
    weft_ns began_ns;               /* WEFT_NEVER if not begun */
    struct sim_fault *next;         /* next injected fault */
    struct sim_stranger *strangers; /* Owned */
};

struct sim_world {
    struct world world;
    const struct world_spec *spec; /* Not owned */
    struct sim_engine *engine;
    struct io_loop loop;
    struct sim_phantoms phantoms;
    struct sim_host *hosts;       /* Owned [spec->n_hosts] */
    struct sim_switch **switches; /* Owned [spec->n_switches], with elements */
    struct sim_cable_now *cables; /* Owned [spec->n_cables] */
    struct sim_fault *faults;     /* Owned [spec->n_faults] */
    struct sim_fault *injected;   /* Owned */
    void (*tap)(void *context, const struct world_frame *frame);
    void *tap_context;
    struct nic_model *watched; /* Owned; model of the watched NIC, or NULL */
    void (*tell_nic)(void *context, const struct world_nic_verb *verb);
    void *tell_nic_context;
    uint32_t *ended; /* Owned [n_ended]; members passed to sim_world_report_ended() */
    uint32_t n_ended;
};

static inline struct sim_world *sim_world_of(struct world *world)
{
    return weft_container_of(world, struct sim_world, world);
}

static inline const struct sim_world *sim_world_of_const(const struct world *world)
{
    return (const struct sim_world *)(const void *)world; /* its first member */
}

static inline struct sim_process *sim_process_of(struct io_env *env)
{
    return weft_container_of(env, struct sim_process, env);
}

/* Converts nanoseconds to picoseconds; SIM_NEVER on overflow. */
static inline weft_ps sim_ps(weft_ns ns)
{
    return ns > INT64_MAX / 1000 ? SIM_NEVER : ns * 1000;
}

static inline void sim_wake_task(void *context)
{
    io_task_wake(context);
}

/* Returns a waker of a struct io_task. */
static inline struct sim_waker sim_task_waker(struct io_task *task)
{
    return (struct sim_waker){.wake = sim_wake_task, .context = task};
}

static inline struct sim_ip sim_ip_of_io(const struct io_ip *ip)
{
    struct sim_ip out;
    for (int i = 0; i < 16; i++) {
        out.bytes[i] = ip->bytes[i];
    }
    return out;
}

static inline struct io_ip sim_ip_to_io(const struct sim_ip *ip)
{
    struct io_ip out;
    for (int i = 0; i < 16; i++) {
        out.bytes[i] = ip->bytes[i];
    }
    return out;
}

/* build.c. After a failure the caller must call sim_world_teardown(). */
weft_status sim_world_build(struct sim_world *world, struct weft_error *error);
void sim_world_teardown(struct sim_world *world);
struct sim_port *sim_world_port(const struct sim_world *world,
                                const struct world_end *end);

/* process.c: builds environments and GPUs first, and opens devices once the host's NICs exist. */
void sim_processes_build(struct sim_host *host);
void sim_processes_open(struct sim_host *host);
void sim_processes_fini(struct sim_host *host);
/* Returns the counter of pinned memory for NICs; NULL if unlimited. */
int64_t *sim_process_memlock(struct sim_process *process);

/* env.c */
extern const struct io_env_ops sim_env_ops;
void sim_env_init(struct sim_process *process);
void sim_env_fini(struct sim_process *process);
/* Returns the hardware inside the host, with the current state of its ports. */
const struct io_machine *sim_host_machine(struct sim_host *host);
const char *sim_env_setting(const struct world_host *spec, const char *name);

/* oob.c */
extern const struct io_oob_ops sim_oob_ops;

/* shm.c */
extern const struct io_shm_ops sim_shm_ops;
/* Returns true if `memory` lies in a segment that the process has attached; *out_near is the
 * process that created it. */
bool sim_shm_has(const struct sim_process *process, const void *memory,
                 uint32_t *out_near);
/* Removes the names of a dead process's segments. The segments stay as long as other processes
 * have them attached. */
void sim_shm_stop(struct sim_process *process);
void sim_shm_fini(struct sim_process *process);

/* verbs.c */
extern const struct io_device_ops sim_device_ops;
/* Ends every io_op in progress with EIO, without waking tasks, because the process died. */
void sim_device_stop(struct sim_device *device);

weft_status sim_phantoms_init(struct sim_phantoms *phantoms, struct weft_error *error);
void sim_phantoms_fini(struct sim_phantoms *phantoms);

/* gpu.c. Stopping works like sim_device_stop(). */
void sim_gpu_device_init(struct sim_process *process);
/* Returns true if `memory` is GPU memory, not host memory. */
bool sim_gpu_device_has(const struct sim_gpu_device *gpu, const void *memory);
void sim_gpu_device_stop(struct sim_gpu_device *gpu);
/* Closes imported memory. Must precede sim_gpu_device_fini() of all GPUs of the host. */
void sim_gpu_device_close_peers(struct sim_gpu_device *gpu);
void sim_gpu_device_fini(struct sim_gpu_device *gpu);

/* fault.c */
/* Fails with WEFT_ERR_UNSUPPORTED, naming the first fault that sim cannot do. */
weft_status sim_faults_check(const struct world_spec *spec, struct weft_error *error);
void sim_faults_start(struct sim_world *world);
void sim_faults_stop(struct sim_world *world);
int sim_fault_inject(struct sim_world *world, const struct world_fault *fault);
/* Returns WEFT_NEVER if the fault has not begun. */
weft_ns sim_fault_began(const struct sim_world *world, uint32_t fault);
/* Schedules the faults whose moment is this stage. None acts before the caller returns. */
void sim_faults_reached(struct sim_process *process, enum io_stage stage, uint64_t n);

/* stranger.c: clients outside the job open streams from host `from` to every port that the
 * fault's host listens on and that `from` has a route to. Returns ECONNREFUSED if there is none,
 * EHOSTDOWN if `from` is dead. */
int sim_strangers_come(struct sim_fault *fault);
/* Closes the streams of the fault. */
void sim_strangers_leave(struct sim_fault *fault);

#endif
