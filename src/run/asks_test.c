/* NICs that NCCL would select, in meshes small enough to know the answer. */
#include <check.h>
#include <string.h>

#include "base/suite_testing.h"
#include "run/asks.h"

#define TRIANGLE                                                                         \
    "name: a\n"                                                                          \
    "topology:\n"                                                                        \
    "  management: {subnet: 10.0.0.0/24}\n"                                              \
    "  nodes: {a: {ports: [p0, p1]}, b: {ports: [p0, p1]}, c: {ports: [p0, p1]}}\n"      \
    "  links:\n"                                                                         \
    "    - {endpoints: [\"a:p0\", \"b:p1\"], subnet: 192.168.1.0/24}\n"                  \
    "    - {endpoints: [\"b:p0\", \"c:p1\"], subnet: 192.168.2.0/24}\n"                  \
    "    - {endpoints: [\"c:p0\", \"a:p1\"], subnet: 192.168.3.0/24}\n"

static struct scenario *scenario;
static struct scenario_world *world;
static struct run_asks asks;
static struct weft_error error;

static void load(const char *text, const char *set)
{
    const struct scenario_set sets[] = {{set}};
    struct scenario_diagnostics diagnostics;

    weft_error_clear(&error);
    ck_assert_int_eq(scenario_load_text("x", text, strlen(text), sets,
                                        set != NULL ? 1 : 0, &scenario, &diagnostics),
                     WEFT_OK);
    scenario_diagnostics_fini(&diagnostics);
    ck_assert_int_eq(scenario_to_world(scenario, &world), WEFT_OK);
}

static void tear_down(void)
{
    run_asks_fini(&asks);
    scenario_world_free(world);
    scenario_free(scenario);
    world = NULL;
    scenario = NULL;
}

static void ask(bool merges)
{
    ck_assert_msg(run_asks_make(world, merges, &asks, &error) == WEFT_OK, "%s",
                  error.message);
}

/* Two NICs give two channels, each with one NIC at either end and in both directions. */
START_TEST(a_channel_of_a_ring_uses_one_nic_everywhere)
{
    load(TRIANGLE, NULL);
    ask(false);
    ck_assert_int_eq(asks.n_channels, 2);
    ck_assert_int_eq(asks.cross_nic, 0);
    for (uint32_t i = 0; i < 6; i++) {
        const struct run_ask *it = &asks.asks[i];

        ck_assert(it->is_ring);
        ck_assert_uint_eq(it->channel, i / 3);
        ck_assert_uint_eq(it->from, i % 3);
        ck_assert_uint_eq(it->to, (i + 1) % 3);
        ck_assert_int_eq(it->send.dev, (int)it->channel);
        ck_assert_int_eq(it->receive.dev, (int)it->channel);
        ck_assert_uint_eq(it->send.n_ports, 1);
        ck_assert_uint_eq(it->send.ports[0], it->channel);
        ck_assert_int_eq(it->send.proxy_rank, (int)it->from);
    }
    ck_assert(!asks.asks[6].is_ring);
    ck_assert_uint_eq(asks.n, 6 + 6 * 2);
}
END_TEST

START_TEST(one_rank_is_told_what_all_are)
{
    struct run_nic nic;

    load(TRIANGLE, NULL);
    ask(true);
    for (uint32_t rank = 0; rank < 3; rank++) {
        ck_assert_int_eq(run_asks_of_rank(world, rank, true, true, &nic, &error),
                         WEFT_OK);
        ck_assert_int_eq(nic.dev, asks.asks[rank].send.dev);
        ck_assert_uint_eq(nic.n_ports, 2);
        ck_assert_int_eq(run_asks_of_rank(world, rank, true, false, &nic, &error),
                         WEFT_OK);
        ck_assert_int_eq(nic.dev, 2); /* the device that the two are merged into */
    }
}
END_TEST

/* Two GPUs and two NICs per host. Ranks of a host see the same topology. The ring enters a host at
 * one rank and leaves it at the other; pairs of ranks have their own NICs. */
START_TEST(ranks_of_a_host_see_the_same)
{
    load("name: a\n"
         "topology:\n"
         "  defaults: {ports: [p0, p1], gpus: 2}\n"
         "  nodes: {a: {}, b: {}}\n"
         "  links:\n"
         "    - {endpoints: [\"a:p0\", \"b:p0\"], subnet: 192.168.1.0/24}\n"
         "    - {endpoints: [\"a:p1\", \"b:p1\"], subnet: 192.168.2.0/24}\n",
         NULL);
    ask(false);
    ck_assert_int_ge(asks.n_channels, 1);
    for (uint32_t i = 0; i < 2 * (uint32_t)asks.n_channels; i++) {
        const struct run_ask *it = &asks.asks[i];

        ck_assert(it->is_ring);
        ck_assert_uint_ne(it->from / 2, it->to / 2);
    }
    for (uint32_t i = 2 * (uint32_t)asks.n_channels; i < asks.n; i++) {
        ck_assert(!asks.asks[i].is_ring);
        ck_assert_int_eq(asks.asks[i].send.proxy_rank, (int)asks.asks[i].from);
    }
    ck_assert_uint_ge(asks.n, 2 * (uint32_t)asks.n_channels + 8);
}
END_TEST

/* A NIC without carrier does not count, and the environment of a host affects that host only. */
START_TEST(what_a_host_has_decides)
{
    load(TRIANGLE, "topology.links.0.up=false");
    ask(false);
    ck_assert_int_eq(asks.asks[0].send.dev, 0);
    ck_assert_uint_eq(asks.asks[0].send.ports[0], 1); /* a's p1 is its only one */
    ck_assert_int_eq(asks.n_channels, 1);
    tear_down();
    load(TRIANGLE, "topology.nodes.b.env={NCCL_NET_MERGE_LEVEL: LOC}");
    ask(true);
    ck_assert_uint_eq(asks.asks[0].send.n_ports, 2);
    ck_assert_uint_eq(asks.asks[0].receive.n_ports, 1);
}
END_TEST

/* Only the listed ports of a card are merged. A plugin reads the list in its own way. */
START_TEST(net_ib_opens_what_the_list_of_hcas_names)
{
    struct run_nic nic;

    load(TRIANGLE, "topology.nodes.a.env={NCCL_IB_HCA: \"=p1\"}");
    ask(true);
    /* 0 is the only device, 1 the one merged from it. */
    ck_assert_int_eq(asks.asks[0].send.dev, 1);
    ck_assert_uint_eq(asks.asks[0].send.n_ports, 1);
    ck_assert_uint_eq(asks.asks[0].send.ports[0], 1);
    ck_assert_uint_eq(asks.asks[0].receive.n_ports, 2);
    ck_assert_int_eq(run_asks_of_rank(world, 0, true, false, &nic, &error), WEFT_OK);
    ck_assert_uint_eq(nic.n_ports, 1);
    ck_assert_uint_eq(nic.ports[0], 1);
    run_asks_fini(&asks);
    ask(false);
    ck_assert_uint_eq(asks.asks[0].send.ports[0], 0);
    tear_down();
    load(TRIANGLE, "topology.nodes.b.env={NCCL_IB_HCA: ^}");
    ck_assert_int_eq(run_asks_make(world, true, &asks, &error), WEFT_ERR_INPUT);
    ck_assert_str_eq(error.message, "there is no network");
    tear_down();
    /* A device with two ports is named after its first port. */
    load(TRIANGLE,
         "topology.defaults={profile: synth2port, env: {NCCL_IB_HCA: \"p0:2\"}}");
    ask(true);
    ck_assert_uint_eq(asks.asks[0].send.n_ports, 1);
    ck_assert_uint_eq(asks.asks[0].send.ports[0], 1);
}
END_TEST

START_TEST(without_a_network_nccl_gives_up)
{
    load("name: a\ntopology:\n  nodes: {a: {}, b: {}}\n", NULL);
    ck_assert_int_eq(run_asks_make(world, false, &asks, &error), WEFT_ERR_INPUT);
    ck_assert_str_eq(error.message, "there is no network");
    tear_down();
    load("name: a\ntopology:\n  nodes: {a: {gpus: 2}}\n", NULL);
    ask(false); /* no connection needs a NIC */
    ck_assert_uint_eq(asks.n, 0);
}
END_TEST

START_TEST(cables_and_switches_lead_somewhere)
{
    struct world_end end;

    load("name: a\n"
         "topology:\n"
         "  nodes: {a: {ports: [p0, p1, p2]}, b: {ports: [p0, p1, p2]}}\n"
         "  switches: {s: {ports: 4}, t: {ports: 4}, u: {ports: 4}}\n"
         "  links:\n"
         "    - {endpoints: [\"a:p0\", \"b:p1\"]}\n"
         "    - {endpoints: [\"a:p1\", \"s:0\"]}\n"
         "    - {endpoints: [\"s:1\", \"t:0\"]}\n"
         "    - {endpoints: [\"b:p0\", \"t:1\"]}\n"
         "    - {endpoints: [\"b:p2\", \"u:1\"]}\n",
         NULL);
    ck_assert(run_is_wired(&world->spec, 0, 0, 1, 1));
    ck_assert(!run_is_wired(&world->spec, 0, 0, 1, 0));
    ck_assert(run_is_wired(&world->spec, 0, 1, 1, 0));
    ck_assert(!run_is_wired(&world->spec, 0, 1, 1, 1));
    ck_assert(!run_is_wired(&world->spec, 0, 1, 1, 2));
    ck_assert(!run_is_wired(&world->spec, 0, 2, 1, 1));
    ck_assert(!run_far_end(&world->spec, 0, 2, &end));
    ck_assert(run_far_end(&world->spec, 1, 0, &end));
    ck_assert(end.is_switch);
    ck_assert_uint_eq(end.node, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("asks");
    TCase *tests = tcase_create("asks");

    tcase_add_checked_fixture(tests, NULL, tear_down);
    tcase_add_test(tests, a_channel_of_a_ring_uses_one_nic_everywhere);
    tcase_add_test(tests, one_rank_is_told_what_all_are);
    tcase_add_test(tests, ranks_of_a_host_see_the_same);
    tcase_add_test(tests, what_a_host_has_decides);
    tcase_add_test(tests, net_ib_opens_what_the_list_of_hcas_names);
    tcase_add_test(tests, without_a_network_nccl_gives_up);
    tcase_add_test(tests, cables_and_switches_lead_somewhere);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
