/* Single faults: the status at both ends, what is flushed, and the states. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "sim/rc_testing.h"
#include "sim/rules_testing.h"

static struct ibv_sge sge_of(struct rc_pair *pair, unsigned end, size_t offset,
                             uint32_t bytes)
{
    return (struct ibv_sge){(uintptr_t)pair->ends[end].memory + offset, bytes,
                            pair->ends[end].mr->lkey};
}

static struct ibv_send_wr write_of(struct rc_pair *pair, struct ibv_sge *sge)
{
    struct ibv_send_wr wr = {.wr_id = 1,
                             .sg_list = sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED};
    wr.wr.rdma.remote_addr = (uintptr_t)pair->ends[1].memory;
    wr.wr.rdma.rkey = pair->ends[1].mr->rkey;
    return wr;
}

static void post(struct rc_pair *pair, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad = NULL;
    ck_assert_int_eq(sim_nic_post_send(pair->ends[0].qp, wr, &bad), 0);
}

static void too_long_a_send(struct rc_pair *pair)
{
    ck_assert_int_eq(rc_post_recv(pair, 1, 1, 0, 5000), 0);
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_SEND, 1, 0, 5001, 0), 0);
}

static void bad_send_key(struct rc_pair *pair)
{
    struct ibv_sge sge = sge_of(pair, 0, 0, 100);
    struct ibv_send_wr wr = write_of(pair, &sge);
    sge.lkey ^= 1;
    post(pair, &wr);
}

static void bad_landing_key(struct rc_pair *pair)
{
    struct ibv_sge sge = sge_of(pair, 0, 0, 100);
    struct ibv_send_wr wr = write_of(pair, &sge);
    wr.opcode = IBV_WR_RDMA_READ;
    sge.lkey ^= 1;
    post(pair, &wr);
}

static void bad_receive_key(struct rc_pair *pair)
{
    struct ibv_sge sge = sge_of(pair, 1, 0, 100);
    struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad = NULL;
    sge.lkey ^= 1;
    ck_assert_int_eq(sim_nic_post_recv(pair->ends[1].qp, &wr, &bad), 0);
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_SEND, 1, 0, 100, 0), 0);
}

static void bad_remote_key(struct rc_pair *pair)
{
    struct ibv_sge sge = sge_of(pair, 0, 0, 100);
    struct ibv_send_wr wr = write_of(pair, &sge);
    wr.wr.rdma.rkey ^= 1;
    post(pair, &wr);
}

static void beyond_the_region(struct rc_pair *pair)
{
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 100, RC_MEMORY_BYTES - 99),
                     0);
}

static void before_the_region(struct rc_pair *pair)
{
    struct ibv_sge sge = sge_of(pair, 0, 0, 100);
    struct ibv_send_wr wr = write_of(pair, &sge);
    wr.wr.rdma.remote_addr--;
    post(pair, &wr);
}

static void wraps_around(struct rc_pair *pair)
{
    struct ibv_sge sge = sge_of(pair, 0, 0, 100);
    struct ibv_send_wr wr = write_of(pair, &sge);
    wr.wr.rdma.remote_addr = UINT64_MAX - 50;
    post(pair, &wr);
}

static void read_beyond(struct rc_pair *pair)
{
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_READ, 1, 0, 100, RC_MEMORY_BYTES - 99),
                     0);
}

static void atomic_beyond(struct rc_pair *pair)
{
    ck_assert_int_eq(
        rc_post(pair, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 8, RC_MEMORY_BYTES), 0);
}

static void set_access(struct rc_pair *pair, unsigned access)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .qp_access_flags = access};
    ck_assert_int_eq(
        rc_modify(pair, 1, pair->ends[1].qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS),
        0);
}

static void write_not_enabled(struct rc_pair *pair)
{
    set_access(pair, IBV_ACCESS_REMOTE_READ);
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 100, 0), 0);
}

static void read_not_enabled(struct rc_pair *pair)
{
    set_access(pair, IBV_ACCESS_REMOTE_WRITE);
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_READ, 1, 0, 100, 0), 0);
}

static void atomic_not_enabled(struct rc_pair *pair)
{
    set_access(pair, IBV_ACCESS_REMOTE_WRITE);
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_ATOMIC_CMP_AND_SWP, 1, 0, 8, 0), 0);
}

static struct ibv_mr *reg(struct rc_pair *pair, unsigned end, struct ibv_pd *pd,
                          int access)
{
    struct sim_request request = {.verb = SIM_VERB_REG_MR};
    request.arg.reg_mr.pd = pd;
    request.arg.reg_mr.addr = pair->ends[end].memory;
    request.arg.reg_mr.length = RC_MEMORY_BYTES;
    request.arg.reg_mr.access = access;
    ck_assert_int_eq(rc_verb(pair, end, &request), 0);
    return request.out.mr;
}

static void dereg(struct rc_pair *pair, unsigned end)
{
    struct rc_end *at = &pair->ends[end];
    struct sim_request request = {.verb = SIM_VERB_DEREG_MR, .arg.mr = at->mr};
    at->gone = *at->mr;
    ck_assert_int_eq(rc_verb(pair, end, &request), 0);
    at->mr = &at->gone;
}

static void region_not_writable(struct rc_pair *pair)
{
    struct ibv_mr *mr = reg(pair, 1, pair->ends[1].pd, IBV_ACCESS_REMOTE_READ);
    struct ibv_sge sge = sge_of(pair, 0, 0, 100);
    struct ibv_send_wr wr = write_of(pair, &sge);
    wr.wr.rdma.rkey = mr->rkey;
    post(pair, &wr);
}

static void other_protection_domain(struct rc_pair *pair)
{
    struct sim_request request = {.verb = SIM_VERB_ALLOC_PD};
    ck_assert_int_eq(rc_verb(pair, 1, &request), 0);
    struct ibv_mr *mr =
        reg(pair, 1, request.out.pd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_sge sge = sge_of(pair, 0, 0, 100);
    struct ibv_send_wr wr = write_of(pair, &sge);
    wr.wr.rdma.rkey = mr->rkey;
    post(pair, &wr);
}

static void deregistered_there(struct rc_pair *pair)
{
    struct ibv_sge sge = sge_of(pair, 0, 0, 100);
    struct ibv_send_wr wr = write_of(pair, &sge);
    dereg(pair, 1);
    post(pair, &wr);
}

/* The key is invalidated between the packets of one message. */
static void deregistered_midway(struct rc_pair *pair)
{
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_WRITE, 1, 0, RC_MEMORY_BYTES, 0), 0);
    dereg(pair, 1);
}

static void deregistered_while_read(struct rc_pair *pair)
{
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_READ, 1, 0, RC_MEMORY_BYTES, 0), 0);
    dereg(pair, 1);
}

static void deregistered_here(struct rc_pair *pair)
{
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_WRITE, 1, 0, RC_MEMORY_BYTES, 0), 0);
    dereg(pair, 0);
}

static void landing_deregistered(struct rc_pair *pair)
{
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_READ, 1, 0, RC_MEMORY_BYTES, 0), 0);
    dereg(pair, 0);
}

static void nothing_to_receive(struct rc_pair *pair)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .rnr_retry = 2};
    ck_assert_int_eq(rc_to_state(pair, 0, pair->ends[0].qp, IBV_QPS_SQD), 0);
    ck_assert_int_eq(
        rc_modify(pair, 0, pair->ends[0].qp, &attr, IBV_QP_STATE | IBV_QP_RNR_RETRY), 0);
    ck_assert_int_eq(rc_to_state(pair, 0, pair->ends[0].qp, IBV_QPS_RTS), 0);
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_SEND, 1, 0, 100, 0), 0);
}

static void cable_cut(struct rc_pair *pair)
{
    sim_port_set_down(pair->ends[0].port, true, true, true);
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 100, 0), 0);
}

static void peer_in_error(struct rc_pair *pair)
{
    ck_assert_int_eq(rc_to_state(pair, 1, pair->ends[1].qp, IBV_QPS_ERR), 0);
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_READ, 1, 0, 100, 0), 0);
}

static void peer_reset(struct rc_pair *pair)
{
    ck_assert_int_eq(rc_to_state(pair, 1, pair->ends[1].qp, IBV_QPS_RESET), 0);
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 100, 0), 0);
}

static void path_limit(struct rc_pair *pair)
{
    sim_port_set_path_limit(pair->ends[0].port, 1500);
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 5000, 0), 0);
}

static void small_netdev(struct rc_pair *pair)
{
    sim_port_set_mtu(pair->ends[1].port, 1500);
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 5000, 0), 0);
}

/* Moves end b again from RESET to RTR, with other attributes. */
static void reconnect(struct rc_pair *pair, uint8_t max_dest_rd_atomic,
                      uint32_t psn_ahead)
{
    struct ibv_qp_attr init = rc_init_attr(pair);
    struct ibv_qp_attr rtr = rc_rtr_attr(pair, 1, pair->ends[0].qp->qp_num);
    struct ibv_qp *qp = pair->ends[1].qp;
    rtr.rq_psn += psn_ahead;
    rtr.max_dest_rd_atomic = max_dest_rd_atomic == RC_NONE ? 0 : rtr.max_dest_rd_atomic;
    ck_assert_int_eq(rc_to_state(pair, 1, qp, IBV_QPS_RESET), 0);
    ck_assert_int_eq(rc_modify(pair, 1, qp, &init, rc_init_mask), 0);
    ck_assert_int_eq(rc_modify(pair, 1, qp, &rtr, rc_rtr_mask), 0);
}

static void smaller_path_mtu_there(struct rc_pair *pair)
{
    struct ibv_qp_attr rts = rc_rts_attr(pair, 1);
    pair->options.path_mtu = IBV_MTU_1024;
    reconnect(pair, 0, 0);
    ck_assert_int_eq(rc_modify(pair, 1, pair->ends[1].qp, &rts, rc_rts_mask), 0);
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 2000, 0), 0);
}

static void wrong_psn(struct rc_pair *pair)
{
    reconnect(pair, 0, 1000);
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_READ, 1, 0, 2000, 0), 0);
}

static void write_imm_beyond(struct rc_pair *pair)
{
    ck_assert_int_eq(rc_post_recv(pair, 1, 1, 0, 0), 0);
    ck_assert_int_eq(
        rc_post(pair, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 100, RC_MEMORY_BYTES - 99), 0);
}

static void message_beyond_port(struct rc_pair *pair)
{
    struct ibv_sge sges[2] = {sge_of(pair, 0, 0, 1u << 30), sge_of(pair, 0, 0, 1)};
    struct ibv_send_wr wr = write_of(pair, sges);
    wr.num_sge = 2;
    post(pair, &wr);
}

static void no_reads_here(struct rc_pair *pair)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};
    ck_assert_int_eq(rc_to_state(pair, 0, pair->ends[0].qp, IBV_QPS_SQD), 0);
    ck_assert_int_eq(rc_modify(pair, 0, pair->ends[0].qp, &attr,
                               IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
    ck_assert_int_eq(rc_to_state(pair, 0, pair->ends[0].qp, IBV_QPS_RTS), 0);
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_READ, 1, 0, 100, 0), 0);
}

static void no_reads_there(struct rc_pair *pair)
{
    struct ibv_qp_attr rts = rc_rts_attr(pair, 1);
    reconnect(pair, RC_NONE, 0);
    ck_assert_int_eq(rc_modify(pair, 1, pair->ends[1].qp, &rts, rc_rts_mask), 0);
    ck_assert_int_eq(rc_post(pair, 0, IBV_WR_RDMA_READ, 1, 0, 100, 0), 0);
}

/* Posts a request, and injects a reply to it that the peer never sent. */
static void answer(struct rc_pair *pair, enum ibv_wr_opcode opcode, uint8_t response,
                   uint8_t syndrome)
{
    static const uint8_t bytes[100] = {0};
    struct sim_frame frame = {.opcode = response,
                              .psn = pair->options.sq_psn[0],
                              .syndrome = syndrome,
                              .payload = bytes,
                              .n_payload = response == RC_READ_ONLY ? 100 : 0};
    ck_assert_int_eq(rc_post(pair, 0, opcode, 1, 0, 100, 0), 0);
    rc_run(pair, RC_PS_PER_US);
    rc_inject(pair, 0, &frame);
}

static void read_answer_to_a_write(struct rc_pair *pair)
{
    answer(pair, IBV_WR_RDMA_WRITE, RC_READ_ONLY, RC_SYNDROME_ACK);
}

static void atomic_answer_to_a_read(struct rc_pair *pair)
{
    answer(pair, IBV_WR_RDMA_READ, RC_ATOMIC_ACK, RC_SYNDROME_ACK);
}

static void reserved_nak(struct rc_pair *pair)
{
    answer(pair, IBV_WR_RDMA_WRITE, RC_ACK, 0x65);
}

static void reserved_syndrome(struct rc_pair *pair)
{
    answer(pair, IBV_WR_RDMA_WRITE, RC_ACK, 0x40);
}

static void nak_operational(struct rc_pair *pair)
{
    answer(pair, IBV_WR_RDMA_WRITE, RC_ACK, 0x63);
}

#define CASE(name)                                                                       \
    {                                                                                    \
#name, name                                                                      \
    }

static const struct {
    const char *name;
    void (*act)(struct rc_pair *pair); /* posts a WR with wr_id 1 on end 0 */
} cases[] = {
    CASE(too_long_a_send),
    CASE(bad_send_key),
    CASE(bad_landing_key),
    CASE(bad_receive_key),
    CASE(bad_remote_key),
    CASE(beyond_the_region),
    CASE(before_the_region),
    CASE(wraps_around),
    CASE(read_beyond),
    CASE(atomic_beyond),
    CASE(write_imm_beyond),
    CASE(write_not_enabled),
    CASE(read_not_enabled),
    CASE(atomic_not_enabled),
    CASE(region_not_writable),
    CASE(other_protection_domain),
    CASE(deregistered_there),
    CASE(deregistered_midway),
    CASE(deregistered_while_read),
    CASE(deregistered_here),
    CASE(landing_deregistered),
    CASE(nothing_to_receive),
    CASE(cable_cut),
    CASE(peer_in_error),
    CASE(peer_reset),
    CASE(path_limit),
    CASE(small_netdev),
    CASE(smaller_path_mtu_there),
    CASE(wrong_psn),
    CASE(message_beyond_port),
    CASE(no_reads_here),
    CASE(no_reads_there),
    CASE(read_answer_to_a_write),
    CASE(atomic_answer_to_a_read),
    CASE(reserved_nak),
    CASE(reserved_syndrome),
    CASE(nak_operational),
};

static void act(struct rc_pair *pair, const char *name)
{
    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        if (strcmp(cases[i].name, name) == 0) {
            cases[i].act(pair);
            return;
        }
    }
    ck_abort_msg("how to bring about %s?", name);
}

/* Checks the WR that failed, a WR behind it that is flushed, and a receive. */
static void check_requester(struct rc_pair *pair, const char *what, int status)
{
    struct ibv_wc wc[16];
    int n = 0;
    for (unsigned i = 0; i < 4; i++) { /* hns flushes when the first was polled */
        n += rc_poll(pair, 0, wc + n, 16 - n);
        rc_run(pair, RC_PS_PER_MS);
    }
    ck_assert_msg(n == 3, "%s: %d completions\n%s", what, n, pair->story.bytes);
    ck_assert_msg((int)wc[0].status == status, "%s: %d", what, wc[0].status);
    ck_assert_uint_eq(wc[0].wr_id, 1);
    ck_assert_int_eq(wc[1].status, IBV_WC_WR_FLUSH_ERR);
    ck_assert_uint_eq(wc[1].wr_id, 2);
    ck_assert_int_eq(wc[2].status, IBV_WC_WR_FLUSH_ERR);
    ck_assert_uint_eq(wc[2].wr_id, 9);
}

static void check_responder(struct rc_pair *pair, const char *what, int status)
{
    struct ibv_wc wc[16];
    int n = rc_poll(pair, 1, wc, 16);
    ck_assert_msg(n == (status == RULES_NO_COMPLETION ? 0 : 1), "%s: %d there", what, n);
    if (n == 1) {
        ck_assert_msg((int)wc[0].status == status, "%s: %d", what, wc[0].status);
    }
}

static void check_refusal(struct rc_pair *pair, const char *nak, const char *event)
{
    char told[64];
    unsigned n = strcmp(nak, "-") != 0;
    weft_format(told, sizeof(told), "refuse syndrome=%u ", rules_number(nak));
    ck_assert_uint_eq(rc_times_told(pair, "refuse syndrome="), n);
    ck_assert_uint_eq(rc_times_told(pair, told), n);
    n = strcmp(event, "-") != 0;
    weft_format(told, sizeof(told), "async event=%s", event);
    ck_assert_uint_eq(rc_times_told(pair, told), n);
    ck_assert_uint_eq(rc_times_told(pair, "async event="), n);
}

START_TEST(fault_has_its_status)
{
    struct rules rules;
    struct rc_pair pair;
    unsigned row = (unsigned)_i;
    rules_read(&rules, "statuses");
    const char *what = rules_cell(&rules, row, "case");
    rc_pair_init(&pair,
                 &(struct rc_options){.profile = rules_cell(&rules, row, "profile"),
                                      .timeout = 10,
                                      .retry_cnt = 3});
    act(&pair, what);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 2, 0, 64, 0), 0);
    ck_assert_int_eq(rc_post_recv(&pair, 0, 9, 0, 100), 0);
    rc_run(&pair, 10 * RC_PS_PER_S);
    check_requester(&pair, what, rules_status(rules_cell(&rules, row, "requester")));
    check_responder(&pair, what, rules_status(rules_cell(&rules, row, "responder")));
    check_refusal(&pair, rules_cell(&rules, row, "nak"),
                  rules_cell(&rules, row, "event"));
    ck_assert_int_eq(pair.ends[0].qp->state, rules_state(rules_cell(&rules, row, "a")));
    ck_assert_int_eq(pair.ends[1].qp->state, rules_state(rules_cell(&rules, row, "b")));
    rc_pair_fini(&pair);
    rules_fini(&rules);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rc_status");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 30);
    tcase_add_loop_test(all, fault_has_its_status, 0, rules_count("statuses"));
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
