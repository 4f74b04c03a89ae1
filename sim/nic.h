/* A simulated RDMA NIC: verbs objects, the RC engine and a device profile. One sim_nic is
 * one RDMA device with one or two ports. It exchanges RoCE frames with its ports, and
 * takes virtual time where hardware takes time. Errors are a positive errno; 0 is
 * success. Sources: docs/fidelity.md. */
#ifndef WEFT_SIM_NIC_H
#define WEFT_SIM_NIC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "sim/engine.h"
#include "sim/port.h"
#include "sim/profile.h"
#include "sim/stack.h"

struct sim_nic;
struct nic_verb; /* nic_model.h */

/* Copies `profile`. `memlock_bytes` is the pinned-memory limit of user 0, the first
 * process that has the device open, which shares it among its NICs. Pinned memory counts
 * against it (ENOMEM); NULL is unlimited. */
struct sim_nic *sim_nic_create(struct sim_engine *engine, const char *host,
                               const char *name, const struct sim_profile *profile,
                               struct sim_stack *stack, struct sim_port *const *ports,
                               uint8_t n_ports, int64_t *memlock_bytes);
/* Opens the device for another process, which has its own objects, async events and
 * pinned-memory limit (ib_umem_get counts per process). Returns its user number. */
uint32_t sim_nic_open(struct sim_nic *nic, int64_t *memlock_bytes);
/* Makes QPNs start at `first` above the NIC's own base, so that several NICs behind one
 * address have distinct numbers. Call before the first QP exists; `first` must be a
 * multiple of the profile's QPN banks. */
void sim_nic_number_from(struct sim_nic *nic, uint32_t first);
/* Frees the NIC and every object still on it. */
void sim_nic_destroy(struct sim_nic *nic);
/* Frees every object of all users, because their processes died. No completions follow,
 * and peers get no notice. */
void sim_nic_reset(struct sim_nic *nic);
/* Frees the objects of one user, in the same manner. */
void sim_nic_reset_user(struct sim_nic *nic, uint32_t user);

int sim_nic_query_device(struct sim_nic *nic, struct ibv_device_attr *out);
int sim_nic_query_port(struct sim_nic *nic, uint8_t port, struct ibv_port_attr *out);
int sim_nic_query_gid(struct sim_nic *nic, uint8_t port, uint32_t index,
                      struct sim_gid *out);
const struct sim_profile *sim_nic_profile(const struct sim_nic *nic);

/* Control verbs take the profile's latency. The caller owns the request until it is done
 * or cancelled; `done` is called once. */
enum sim_verb {
    SIM_VERB_ALLOC_PD,
    SIM_VERB_DEALLOC_PD,
    SIM_VERB_REG_MR,
    SIM_VERB_DEREG_MR,
    SIM_VERB_CREATE_CQ,
    SIM_VERB_DESTROY_CQ,
    SIM_VERB_CREATE_QP,
    SIM_VERB_MODIFY_QP,
    SIM_VERB_DESTROY_QP,
    SIM_VERB_CREATE_SRQ,
    SIM_VERB_MODIFY_SRQ,
    SIM_VERB_DESTROY_SRQ,
    SIM_N_VERBS
};

struct sim_request {
    enum sim_verb verb;
    uint32_t user; /* the caller; for ALLOC_PD and CREATE_CQ, owner of the object */
    struct sim_waker done;
    bool is_done;
    int error; /* positive errno or 0, when done */
    union {
        struct ibv_pd *pd; /* DEALLOC_PD */
        struct sim_reg_mr {
            struct ibv_pd *pd;
            void *addr; /* unused for a dmabuf */
            size_t length;
            int access;
            bool has_iova; /* ibv_reg_mr_iova(3); if false, keys address by `addr` */
            uint64_t iova;
            bool is_gpu;    /* GPU memory, as peer memory; a dmabuf always is */
            bool is_dmabuf; /* ibv_reg_dmabuf_mr(3); keys always address by `iova` */
            int dmabuf_fd;  /* a descriptor of sim/dmabuf.h */
            uint64_t dmabuf_offset;
        } reg_mr;
        struct ibv_mr *mr; /* DEREG_MR */
        struct {
            int cqe;
            struct sim_waker waker; /* called on completions while armed */
            /* if true, the user acknowledges each wake as an event; otherwise it counts
             * as acknowledged */
            bool acks_events;
        } create_cq;
        struct ibv_cq *cq; /* DESTROY_CQ */
        struct {
            struct ibv_pd *pd;
            struct ibv_qp_init_attr init; /* granted capabilities when done */
        } create_qp;
        struct {
            struct ibv_qp *qp;
            struct ibv_qp_attr attr;
            int mask;
        } modify_qp;
        struct ibv_qp *qp; /* DESTROY_QP */
        struct {
            struct ibv_pd *pd;
            struct ibv_srq_init_attr init; /* granted depth and SGEs when done */
        } create_srq;
        struct {
            struct ibv_srq *srq;
            struct ibv_srq_attr attr;
            int mask; /* IBV_SRQ_* */
        } modify_srq;
        struct ibv_srq *srq; /* DESTROY_SRQ */
    } arg;
    union {
        struct ibv_pd *pd;
        struct ibv_mr *mr;
        struct ibv_cq *cq;
        struct ibv_qp *qp;
        struct ibv_srq *srq;
    } out;
    struct sim_event event;     /* private to the NIC */
    struct sim_resolve resolve; /* private to the NIC, during modify to RTR */
    /* private: waits until events of the object are acknowledged */
    bool awaits_acks;
    struct nic_verb *told;    /* private: record for the watcher; or NULL */
    struct sim_nic *nic;      /* private */
    struct sim_request *next; /* private */
};

/* Starts a verb; always returns 0. All checks are made when the verb ends: the object
 * changes then and not before, and on failure nothing changes. */
int sim_nic_submit(struct sim_nic *nic, struct sim_request *request);
/* Cancels a request that is not done. The NIC drops it, or finishes it at once if it
 * destroys an object; `done` is not called. */
void sim_nic_cancel(struct sim_nic *nic, struct sim_request *request);

/* Calls `tell` for every control verb when it ends. Cancelled verbs are not reported,
 * except those that destroy an object. NULL stops reporting. */
void sim_nic_watch(struct sim_nic *nic,
                   void (*tell)(void *context, const struct nic_verb *verb),
                   void *context);

int sim_nic_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                      struct ibv_send_wr **bad);
int sim_nic_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
                      struct ibv_recv_wr **bad);
int sim_nic_poll_cq(struct ibv_cq *cq, int n_max, struct ibv_wc *wc, int *out_n);
int sim_nic_req_notify(struct ibv_cq *cq, bool solicited_only);
/* Stops calls of the CQ's waker. */
void sim_nic_mute_cq(struct ibv_cq *cq);
/* Returns the state and attributes (ibv_query_qp(3)). */
int sim_nic_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *out);

/* ibv_post_srq_recv(3), ibv_query_srq(3). */
int sim_nic_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                          struct ibv_recv_wr **bad);
int sim_nic_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *out);

/* Async events of a user: those of its objects and of all ports.
 * sim_nic_get_async_event() returns EAGAIN if there is none. `waker` is called when one
 * arrives. Destroying an object waits until every event that was got for it is
 * acknowledged (ibv_get_async_event(3)), and drops events that were not got yet. */
int sim_nic_get_async_event(struct sim_nic *nic, uint32_t user,
                            struct ibv_async_event *out);
void sim_nic_ack_async_event(struct sim_nic *nic, const struct ibv_async_event *event);
/* Gets an event and acknowledges it. */
int sim_nic_async_event(struct sim_nic *nic, uint32_t user, struct ibv_async_event *out);
/* Acknowledges `n` events of a CQ created with `acks_events`; its destruction waits until
 * all are acknowledged (ibv_ack_cq_events(3)). */
void sim_nic_ack_cq_events(struct ibv_cq *cq, uint32_t n);
void sim_nic_async_waker(struct sim_nic *nic, uint32_t user, struct sim_waker waker);

/* ibv_query_ece(3), ibv_set_ece(3): options that both ends accept. Options that were set
 * take effect at the next modify; until then 0 is reported as accepted. Fail with
 * EOPNOTSUPP if the device has none. */
int sim_nic_query_ece(struct ibv_qp *qp, struct ibv_ece *out);
int sim_nic_set_ece(struct ibv_qp *qp, const struct ibv_ece *ece);

/* Makes everything written to GPUs through the NIC visible there, as a fence by the CPU
 * does. */
void sim_nic_fence_gpu(struct sim_nic *nic);

/* Verb faults: the nth `verb` from now (from 1) fails with `error`, or takes `by` longer
 * if `error` is 0. A delayed SIM_VERB_POST_SEND or _RECV succeeds, but the NIC reads the
 * WR `by` later. */
#define SIM_VERB_POST_SEND SIM_N_VERBS
#define SIM_VERB_POST_RECV (SIM_N_VERBS + 1)
void sim_nic_fault_verb(struct sim_nic *nic, int verb, uint32_t nth, int error,
                        weft_ps by);

/* Handles a RoCE frame that is in the receive FIFO; called by ports. */
struct sim_frame;
void sim_nic_input(struct sim_nic *nic, struct sim_port *port, struct sim_frame *frame);
/* Called by the stack when a slot of the port's GID table changed (GID_CHANGE). */
void sim_nic_gid_changed(struct sim_nic *nic, struct sim_port *port);

struct sim_nic_counters {
    uint64_t tx_packets, rx_packets, retransmits, timeouts, naks_sent, rnr_naks_sent,
        duplicates, out_of_sequence, icrc_errors, dropped_unknown_qp, cnps, ecn_marks;
    /* part of the dropped packets: by the IP stack's filters, if the device is behind
     * it */
    uint64_t filtered_source, filtered_port;
    /* how often a quirk of the profile took effect */
    uint64_t flushes_held, timeouts_ignored, rnr_timers_forced, general_errs,
        inlines_lowered, empty_sqs_refused, mailbox_stalls, deregs_queued;
};
void sim_nic_counters(struct sim_nic *nic, struct sim_nic_counters *out);

/* Objects that exist on the NIC, of all users. */
struct sim_nic_objects {
    uint32_t pds, mrs, cqs, qps;
    uint32_t verbs; /* control verbs in progress */
};
struct sim_nic_objects sim_nic_objects(const struct sim_nic *nic);

#endif
