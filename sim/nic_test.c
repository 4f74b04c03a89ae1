/* Verbs objects: lifetimes, limits, keys, completions, and queries. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/rc_testing.h"

static struct rc_pair pair;

static void setup(void)
{
    rc_pair_init(&pair, NULL);
}

static void restart(const struct rc_options *options)
{
    rc_pair_fini(&pair);
    rc_pair_init(&pair, options);
}

static void teardown(void)
{
    rc_pair_fini(&pair);
}

static int destroy_qp(unsigned end, struct ibv_qp *qp)
{
    struct sim_request request = {.verb = SIM_VERB_DESTROY_QP, .arg.qp = qp};
    return rc_verb(&pair, end, &request);
}

static int destroy_cq(unsigned end, struct ibv_cq *cq)
{
    struct sim_request request = {.verb = SIM_VERB_DESTROY_CQ, .arg.cq = cq};
    return rc_verb(&pair, end, &request);
}

static int dealloc_pd(unsigned end, struct ibv_pd *pd)
{
    struct sim_request request = {.verb = SIM_VERB_DEALLOC_PD, .arg.pd = pd};
    return rc_verb(&pair, end, &request);
}

static int dereg_mr(unsigned end, struct ibv_mr *mr)
{
    struct sim_request request = {.verb = SIM_VERB_DEREG_MR, .arg.mr = mr};
    return rc_verb(&pair, end, &request);
}

static int reg(void *addr, size_t length, int access, struct ibv_mr **out)
{
    struct sim_request request = {.verb = SIM_VERB_REG_MR};
    request.arg.reg_mr.pd = pair.ends[0].pd;
    request.arg.reg_mr.addr = addr;
    request.arg.reg_mr.length = length;
    request.arg.reg_mr.access = access;
    int error = rc_verb(&pair, 0, &request);
    *out = request.out.mr;
    return error;
}

START_TEST(objects_go_in_order)
{
    struct rc_end *end = &pair.ends[0];
    ck_assert_int_eq(dealloc_pd(0, end->pd), EBUSY);
    ck_assert_int_eq(destroy_cq(0, end->cq), EBUSY);
    ck_assert_int_eq(destroy_qp(0, end->qp), 0);
    ck_assert_int_eq(dealloc_pd(0, end->pd), EBUSY);
    ck_assert_int_eq(destroy_cq(0, end->cq), 0);
    ck_assert_int_eq(dereg_mr(0, end->mr), 0);
    ck_assert_int_eq(dealloc_pd(0, end->pd), 0);
}
END_TEST

START_TEST(regions_have_their_rules)
{
    struct ibv_mr *mr;
    uint8_t *memory = pair.ends[0].memory;
    ck_assert_int_eq(reg(memory, 100, IBV_ACCESS_REMOTE_WRITE, &mr), EINVAL);
    ck_assert_int_eq(reg(memory, 100, IBV_ACCESS_REMOTE_ATOMIC, &mr), EINVAL);
    ck_assert_int_eq(reg(memory, 0, 0, &mr), EINVAL);
    ck_assert_int_eq(reg(memory + 1, 0, 0, &mr), 0);
    ck_assert_int_eq(reg(memory, SIZE_MAX, 0, &mr), EINVAL);
    ck_assert_int_eq(reg(NULL, 100, 0, &mr), EFAULT);
    ck_assert_ptr_null(mr);
    ck_assert_int_eq(reg(memory + 10, 100, IBV_ACCESS_LOCAL_WRITE, &mr), 0);
    ck_assert_ptr_eq(mr->addr, memory + 10);
    ck_assert_uint_eq(mr->length, 100);
    ck_assert_ptr_eq(mr->pd, pair.ends[0].pd);
}
END_TEST

START_TEST(keys_do_not_come_again_soon)
{
    enum { N = 20000 };
    uint32_t *keys = calloc(N, sizeof(*keys));
    struct ibv_mr *mr;
    for (unsigned i = 0; i < N; i++) {
        ck_assert_int_eq(reg(pair.ends[0].memory, 4096, 0, &mr), 0);
        keys[i] = mr->lkey;
        ck_assert_uint_ge(mr->lkey, 256);
        ck_assert_int_eq(dereg_mr(0, mr), 0);
    }
    /* No key is repeated within sixteen thousand, because each slot is reused with the
     * next of 256 variants. */
    for (unsigned i = 1; i < N; i += 97) {
        for (unsigned back = 1; back <= 16000 && back <= i; back++) {
            ck_assert_uint_ne(keys[i], keys[i - back]);
        }
    }
    free(keys);
}
END_TEST

START_TEST(pinned_memory_is_limited)
{
    struct ibv_mr *mr;
    struct ibv_mr *other;
    restart(&(struct rc_options){.memlock_bytes = RC_MEMORY_BYTES + 8192});
    uint8_t *memory = pair.ends[0].memory;
    ck_assert_int_eq(pair.ends[0].memlock_left, 8192);
    ck_assert_int_eq(reg(memory + 4095, 2, 0, &mr), 0); /* two bytes on two pages */
    ck_assert_int_eq(pair.ends[0].memlock_left, 0);
    ck_assert_int_eq(reg(memory, 1, 0, &other), ENOMEM);
    ck_assert_int_eq(dereg_mr(0, mr), 0);
    ck_assert_int_eq(reg(memory, 1, 0, &other), 0);
}
END_TEST

START_TEST(registration_takes_longer_for_more_pages)
{
    struct ibv_mr *mr;
    weft_ps start = sim_now(pair.engine);
    ck_assert_int_eq(reg(pair.ends[0].memory, RC_MEMORY_BYTES, 0, &mr), 0);
    weft_ps expected = pair.profile.reg_mr_ps + 256 * pair.profile.reg_mr_page_ps;
    ck_assert_int_eq(sim_now(pair.engine) - start, expected);
}
END_TEST

static int create_qp(struct ibv_qp_init_attr *init)
{
    struct sim_request request = {.verb = SIM_VERB_CREATE_QP};
    request.arg.create_qp.pd = pair.ends[0].pd;
    request.arg.create_qp.init = *init;
    int error = rc_verb(&pair, 0, &request);
    *init = request.arg.create_qp.init;
    return error;
}

static struct ibv_qp_init_attr init_attr(void)
{
    return (struct ibv_qp_init_attr){
        .send_cq = pair.ends[0].cq,
        .recv_cq = pair.ends[0].cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 10,
                .max_recv_wr = 10,
                .max_send_sge = 1,
                .max_recv_sge = 1},
    };
}

START_TEST(queue_pairs_are_granted_or_refused)
{
    struct ibv_qp_init_attr init = init_attr();
    ck_assert_int_eq(create_qp(&init), 0);
    ck_assert_uint_eq(init.cap.max_send_wr, 16); /* mlx5 rounds up */
    init = init_attr();
    init.cap.max_send_wr = 32769;
    ck_assert_int_eq(create_qp(&init), EINVAL);
    init = init_attr();
    init.cap.max_recv_sge = 31;
    ck_assert_int_eq(create_qp(&init), EINVAL);
    init = init_attr();
    init.cap.max_inline_data = 221;
    ck_assert_int_eq(create_qp(&init), EINVAL);
    init = init_attr();
    init.qp_type = IBV_QPT_UD;
    ck_assert_int_eq(create_qp(&init), EOPNOTSUPP);
    init = init_attr();
    init.send_cq = NULL;
    ck_assert_int_eq(create_qp(&init), EINVAL);
    init = init_attr();
    init.cap.max_send_wr = 0;
    ck_assert_int_eq(create_qp(&init), 0);
}
END_TEST

START_TEST(hns_grants_differently)
{
    restart(&(struct rc_options){.profile = "hns-hip08"});
    struct ibv_qp_init_attr init = init_attr();
    init.cap.max_inline_data = 64;
    ck_assert_int_eq(create_qp(&init), 0);
    ck_assert_uint_eq(init.cap.max_inline_data, 32);
    ck_assert_uint_eq(init.cap.max_send_wr, 64);
    init = init_attr();
    init.cap.max_send_wr = 0;
    ck_assert_int_eq(create_qp(&init), EINVAL);
    struct ibv_cq *cq = rc_make_cq(&pair, 0, 10);
    ck_assert_int_eq(cq->cqe, 64);
}
END_TEST

START_TEST(minimal_runs_out)
{
    restart(&(struct rc_options){.profile = "minimal",
                                 .depth = 16,
                                 .cqe = 64,
                                 .max_rd_atomic = 1,
                                 .max_dest_rd_atomic = 1});
    struct ibv_qp_init_attr init = init_attr();
    for (unsigned i = 1; i < 64; i++) {
        ck_assert_int_eq(create_qp(&init), 0);
    }
    ck_assert_int_eq(create_qp(&init), ENOMEM);
    struct sim_request pd = {.verb = SIM_VERB_ALLOC_PD};
    for (unsigned i = 1; i < 16; i++) {
        ck_assert_int_eq(rc_verb(&pair, 0, &pd), 0);
    }
    ck_assert_int_eq(rc_verb(&pair, 0, &pd), ENOMEM);
    ck_assert_ptr_null(pd.out.pd);
    struct ibv_mr *mr;
    for (unsigned i = 1; i < 64; i++) {
        ck_assert_int_eq(reg(pair.ends[0].memory, 1, 0, &mr), 0);
    }
    ck_assert_int_eq(reg(pair.ends[0].memory, 1, 0, &mr), ENOMEM);
    for (unsigned i = 1; i < 64; i++) {
        (void)rc_make_cq(&pair, 0, 8);
    }
    struct sim_request cq = {.verb = SIM_VERB_CREATE_CQ, .arg.create_cq = {.cqe = 8}};
    ck_assert_int_eq(rc_verb(&pair, 0, &cq), ENOMEM);
    cq.arg.create_cq.cqe = 65;
    ck_assert_int_eq(rc_verb(&pair, 0, &cq), EINVAL);
    cq.arg.create_cq.cqe = 0;
    ck_assert_int_eq(rc_verb(&pair, 0, &cq), EINVAL);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 8, 0), EINVAL);
}
END_TEST

START_TEST(numbers_are_reused_by_the_devices_rule)
{
    uint32_t first = pair.ends[0].qp->qp_num;
    struct ibv_qp *second = rc_make_qp(&pair, 0);
    ck_assert_uint_eq(second->qp_num, first + 1);
    ck_assert_int_eq(destroy_qp(0, pair.ends[0].qp), 0);
    ck_assert_uint_eq(rc_make_qp(&pair, 0)->qp_num, first);
    /* The two NICs count from different numbers. */
    ck_assert_uint_ne(pair.ends[1].qp->qp_num, first);
    restart(
        &(struct rc_options){.overrides = {{"qpn_reuse", "cyclic"}, {"max_qp", "4"}}});
    first = pair.ends[0].qp->qp_num;
    for (unsigned i = 1; i < 12; i++) {
        struct ibv_qp *qp = rc_make_qp(&pair, 0);
        ck_assert_uint_ne(qp->qp_num, first);
        ck_assert_uint_lt(qp->qp_num, first + 4);
        ck_assert_int_eq(destroy_qp(0, qp), 0);
    }
}
END_TEST

START_TEST(a_full_cq_is_never_silent)
{
    struct ibv_async_event event;
    struct ibv_wc wc[8];
    int n = 0;
    /* A power of two, of which mlx5 reserves one: seven if four are requested. */
    restart(&(struct rc_options){.cqe = 4});
    ck_assert_int_eq(sim_nic_req_notify(pair.ends[0].cq, true), 0);
    for (unsigned i = 0; i < 8; i++) {
        ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, i, 0, 8, 0), 0);
    }
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert(rc_told(&pair, "a p0 cq_overrun cqe=7"));
    ck_assert_int_eq(pair.ends[0].qp->state, IBV_QPS_ERR);
    ck_assert_int_eq(pair.ends[0].n_wakes, 1);
    ck_assert_int_eq(sim_nic_poll_cq(pair.ends[0].cq, 8, wc, &n), EIO);
    ck_assert_int_eq(sim_nic_async_event(pair.ends[0].nic, 0, &event), 0);
    ck_assert_int_eq(event.event_type, IBV_EVENT_CQ_ERR);
    ck_assert_ptr_eq(event.element.cq, pair.ends[0].cq);
}
END_TEST

START_TEST(an_armed_cq_wakes_once)
{
    struct ibv_wc wc[8];
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 0, 0, 8, 0), 0);
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert_int_eq(pair.ends[0].n_wakes, 0); /* not armed */
    /* Arming after a completion does not report it, so users must poll again after
     * arming. */
    ck_assert_int_eq(sim_nic_req_notify(pair.ends[0].cq, false), 0);
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert_int_eq(pair.ends[0].n_wakes, 0);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, i, 0, 8, 0), 0);
    }
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert_int_eq(pair.ends[0].n_wakes, 1);
    ck_assert_int_eq(rc_poll(&pair, 0, wc, 8), 4);
}
END_TEST

/* The user polls an entry and arms again before it is notified of that entry. It is
 * notified of the next one, too. */
START_TEST(a_notification_leaves_the_next_arming)
{
    struct ibv_wc wc;
    restart(&(struct rc_options){.overrides = {{"cqe_overhead", "0ns"}}});
    ck_assert_int_eq(sim_nic_req_notify(pair.ends[0].cq, false), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 8, 0), 0);
    while (rc_poll(&pair, 0, &wc, 1) == 0) {
        ck_assert(sim_step(pair.engine, SIM_NEVER));
    }
    ck_assert_int_eq(pair.ends[0].n_wakes, 0);
    ck_assert_int_eq(sim_nic_req_notify(pair.ends[0].cq, false), 0);
    rc_run(&pair, RC_PS_PER_US);
    ck_assert_int_eq(pair.ends[0].n_wakes, 1);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 2, 0, 8, 0), 0);
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert_int_eq(pair.ends[0].n_wakes, 2);
}
END_TEST

START_TEST(solicited_only_waits_for_the_solicited)
{
    struct ibv_sge sge = {(uintptr_t)pair.ends[0].memory, 8, pair.ends[0].mr->lkey};
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(rc_post_recv(&pair, 1, i, 0, 8), 0);
    }
    ck_assert_int_eq(sim_nic_req_notify(pair.ends[1].cq, true), 0);
    ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), 0);
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert_int_eq(pair.ends[1].n_wakes, 0);
    wr.send_flags = IBV_SEND_SOLICITED;
    ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), 0);
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert_int_eq(pair.ends[1].n_wakes, 1);
}
END_TEST

START_TEST(verbs_fail_when_told_to)
{
    struct ibv_mr *mr;
    struct sim_nic *nic = pair.ends[0].nic;
    sim_nic_fault_verb(nic, SIM_VERB_REG_MR, 2, EFAULT, 0);
    sim_nic_fault_verb(nic, SIM_VERB_REG_MR, 3, 0, RC_PS_PER_S);
    sim_nic_fault_verb(nic, SIM_VERB_POST_SEND, 2, EIO, 0);
    sim_nic_fault_verb(nic, SIM_VERB_POST_RECV, 1, ENOMEM, 0);
    sim_nic_fault_verb(nic, SIM_VERB_CREATE_CQ, 9, ENOMEM, 0); /* is never reached */
    ck_assert_int_eq(reg(pair.ends[0].memory, 8, 0, &mr), 0);
    ck_assert_int_eq(reg(pair.ends[0].memory, 8, 0, &mr), EFAULT);
    weft_ps start = sim_now(pair.engine);
    ck_assert_int_eq(reg(pair.ends[0].memory, 8, 0, &mr), 0);
    ck_assert_int_ge(sim_now(pair.engine) - start, RC_PS_PER_S);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 8, 0), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 2, 0, 8, 0), EIO);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 3, 0, 8, 0), 0);
    ck_assert_int_eq(rc_post_recv(&pair, 0, 1, 0, 8), ENOMEM);
    ck_assert_int_eq(rc_post_recv(&pair, 0, 1, 0, 8), 0);
}
END_TEST

START_TEST(abandoned_verbs_are_undone_or_finished)
{
    struct sim_nic *nic = pair.ends[0].nic;
    struct sim_request make = {.verb = SIM_VERB_ALLOC_PD};
    struct sim_request drop = {.verb = SIM_VERB_DEREG_MR, .arg.mr = pair.ends[0].mr};
    ck_assert_int_eq(sim_nic_submit(nic, &make), 0);
    ck_assert_int_eq(sim_nic_submit(nic, &drop), 0);
    sim_nic_cancel(nic, &make);
    sim_nic_cancel(nic, &drop);
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert(!make.is_done);
    ck_assert(!drop.is_done);
    ck_assert_int_eq(destroy_qp(0, pair.ends[0].qp), 0);
    ck_assert_int_eq(dealloc_pd(0, pair.ends[0].pd), 0); /* the region was deregistered */
}
END_TEST

START_TEST(a_dead_process_leaves_nothing)
{
    struct sim_request pending = {.verb = SIM_VERB_ALLOC_PD};
    ck_assert_int_eq(sim_nic_submit(pair.ends[0].nic, &pending), 0);
    ck_assert_int_eq(rc_post(&pair, 1, IBV_WR_RDMA_WRITE, 1, 0, 8, 0), 0);
    sim_nic_reset(pair.ends[0].nic);
    rc_run(&pair, 10 * RC_PS_PER_S);
    ck_assert(!pending.is_done);
    struct ibv_wc wc = {0};
    ck_assert_int_eq(rc_poll(&pair, 1, &wc, 1), 1);
    ck_assert_int_eq(wc.status, IBV_WC_RETRY_EXC_ERR);
}
END_TEST

START_TEST(queries_tell_the_profile)
{
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    struct sim_gid gid;
    struct sim_nic *nic = pair.ends[0].nic;
    ck_assert_int_eq(sim_nic_query_device(nic, &device), 0);
    ck_assert_int_eq(device.max_qp, 262144);
    ck_assert_int_eq(device.phys_port_cnt, 1);
    const uint8_t guid[8] = {0x00, 0x00, 0x00, 0xff, 0xfe, 0x00, 0x00, 0x01};
    ck_assert_mem_eq(&device.node_guid, guid, 8);
    ck_assert_int_eq(sim_nic_query_port(nic, 1, &port), 0);
    ck_assert_int_eq(port.state, IBV_PORT_ACTIVE);
    ck_assert_int_eq(port.active_mtu, IBV_MTU_4096);
    ck_assert_int_eq(port.active_speed, 32); /* 4 x 25 Gb/s */
    ck_assert_int_eq(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    ck_assert_int_eq(sim_nic_query_port(nic, 0, &port), EINVAL);
    ck_assert_int_eq(sim_nic_query_port(nic, 2, &port), EINVAL);
    ck_assert_int_eq(sim_nic_query_gid(nic, 2, 0, &gid), EINVAL);
    ck_assert_int_eq(sim_nic_query_gid(nic, 1, 200, &gid), ENODATA);
    ck_assert_int_eq(sim_nic_profile(nic)->id, WEFT_PROFILE_MLX5);
    sim_port_set_down(pair.ends[0].port, true, false, true);
    ck_assert_int_eq(sim_nic_query_port(nic, 1, &port), 0);
    ck_assert_int_eq(port.state, IBV_PORT_DOWN);
}
END_TEST

/* At most 96 bytes of headers (ib_addr.h); rxe counts 80. */
START_TEST(the_active_mtu_follows_the_netdev)
{
    static const struct {
        uint32_t netdev, mlx5, rxe;
    } rows[] = {{9000, IBV_MTU_4096, IBV_MTU_4096}, {4192, IBV_MTU_4096, IBV_MTU_4096},
                {4191, IBV_MTU_2048, IBV_MTU_4096}, {4176, IBV_MTU_2048, IBV_MTU_4096},
                {4175, IBV_MTU_2048, IBV_MTU_2048}, {1500, IBV_MTU_1024, IBV_MTU_1024},
                {700, IBV_MTU_512, IBV_MTU_512},    {400, IBV_MTU_256, IBV_MTU_256},
                {68, IBV_MTU_256, IBV_MTU_256}};
    static const char *const profiles[] = {"mlx5", "rxe"};
    for (unsigned p = 0; p < 2; p++) {
        restart(&(struct rc_options){.profile = profiles[p]});
        for (unsigned i = 0; i < WEFT_LENGTH(rows); i++) {
            struct ibv_port_attr port;
            sim_port_set_mtu(pair.ends[0].port, rows[i].netdev);
            ck_assert_int_eq(sim_nic_query_port(pair.ends[0].nic, 1, &port), 0);
            ck_assert_uint_eq(port.active_mtu, p == 0 ? rows[i].mlx5 : rows[i].rxe);
        }
    }
}
END_TEST

START_TEST(speeds_are_those_of_the_cable)
{
    static const struct {
        uint64_t bps;
        uint8_t code;
    } rows[] = {{10000000000u, 1},   {40000000000u, 4},   {56000000000u, 16},
                {100000000000u, 32}, {200000000000u, 64}, {400000000000u, 128}};
    for (unsigned i = 0; i < WEFT_LENGTH(rows); i++) {
        struct ibv_port_attr port;
        sim_port_set_rate(pair.ends[0].port, rows[i].bps);
        ck_assert_int_eq(sim_nic_query_port(pair.ends[0].nic, 1, &port), 0);
        ck_assert_uint_eq(port.active_speed, rows[i].code);
    }
}
END_TEST

START_TEST(events_queue_up_and_go_with_their_objects)
{
    struct ibv_async_event event;
    struct sim_nic *nic = pair.ends[0].nic;
    for (unsigned i = 0; i < 20; i++) {
        sim_nic_gid_changed(nic, pair.ends[0].port);
    }
    struct ibv_sge sge = {(uintptr_t)pair.ends[1].memory, 8, pair.ends[1].mr->lkey};
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
    ck_assert_int_eq(sim_nic_post_send(pair.ends[1].qp, &wr, &bad), 0);
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert(rc_told(&pair, "async event=QP_ACCESS_ERR"));
    ck_assert_int_eq(destroy_qp(0, pair.ends[0].qp), 0);
    for (unsigned i = 0; i < 20; i++) {
        ck_assert_int_eq(sim_nic_async_event(nic, 0, &event), 0);
        ck_assert_int_eq(event.event_type, IBV_EVENT_GID_CHANGE);
    }
    ck_assert_int_eq(sim_nic_async_event(nic, 0, &event), EAGAIN);
}
END_TEST

static void count_wake(void *context)
{
    ++*(int *)context;
}

/* A process that ends has no events, of whatever they are about, and is not woken for those
 * that come later. Other processes keep theirs. */
START_TEST(a_process_that_ended_hears_nothing)
{
    struct ibv_async_event event;
    struct sim_nic *nic = pair.ends[0].nic;
    int n_first = 0, n_second = 0;
    uint32_t second = sim_nic_open(nic, NULL);
    sim_nic_async_waker(nic, 0, (struct sim_waker){count_wake, &n_first});
    sim_nic_async_waker(nic, second, (struct sim_waker){count_wake, &n_second});
    sim_nic_gid_changed(nic, pair.ends[0].port);
    sim_nic_reset_user(nic, 0);
    ck_assert_int_eq(sim_nic_async_event(nic, 0, &event), EAGAIN);
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert_int_eq(n_first, 0);
    ck_assert_int_eq(n_second, 1);
    sim_nic_gid_changed(nic, pair.ends[0].port);
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert_int_eq(n_first, 0);
    ck_assert_int_eq(n_second, 2);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(sim_nic_async_event(nic, second, &event), 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nic");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 30);
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, objects_go_in_order);
    tcase_add_test(all, regions_have_their_rules);
    tcase_add_test(all, keys_do_not_come_again_soon);
    tcase_add_test(all, pinned_memory_is_limited);
    tcase_add_test(all, registration_takes_longer_for_more_pages);
    tcase_add_test(all, queue_pairs_are_granted_or_refused);
    tcase_add_test(all, hns_grants_differently);
    tcase_add_test(all, minimal_runs_out);
    tcase_add_test(all, numbers_are_reused_by_the_devices_rule);
    tcase_add_test(all, a_full_cq_is_never_silent);
    tcase_add_test(all, an_armed_cq_wakes_once);
    tcase_add_test(all, a_notification_leaves_the_next_arming);
    tcase_add_test(all, solicited_only_waits_for_the_solicited);
    tcase_add_test(all, verbs_fail_when_told_to);
    tcase_add_test(all, abandoned_verbs_are_undone_or_finished);
    tcase_add_test(all, a_dead_process_leaves_nothing);
    tcase_add_test(all, queries_tell_the_profile);
    tcase_add_test(all, the_active_mtu_follows_the_netdev);
    tcase_add_test(all, speeds_are_those_of_the_cable);
    tcase_add_test(all, events_queue_up_and_go_with_their_objects);
    tcase_add_test(all, a_process_that_ended_hears_nothing);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
