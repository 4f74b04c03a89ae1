/* The event log of the data path, over a fake device. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "backends/verbs/device.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "base/trace.h"

static struct ibv_send_wr *refused_send; /* first request that post_send rejects */
static struct ibv_wc completions[4];
static int n_completions;

static int plain_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                           struct ibv_send_wr **bad)
{
    (void)qp;
    (void)wr;
    *bad = refused_send;
    return refused_send == NULL ? 0 : ENOMEM;
}

static int plain_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
                           struct ibv_recv_wr **bad)
{
    (void)qp;
    (void)wr;
    (void)bad;
    return 0;
}

static int plain_poll_cq(struct ibv_cq *cq, int n_max, struct ibv_wc *wc, int *out_n)
{
    (void)cq;
    ck_assert_int_ge(n_max, n_completions);
    memcpy(wc, completions, (size_t)n_completions * sizeof *wc);
    *out_n = n_completions;
    return 0;
}

static const struct io_device_ops plain = {
    .post_send = plain_post_send, .post_recv = plain_post_recv, .poll_cq = plain_poll_cq};

static struct linux_loop *loop;
static struct verbs_device device;
static struct verbs_cq cq_context;
static struct ibv_cq cq;
static struct ibv_qp qp;
static struct weft_trace trace;
static struct weft_text story; /* without times */

static void take_line(void *context, const char *line, size_t n_bytes)
{
    const char *blank = memchr(line, ' ', n_bytes);
    (void)context;
    weft_text_add_bytes(&story, blank + 1, n_bytes - (size_t)(blank + 1 - line));
}

static void setup(void)
{
    struct weft_error error = {.status = WEFT_OK};
    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
    device = (struct verbs_device){.loop = loop, .io.ops = &plain, .io.name = "p0"};
    cq_context = (struct verbs_cq){.device = &device};
    cq = (struct ibv_cq){.cq_context = &cq_context};
    qp = (struct ibv_qp){.send_cq = &cq, .recv_cq = &cq, .qp_num = 17};
    story = (struct weft_text){NULL, 0, 0};
    refused_send = NULL;
    n_completions = 0;
    weft_trace_init(&trace, WEFT_TRACE_STORY, take_line, NULL);
    verbs_device_tell(&device, &trace, "titanic");
}

static void teardown(void)
{
    weft_text_fini(&story);
    linux_loop_destroy(loop);
}

START_TEST(nothing_changes_when_nobody_listens)
{
    struct verbs_device other = {.io.ops = &plain};
    struct weft_trace silent;
    verbs_device_tell(&other, NULL, "titanic");
    ck_assert_ptr_eq(other.io.ops, &plain);
    weft_trace_init(&silent, WEFT_TRACE_OFF, take_line, NULL);
    verbs_device_tell(&other, &silent, "titanic");
    ck_assert_ptr_eq(other.io.ops, &plain);
}
END_TEST

/* Two of three work requests are logged, because the third is rejected. */
START_TEST(what_was_posted_is_told)
{
    struct ibv_sge sges[2] = {{.length = 4096}, {.length = 100}};
    struct ibv_send_wr sends[3] = {
        {.next = &sends[1], .opcode = IBV_WR_RDMA_WRITE, .sg_list = sges, .num_sge = 2},
        {.next = &sends[2], .opcode = IBV_WR_RDMA_WRITE_WITH_IMM},
        {.opcode = IBV_WR_RDMA_READ}};
    struct ibv_recv_wr receives[2] = {{.next = &receives[1]},
                                      {.sg_list = sges, .num_sge = 1}};
    struct ibv_send_wr *bad_send = NULL;
    struct ibv_recv_wr *bad_receive = NULL;
    refused_send = &sends[2];
    ck_assert_int_eq(device.io.ops->post_send(&qp, sends, &bad_send), ENOMEM);
    ck_assert_ptr_eq(bad_send, &sends[2]);
    ck_assert_int_eq(device.io.ops->post_recv(&qp, receives, &bad_receive), 0);
    ck_assert_str_eq(story.bytes,
                     "titanic p0/qp17 post opcode=RDMA_WRITE bytes=4196\n"
                     "titanic p0/qp17 post opcode=RDMA_WRITE_WITH_IMM bytes=0\n"
                     "titanic p0/qp17 post opcode=RECV bytes=0\n"
                     "titanic p0/qp17 post opcode=RECV bytes=4096\n");
}
END_TEST

START_TEST(what_was_polled_is_told)
{
    struct ibv_wc got[4];
    int n = 0;
    completions[0] = (struct ibv_wc){.opcode = IBV_WC_RDMA_WRITE, .qp_num = 17};
    completions[1] = (struct ibv_wc){
        .opcode = IBV_WC_RECV_RDMA_WITH_IMM, .qp_num = 18, .byte_len = 64};
    completions[2] = (struct ibv_wc){.status = IBV_WC_RETRY_EXC_ERR,
                                     .opcode = IBV_WC_RDMA_READ, /* not valid */
                                     .qp_num = 17};
    n_completions = 3;
    ck_assert_int_eq(device.io.ops->poll_cq(&cq, 4, got, &n), 0);
    ck_assert_int_eq(n, 3);
    ck_assert_mem_eq(got, completions, 3 * sizeof got[0]);
    ck_assert_str_eq(
        story.bytes,
        "titanic p0/qp17 complete opcode=RDMA_WRITE status=SUCCESS\n"
        "titanic p0/qp18 complete opcode=RECV_RDMA_WITH_IMM status=SUCCESS bytes=64\n"
        "titanic p0/qp17 complete status=RETRY_EXC_ERR\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verbs/story");
    TCase *tests = tcase_create("story");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, nothing_changes_when_nobody_listens);
    tcase_add_test(tests, what_was_posted_is_told);
    tcase_add_test(tests, what_was_polled_is_told);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
