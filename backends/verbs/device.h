/* One RDMA device of libibverbs behind io/verbs.h. Private to backends/verbs and its tests.
 *
 *   facts.c    what the device is: attributes, GIDs, netdevs, capabilities by trying
 *   calls.c    control verbs: their order, and what comes of them
 *   workers.c  the threads that execute them
 *   device.c   open and close, data path, async events
 *   cq.c       completions and their events
 *   story.c    the data path, told
 *
 * A worker touches a verbs_call's work only while it is VERBS_RUNNING; everything else belongs to
 * the loop's thread. */
#ifndef WEFT_BACKENDS_VERBS_DEVICE_H
#define WEFT_BACKENDS_VERBS_DEVICE_H

#include <pthread.h>

#include "backends/linux/loop.h"
#include "backends/verbs/library.h"
#include "base/log.h"
#include "io/hostinfo.h"
#include "io/verbs.h"

#define VERBS_STASH 16

/* The cq_context of every CQ that we make. */
struct verbs_cq {
    struct verbs_cq *next;
    struct verbs_device *device; /* whose it is */
    struct io_task *task;        /* Not owned; may be NULL */
    struct ibv_cq *cq;           /* once it was asked for */
    bool is_muted;               /* being destroyed: its task may be gone */
    bool
        is_asked; /* its user wants to be woken. The kernel is asked when the loop sleeps */
    bool asks_solicited, armed_solicited;
    bool is_armed;                  /* in the kernel, and the event was not read yet */
    int failure;                    /* errno of arming, for the user */
    struct ibv_wc wcs[VERBS_STASH]; /* polled, not yet handed out: [at_wc, n_wcs) */
    int at_wc, n_wcs;
};

enum verbs_call_state { VERBS_WAITING, VERBS_RUNNING, VERBS_POSTED };

struct verbs_call {
    struct verbs_call *next; /* in the workers' list */
    enum verbs_call_state state;
    struct linux_posting posting;
    struct verbs_device *device;
    struct io_op *op;    /* Not owned; NULL once abandoned */
    struct io_op work;   /* what is asked, and its result */
    struct verbs_cq *cq; /* of CREATE_CQ and DESTROY_CQ */
};

/* What was made and not yet destroyed, so that closing leaves nothing. */
struct verbs_object {
    struct verbs_object *next;
    enum io_op_kind kind; /* that made it */
    void *pointer;
    bool is_in_error; /* a queue pair that was moved to ERR */
};

#define VERBS_WORKERS 4

/* The threads of a device. They start when there is work for them. */
struct verbs_workers {
    pthread_t threads[VERBS_WORKERS];
    uint32_t n_threads;
    pthread_mutex_t lock; /* guards what follows, and the links and states of calls */
    pthread_cond_t changed;
    struct verbs_call *first; /* in order of submission; until finished */
    uint32_t n_idle;          /* that execute nothing, or have only just started */
    uint32_t n_posted;        /* executed, and not yet finished by the loop's thread */
    bool is_stopping;
};

struct verbs_device {
    struct io_device io;
    const struct verbs_library *library; /* Not owned. */
    struct linux_loop *loop;             /* Not owned. */
    struct weft_log *log;                /* Not owned; may be NULL */
    struct ibv_context *context;
    struct ibv_comp_channel *channel; /* of all its CQs */
    struct linux_watch *channel_watch;
    struct linux_watch *async_watch;
    struct linux_source source;   /* its CQs */
    uint32_t n_armed;             /* of `cqs` */
    struct verbs_cq *cqs;         /* Owned. */
    struct verbs_object *objects; /* Owned. */
    uint32_t n_in_error;          /* of `objects` */
    struct verbs_workers workers;
    uint32_t n_calls; /* submitted and not finished */
    struct io_device_attr attr;
    char kernel_name[64]; /* "rxe_ab", whatever io.name is */
    char profile[32];
    char sysfs[256];                   /* "/sys/class/infiniband/rxe_ab" */
    uint32_t *gid_tbl_len;             /* Owned [n_ports]. */
    uint32_t *ifindexes;               /* Owned [n_ports]; 0: no netdev of ours */
    struct weft_trace *story;          /* Not owned; NULL: nothing is told */
    const struct io_device_ops *plain; /* what is told about, and then ... */
    struct io_device_ops telling;      /* ... io.ops, in its place */
    char host[64];                     /* in the story */
};

struct verbs_device_config {
    struct linux_loop *loop;
    struct weft_log *log;           /* may be NULL */
    const struct io_hostinfo *info; /* of the namespace we are in; for the call only */
    const char *sysfs;              /* "/sys" but in tests */
};

/* Opens `from`, learns its facts and starts its workers. The calling thread is in the host's
 * namespace and may block for a moment. WEFT_ERR_ENVIRONMENT or WEFT_ERR_SYSTEM. */
weft_status verbs_device_open(const struct verbs_library *library,
                              struct ibv_device *from,
                              const struct verbs_device_config *config,
                              struct verbs_device **out, struct weft_error *error);
/* Finishes what is under way, destroys what users have left, closes. NULL is ignored. */
void verbs_device_close(struct verbs_device *device);
/* Whether a port of it has a netdev in the host's namespace. */
bool verbs_device_is_ours(const struct verbs_device *device);

/* From now on, if anybody listens, the story of `host` has what is posted and polled. Once, and
 * before there are users; io.name is set. */
void verbs_device_tell(struct verbs_device *device, struct weft_trace *story,
                       const char *host);

struct verbs_device *verbs_device_of(struct io_device *device);
/* A verb's result as 0 or a positive errno: the manual says "errno", providers have returned
 * -1 and -errno too. */
int verbs_result(int result);

/* ---- facts.c ---- */

int verbs_query_port(struct verbs_device *device, uint8_t port,
                     struct ibv_port_attr *out);
int verbs_query_gid(struct verbs_device *device, uint8_t port, uint32_t index,
                    struct io_gid_entry *out);
/* Fills attr, profile, gid_tbl_len, ifindexes and io's n_ports, pci_path. An errno. */
int verbs_learn_facts(struct verbs_device *device,
                      const struct verbs_device_config *config);

/* ---- counters.c ---- */

int verbs_port_counters(struct io_device *io, uint8_t port, struct io_port_counters *out);

/* ---- cq.c ---- */

int verbs_poll_cq(struct ibv_cq *cq, int n_max, struct ibv_wc *wc, int *out_n);
int verbs_req_notify(struct ibv_cq *cq, int solicited_only);
/* Of the completion channel, readable. */
void verbs_on_completion(void *context);
/* For device->source. */
bool verbs_look_at_cqs(void *context);
bool verbs_arm_cqs(void *context);

/* ---- calls.c ---- */

/* Destroys what was not; after the workers have ended. */
void verbs_destroy_objects(struct verbs_device *device);
int verbs_submit(struct io_device *io, struct io_op *op);
int verbs_poll(struct io_device *io, struct io_op *op);
void verbs_abandon(struct io_device *io, struct io_op *op);
/* After receives were posted to `qp`: sees to it that they flush if it is in ERR. */
void verbs_flush_receives(struct verbs_device *device, struct ibv_qp *qp);
/* On a worker: the verb itself. An errno. */
int verbs_execute(struct verbs_call *call);

/* ---- workers.c ---- */

/* Starts the first thread. An errno. */
int verbs_workers_start(struct verbs_device *device);
/* Waits until nothing is under way, and ends the threads. */
void verbs_workers_stop(struct verbs_device *device);
/* Puts a call at the end of the list, or in its old place if it is there: its undoing. It will be
 * executed after those before it that concern the same object, and what takes away a CQ or a
 * PD after all before it; otherwise as soon as a thread is free. Then its posting is run. */
void verbs_workers_add(struct verbs_device *device, struct verbs_call *call);
void verbs_workers_redo(struct verbs_device *device, struct verbs_call *call,
                        const struct io_op *work);
/* The call is finished: what waited for it may begin. It is the caller's again. */
void verbs_workers_remove(struct verbs_device *device, struct verbs_call *call);

#endif
