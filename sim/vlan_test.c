/* Queue pairs on a VLAN: what they send, and what they do not accept. */
#include <check.h>
#include <string.h>

#include "base/suite_testing.h"
#include "sim/nic_objects.h"
#include "sim/rc_testing.h"

#define VLAN 100

static struct rc_pair pair;
static unsigned n_tagged, n_frames, priority;

static void start(void)
{
    rc_pair_init(&pair, &(struct rc_options){.vlan_id = VLAN});
}

static void stop(void)
{
    rc_pair_fini(&pair);
}

static void on_tap(void *context, weft_ns at, const struct sim_port *port,
                   bool is_outgoing, const uint8_t *bytes, size_t n_bytes,
                   const char *comment)
{
    (void)context;
    (void)at;
    (void)port;
    (void)comment;
    ck_assert_uint_gt(n_bytes, 60);
    if (is_outgoing) {
        n_frames++;
        n_tagged += bytes[12] == 0x81 && bytes[13] == 0x00 &&
                    (bytes[14] & 0x0f) == VLAN >> 8 && bytes[15] == (VLAN & 0xff);
        priority = bytes[14] >> 5;
    }
}

START_TEST(the_service_level_is_the_tags_priority)
{
    struct ibv_qp *qps[2];
    for (unsigned i = 0; i < 2; i++) {
        qps[i] = rc_make_qp(&pair, i);
    }
    for (unsigned i = 0; i < 2; i++) {
        struct ibv_qp_attr init = rc_init_attr(&pair);
        struct ibv_qp_attr rtr = rc_rtr_attr(&pair, i, qps[1 - i]->qp_num);
        struct ibv_qp_attr rts = rc_rts_attr(&pair, i);
        rtr.ah_attr.sl = 5;
        ck_assert_int_eq(rc_modify(&pair, i, qps[i], &init, rc_init_mask), 0);
        ck_assert_int_eq(rc_modify(&pair, i, qps[i], &rtr, rc_rtr_mask), 0);
        ck_assert_int_eq(rc_modify(&pair, i, qps[i], &rts, rc_rts_mask), 0);
        pair.ends[i].qp = qps[i];
    }
    n_tagged = n_frames = 0;
    sim_port_tap(pair.ends[0].port, on_tap, NULL);
    rc_fill(&pair);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 10000, 20000), 0);
    struct ibv_wc wc = rc_wait(&pair, 0);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_mem_eq(pair.ends[0].memory, pair.ends[1].memory + 20000, 10000);
    ck_assert_uint_eq(n_frames, 3);
    ck_assert_uint_eq(n_tagged, 3);
    ck_assert_uint_eq(priority, 5);
}
END_TEST

/* Injects a packet for the QP that is correct except for its tag. */
static void inject(uint16_t vlan_tci)
{
    struct rc_end *to = &pair.ends[1];
    struct sim_path path = *((struct sim_qp *)(void *)pair.ends[0].qp)->path;
    struct sim_frame frame = {.opcode = RC_WRITE_ONLY,
                              .dest_qpn = to->qp->qp_num,
                              .psn = pair.options.sq_psn[0],
                              .rkey = to->mr->rkey,
                              .va = (uintptr_t)to->memory};
    path.vlan_tci = vlan_tci;
    path.tag_bytes = vlan_tci != 0 ? 4 : 0;
    frame.path = sim_port_path(to->port, &path);
    sim_nic_input(to->nic, to->port, &frame);
}

START_TEST(another_vlan_is_another_network)
{
    rc_clear_story(&pair);
    inject(0);
    inject(VLAN + 1);
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert_uint_eq(rc_times_told(&pair, "drop why=address"), 2);
    ck_assert_uint_eq(rc_counters(&pair, 1).dropped_unknown_qp, 2);
    inject(3 << 13 | VLAN); /* whatever its priority */
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert_uint_eq(rc_times_told(&pair, "drop"), 2);
}
END_TEST

/* The GID is removed with its address; the netdev's link-local GID remains. */
START_TEST(an_address_of_the_vlan_takes_its_gids_with_it)
{
    struct rc_end *end = &pair.ends[0];
    struct sim_ip ip = sim_ip_v4(10, 0, 1, 1);
    union ibv_gid gid = sim_gid_of_ip(&ip);
    uint32_t ifindex = sim_stack_ifindex(end->stack, end->port, VLAN);
    ck_assert(sim_stack_owns_gid(end->stack, end->port, &gid, VLAN));
    ck_assert_int_eq(sim_stack_del_address(end->stack, ifindex, &ip), 0);
    ck_assert(!sim_stack_owns_gid(end->stack, end->port, &gid, VLAN));
    struct sim_ip own = sim_ip_of_mac(sim_port_mac(end->port));
    gid = sim_gid_of_ip(&own);
    ck_assert(sim_stack_owns_gid(end->stack, end->port, &gid, VLAN));
    ck_assert(sim_stack_owns_gid(end->stack, end->port, &gid, 0)); /* the default GID */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim/vlan");
    TCase *tcase = tcase_create("vlan");
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_add_test(tcase, the_service_level_is_the_tags_priority);
    tcase_add_test(tcase, another_vlan_is_another_network);
    tcase_add_test(tcase, an_address_of_the_vlan_takes_its_gids_with_it);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
