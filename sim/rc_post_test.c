/* What may be posted in which state, and what happens to it. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/rc_testing.h"
#include "sim/rules_testing.h"

static struct rc_pair pair;

static void setup(void)
{
    rc_pair_init(&pair, NULL);
    rc_fill(&pair);
}

static void teardown(void)
{
    rc_pair_fini(&pair);
}

enum { RECV_OPCODE = -1 };

static int opcode_of(const char *name)
{
    static const struct {
        const char *name;
        int opcode;
    } opcodes[] = {
        {"SEND", IBV_WR_SEND},
        {"RDMA_WRITE", IBV_WR_RDMA_WRITE},
        {"RDMA_WRITE_WITH_IMM", IBV_WR_RDMA_WRITE_WITH_IMM},
        {"RDMA_READ", IBV_WR_RDMA_READ},
        {"ATOMIC_FETCH_AND_ADD", IBV_WR_ATOMIC_FETCH_AND_ADD},
        {"ATOMIC_CMP_AND_SWP", IBV_WR_ATOMIC_CMP_AND_SWP},
        {"LOCAL_INV", IBV_WR_LOCAL_INV},
        {"BIND_MW", IBV_WR_BIND_MW},
        {"SEND_WITH_INV", IBV_WR_SEND_WITH_INV},
        {"TSO", IBV_WR_TSO},
        {"RECV", RECV_OPCODE},
    };
    for (size_t i = 0; i < WEFT_LENGTH(opcodes); i++) {
        if (strcmp(opcodes[i].name, name) == 0) {
            return opcodes[i].opcode;
        }
    }
    ck_abort_msg("what opcode is %s?", name);
    return 0;
}

/* Posts one WR, followed by a valid one, which must not be posted if the first is
 * refused. */
static int try_post(int opcode, int num_sge, uint32_t length, unsigned flags,
                    uint64_t remote)
{
    struct ibv_sge sges[8];
    struct ibv_send_wr next = {.wr_id = 2, .opcode = IBV_WR_RDMA_WRITE};
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr = {.wr_id = 1,
                             .next = &next,
                             .sg_list = sges,
                             .num_sge = num_sge,
                             .opcode = (enum ibv_wr_opcode)opcode,
                             .send_flags = flags};
    struct ibv_recv_wr recv = {.sg_list = sges, .num_sge = num_sge};
    struct ibv_recv_wr *bad_recv = NULL;
    for (unsigned i = 0; i < 8; i++) {
        sges[i] = (struct ibv_sge){(uintptr_t)pair.ends[0].memory, length,
                                   pair.ends[0].mr->lkey};
    }
    if (opcode == RECV_OPCODE) {
        int error = sim_nic_post_recv(pair.ends[0].qp, &recv, &bad_recv);
        ck_assert_ptr_eq(bad_recv, error != 0 ? &recv : NULL);
        return error;
    }
    wr.wr.rdma.remote_addr = (uintptr_t)pair.ends[1].memory + remote;
    wr.wr.rdma.rkey = pair.ends[1].mr->rkey;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        wr.wr.atomic.remote_addr = (uintptr_t)pair.ends[1].memory + remote;
        wr.wr.atomic.rkey = pair.ends[1].mr->rkey;
    }
    int error = sim_nic_post_send(pair.ends[0].qp, &wr, &bad);
    ck_assert_ptr_eq(bad, error != 0 ? &wr : NULL);
    unsigned n_alike = opcode == IBV_WR_RDMA_WRITE && length == 0 ? 2 : 1;
    ck_assert_uint_eq(rc_times_told(&pair, "post opcode=RDMA_WRITE bytes=0"),
                      error == 0 ? n_alike : 0);
    return error;
}

START_TEST(what_cannot_be_posted_is_refused)
{
    struct rules rules;
    unsigned row = (unsigned)_i;
    rules_read(&rules, "wr");
    rc_pair_fini(&pair);
    rc_pair_init(&pair,
                 &(struct rc_options){.profile = rules_cell(&rules, row, "profile"),
                                      .max_inline = 64});
    const char *opcode = rules_cell(&rules, row, "opcode");
    const char *num_sge = rules_cell(&rules, row, "num_sge");
    bool is_inline = strcmp(rules_cell(&rules, row, "inline"), "yes") == 0;
    int expected = rules_errno(rules_cell(&rules, row, "errno"));
    int error = try_post(
        opcode_of(opcode), strcmp(num_sge, "-1") == 0 ? -1 : (int)rules_number(num_sge),
        rules_number(rules_cell(&rules, row, "bytes")), is_inline ? IBV_SEND_INLINE : 0,
        rules_number(rules_cell(&rules, row, "remote")));
    ck_assert_msg(error == expected, "%s, %s SGEs: %d instead of %d", opcode, num_sge,
                  error, expected);
    rules_fini(&rules);
}
END_TEST

/* Fails with ENOMEM; the earlier WRs of the list remain posted. */
START_TEST(a_full_queue_takes_no_more)
{
    enum { DEPTH = 64 };
    struct ibv_send_wr wrs[DEPTH + 2];
    struct ibv_send_wr *bad = NULL;
    memset(wrs, 0, sizeof(wrs));
    for (unsigned i = 0; i < DEPTH + 2; i++) {
        wrs[i].wr_id = i;
        wrs[i].opcode = IBV_WR_RDMA_WRITE;
        wrs[i].send_flags = IBV_SEND_SIGNALED;
        wrs[i].next = i < DEPTH + 1 ? &wrs[i + 1] : NULL;
    }
    ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, wrs, &bad), ENOMEM);
    ck_assert_ptr_eq(bad, &wrs[DEPTH]);
    for (unsigned i = 0; i < DEPTH; i++) {
        ck_assert_uint_eq(rc_wait(&pair, 0).wr_id, i);
    }
    for (unsigned i = 0; i < DEPTH; i++) {
        ck_assert_int_eq(rc_post_recv(&pair, 0, i, 0, 8), 0);
    }
    ck_assert_int_eq(rc_post_recv(&pair, 0, DEPTH, 0, 8), ENOMEM);
}
END_TEST

/* Unsignalled work alone fills the queue forever, because no completion frees a slot. */
START_TEST(unsignaled_work_alone_fills_the_queue)
{
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};
    for (unsigned i = 0; i < 64; i++) {
        ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), 0);
    }
    rc_run(&pair, RC_PS_PER_S); /* all of it has been executed */
    ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), ENOMEM);
}
END_TEST

START_TEST(states_decide_what_may_be_posted)
{
    rc_pair_fini(&pair);
    rc_pair_init(&pair, &(struct rc_options){.is_unconnected = true});
    struct ibv_qp_attr init = rc_init_attr(&pair);
    struct ibv_qp_attr rtr = rc_rtr_attr(&pair, 0, 99);
    struct ibv_qp *qp = pair.ends[0].qp;
    ck_assert_int_eq(rc_post_recv(&pair, 0, 1, 0, 8), EINVAL);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_SEND, 1, 0, 8, 0), EINVAL);
    ck_assert_int_eq(rc_modify(&pair, 0, qp, &init, rc_init_mask), 0);
    ck_assert_int_eq(rc_post_recv(&pair, 0, 1, 0, 8), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_SEND, 1, 0, 8, 0), EINVAL);
    ck_assert_int_eq(rc_modify(&pair, 0, qp, &rtr, rc_rtr_mask), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_SEND, 1, 0, 8, 0), EINVAL);
}
END_TEST

START_TEST(a_device_that_does_not_check_sends_later)
{
    rc_pair_fini(&pair);
    rc_pair_init(&pair,
                 &(struct rc_options){.is_unconnected = true,
                                      .overrides = {{"post_check_strict", "false"}}});
    struct ibv_qp_attr init = rc_init_attr(&pair);
    struct ibv_qp_attr rtr = rc_rtr_attr(&pair, 0, pair.ends[1].qp->qp_num);
    struct ibv_qp_attr rts = rc_rts_attr(&pair, 0);
    struct ibv_qp *qp = pair.ends[0].qp;
    rc_connect(&pair, 1, pair.ends[1].qp, qp->qp_num);
    ck_assert_int_eq(rc_modify(&pair, 0, qp, &init, rc_init_mask), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 9000, 0), 0);
    ck_assert_int_eq(rc_modify(&pair, 0, qp, &rtr, rc_rtr_mask), 0);
    ck_assert_int_eq(rc_modify(&pair, 0, qp, &rts, rc_rts_mask), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
}
END_TEST

START_TEST(sqd_drains_and_goes_on)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
    struct ibv_async_event event;
    struct ibv_wc wc[4];
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 800000, 0), 0);
    rc_run(&pair, 2 * RC_PS_PER_US);
    ck_assert_int_eq(rc_modify(&pair, 0, pair.ends[0].qp, &attr,
                               IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
                     0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 2, 0, 8, 0), 0);
    rc_run(&pair, RC_PS_PER_S);
    ck_assert_int_eq(rc_poll(&pair, 0, wc, 4), 1);
    ck_assert_uint_eq(wc[0].wr_id, 1);
    ck_assert_int_eq(sim_nic_async_event(pair.ends[0].nic, 0, &event), 0);
    ck_assert_int_eq(event.event_type, IBV_EVENT_SQ_DRAINED);
    ck_assert_int_eq(rc_to_state(&pair, 0, pair.ends[0].qp, IBV_QPS_RTS), 0);
    ck_assert_uint_eq(rc_wait(&pair, 0).wr_id, 2);
}
END_TEST

START_TEST(reset_discards_and_the_pair_connects_again)
{
    struct ibv_wc wc[4];
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 800000, 0), 0);
    rc_run(&pair, 2 * RC_PS_PER_US);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(rc_to_state(&pair, i, pair.ends[i].qp, IBV_QPS_RESET), 0);
    }
    rc_run(&pair, RC_PS_PER_S);
    ck_assert_int_eq(rc_poll(&pair, 0, wc, 4), 0);
    rc_connect(&pair, 0, pair.ends[0].qp, pair.ends[1].qp->qp_num);
    rc_connect(&pair, 1, pair.ends[1].qp, pair.ends[0].qp->qp_num);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 2, 0, 9000, 0), 0);
    ck_assert_uint_eq(rc_wait(&pair, 0).wr_id, 2);
}
END_TEST

START_TEST(the_first_packet_in_rtr_is_an_event)
{
    struct ibv_async_event event;
    rc_pair_fini(&pair);
    rc_pair_init(&pair, &(struct rc_options){.is_unconnected = true});
    struct ibv_qp_attr init = rc_init_attr(&pair);
    struct ibv_qp_attr rtr = rc_rtr_attr(&pair, 1, pair.ends[0].qp->qp_num);
    rc_connect(&pair, 0, pair.ends[0].qp, pair.ends[1].qp->qp_num);
    ck_assert_int_eq(rc_modify(&pair, 1, pair.ends[1].qp, &init, rc_init_mask), 0);
    ck_assert_int_eq(rc_modify(&pair, 1, pair.ends[1].qp, &rtr, rc_rtr_mask), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 9000, 0), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_int_eq(sim_nic_async_event(pair.ends[1].nic, 0, &event), 0);
    ck_assert_int_eq(event.event_type, IBV_EVENT_COMM_EST);
    ck_assert_int_eq(sim_nic_async_event(pair.ends[1].nic, 0, &event), EAGAIN);
}
END_TEST

/* Adds 10.0.1.`last` to end 0. Returns the index of its RoCE v2 entry in the GID
 * table. */
static uint32_t add_address(uint8_t last)
{
    struct sim_stack *stack = pair.ends[0].stack;
    const struct sim_port *port = pair.ends[0].port;
    struct sim_prefix address = {.ip = sim_ip_v4(10, 0, 1, last), .prefix_len = 24};
    ck_assert_int_eq(
        sim_stack_add_address(stack, sim_stack_ifindex(stack, port, 0), &address), 0);
    for (uint32_t i = 0; i < sim_stack_gid_length(stack, port); i++) {
        struct sim_gid gid;
        if (sim_stack_gid(stack, port, i, &gid) == 0 && gid.gid.raw[15] == last &&
            gid.gid.raw[14] == 1 && gid.type == IBV_GID_TYPE_ROCE_V2) {
            return i;
        }
    }
    return UINT32_MAX;
}

/* An entry in use is pending delete, and its slot is not refilled (core/cache.c), until
 * the QP is destroyed or reset. */
START_TEST(a_connected_pair_keeps_the_slot_of_its_gid)
{
    struct sim_stack *stack = pair.ends[0].stack;
    uint32_t ifindex = sim_stack_ifindex(stack, pair.ends[0].port, 0);
    const uint32_t used = 3; /* default v1, v2; address v1, v2 */
    bool is_reset = _i == 1;
    struct sim_ip own = sim_ip_v4(10, 0, 0, 1);
    struct sim_request destroy = {.verb = SIM_VERB_DESTROY_QP};
    struct sim_gid gid;
    ck_assert_int_eq(sim_stack_gid(stack, pair.ends[0].port, used, &gid), 0);
    ck_assert_int_eq(sim_stack_del_address(stack, ifindex, &own), 0);
    ck_assert_int_eq(sim_stack_gid(stack, pair.ends[0].port, used, &gid), ENODATA);
    ck_assert_uint_gt(add_address(1), used);
    destroy.arg.qp = pair.ends[0].qp;
    ck_assert_int_eq(is_reset ? rc_to_state(&pair, 0, pair.ends[0].qp, IBV_QPS_RESET)
                              : rc_verb(&pair, 0, &destroy),
                     0);
    ck_assert_uint_gt(add_address(2), used);
    ck_assert_int_eq(sim_stack_gid(stack, pair.ends[0].port, used, &gid), 0);
    ck_assert_uint_eq(gid.gid.raw[15], 2); /* its v1 entry took the first free slot */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rc_post");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_loop_test(all, what_cannot_be_posted_is_refused, 0, rules_count("wr"));
    tcase_add_test(all, a_full_queue_takes_no_more);
    tcase_add_test(all, unsignaled_work_alone_fills_the_queue);
    tcase_add_test(all, states_decide_what_may_be_posted);
    tcase_add_test(all, a_device_that_does_not_check_sends_later);
    tcase_add_test(all, sqd_drains_and_goes_on);
    tcase_add_test(all, reset_discards_and_the_pair_connects_again);
    tcase_add_test(all, the_first_packet_in_rtr_is_an_event);
    tcase_add_loop_test(all, a_connected_pair_keeps_the_slot_of_its_gid, 0, 2);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
