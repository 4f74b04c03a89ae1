/* A device over the scripted libibverbs (fake_testing.h), on a loop of its own. */
#ifndef WEFT_BACKENDS_VERBS_BED_TESTING_H
#define WEFT_BACKENDS_VERBS_BED_TESTING_H

#include "backends/linux/loop.h"
#include "backends/verbs/device.h"

/* What is woken; also the order in verbs_bed.n_woken. */
enum { VERBS_BED_OPS, VERBS_BED_CQ, VERBS_BED_ASYNC, VERBS_BED_N_TASKS };

struct verbs_bed {
    struct linux_loop *loop;
    struct verbs_device *device; /* NULL until it is open */
    struct io_task tasks[VERBS_BED_N_TASKS];
    unsigned n_woken[VERBS_BED_N_TASKS];
};

/* The one of the test that runs. */
extern struct verbs_bed verbs_bed;

/* After fake_reset and the fake's devices; the first of them is opened by verbs_bed_open. */
void verbs_bed_setup(void);
weft_status verbs_bed_open(const struct io_hostinfo *info, const char *sysfs,
                           struct weft_error *error);
/* Closes it, if it is open; nothing of the fake may be left. */
void verbs_bed_teardown(void);

/* Sleeps up to `for_ns`, and counts who is woken. */
void verbs_bed_step(weft_ns for_ns);
/* Its errno, once it is done. */
int verbs_bed_finish(struct io_op *op);
int verbs_bed_run(struct io_op *op);

struct ibv_pd *verbs_bed_pd(void);
struct ibv_cq *verbs_bed_cq(void);
struct io_op verbs_bed_qp_op(struct ibv_pd *pd, struct ibv_cq *cq);
/* NULLs are passed over. */
void verbs_bed_unmake(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_pd *pd);

#endif
