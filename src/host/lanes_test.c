/* Tests of routes that avoid failed hops. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/suite_testing.h"
#include "host/private.h"
#include "rdma/timers.h"
#include "xfer/flow_private.h"

/* Hosts 0 and 1 have no cable between them; every other host has one to both. */
#define RELAYS_MAX 8
#define HOSTS_MAX (RELAYS_MAX + 2)

static weft_ns now_ns;

static weft_ns now(struct io_env *env)
{
    (void)env;
    return now_ns;
}

struct star {
    struct mesh_edge edges[4 * RELAYS_MAX];
    struct mesh_graph graph;
    uint32_t member_hosts[HOSTS_MAX];
    struct host_map map;
    struct host_peer peers[HOSTS_MAX];
    struct io_env_ops ops;
    struct io_env env;
    struct flow flow;
    struct host_private private;
    struct host host;
};

static void add_cable(struct star *star, uint32_t a, uint32_t b)
{
    uint32_t cable = (uint32_t)star->graph.n_edges / 2;

    for (uint32_t i = 0; i < 2; i++) {
        star->edges[star->graph.n_edges++] = (struct mesh_edge){.from = i == 0 ? a : b,
                                                                .to = i == 0 ? b : a,
                                                                .from_port = cable,
                                                                .to_port = cable,
                                                                .cable = cable,
                                                                .rate_bps = 100000000000,
                                                                .delay_ps = 1000000,
                                                                .mtu_bytes = 9000,
                                                                .from_root = MESH_NO_ROOT,
                                                                .to_root = MESH_NO_ROOT};
    }
}

static void open_star(struct star *star, uint32_t n_relays)
{
    memset(star, 0, sizeof(*star));
    now_ns = TIMER_ARP_NS;
    star->graph.n_hosts = n_relays + 2;
    star->graph.edges = star->edges;
    for (uint32_t i = 0; i < n_relays; i++) {
        add_cable(star, 0, i + 2);
        add_cable(star, i + 2, 1);
    }
    for (uint32_t i = 0; i < HOSTS_MAX; i++) {
        star->member_hosts[i] = i;
        star->peers[i].route = (struct host_route){.host = &star->host, .to = i};
    }
    star->map =
        (struct host_map){.graph = &star->graph, .member_hosts = star->member_hosts};
    star->ops.now = now;
    star->env.ops = &star->ops;
    star->flow.without_ns = now_ns; /* it has no lane */
    star->peers[1].send = &star->flow;
    star->host.env = &star->env;
    star->host.private = &star->private;
    star->host.peers = star->peers;
    star->host.config.rank = 0;
    star->host.config.n_ranks = 2;
    star->host.config.n_members = n_relays + 2;
    star->host.config.map = &star->map;
    star->host.config.conn.policy = WEFT_POLICY_WEFT;
}

/* Fails a cable of the relay: the relay reports its second cable, and either end of the first cable
 * reports that one. */
static void fail_hop(struct weft_rng *rng, struct weft_error *why)
{
    static const enum weft_phase phases[] = {WEFT_PHASE_RTR, WEFT_PHASE_PROBE};

    switch (weft_rng_below(rng, 3)) {
    case 0:
        weft_fail(why, WEFT_ERR_ROUTE, WEFT_PHASE_RELAY, "a relay gives up");
        weft_error_int(why, WEFT_VALUE_RELAY, 1);
        break;
    case 1:
        weft_fail(why, WEFT_ERR_SYSTEM, phases[weft_rng_below(rng, 2)], "no answer");
        break;
    default:
        weft_fail(why, WEFT_ERR_CLOSED, WEFT_PHASE_PEER, "the relay had no answer");
        weft_error_text(why, WEFT_VALUE_PEER_PHASE,
                        weft_phase_name(phases[weft_rng_below(rng, 2)]));
        break;
    }
}

/* Only one of several relays works; every other one fails at one of its two cables, after a random
 * time that an attempt can take. In each round every relay is tried once before one is tried
 * again. */
START_TEST(each_route_is_tried_before_one_is_tried_again)
{
    struct star *star = malloc(sizeof(*star));
    bool is_tried[HOSTS_MAX] = {false};
    struct weft_rng rng;
    uint32_t n_relays;

    weft_rng_init(&rng, (uint64_t)_i, "relays");
    n_relays = 1 + (uint32_t)weft_rng_below(&rng, RELAYS_MAX);
    open_star(star, n_relays);
    for (uint32_t try = 0; try < 3 * n_relays; try++) {
        uint8_t handle[CONN_HANDLE_BYTES];
        uint32_t via[FLOW_VIA_MAX], n_via;
        uint16_t relay;
        struct weft_error why = {0};

        if (try % n_relays == 0) {
            memset(is_tried, 0, sizeof(is_tried));
        }
        ck_assert_int_eq(host_reroute(&star->peers[1].route, 0, handle, via, &n_via),
                         WEFT_OK);
        ck_assert_uint_eq(n_via, 1);
        ck_assert_uint_lt(via[0], HOSTS_MAX);
        ck_assert(!is_tried[via[0]]);
        is_tried[via[0]] = true;
        relay = (uint16_t)via[0];
        fail_hop(&rng, &why);
        now_ns += (weft_ns)weft_rng_below(
                      &rng, (uint32_t)(TIMER_FAILED_HOP_NS / TIMER_MS / n_relays)) *
                  TIMER_MS;
        host_lane_failed(&star->peers[1].route, &relay, 1, &why);
    }
    mesh_routes_fini(&star->private.routes);
    free(star);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("host/lanes");

    tcase_add_loop_test(tcase, each_route_is_tried_before_one_is_tried_again, 0, 100);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
