#include "backends/verbs/bed_testing.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#include "backends/verbs/fake_testing.h"

#define S ((weft_ns)1000000000)

struct verbs_bed verbs_bed;

void verbs_bed_setup(void)
{
    struct weft_error error = {.status = WEFT_OK};

    memset(&verbs_bed, 0, sizeof(verbs_bed));
    ck_assert_int_eq(linux_loop_create(1, &verbs_bed.loop, &error), WEFT_OK);
    for (int i = 0; i < VERBS_BED_N_TASKS; i++) {
        io_task_init(&verbs_bed.tasks[i], linux_loop_io(verbs_bed.loop), 0, i);
    }
}

weft_status verbs_bed_open(const struct io_hostinfo *info, const char *sysfs,
                           struct weft_error *error)
{
    int n;
    struct verbs_device_config config = {
        .loop = verbs_bed.loop, .info = info, .sysfs = sysfs};
    struct ibv_device **list = fake.library.get_device_list(&n);
    weft_status status =
        verbs_device_open(&fake.library, list[0], &config, &verbs_bed.device, error);

    fake.library.free_device_list(list);
    return status;
}

void verbs_bed_teardown(void)
{
    verbs_device_close(verbs_bed.device);
    for (int i = 0; i < VERBS_BED_N_TASKS; i++) {
        io_task_fini(&verbs_bed.tasks[i]);
    }
    linux_loop_destroy(verbs_bed.loop);
    ck_assert_int_eq(fake_n_live(), 0);
}

void verbs_bed_step(weft_ns for_ns)
{
    struct io_task *woken;

    (void)linux_loop_step(verbs_bed.loop, linux_loop_now(verbs_bed.loop) + for_ns);
    while ((woken = io_loop_pop(linux_loop_io(verbs_bed.loop))) != NULL) {
        verbs_bed.n_woken[woken->kind]++;
    }
}

int verbs_bed_finish(struct io_op *op)
{
    int error;
    weft_ns limit = linux_loop_now(verbs_bed.loop) + 60 * S;

    while ((error = verbs_poll(&verbs_bed.device->io, op)) == EINPROGRESS) {
        ck_assert_int_lt(linux_loop_now(verbs_bed.loop), limit);
        verbs_bed_step(S);
    }
    ck_assert_int_eq(op->state, IO_OP_DONE);
    ck_assert_int_eq(op->error, error);
    return error;
}

int verbs_bed_run(struct io_op *op)
{
    op->task = &verbs_bed.tasks[VERBS_BED_OPS];
    ck_assert_int_eq(verbs_submit(&verbs_bed.device->io, op), 0);
    return verbs_bed_finish(op);
}

struct ibv_pd *verbs_bed_pd(void)
{
    struct io_op op = {.kind = IO_OP_ALLOC_PD};

    ck_assert_int_eq(verbs_bed_run(&op), 0);
    return op.out.pd;
}

struct ibv_cq *verbs_bed_cq(void)
{
    struct io_op op = {.kind = IO_OP_CREATE_CQ};

    op.arg.create_cq.cqe = 10;
    op.arg.create_cq.task = &verbs_bed.tasks[VERBS_BED_CQ];
    ck_assert_int_eq(verbs_bed_run(&op), 0);
    return op.out.cq;
}

struct io_op verbs_bed_qp_op(struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct io_op op = {.kind = IO_OP_CREATE_QP};

    op.arg.create_qp.pd = pd;
    op.arg.create_qp.init = (struct ibv_qp_init_attr){
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap.max_send_wr = 16};
    return op;
}

void verbs_bed_unmake(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_pd *pd)
{
    struct io_op op = {.kind = IO_OP_DESTROY_QP, .arg.destroy_qp = qp};

    ck_assert(qp == NULL || verbs_bed_run(&op) == 0);
    op = (struct io_op){.kind = IO_OP_DESTROY_CQ, .arg.destroy_cq = cq};
    ck_assert(cq == NULL || verbs_bed_run(&op) == 0);
    op = (struct io_op){.kind = IO_OP_DEALLOC_PD, .arg.dealloc_pd = pd};
    ck_assert(pd == NULL || verbs_bed_run(&op) == 0);
}
