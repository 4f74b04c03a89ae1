/* One RDMA device of libibverbs behind io/verbs.h. Private to backends/verbs and its tests.
 *
 *   facts.c    facts of the device: attributes, GIDs, netdevs, capabilities found by trial
 *   calls.c    control verbs: their submission and completion
 *   workers.c  the threads that execute them
 *   device.c   open and close, data path, async events
 *   cq.c       completions and their events
 *   story.c    the event log of the data path
 *
 * A worker accesses a verbs_call's `work` only while the call is VERBS_RUNNING. All other data
 * belongs to the loop's thread, unless a lock guards it. */
#ifndef WEFT_BACKENDS_VERBS_DEVICE_H
#define WEFT_BACKENDS_VERBS_DEVICE_H

#include <errno.h>
#include <pthread.h>

#include "backends/linux/loop.h"
#include "backends/verbs/library.h"
#include "base/check.h"
#include "base/log.h"
#include "io/hostinfo.h"
#include "io/verbs.h"

#define VERBS_STASH 16

/* The cq_context of every CQ that this backend creates. */
struct verbs_cq {
    struct verbs_cq *next;
    struct verbs_device *device; /* Not owned */
    struct io_task *task;        /* Not owned; may be NULL */
    struct ibv_cq *cq;           /* set by the first req_notify */
    bool is_muted;               /* being destroyed; its task may no longer exist */
    bool is_asked;               /* wake-up requested; armed before the loop sleeps */
    bool asks_solicited, armed_solicited;
    bool is_armed;                  /* armed in the kernel; its event has not been read */
    int failure;                    /* errno of arming, returned by the next req_notify */
    struct ibv_wc wcs[VERBS_STASH]; /* polled, but not yet returned: [at_wc, n_wcs) */
    int at_wc, n_wcs;
};

enum verbs_call_state { VERBS_WAITING, VERBS_RUNNING, VERBS_POSTED };

struct verbs_call {
    struct verbs_call *next; /* in the workers' list */
    enum verbs_call_state state;
    struct linux_posting posting;
    struct verbs_device *device;
    struct io_op *op;    /* Not owned; NULL once abandoned */
    struct io_op work;   /* copy of the request, and its result */
    struct verbs_cq *cq; /* only for CREATE_CQ and DESTROY_CQ */
};

/* An object that was created and not yet destroyed. Closing the device destroys these. */
struct verbs_object {
    struct verbs_object *next;
    enum io_op_kind kind; /* verb that created it */
    void *pointer;
    bool is_in_error; /* a queue pair that was moved to ERR */
};

#define VERBS_WORKERS 4

/* The threads of a device, started as needed. */
struct verbs_workers {
    pthread_t threads[VERBS_WORKERS];
    uint32_t n_threads;
    pthread_mutex_t lock; /* guards the following, and links and states of calls */
    pthread_cond_t changed;
    struct verbs_call *first; /* in order of submission; removed when finished */
    uint32_t n_idle;          /* threads without work, or just started */
    uint32_t n_posted;        /* executed, but not finished by the loop's thread */
    bool is_stopping;
};

struct verbs_device {
    struct io_device io;
    const struct verbs_library *library; /* Not owned. */
    struct linux_loop *loop;             /* Not owned. */
    struct weft_log *log;                /* Not owned; may be NULL */
    struct ibv_context *context;
    struct ibv_comp_channel *channel; /* of all CQs */
    struct linux_watch *channel_watch;
    struct linux_watch *async_watch;
    struct linux_source source;   /* polls and arms the CQs */
    uint32_t n_armed;             /* number of armed CQs */
    struct verbs_cq *cqs;         /* Owned. */
    struct verbs_object *objects; /* Owned. */
    uint32_t n_in_error;          /* number of objects with is_in_error */
    struct verbs_workers workers;
    uint32_t n_calls; /* submitted and not finished */
    struct io_device_attr attr;
    char kernel_name[64]; /* such as "rxe_ab", even if io.name differs */
    char profile[32];
    char sysfs[256];                   /* "/sys/class/infiniband/rxe_ab" */
    bool asks_kernel;                  /* sysfs is this kernel's, not that of a test */
    uint32_t *gid_tbl_len;             /* Owned [n_ports]. */
    uint32_t *ifindexes;               /* Owned [n_ports]; 0: no netdev of this host */
    struct weft_trace *story;          /* Not owned; NULL if no event log is written */
    const struct io_device_ops *plain; /* original operations, called by `telling` */
    struct io_device_ops telling;      /* replaces io.ops while a log is written */
    char host[64];                     /* name in the event log */
};

struct verbs_device_config {
    struct linux_loop *loop;
    struct weft_log *log;           /* may be NULL */
    const struct io_hostinfo *info; /* of the current namespace; only for the call */
    const char *sysfs;              /* "/sys" except in tests */
};

/* Opens `from`, reads its facts and starts its first worker. The calling thread must be in the
 * host's namespace; it may block briefly. Fails with WEFT_ERR_ENVIRONMENT or WEFT_ERR_SYSTEM. */
weft_status verbs_device_open(const struct verbs_library *library,
                              struct ibv_device *from,
                              const struct verbs_device_config *config,
                              struct verbs_device **out, struct weft_error *error);
/* Finishes everything in progress, destroys the remaining objects and closes the device. Ignores
 * NULL. */
void verbs_device_close(struct verbs_device *device);
/* Returns true if a port of the device has a netdev in the host's namespace. */
bool verbs_device_is_ours(const struct verbs_device *device);

/* Adds posted work requests and polled completions to the event log of `host`, if one is written.
 * Call once, after io.name is set and before the device has users. */
void verbs_device_tell(struct verbs_device *device, struct weft_trace *story,
                       const char *host);

static inline struct verbs_device *verbs_device_of(struct io_device *device)
{
    return weft_container_of(device, struct verbs_device, io);
}

/* Converts a verb's result to 0 or a positive errno. The manual specifies an errno, but providers
 * also return -1 and -errno. */
static inline int verbs_result(int result)
{
    if (result == -1) {
        return errno != 0 ? errno : EIO;
    }
    return result < 0 ? -result : result;
}

/* ---- facts.c ---- */

int verbs_query_port(struct verbs_device *device, uint8_t port,
                     struct ibv_port_attr *out);
int verbs_query_gid(struct verbs_device *device, uint8_t port, uint32_t index,
                    struct io_gid_entry *out);
/* Fills attr, profile, gid_tbl_len, ifindexes, and n_ports and pci_path of `io`. Returns an
 * errno. */
int verbs_learn_facts(struct verbs_device *device,
                      const struct verbs_device_config *config);

/* ---- counters.c ---- */

int verbs_port_counters(struct io_device *io, uint8_t port, struct io_port_counters *out);

/* ---- cq.c ---- */

int verbs_poll_cq(struct ibv_cq *cq, int n_max, struct ibv_wc *wc, int *out_n);
int verbs_req_notify(struct ibv_cq *cq, int solicited_only);
/* Reads the events of the completion channel; called when it is readable. */
void verbs_on_completion(void *context);
/* Functions of device->source. */
bool verbs_look_at_cqs(void *context);
bool verbs_arm_cqs(void *context);

/* ---- calls.c ---- */

/* Destroys the remaining objects. The workers must have ended. */
void verbs_destroy_objects(struct verbs_device *device);
int verbs_submit(struct io_device *io, struct io_op *op);
int verbs_poll(struct io_device *io, struct io_op *op);
void verbs_abandon(struct io_device *io, struct io_op *op);
/* Call after posting receives to `qp`: ensures that they are flushed if it is in ERR. */
void verbs_flush_receives(struct verbs_device *device, struct ibv_qp *qp);

/* ---- workers.c ---- */

/* Starts the first thread. Returns an errno. */
int verbs_workers_start(struct verbs_device *device);
/* Waits until all calls are finished, then ends the threads. */
void verbs_workers_stop(struct verbs_device *device);
/* verbs_workers_add() appends a call to the list; verbs_workers_redo() keeps its place and
 * executes `work`, which undoes it. A call waits for earlier ones on the same object; destroy_cq
 * and dealloc_pd wait for all earlier calls. Otherwise it is executed as soon as a thread is
 * free. Its posting is then run. */
void verbs_workers_add(struct verbs_device *device, struct verbs_call *call);
void verbs_workers_redo(struct verbs_device *device, struct verbs_call *call,
                        const struct io_op *work);
/* Removes a finished call, so that calls that waited for it can start. The caller owns it
 * again. */
void verbs_workers_remove(struct verbs_device *device, struct verbs_call *call);

#endif
