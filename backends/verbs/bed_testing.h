/* Fixture: a device over the scripted libibverbs (fake_testing.h), with its own loop. */
#ifndef WEFT_BACKENDS_VERBS_BED_TESTING_H
#define WEFT_BACKENDS_VERBS_BED_TESTING_H

#include "backends/linux/loop.h"
#include "backends/verbs/device.h"

/* Tasks, and indexes of verbs_bed.n_woken. */
enum { VERBS_BED_OPS, VERBS_BED_CQ, VERBS_BED_ASYNC, VERBS_BED_N_TASKS };

struct verbs_bed {
    struct linux_loop *loop;
    struct verbs_device *device; /* NULL until opened */
    struct io_task tasks[VERBS_BED_N_TASKS];
    unsigned n_woken[VERBS_BED_N_TASKS];
};

/* The fixture of the running test. */
extern struct verbs_bed verbs_bed;

/* verbs_bed_setup() must follow fake_reset() and the definition of the fake's devices;
 * verbs_bed_open() opens the first of these. */
void verbs_bed_setup(void);
weft_status verbs_bed_open(const struct io_hostinfo *info, const char *sysfs,
                           struct weft_error *error);
/* Closes the device if it is open, and checks that no object of the fake is left. */
void verbs_bed_teardown(void);

/* Sleeps up to `for_ns`, and counts the tasks that were woken. */
void verbs_bed_step(weft_ns for_ns);
/* Runs until the operation is done. Returns its errno. */
int verbs_bed_finish(struct io_op *op);
int verbs_bed_run(struct io_op *op);

struct ibv_pd *verbs_bed_pd(void);
struct ibv_cq *verbs_bed_cq(void);
struct io_op verbs_bed_qp_op(struct ibv_pd *pd, struct ibv_cq *cq);
/* Destroys the objects that are not NULL. */
void verbs_bed_unmake(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_pd *pd);

#endif
