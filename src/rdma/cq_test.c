#include <check.h>
#include <errno.h>

#include "base/suite_testing.h"
#include "rdma/cq.h"
#include "rdma/rdma_testing.h"

enum { BATCH = 16 };

static struct fake_host host;
static struct rdma *rdma;
static struct io_op op;
static struct ibv_cq *cq;
static struct ibv_wc wcs[BATCH];
static int n;

static void setup(void)
{
    struct io_device *device;

    fake_host_init(&host);
    fake_device_add(&host, "p0", 1);
    rdma = fake_open(&host);
    device = rdma->env->devices[0];
    op = (struct io_op){.kind = IO_OP_CREATE_CQ};
    op.arg.create_cq.cqe = 100;
    ck_assert_int_eq(device->ops->submit(device, &op), 0);
    ck_assert_int_eq(device->ops->poll(device, &op), 0);
    cq = op.out.cq;
}

static void teardown(void)
{
    struct io_op destroy = {.kind = IO_OP_DESTROY_CQ};

    destroy.arg.destroy_cq = cq;
    rdma_forget_op(rdma->env->devices[0], &destroy);
    rdma_close(rdma);
    ck_assert_int_eq(host.n_live, 0);
    ck_assert_uint_eq(host.n_running, 0);
    fake_host_fini(&host);
}

/* Adds `n_wcs` completions. Every other one, beginning with the first, has GENERAL_ERR. */
static void complete_with_noise(int n_wcs)
{
    for (int i = 0; i < n_wcs; i++) {
        ck_assert_int_lt(host.n_wcs, FAKE_WCS_MAX);
        host.wcs[host.n_wcs++] = (struct ibv_wc){
            .wr_id = (uint64_t)i,
            .qp_num = 17,
            .status = i % 2 == 0 ? IBV_WC_GENERAL_ERR : IBV_WC_SUCCESS,
        };
    }
}

START_TEST(harmless_errors_are_dropped_and_others_are_not)
{
    rdma->attrs[0].general_err_is_harmless = true;
    /* Fewer than requested means that the CQ is empty, even if some were dropped. */
    complete_with_noise(34);
    ck_assert_int_eq(rdma_poll(rdma, 0, cq, BATCH, wcs, &n), 0);
    ck_assert_int_eq(n, BATCH);
    for (int i = 0; i < BATCH; i++) {
        ck_assert_uint_eq(wcs[i].wr_id, 2 * (uint64_t)i + 1);
        ck_assert_int_eq(wcs[i].status, IBV_WC_SUCCESS);
    }
    ck_assert_int_eq(rdma_poll(rdma, 0, cq, BATCH, wcs, &n), 0);
    ck_assert_int_eq(n, 1);
    ck_assert_uint_eq(wcs[0].wr_id, 33);
    /* On other devices the status is returned, because the queue pair is lost. */
    rdma->attrs[0].general_err_is_harmless = false;
    complete_with_noise(1);
    ck_assert_int_eq(rdma_poll(rdma, 0, cq, BATCH, wcs, &n), 0);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(wcs[0].status, IBV_WC_GENERAL_ERR);
}
END_TEST

START_TEST(an_overrun_is_an_error)
{
    host.poll_failure = EIO;
    ck_assert_int_eq(rdma_poll(rdma, 0, cq, BATCH, wcs, &n), EIO);
    ck_assert_int_eq(n, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma/cq");
    TCase *tests = tcase_create("cq");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, harmless_errors_are_dropped_and_others_are_not);
    tcase_add_test(tests, an_overrun_is_an_error);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
