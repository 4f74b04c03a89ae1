#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/suite_testing.h"
#include "sim/neighbour.h"
#include "sim/stack_impl.h"
#include "sim/stack_testing.h"

#define MS ((weft_ns)1000000)

enum { P0 = 2, P1 = 3, BOND = 4 };

static struct net net;

/* Two cables, with a bond over both at each end: 10.0.0.1 and 10.0.0.2. */
static void start(void)
{
    static const char *const addresses[] = {"10.0.0.1/24", "10.0.0.2/24"};
    const uint32_t slaves[] = {P0, P1};
    net_init(&net);
    net.has_one_mac = true;
    for (uint32_t i = 0; i < 2; i++) {
        net_add_host(&net, NULL);
    }
    net_cable(&net, 0, NULL, 1, NULL);
    net_cable(&net, 0, NULL, 1, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        struct sim_stack *stack = net.hosts[i].stack;
        struct sim_prefix address = net_prefix(addresses[i]);
        ck_assert_uint_eq(sim_stack_add_bond(stack, "bond0", slaves, 2), BOND);
        ck_assert_int_eq(sim_stack_add_address(stack, BOND, &address), 0);
    }
}

static void stop(void)
{
    net_fini(&net);
}

static struct sim_port *port_of(uint32_t index)
{
    return net.hosts[0].ports[index];
}

/* Checks the GID table of the first host's port `index`: slots 0 and 1 hold the bond's
 * default GIDs, 2 and 3 those of its address, or nothing. */
static void check_table(uint32_t index, bool is_full)
{
    union ibv_gid own = net_gid("10.0.0.1");
    struct sim_stack *stack = net.hosts[0].stack;
    for (uint32_t i = 0; i < 5; i++) {
        struct sim_gid gid;
        int error = sim_stack_gid(stack, port_of(index), i, &gid);
        ck_assert_int_eq(error, i < (is_full ? 4 : 2) ? 0 : ENODATA);
        if (error == 0) {
            ck_assert_uint_eq(gid.ifindex, BOND);
            ck_assert_int_eq(gid.type,
                             i % 2 == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2);
            ck_assert_int_eq(memcmp(gid.gid.raw, own.raw, 16) == 0, i >= 2);
        }
    }
    ck_assert_int_eq(sim_stack_owns_gid(stack, port_of(index), &own, 0), is_full);
}

static int ask(uint32_t index, weft_ns until_ns)
{
    int n_done = 0;
    union ibv_gid peer = net_gid("10.0.0.2");
    struct sim_resolve resolve = {.done = net_count(&n_done)};
    int error = sim_stack_resolve(net.hosts[0].stack, port_of(index), 3, &peer, &resolve);
    if (error == EINPROGRESS) {
        net_run(&net, until_ns);
        ck_assert_int_eq(n_done, 1);
        error = resolve.error;
    }
    ck_assert(error != 0 ||
              resolve.destination_mac == sim_port_mac(net.hosts[1].ports[0]));
    return error;
}

START_TEST(only_the_active_port_has_gids)
{
    check_table(0, true);
    check_table(1, false);
    ck_assert_int_eq(ask(0, MS), 0);
    ck_assert_int_eq(ask(1, MS), ENODATA);
    ck_assert_str_eq(sim_stack_netdev(net.hosts[0].stack, 2).name, "bond0");
    ck_assert_uint_eq(sim_stack_netdev(net.hosts[0].stack, 2).n_addresses, 1);
}
END_TEST

START_TEST(all_of_it_moves_when_the_carrier_goes)
{
    struct sim_stack *stack = net.hosts[0].stack;
    struct sim_ip peer = net_ip("10.0.0.2");
    ck_assert_int_eq(ask(0, MS), 0);
    sim_stack_gid_hold(stack, port_of(0), 3); /* held by a QP */
    net_run(&net, 20 * MS);
    sim_port_set_down(port_of(0), true, true, true);
    net_run(&net, 99 * MS); /* miimon has not checked yet */
    check_table(0, true);
    net_run(&net, 101 * MS);
    check_table(0, false);
    check_table(1, true);
    /* The bond never lost its carrier, so its neighbour entries remain. */
    ck_assert_int_eq(sim_neigh_state(stack->netdevs[BOND - 2], &peer),
                     SIM_NEIGH_REACHABLE);
    ck_assert_int_eq(ask(1, 102 * MS), 0);
    ck_assert_ptr_nonnull(strstr(net.story.bytes, " h0 bond0 failover from=p0 to=p1\n"));

    /* When the first cable is repaired, nothing moves back. When the second fails, the
     * bond moves back, and the slot in use is not refilled. */
    sim_port_set_down(port_of(0), true, true, false);
    net_run(&net, 300 * MS);
    check_table(1, true);
    sim_port_set_down(port_of(1), true, true, true);
    net_run(&net, 401 * MS);
    struct sim_gid gid;
    ck_assert_int_eq(sim_stack_gid(stack, port_of(0), 2, &gid), 0);
    ck_assert_int_eq(sim_stack_gid(stack, port_of(0), 3, &gid), ENODATA);
    ck_assert_int_eq(sim_stack_gid(stack, port_of(0), 4, &gid), 0);
    ck_assert_int_eq(gid.type, IBV_GID_TYPE_ROCE_V2);
    sim_stack_gid_release(stack, port_of(0), 3);
}
END_TEST

START_TEST(without_any_carrier_the_neighbour_is_forgotten)
{
    struct sim_stack *stack = net.hosts[0].stack;
    struct sim_ip peer = net_ip("10.0.0.2");
    ck_assert_int_eq(ask(0, MS), 0);
    sim_port_set_down(port_of(0), true, true, true);
    sim_port_set_down(port_of(1), true, true, true);
    net_run(&net, 200 * MS);
    ck_assert_int_eq(sim_neigh_state(stack->netdevs[BOND - 2], &peer), SIM_NEIGH_NONE);
    check_table(0, true);
    /* A killed host does not check any more. */
    sim_port_set_down(port_of(1), true, true, false);
    sim_stack_kill(stack);
    net_run(&net, 400 * MS);
    check_table(0, true);
}
END_TEST

/* The first host uses its second port, whose far end is the backup port of the other
 * host, so its request is not received. */
START_TEST(the_backup_port_is_deaf)
{
    struct sim_port *far = net.hosts[1].ports[0];
    sim_port_set_down(port_of(0), true, true, true);
    net_run(&net, 101 * MS);
    check_table(1, true);
    sim_port_set_down(port_of(0), true, true, false);
    net_run(&net, 110 * MS);
    /* Both hosts moved to p1; now the second is set to p0 again, alone. */
    ck_assert_int_eq(ask(1, 120 * MS), 0);
    struct sim_netdev *bond = net.hosts[1].stack->netdevs[BOND - 2];
    ck_assert_ptr_eq(bond->port, net.hosts[1].ports[1]);
    bond->port = far;
    bond->lower = net.hosts[1].stack->netdevs[0];
    struct sim_ip stranger = net_ip("10.0.0.2");
    sim_neigh_flush(net.hosts[0].stack->netdevs[BOND - 2]);
    ck_assert_int_eq(ask(1, 2000 * MS), ETIMEDOUT);
    ck_assert_int_eq(sim_neigh_state(net.hosts[0].stack->netdevs[BOND - 2], &stranger),
                     SIM_NEIGH_INCOMPLETE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim/stack_bond");
    TCase *tcase = tcase_create("stack_bond");
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_add_test(tcase, only_the_active_port_has_gids);
    tcase_add_test(tcase, all_of_it_moves_when_the_carrier_goes);
    tcase_add_test(tcase, without_any_carrier_the_neighbour_is_forgotten);
    tcase_add_test(tcase, the_backup_port_is_deaf);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
