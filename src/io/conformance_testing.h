/* The contract of the I/O interface as tests for any backend: for a world_ops, each clause of
 * io/oob.h, io/verbs.h, io/gpu.h, io/env.h and io/world.h that a program can observe is tested. The
 * tests make no assumption about how long anything takes. */
#ifndef WEFT_IO_CONFORMANCE_TESTING_H
#define WEFT_IO_CONFORMANCE_TESTING_H

#include <check.h>

#include "io/verbs.h"
#include "io/world.h"

/* Adds all cases. `ops` must be able to build two hosts, "left" (10.77.0.1/24) and "right"
 * (10.77.0.2/24), with one cable of MTU 4200 and a management network 10.88.0.0/24. */
void conformance_add(Suite *suite, const struct world_ops *ops,
                     enum weft_profile profile);
/* Adds only the tests that need no RDMA device: environment, memory, streams and announcements. */
void conformance_add_without_devices(Suite *suite, const struct world_ops *ops);

/* ---- for the files of the suite only ---- */

enum { LEFT, RIGHT };

/* Tags of the tasks that tests wait with. */
enum { TASK_LISTENER, TASK_CLIENT, TASK_SERVER, TASK_OP, TASK_CQ, TASK_OTHER, N_TASKS };

struct conformance {
    struct world *world;
    struct io_env *env[2];
    struct io_loop *loop;
    struct io_task task[2][N_TASKS];
    unsigned n_woken[2][N_TASKS];
};

extern struct conformance now_testing;

void conformance_start(void);
void conformance_stop(void);
/* Lets up to 1 ms pass, and counts the tasks that were woken. Returns false once `until` has
 * passed. */
bool conformance_step(weft_ns until);

#define WAIT_FOR(condition)                                                              \
    do {                                                                                 \
        weft_ns limit_ = io_now(now_testing.env[LEFT]) + 60 * (weft_ns)1000000000;       \
        while (!(condition)) {                                                           \
            ck_assert_msg(conformance_step(limit_), "never came true: %s", #condition);  \
        }                                                                                \
    } while (0)

/* Runs `op` on the first device of `host` to completion, and returns its error. */
int conformance_op(int host, struct io_op *op);
struct ibv_pd *conformance_pd(int host);
struct ibv_cq *conformance_cq(int host, int cqe);
struct ibv_mr *conformance_mr(int host, struct ibv_pd *pd, void *at, size_t n_bytes);
struct ibv_qp *conformance_qp(int host, struct ibv_pd *pd, struct ibv_cq *cq);
/* Moves `host`'s QP to its next state, connected to the other host's; returns 0 or an errno. */
int conformance_to_init(int host, struct ibv_qp *qp);
int conformance_to_rtr(int host, struct ibv_qp *qp, uint32_t peer_qpn, struct io_ip peer);
/* Values for `timeout` (IBV_QP_TIMEOUT), for each of seven tries. On a busy machine a peer's thread
 * can be descheduled for a second. */
#define CONFORMANCE_PATIENT 18
#define CONFORMANCE_QUICK 14
int conformance_to_rts(int host, struct ibv_qp *qp, uint8_t timeout);

TCase *conformance_streams(void);
TCase *conformance_announcements(void);
TCase *conformance_objects(void);
TCase *conformance_data(void);
TCase *conformance_env(void);

#endif
