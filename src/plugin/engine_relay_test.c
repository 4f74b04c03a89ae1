/* Tests connections between hosts without a common cable, over simulated NICs. A rank on a
 * relaying host makes no call; its engine's thread forwards. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"
#include "plugin/engine.h"
#include "plugin/engine_private.h"
#include "plugin/engine_testing.h"

#define SECOND INT64_C(1000000000)
#define MIB (UINT32_C(1) << 20)

static const struct harness_cable line[] = {{0, 1}, {1, 2}};
static const struct harness_cable ring[] = {{0, 1}, {1, 2}, {2, 3}, {3, 0}};

static struct harness harness;

struct pair {
    struct engine_comm *out, *in;
    struct engine_memory *out_memory, *in_memory;
    uint8_t *sent, *received;
    size_t n_bytes;
};

static void open_pair(struct pair *pair, uint32_t from, uint32_t to, size_t n_bytes)
{
    struct weft_error error = {0};

    memset(pair, 0, sizeof(*pair));
    pair->n_bytes = n_bytes;
    pair->sent = malloc(n_bytes);
    pair->received = malloc(n_bytes);
    memset(pair->sent, 0, n_bytes);
    harness_connect(&harness, from, to, &pair->out, &pair->in);
    ck_assert_int_eq(
        harness_register(pair->out, pair->sent, n_bytes, &pair->out_memory, &error),
        WEFT_OK);
    ck_assert_int_eq(
        harness_register(pair->in, pair->received, n_bytes, &pair->in_memory, &error),
        WEFT_OK);
}

static void close_pair(struct pair *pair)
{
    engine_deregister(pair->out, pair->out_memory);
    engine_deregister(pair->in, pair->in_memory);
    engine_close(pair->out);
    engine_close(pair->in);
    free(pair->sent);
    free(pair->received);
}

static void fill(uint8_t *out, size_t n_bytes, uint32_t number)
{
    uint32_t state = number * UINT32_C(2654435761) + 1;

    for (size_t at = 0; at + 4 <= n_bytes; at += 4) {
        state = state * UINT32_C(1664525) + UINT32_C(1013904223);
        memcpy(out + at, &state, 4);
    }
}

/* Sends one message of all bytes, with contents derived from `number`, and compares it. */
static void move(struct pair *pair, uint32_t number)
{
    struct engine_request *send = NULL, *receive = NULL;
    weft_ns until = harness_now(&harness) + 30 * SECOND;
    size_t sizes[ENGINE_GROUP_MAX];
    const uint32_t tag = 5;
    void *data = pair->received;
    uint32_t n;

    fill(pair->sent, pair->n_bytes, number);
    memset(pair->received, 0xee, pair->n_bytes);
    ck_assert_int_eq(engine_irecv(pair->in, 1, &data, &pair->n_bytes, &tag,
                                  &pair->in_memory, &receive),
                     WEFT_OK);
    ck_assert_int_eq(
        engine_isend(pair->out, pair->sent, pair->n_bytes, tag, pair->out_memory, &send),
        WEFT_OK);
    while (send != NULL || receive != NULL) {
        if (send != NULL && engine_test(send, sizes, &n) == WEFT_OK) {
            send = NULL;
        }
        if (receive != NULL && engine_test(receive, sizes, &n) == WEFT_OK) {
            ck_assert_uint_eq(sizes[0], pair->n_bytes);
            receive = NULL;
        }
        ck_assert_msg(harness_step(&harness, until), "message %u does not arrive",
                      number);
    }
    ck_assert_int_eq(memcmp(pair->sent, pair->received, pair->n_bytes), 0);
}

static struct engine_counters counters_of(uint32_t host)
{
    struct engine_counters counters;

    engine_counters(harness.engines[host], &counters);
    return counters;
}

static void end(void)
{
    harness_expect_idle(&harness);
    for (uint32_t h = 0; h < harness.n_hosts; h++) {
        ck_assert_uint_eq(counters_of(h).n_passing, 0);
    }
    harness_close(&harness);
}

/* Moves 60 MiB, or 1 GiB if WEFT_SOAK is set, in a minute in which the rank in the middle makes
 * no call. The harness only runs its engine. */
START_TEST(the_middle_forwards_while_its_rank_is_idle)
{
    const bool is_soak = getenv("WEFT_SOAK") != NULL;
    const size_t each = (is_soak ? UINT64_C(1024) * MIB : 60 * MIB) / 60 / 4 * 4;
    struct pair pair;
    weft_ns begun;

    harness_open_cables(&harness, 3, line, 2, NULL);
    open_pair(&pair, 0, 2, each);
    ck_assert_uint_eq(counters_of(0).n_relayed, 1);
    ck_assert_uint_eq(counters_of(1).n_passing, 1);
    begun = harness_now(&harness);
    for (uint32_t i = 0; i < 60; i++) {
        move(&pair, i);
        harness_run(&harness, begun + (weft_ns)(i + 1) * SECOND - harness_now(&harness));
    }
    ck_assert_int_ge(harness_now(&harness) - begun, 60 * SECOND);
    ck_assert_uint_eq(counters_of(1).bytes_passed, 60 * each);
    ck_assert_uint_eq(counters_of(1).n_comms, 0);
    close_pair(&pair);
    end();
}
END_TEST

START_TEST(a_host_without_a_rank_relays)
{
    static const bool relays_only[] = {false, true, false};
    struct pair there, back;

    harness_open_cables(&harness, 3, line, 2, relays_only);
    open_pair(&there, 0, 2, 4 * MIB);
    open_pair(&back, 2, 0, 4 * MIB);
    for (uint32_t i = 0; i < 4; i++) {
        move(&there, i);
        move(&back, 100 + i);
    }
    ck_assert_uint_eq(counters_of(1).bytes_passed, 32 * MIB);
    close_pair(&there);
    close_pair(&back);
    end();
}
END_TEST

/* Puts each port into a bond of its own, which has its addresses. */
static void with_bonds(uint32_t host, struct world_host *out,
                       struct engine_config *config)
{
    static const char *const names[] = {"bond0", "bond1", "bond2", "bond3"};
    static const uint32_t numbers[] = {0, 1, 2, 3};
    static struct world_bond bonds[HARNESS_HOSTS][HARNESS_PORTS];

    (void)config;
    for (uint32_t p = 0; p < out->n_ports && out->n_bonds < out->n_ports; p++) {
        bonds[host][p] =
            (struct world_bond){.name = names[p],
                                .ports = &numbers[p],
                                .n_ports = 1,
                                .addresses = harness.ports[host][p].addresses,
                                .n_addresses = harness.ports[host][p].n_addresses};
        harness.ports[host][p].n_addresses = 0;
    }
    out->bonds = bonds[host];
    out->n_bonds = out->n_ports;
}

/* Puts the addresses of each port on a VLAN of its own. */
static void with_vlans(uint32_t host, struct world_host *out,
                       struct engine_config *config)
{
    (void)config;
    for (uint32_t p = 0; p < out->n_ports; p++) {
        struct world_port *port = &harness.ports[host][p];

        port->vlan_id = port->addresses[0].ip.bytes[14]; /* the same at both ends */
        port->n_vlan_addresses = port->n_addresses;
    }
}

/* Processes announce themselves on bonds, because a port in a bond receives nothing. On a port
 * whose addresses are on a VLAN they do so without a VLAN. */
START_TEST(hosts_with_bonds_or_vlans_know_each_other)
{
    struct pair pair;

    harness_with(_i == 0 ? with_bonds : with_vlans);
    harness_open_cables(&harness, 3, line, 2, NULL);
    open_pair(&pair, 0, 2, 4 * MIB);
    move(&pair, 1);
    ck_assert_uint_eq(counters_of(1).bytes_passed, 4 * MIB);
    close_pair(&pair);
    end();
}
END_TEST

/* Opposite hosts of a ring have two routes, and use both. Neighbours use their cable. */
START_TEST(opposite_hosts_of_a_ring_use_both_ways)
{
    struct pair across, beside;
    uint64_t left, right;

    harness_open_cables(&harness, 4, ring, 4, NULL);
    harness_run(&harness, SECOND);
    open_pair(&across, 1, 3, 4 * MIB);
    open_pair(&beside, 0, 1, MIB);
    ck_assert_uint_eq(counters_of(0).n_relayed, 0);
    for (uint32_t i = 0; i < 4; i++) {
        move(&across, i);
        move(&beside, i);
    }
    left = counters_of(0).bytes_passed;
    right = counters_of(2).bytes_passed;
    ck_assert_uint_eq(left + right, 16 * MIB);
    ck_assert_uint_gt(left, 4 * MIB);
    ck_assert_uint_gt(right, 4 * MIB);
    close_pair(&across);
    close_pair(&beside);
    end();
}
END_TEST

/* One of two routes fails. Later messages arrive, once, over the other. */
START_TEST(a_relay_whose_cable_goes_is_passed_by)
{
    const struct world_fault down = {
        .kind = WORLD_FAULT_DOWN, .host = 3, .has_port = true, .port = 0};
    struct pair pair;

    harness_open_cables(&harness, 4, ring, 4, NULL);
    harness_run(&harness, SECOND);
    open_pair(&pair, 0, 2, MIB);
    move(&pair, 1);
    ck_assert_int_eq(harness.world->ops->inject(harness.world, &down), 0);
    for (uint32_t i = 2; i < 8; i++) {
        move(&pair, i);
    }
    close_pair(&pair);
    end();
}
END_TEST

static void change_cable(enum world_fault_kind kind)
{
    const struct world_fault fault = {
        .kind = kind, .host = 0, .has_port = true, .port = 0};

    ck_assert_int_eq(harness.world->ops->inject(harness.world, &fault), 0);
}

/* The cable of two hosts fails before they connect, or while they send. The third host of a
 * triangle, or both others of a ring, stand in for it until it is back. */
START_TEST(other_hosts_stand_in_for_a_cable)
{
    static const struct harness_cable triangle[] = {{0, 1}, {1, 2}, {0, 2}};
    const bool is_down_first = _i % 2 == 0, is_ring = _i >= 2;
    const uint32_t n_hosts = is_ring ? 4 : 3, relay = n_hosts - 1;
    struct pair pair;
    uint64_t passed;

    harness_open_cables(&harness, n_hosts, is_ring ? ring : triangle, n_hosts, NULL);
    harness_run(&harness, 3 * SECOND);
    if (is_down_first) {
        change_cable(WORLD_FAULT_DOWN);
        harness_run(&harness, SECOND);
    }
    open_pair(&pair, 0, 1, MIB);
    if (!is_down_first) {
        move(&pair, 0);
        ck_assert_uint_eq(counters_of(relay).bytes_passed, 0);
        change_cable(WORLD_FAULT_DOWN);
    }
    for (uint32_t i = 1; i < 8; i++) {
        move(&pair, i);
        harness_run(&harness,
                    10 * SECOND); /* longer than any limit of one without a lane */
    }
    ck_assert_uint_ge(counters_of(relay).bytes_passed, 6 * MIB);
    change_cable(WORLD_FAULT_UP);
    harness_run(&harness, 10 * SECOND);
    passed = counters_of(relay).bytes_passed;
    for (uint32_t i = 8; i < 12; i++) {
        move(&pair, i);
    }
    ck_assert_uint_eq(counters_of(relay).bytes_passed, passed);
    close_pair(&pair);
    end();
}
END_TEST

/* A connection over a cable waits 0.25 s for a route over a third host that has just been heard,
 * and not until the next beacon, which comes after up to 1 s. */
START_TEST(a_host_that_comes_back_delays_nothing_for_long)
{
    static const struct harness_cable corner[] = {{0, 1}, {0, 2}};
    struct engine_comm *out, *in;
    const struct engine_mesh *mesh;
    weft_ns begun;

    harness_open_cables(&harness, 3, corner, 2, NULL);
    harness_run(&harness, 5 * SECOND);
    mesh = &harness.engines[0]->mesh;
    harness_hold(&harness, 2);
    while (mesh->n_processes == 2) {
        harness_run(&harness, SECOND / 100);
    }
    harness_release(&harness, 2);
    while (mesh->n_processes == 1) {
        harness_run(&harness, SECOND / 100);
    }
    begun = harness_now(&harness);
    harness_connect(&harness, 0, 1, &out, &in);
    ck_assert_int_le(harness_now(&harness) - begun, 3 * SECOND / 10);
    engine_close(out);
    engine_close(in);
    end();
}
END_TEST

/* In a line of four there are two relays, each named by the one before it. */
START_TEST(relays_behind_each_other)
{
    static const struct harness_cable four[] = {{0, 1}, {1, 2}, {2, 3}};
    struct pair pair;

    harness_open_cables(&harness, 4, four, 3, NULL);
    open_pair(&pair, 3, 0, MIB);
    move(&pair, 1);
    ck_assert_uint_eq(counters_of(1).bytes_passed, MIB);
    ck_assert_uint_eq(counters_of(2).bytes_passed, MIB);
    close_pair(&pair);
    end();
}
END_TEST

/* Without a route connect fails after a while, with the addresses of both ends. */
START_TEST(no_way_is_told)
{
    static const struct harness_cable apart[] = {{0, 1}, {2, 3}};
    struct engine_listen *listen;
    struct engine_comm *comm = NULL;
    struct weft_error error = {0};
    uint8_t handle[CONN_HANDLE_BYTES];
    weft_status status = WEFT_AGAIN;
    weft_ns begun, until;

    harness_open_cables(&harness, 4, apart, 2, NULL);
    begun = harness_now(&harness);
    until = begun + 120 * SECOND;
    ck_assert_int_eq(engine_listen(harness.engines[2], handle, &listen, &error), WEFT_OK);
    while (status == WEFT_AGAIN) {
        status = engine_connect(harness.engines[0], handle, &comm, &error);
        ck_assert(status != WEFT_AGAIN || harness_step(&harness, until));
    }
    ck_assert_int_eq(status, WEFT_ERR_ROUTE);
    ck_assert_ptr_nonnull(weft_error_value(&error, WEFT_VALUE_LOCAL_ADDRESS_0));
    ck_assert_ptr_nonnull(weft_error_value(&error, WEFT_VALUE_REMOTE_ADDRESS_0));
    ck_assert_int_ge(harness_now(&harness) - begun, 30 * SECOND);
    engine_close_listen(listen);
    end();
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("plugin/engine_relay");

    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, the_middle_forwards_while_its_rank_is_idle);
    tcase_add_test(tcase, a_host_without_a_rank_relays);
    tcase_add_loop_test(tcase, hosts_with_bonds_or_vlans_know_each_other, 0, 2);
    tcase_add_test(tcase, opposite_hosts_of_a_ring_use_both_ways);
    tcase_add_test(tcase, a_relay_whose_cable_goes_is_passed_by);
    tcase_add_loop_test(tcase, other_hosts_stand_in_for_a_cable, 0, 4);
    tcase_add_test(tcase, a_host_that_comes_back_delays_nothing_for_long);
    tcase_add_test(tcase, relays_behind_each_other);
    tcase_add_test(tcase, no_way_is_told);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
