/* Operations without faults: results, order, and time to the picosecond. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/memory.h"
#include "sim/rc_testing.h"

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

START_TEST(write_with_imm_moves_bytes_and_completes_both_ends)
{
    ck_assert_int_eq(rc_post_recv(&pair, 1, 7, 0, 0), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 42, 0, 10000, 5000),
                     0);
    struct ibv_wc sent = rc_wait(&pair, 0);
    struct ibv_wc received = rc_wait(&pair, 1);
    ck_assert_int_eq(sent.status, IBV_WC_SUCCESS);
    ck_assert_int_eq(sent.opcode, IBV_WC_RDMA_WRITE);
    ck_assert_uint_eq(sent.wr_id, 42);
    ck_assert_int_eq(received.status, IBV_WC_SUCCESS);
    ck_assert_int_eq(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    ck_assert_uint_eq(received.wr_id, 7);
    ck_assert_uint_eq(received.byte_len, 10000);
    ck_assert_uint_eq(received.imm_data, 42);
    ck_assert((received.wc_flags & IBV_WC_WITH_IMM) != 0);
    ck_assert_uint_eq(received.qp_num, pair.ends[1].qp->qp_num);
    ck_assert_uint_eq(received.src_qp, pair.ends[0].qp->qp_num);
    ck_assert_mem_eq(pair.ends[0].memory, pair.ends[1].memory + 5000, 10000);
}
END_TEST

START_TEST(sends_land_in_order_of_posting)
{
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(rc_post_recv(&pair, 1, 10 + i, 20000u * i, 20000), 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(rc_post(&pair, 0, i == 1 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, i,
                                 100u * i, 7000u * i, 0),
                         0);
    }
    for (unsigned i = 0; i < 3; i++) {
        struct ibv_wc wc = rc_wait(&pair, 1);
        ck_assert_uint_eq(wc.wr_id, 10 + i);
        ck_assert_int_eq(wc.opcode, IBV_WC_RECV);
        ck_assert_uint_eq(wc.byte_len, 7000u * i);
        ck_assert_int_eq((wc.wc_flags & IBV_WC_WITH_IMM) != 0, i == 1);
        ck_assert_mem_eq(pair.ends[1].memory + 20000u * i, pair.ends[0].memory + 100u * i,
                         7000u * i);
    }
}
END_TEST

START_TEST(read_brings_the_peers_bytes)
{
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_READ, 1, 0, 30001, 777), 0);
    struct ibv_wc wc = rc_wait(&pair, 0);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_int_eq(wc.opcode, IBV_WC_RDMA_READ);
    ck_assert_uint_eq(wc.byte_len, 30001);
    ck_assert_mem_eq(pair.ends[0].memory, pair.ends[1].memory + 777, 30001);
}
END_TEST

START_TEST(atomics_return_what_was_there)
{
    uint64_t value = 40;
    uint64_t found = 0;
    memcpy(pair.ends[1].memory, &value, 8);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 64, 8, 0), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).opcode, IBV_WC_FETCH_ADD);
    memcpy(&found, pair.ends[0].memory + 64, 8);
    ck_assert_uint_eq(found, 40);
    /* rc_post swaps `wr_id` for `wr_id + 1`. The value is 42, so the second swap
     * fails. */
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_ATOMIC_CMP_AND_SWP, 42, 64, 8, 0), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).opcode, IBV_WC_COMP_SWAP);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_ATOMIC_CMP_AND_SWP, 41, 72, 8, 0), 0);
    (void)rc_wait(&pair, 0);
    memcpy(&found, pair.ends[0].memory + 72, 8);
    ck_assert_uint_eq(found, 43);
    memcpy(&value, pair.ends[1].memory, 8);
    ck_assert_uint_eq(value, 43);
}
END_TEST

/* A region of 8 to 16 bytes; the atomic is on its second eight bytes. */
START_TEST(an_atomic_needs_all_its_eight_bytes)
{
    uint8_t *memory = pair.ends[1].memory;
    uint32_t bytes = 8 + (uint32_t)_i / 2;
    struct sim_request request = {.verb = SIM_VERB_REG_MR};
    request.arg.reg_mr =
        (struct sim_reg_mr){.pd = pair.ends[1].pd,
                            .addr = memory,
                            .length = bytes,
                            .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC};
    ck_assert_int_eq(rc_verb(&pair, 1, &request), 0);
    struct ibv_sge sge = {(uintptr_t)pair.ends[0].memory, 8, pair.ends[0].mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = _i % 2 == 0 ? IBV_WR_ATOMIC_FETCH_AND_ADD
                                                   : IBV_WR_ATOMIC_CMP_AND_SWP,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad = NULL;
    wr.wr.atomic.remote_addr = (uintptr_t)memory + 8;
    wr.wr.atomic.rkey = request.out.mr->rkey;
    wr.wr.atomic.swap = ~0ull;
    memset(memory, 0, 24);
    wr.wr.atomic.compare_add = _i % 2 == 0 ? ~0ull : 0;
    ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), 0);
    bool fits = bytes >= 16;
    ck_assert_int_eq(rc_wait(&pair, 0).status,
                     fits ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
    for (unsigned i = 0; i < 24; i++) {
        ck_assert_uint_eq(memory[i], fits && i >= 8 && i < 16 ? 0xff : 0);
    }
}
END_TEST

/* Returns the time of a RoCE v2 IPv4 packet on the wire, from the headers in the
 * specification. */
static weft_ps wire_ps(uint32_t ext, uint32_t payload)
{
    uint32_t pad = (4 - payload % 4) % 4;
    return (weft_ps)(14 + 4 + 20 + 20 + 8 + 12 + ext + payload + pad + 4) * 80;
}

static weft_ps run_until_wakes(unsigned end)
{
    ck_assert_int_eq(sim_nic_req_notify(pair.ends[end].cq, false), 0);
    int before = pair.ends[end].n_wakes;
    while (pair.ends[end].n_wakes == before) {
        ck_assert(sim_step(pair.engine, sim_now(pair.engine) + RC_PS_PER_S));
    }
    return sim_now(pair.engine);
}

/* A WRITE of k packets takes doorbell, serialisation, flight and execution; then the ACK
 * returns. */
START_TEST(a_write_takes_exactly_its_time)
{
    static const uint32_t sizes[] = {0, 1, 8, 4096, 4097, 8192, 1000001};
    const struct sim_profile *p = &pair.profile;
    uint32_t bytes = sizes[_i];
    ck_assert_int_eq(wire_ps(0, 4096), 334240);
    weft_ps start = sim_now(pair.engine);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, bytes, 0), 0);
    weft_ps expected = p->tx_overhead_ps;
    for (uint32_t left = bytes, first = 1; first || left > 0; first = 0) {
        uint32_t n = left < 4096 ? left : 4096;
        expected += wire_ps(first ? 16 : 0, n);
        left -= n;
    }
    expected += RC_PS_PER_US + p->rx_overhead_ps;
    expected += p->ack_delay_ps + wire_ps(4, 0) + RC_PS_PER_US + p->rx_overhead_ps;
    expected += p->cqe_overhead_ps;
    ck_assert_int_eq(run_until_wakes(0) - start, expected);
}
END_TEST

START_TEST(a_write_with_imm_is_seen_at_its_time)
{
    const struct sim_profile *p = &pair.profile;
    weft_ps start = sim_now(pair.engine);
    ck_assert_int_eq(rc_post_recv(&pair, 1, 1, 0, 0), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 5000, 0), 0);
    weft_ps expected = p->tx_overhead_ps + wire_ps(16, 4096) + wire_ps(4, 904) +
                       RC_PS_PER_US + p->rx_overhead_ps + p->cqe_overhead_ps;
    ck_assert_int_eq(run_until_wakes(1) - start, expected);
}
END_TEST

START_TEST(a_read_takes_exactly_its_time)
{
    const struct sim_profile *p = &pair.profile;
    weft_ps start = sim_now(pair.engine);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_READ, 1, 0, 10000, 0), 0);
    weft_ps expected = p->tx_overhead_ps + wire_ps(16, 0) + RC_PS_PER_US +
                       p->rx_overhead_ps + p->ack_delay_ps + wire_ps(4, 4096) +
                       wire_ps(0, 4096) + wire_ps(4, 1808) + RC_PS_PER_US +
                       p->rx_overhead_ps + p->cqe_overhead_ps;
    ck_assert_int_eq(run_until_wakes(0) - start, expected);
}
END_TEST

START_TEST(messages_follow_one_another_without_a_gap)
{
    enum { N = 32 };
    const struct sim_profile *p = &pair.profile;
    weft_ps start = sim_now(pair.engine);
    for (unsigned i = 0; i < N; i++) {
        ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, i, 0, 8192, 0), 0);
    }
    for (unsigned i = 0; i < N; i++) {
        (void)rc_wait(&pair, 0);
    }
    weft_ps expected = p->tx_overhead_ps + N * (wire_ps(16, 4096) + wire_ps(0, 4096)) +
                       2 * (RC_PS_PER_US + p->rx_overhead_ps) + p->ack_delay_ps +
                       wire_ps(4, 0) + p->cqe_overhead_ps;
    ck_assert_int_eq(sim_now(pair.engine) - start, expected);
    struct sim_direction_stats sent = sim_port_sent(pair.ends[0].port);
    ck_assert_uint_ge(sent.packets, 2 * N);
    ck_assert_uint_eq(sent.drops, 0);
}
END_TEST

START_TEST(queue_pairs_of_a_port_take_turns)
{
    struct ibv_qp *second = rc_make_qp(&pair, 0);
    struct ibv_qp *peer = rc_make_qp(&pair, 1);
    rc_connect(&pair, 0, second, peer->qp_num);
    rc_connect(&pair, 1, peer, second->qp_num);
    /* The long message is first, but the short one of the other QP does not wait for its
     * end. */
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 500000, 0), 0);
    struct ibv_qp *first = pair.ends[0].qp;
    pair.ends[0].qp = second;
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 2, 0, 40960, 500000), 0);
    pair.ends[0].qp = first;
    weft_ps start = sim_now(pair.engine);
    ck_assert_uint_eq(rc_wait(&pair, 0).wr_id, 2);
    weft_ps spent = sim_now(pair.engine) - start;
    /* Twenty packets in total, and the round trip. */
    ck_assert_int_gt(spent, 19 * wire_ps(0, 4096));
    ck_assert_int_lt(spent, 22 * wire_ps(0, 4096) + 4 * RC_PS_PER_US);
    ck_assert_uint_eq(rc_wait(&pair, 0).wr_id, 1);
}
END_TEST

START_TEST(inline_bytes_are_taken_at_once)
{
    rc_pair_fini(&pair);
    rc_pair_init(&pair, &(struct rc_options){.max_inline = 64});
    uint8_t bytes[64];
    struct ibv_sge sge = {(uintptr_t)bytes, sizeof(bytes), 0 /* no key is needed */};
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr = {.wr_id = 1,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};
    memset(bytes, 0xa5, sizeof(bytes));
    wr.wr.rdma.remote_addr = (uintptr_t)pair.ends[1].memory;
    wr.wr.rdma.rkey = pair.ends[1].mr->rkey;
    ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), 0);
    memset(bytes, 0, sizeof(bytes));
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    for (unsigned i = 0; i < sizeof(bytes); i++) {
        ck_assert_uint_eq(pair.ends[1].memory[i], 0xa5);
    }
    sge.length = 65;
    ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), EINVAL);
    ck_assert_ptr_eq(bad, &wr);
}
END_TEST

START_TEST(a_list_of_pieces_is_one_message)
{
    struct ibv_sge sges[4];
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr = {.wr_id = 1,
                             .sg_list = sges,
                             .num_sge = 4,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED};
    size_t offsets[] = {100, 50000, 20000, 9};
    uint32_t lengths[] = {3000, 0, 5000, 4097};
    for (unsigned i = 0; i < 4; i++) {
        sges[i] = (struct ibv_sge){(uintptr_t)pair.ends[0].memory + offsets[i],
                                   lengths[i], pair.ends[0].mr->lkey};
    }
    wr.wr.rdma.remote_addr = (uintptr_t)pair.ends[1].memory;
    wr.wr.rdma.rkey = pair.ends[1].mr->rkey;
    ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    const uint8_t *at = pair.ends[1].memory;
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_mem_eq(at, pair.ends[0].memory + offsets[i], lengths[i]);
        at += lengths[i];
    }
}
END_TEST

START_TEST(unsignaled_work_frees_its_slots_with_a_later_completion)
{
    struct ibv_sge sge = {(uintptr_t)pair.ends[0].memory, 8, pair.ends[0].mr->lkey};
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
    struct ibv_wc wc[4];
    wr.wr.rdma.remote_addr = (uintptr_t)pair.ends[1].memory;
    wr.wr.rdma.rkey = pair.ends[1].mr->rkey;
    for (unsigned i = 0; i < 64; i++) {
        wr.send_flags = i == 40 ? IBV_SEND_SIGNALED : 0;
        ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), 0);
    }
    ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), ENOMEM);
    rc_run(&pair, RC_PS_PER_MS);
    /* All have been executed, but no completion was polled. */
    ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), ENOMEM);
    ck_assert_int_eq(rc_poll(&pair, 0, wc, 4), 1);
    for (unsigned i = 0; i < 41; i++) {
        ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), 0);
    }
    ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), ENOMEM);
}
END_TEST

START_TEST(a_fence_waits_for_reads)
{
    struct ibv_sge sge = {(uintptr_t)pair.ends[0].memory, 8, pair.ends[0].mr->lkey};
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr = {.wr_id = 2,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE};
    uint8_t before[8];
    memcpy(before, pair.ends[1].memory + 16, 8);
    wr.wr.rdma.remote_addr = (uintptr_t)pair.ends[1].memory + 16;
    wr.wr.rdma.rkey = pair.ends[1].mr->rkey;
    /* The WRITE sends what the READ fetched, which is possible only if it waited. */
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_READ, 1, 0, 8, 16), 0);
    ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), 0);
    ck_assert_uint_eq(rc_wait(&pair, 0).wr_id, 1);
    ck_assert_uint_eq(rc_wait(&pair, 0).wr_id, 2);
    ck_assert_mem_eq(pair.ends[1].memory + 16, before, 8);
}
END_TEST

START_TEST(reads_in_flight_are_limited)
{
    rc_pair_fini(&pair);
    rc_pair_init(&pair,
                 &(struct rc_options){.max_rd_atomic = 1, .max_dest_rd_atomic = 1});
    for (unsigned i = 0; i < 8; i++) {
        ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_READ, i, 0, 100, 0), 0);
    }
    weft_ps start = sim_now(pair.engine);
    for (unsigned i = 0; i < 8; i++) {
        ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    }
    ck_assert_int_gt(sim_now(pair.engine) - start, 8 * 2 * RC_PS_PER_US);
}
END_TEST

/* A READ of 2 GiB with a path MTU of 256 bytes has 2^23 responses, the most that may be
 * in flight. It waits for the WRITE before it, and its responses are accepted. */
START_TEST(a_read_may_have_half_of_all_psns)
{
    static const struct sim_phantom phantom = {.start = UINT64_C(1) << 40,
                                               .n_bytes = UINT64_C(1) << 31};
    struct rc_end kept[2];
    rc_pair_fini(&pair);
    rc_pair_init(&pair, &(struct rc_options){.path_mtu = IBV_MTU_256,
                                             .timeout = 8, /* 1 ms */
                                             .overrides = {{"max_msg", "2GiB"}}});
    sim_engine_set_phantom(pair.engine, &phantom);
    for (unsigned i = 0; i < 2; i++) {
        struct sim_request request = {.verb = SIM_VERB_REG_MR};
        kept[i] = pair.ends[i];
        pair.ends[i].memory = (uint8_t *)phantom.start;
        request.arg.reg_mr.pd = pair.ends[i].pd;
        request.arg.reg_mr.addr = pair.ends[i].memory;
        request.arg.reg_mr.length = phantom.n_bytes;
        request.arg.reg_mr.access = pair.options.mr_access;
        ck_assert_int_eq(rc_verb(&pair, i, &request), 0);
        pair.ends[i].mr = request.out.mr;
    }
    uint64_t before = sim_port_sent(pair.ends[0].port).packets;
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 8, 0), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_READ, 2, 0, 1u << 31, 0), 0);
    rc_run(&pair, RC_PS_PER_US);
    ck_assert_uint_eq(sim_port_sent(pair.ends[0].port).packets, before + 1);
    ck_assert_uint_eq(rc_wait(&pair, 0).wr_id, 1);
    rc_run(&pair, 3 * RC_PS_PER_MS);
    ck_assert_uint_eq(rc_counters(&pair, 0).timeouts, 0);
    ck_assert_uint_gt(sim_port_sent(pair.ends[1].port).packets, 50000);
    for (unsigned i = 0; i < 2; i++) {
        pair.ends[i].memory = kept[i].memory;
        pair.ends[i].mr = kept[i].mr;
    }
}
END_TEST

START_TEST(both_directions_run_at_once)
{
    weft_ps start = sim_now(pair.engine);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 400000, 0), 0);
    ck_assert_int_eq(rc_post(&pair, 1, IBV_WR_RDMA_WRITE, 1, 500000, 400000, 500000), 0);
    (void)rc_wait(&pair, 0);
    (void)rc_wait(&pair, 1);
    ck_assert_int_lt(sim_now(pair.engine) - start, 108 * wire_ps(0, 4096));
}
END_TEST

START_TEST(an_own_gid_loops_back)
{
    struct ibv_qp *a = rc_make_qp(&pair, 0);
    struct ibv_qp *b = rc_make_qp(&pair, 0);
    struct ibv_qp *qps[2] = {a, b};
    for (unsigned i = 0; i < 2; i++) {
        struct ibv_qp_attr init = rc_init_attr(&pair);
        struct ibv_qp_attr rtr = rc_rtr_attr(&pair, 1, qps[1 - i]->qp_num);
        struct ibv_qp_attr own = rc_rtr_attr(&pair, 0, qps[1 - i]->qp_num);
        struct ibv_qp_attr rts = rc_rts_attr(&pair, i);
        own.ah_attr.grh.dgid = rtr.ah_attr.grh.dgid; /* the peer of end 1 is this end */
        own.rq_psn = pair.options.sq_psn[1 - i];
        ck_assert_int_eq(rc_modify(&pair, 0, qps[i], &init, rc_init_mask), 0);
        ck_assert_int_eq(rc_modify(&pair, 0, qps[i], &own, rc_rtr_mask), 0);
        ck_assert_int_eq(rc_modify(&pair, 0, qps[i], &rts, rc_rts_mask), 0);
    }
    pair.ends[0].qp = a;
    struct ibv_mr *remote = pair.ends[1].mr;
    uint8_t *remote_memory = pair.ends[1].memory;
    pair.ends[1].mr = pair.ends[0].mr;
    pair.ends[1].memory = pair.ends[0].memory;
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_READ, 1, 0, 9000, 100000), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_mem_eq(pair.ends[0].memory, pair.ends[0].memory + 100000, 9000);
    pair.ends[1].mr = remote;
    pair.ends[1].memory = remote_memory;
}
END_TEST

START_TEST(link_local_ipv6_works_too)
{
    rc_pair_fini(&pair);
    rc_pair_init(&pair, &(struct rc_options){.is_ipv6 = true});
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 9000, 100), 0);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
}
END_TEST

START_TEST(the_story_has_one_line_for_each_thing)
{
    rc_run(&pair, RC_PS_PER_US - sim_now(pair.engine) % RC_PS_PER_US);
    ck_assert_int_eq(rc_post_recv(&pair, 1, 7, 0, 100), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_SEND, 42, 0, 100, 0), 0);
    (void)rc_wait(&pair, 0);
    char expected[512];
    weft_ns now = sim_now_ns(pair.engine);
    unsigned a = pair.ends[0].qp->qp_num;
    unsigned b = pair.ends[1].qp->qp_num;
    weft_ns start = strtoll(pair.story.bytes, NULL, 10);
    ck_assert_int_lt(start, now);
    /* 300 doorbell, 15 wire of 186 B, 1000 flight, 200 execution; ACK 100, 7, 1200. */
    weft_format(expected, sizeof(expected),
                "%lld b p0/qp%u post opcode=RECV bytes=100\n"
                "%lld a p0/qp%u post opcode=SEND bytes=100 psn=256\n"
                "%lld b p0/qp%u complete opcode=RECV status=SUCCESS bytes=100 psn=256\n"
                "%lld a p0/qp%u complete opcode=SEND status=SUCCESS bytes=100 psn=256\n",
                (long long)start, b, (long long)start, a, (long long)start + 1514, b,
                (long long)start + 2821, a);
    ck_assert_str_eq(pair.story.bytes, expected);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rc");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, write_with_imm_moves_bytes_and_completes_both_ends);
    tcase_add_test(all, sends_land_in_order_of_posting);
    tcase_add_test(all, read_brings_the_peers_bytes);
    tcase_add_test(all, atomics_return_what_was_there);
    tcase_add_loop_test(all, an_atomic_needs_all_its_eight_bytes, 0, 18);
    tcase_add_loop_test(all, a_write_takes_exactly_its_time, 0, 7);
    tcase_add_test(all, a_write_with_imm_is_seen_at_its_time);
    tcase_add_test(all, a_read_takes_exactly_its_time);
    tcase_add_test(all, messages_follow_one_another_without_a_gap);
    tcase_add_test(all, queue_pairs_of_a_port_take_turns);
    tcase_add_test(all, inline_bytes_are_taken_at_once);
    tcase_add_test(all, a_list_of_pieces_is_one_message);
    tcase_add_test(all, unsignaled_work_frees_its_slots_with_a_later_completion);
    tcase_add_test(all, a_fence_waits_for_reads);
    tcase_add_test(all, reads_in_flight_are_limited);
    tcase_add_test(all, a_read_may_have_half_of_all_psns);
    tcase_add_test(all, both_directions_run_at_once);
    tcase_add_test(all, an_own_gid_loops_back);
    tcase_add_test(all, link_local_ipv6_works_too);
    tcase_add_test(all, the_story_has_one_line_for_each_thing);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
