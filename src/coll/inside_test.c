/* Hosts with several ranks: rings and trees pass through them in the order of their channels,
 * and plans are proven on random meshes with random insides. */
#include <check.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "coll/cost.h"
#include "coll/mesh_testing.h"
#include "coll/plan_check_testing.h"

#define HOSTS_MAX 4
#define LOCALS_MAX 4
#define RANKS_MAX (HOSTS_MAX * LOCALS_MAX)
#define MESHES 60

static struct coll_inside insides[HOSTS_MAX];
static uint32_t hosts[RANKS_MAX];

static void shuffle(struct weft_rng *rng, uint32_t *items, uint32_t n)
{
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = (uint32_t)weft_rng_below(rng, i), item = items[i - 1];

        items[i - 1] = items[k];
        items[k] = item;
    }
}

static uint32_t *random_orders(struct weft_rng *rng, const struct coll_inside *inside,
                               uint32_t n_orders)
{
    uint32_t *orders = weft_calloc((size_t)n_orders * inside->n + 1, sizeof(*orders));

    for (uint32_t c = 0; c < n_orders; c++) {
        for (uint32_t i = 0; i < inside->n; i++) {
            orders[c * inside->n + i] = inside->ranks[i];
        }
        shuffle(rng, orders + (size_t)c * inside->n, inside->n);
    }
    return orders;
}

/* Adds a link out of every GPU and one into it; a path passes both. */
static void add_ways(struct coll_inside *inside)
{
    uint32_t n = 2 * inside->n, at = 0;

    inside->bytes_per_us = weft_calloc(n, sizeof(*inside->bytes_per_us));
    inside->first = weft_calloc((size_t)n * n + 1, sizeof(*inside->first));
    inside->links = weft_calloc(2 * (size_t)n * n, sizeof(*inside->links));
    for (uint32_t w = 0; w < n * n; w++) {
        uint32_t from = w / n, to = w % n;

        inside->bytes_per_us[w % n] = 24000;
        inside->first[w] = at;
        if (from != to && from < inside->n) {
            inside->links[at++] = from;
        }
        if (from != to && to < inside->n) {
            inside->links[at++] = inside->n + to;
        }
    }
    inside->first[n * n] = at;
    inside->ways =
        (struct world_ways){inside->bytes_per_us, n, inside->first, inside->links};
}

/* Assigns ranks to hosts at random. Returns the number of ranks. */
static uint32_t random_insides(struct weft_rng *rng, uint32_t n_hosts)
{
    uint32_t n_ranks = 0;

    for (uint32_t h = 0; h < n_hosts; h++) {
        uint32_t n = 1 + (uint32_t)weft_rng_below(rng, LOCALS_MAX);

        for (uint32_t i = 0; i < n; i++) {
            hosts[n_ranks++] = h;
        }
        insides[h] = (struct coll_inside){.n = n > 1 ? n : 0};
    }
    shuffle(rng, hosts, n_ranks);
    for (uint32_t h = 0; h < n_hosts; h++) {
        struct coll_inside *inside = &insides[h];
        uint32_t at = 0;

        inside->ranks = weft_calloc(LOCALS_MAX, sizeof(*inside->ranks));
        inside->hops = weft_calloc(LOCALS_MAX * LOCALS_MAX, sizeof(*inside->hops));
        for (uint32_t r = 0; r < n_ranks; r++) {
            if (hosts[r] == h && at < inside->n) {
                inside->ranks[at++] = r;
            }
        }
        for (uint32_t i = 0; i < inside->n * inside->n; i++) {
            inside->hops[i].kind = (enum weft_transport)weft_rng_below(rng, 3);
            inside->hops[i].reads = weft_rng_below(rng, 2) == 0;
        }
        inside->n_rings = (uint32_t)weft_rng_below(rng, 5);
        inside->n_trees = (uint32_t)weft_rng_below(rng, 4);
        inside->rings = random_orders(rng, inside, inside->n_rings);
        inside->trees = random_orders(rng, inside, inside->n_trees);
        if (inside->n > 1 && weft_rng_below(rng, 4) > 0) {
            add_ways(inside);
        }
    }
    return n_ranks;
}

static void make_mesh(uint32_t n_hosts, uint32_t n_ranks, struct coll_mesh *out)
{
    static const struct coll_cable cables[] = {{0, 1}, {1, 2}, {2, 0}, {2, 3}};
    static const uint32_t n_cables[] = {0, 0, 1, 3, 4};
    uint32_t roots[2] = {0, n_ranks - 1};
    struct mesh_overlay overlay;
    struct mesh_graph graph;

    coll_graph_of_cables(n_hosts, cables, n_cables[n_hosts], UINT64_C(100000000000),
                         1000000, &graph);
    mesh_overlay_make(&graph, hosts, n_ranks, &overlay);
    coll_mesh_make(&overlay, roots, n_ranks > 1 ? 2 : 1, insides, n_hosts, out);
    mesh_graph_fini(&graph);
}

static void prove(const struct coll_job *job, const struct coll_mesh *mesh, int at)
{
    struct coll_plan plans[RANKS_MAX];
    struct weft_error error = {0};
    uint32_t n = mesh->n_ranks;
    weft_status status;

    for (uint32_t r = 0; r < n; r++) {
        status = coll_plan_make(job, r, mesh, &plans[r], &error);
        ck_assert_msg(status == WEFT_OK, "mesh %d: %s", at, error.message);
    }
    status = coll_plan_check(job, plans, &error);
    ck_assert_msg(status == WEFT_OK, "mesh %d, %s %s on %u ranks: %s", at,
                  weft_collective_name(job->kind), weft_algorithm_name(job->algorithm), n,
                  error.message);
    for (uint32_t r = 0; r < n; r++) {
        uint32_t sends[RANKS_MAX] = {0}, receives[RANKS_MAX] = {0};

        coll_plan_channels(&plans[r], sends, receives);
        for (uint32_t p = 0; p < n; p++) {
            ck_assert(hosts[p] == hosts[r] || (sends[p] | receives[p]) <= 1);
            ck_assert_uint_lt(sends[p] >> (mesh->n_channels - 1), 2);
        }
    }
    for (uint32_t r = 0; r < n; r++) {
        coll_plan_fini(&plans[r]);
    }
}

START_TEST(plans_through_hosts_are_proven)
{
    struct weft_rng rng;
    struct coll_mesh mesh;
    uint32_t n_hosts = 1 + (uint32_t)_i % HOSTS_MAX, n;

    weft_rng_init(&rng, (uint64_t)_i, "inside");
    n = random_insides(&rng, n_hosts);
    make_mesh(n_hosts, n, &mesh);
    for (int kind = 0; kind < WEFT_N_COLLECTIVES; kind++) {
        for (int algorithm = 0; algorithm < WEFT_N_ALGORITHMS; algorithm++) {
            struct coll_job job = {.kind = (enum weft_collective)kind,
                                   .algorithm = (enum weft_algorithm)algorithm,
                                   .dtype = WEFT_FLOAT32,
                                   .op = WEFT_AVG,
                                   .count = weft_rng_below(&rng, 20000),
                                   .root = (uint32_t)weft_rng_below(&rng, n)};

            if (weft_collective_has(job.kind, job.algorithm)) {
                prove(&job, &mesh, _i);
            }
        }
    }
    coll_mesh_fini(&mesh);
    for (uint32_t h = 0; h < n_hosts; h++) {
        coll_inside_fini(&insides[h]);
    }
}
END_TEST

/* Makes three hosts in a triangle with two ranks each and two channels of opposite order. */
static void triangle(struct coll_mesh *mesh)
{
    static const uint32_t ring[4] = {0, 1, 1, 0};

    for (uint32_t h = 0; h < 3; h++) {
        struct coll_inside *inside = &insides[h];

        *inside = (struct coll_inside){.n = 2, .n_rings = 2, .n_trees = 1};
        inside->ranks = weft_calloc(2, sizeof(*inside->ranks));
        inside->hops = weft_calloc(4, sizeof(*inside->hops));
        inside->rings = weft_calloc(4, sizeof(*inside->rings));
        inside->trees = weft_calloc(2, sizeof(*inside->trees));
        for (uint32_t i = 0; i < 4; i++) {
            inside->hops[i].kind = WEFT_TRANSPORT_SHM;
            inside->rings[i] = 2 * h + ring[i];
        }
        for (uint32_t i = 0; i < 2; i++) {
            hosts[2 * h + i] = h;
            inside->ranks[i] = inside->trees[i] = 2 * h + i;
        }
        add_ways(inside);
    }
    make_mesh(3, 6, mesh);
}

/* A channel enters every host at its first rank and leaves it at its last. Of two opposite
 * rings, one passes the hosts backwards. */
START_TEST(rings_follow_the_channels)
{
    static const uint32_t orders[4][6] = {
        {0, 1, 2, 3, 4, 5}, {0, 3, 2, 5, 4, 1}, {0, 5, 4, 3, 2, 1}, {0, 1, 4, 5, 2, 3}};
    struct coll_mesh mesh;
    uint32_t total = 0;

    triangle(&mesh);
    ck_assert_uint_eq(mesh.n_channels, 2);
    ck_assert_uint_eq(mesh.rings.n_rings, 4);
    for (uint32_t i = 0; i < 4; i++) {
        const struct mesh_packed_ring *ring = &mesh.rings.rings[i];

        ck_assert_uint_eq(ring->channel, i % 2);
        for (uint32_t k = 0; k < 6; k++) {
            ck_assert_uint_eq(ring->next[orders[i][k]], orders[i][(k + 1) % 6]);
        }
        total += ring->share;
    }
    ck_assert_uint_eq(total, 65536);
    for (uint32_t i = 0; i < mesh.trees.n_trees; i++) {
        ck_assert_uint_eq(mesh.trees.trees[i].parent[mesh.trees.trees[i].root],
                          MESH_NO_PARENT);
    }
    coll_mesh_fini(&mesh);
    for (uint32_t h = 0; h < 3; h++) {
        coll_inside_fini(&insides[h]);
    }
}
END_TEST

/* Links inside hosts cost time: all_gather takes longer on slow links than on fast ones, and
 * on both longer than if data within hosts is free. */
START_TEST(links_inside_cost_time)
{
    const struct coll_job job = {.kind = WEFT_ALL_GATHER,
                                 .algorithm = WEFT_ALGORITHM_RINGS,
                                 .dtype = WEFT_UINT8,
                                 .count = 6u << 20};
    weft_ps times[3];

    for (int i = 0; i < 3; i++) {
        struct coll_mesh mesh;

        triangle(&mesh);
        coll_mesh_fini(&mesh);
        for (uint32_t h = 0; h < 3; h++) {
            for (uint32_t k = 0; k < 4; k++) {
                insides[h].bytes_per_us[k] = i == 0 ? 1000 : 100000;
            }
            insides[h].n = i == 2 ? 0 : 2;
        }
        make_mesh(3, 6, &mesh);
        times[i] = coll_cost_ps(&job, &mesh, WEFT_ALGORITHM_RINGS, 256u << 10);
        coll_mesh_fini(&mesh);
        for (uint32_t h = 0; h < 3; h++) {
            coll_inside_fini(&insides[h]);
        }
    }
    /* Half of 5 MiB passes in each direction at 1 GB/s, which takes at least 2.6 ms. */
    ck_assert_int_gt(times[0], INT64_C(2600000000));
    ck_assert_int_lt(times[0], INT64_C(3500000000));
    ck_assert_int_gt(times[0], 3 * times[1]);
    ck_assert_int_gt(times[1], times[2]);
}
END_TEST

/* Returns the cost on GPUs of one host with peer access. Long messages are copied directly
 * over the links (24 GB/s); shorter ones take steps, with a second copy at 200 GB/s. */
static weft_ps time_of_near(uint32_t n, enum weft_collective kind, uint64_t count,
                            uint64_t slice, bool is_direct)
{
    const struct coll_job job = {.kind = kind, .dtype = WEFT_UINT8, .count = count};
    struct coll_inside *inside = &insides[0];
    struct coll_mesh mesh;
    weft_ps time;

    *inside = (struct coll_inside){.n = n};
    inside->ranks = weft_calloc(n, sizeof(*inside->ranks));
    inside->hops = weft_calloc((size_t)n * n, sizeof(*inside->hops));
    for (uint32_t i = 0; i < n; i++) {
        hosts[i] = 0;
        inside->ranks[i] = i;
    }
    for (uint32_t i = 0; i < n * n; i++) {
        inside->hops[i] =
            (struct coll_inside_hop){.kind = WEFT_TRANSPORT_P2P, .is_direct = is_direct};
    }
    add_ways(inside);
    make_mesh(1, n, &mesh);
    time = coll_cost_ps(&job, &mesh, WEFT_ALGORITHM_DIRECT, slice);
    coll_mesh_fini(&mesh);
    coll_inside_fini(inside);
    return time;
}

static weft_ps time_to_next(uint64_t n_bytes, bool is_direct)
{
    return time_of_near(2, WEFT_SEND_RECV, n_bytes, n_bytes, is_direct);
}

START_TEST(short_messages_pay_the_copy_out_of_the_steps)
{
    const uint64_t at = TRANSPORT_DIRECT_BYTES;
    weft_ps copied = (weft_ps)at * 5; /* 5 ps per byte within a GPU's memory */
    weft_ps direct = time_to_next(at, true), stepped = time_to_next(at, false);

    ck_assert_int_eq(stepped - direct, copied);
    ck_assert_int_gt(time_to_next(at - 64, true), direct);
    ck_assert_int_eq(time_to_next(at - 64, true), time_to_next(at - 64, false));
}
END_TEST

/* Three GPUs, one message to each: an all_reduce costs as much as an all_to_all of messages of
 * the same size plus both reductions, because the last message copied can be the first to be
 * reduced: 5 ps per byte and a launch each. Its last hop counts the reduction but not the
 * copy, which is in the links' time; and it posts to a second peer. With two messages to each,
 * copies of the second hide reductions of the first. With two GPUs there is only one order. */
START_TEST(reductions_come_on_top_of_copies)
{
    const weft_ps bytes = 3 << 16, on_link = bytes * 125 / 3;
    uint64_t n = (uint64_t)bytes;

    ck_assert_int_eq(time_of_near(3, WEFT_ALL_REDUCE, n, n, true) -
                         time_of_near(3, WEFT_ALL_TO_ALL, 3 * n, n, true),
                     2 * (5 * bytes + 100000) + 5 * bytes - on_link + 100000);
    ck_assert_int_eq(time_of_near(3, WEFT_ALL_REDUCE, n, n / 2, true) -
                         time_of_near(3, WEFT_ALL_TO_ALL, 3 * n, n / 2, true),
                     5 * bytes + 2 * 100000 + (5 * bytes - on_link) / 2 + 100000);
    ck_assert_int_eq(time_of_near(2, WEFT_ALL_REDUCE, n, n, true) -
                         time_of_near(2, WEFT_ALL_TO_ALL, 2 * n, n, true),
                     5 * bytes - on_link);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coll/inside");
    TCase *tcase = tcase_create("inside");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, plans_through_hosts_are_proven, 0, MESHES);
    tcase_add_test(tcase, rings_follow_the_channels);
    tcase_add_test(tcase, links_inside_cost_time);
    tcase_add_test(tcase, short_messages_pay_the_copy_out_of_the_steps);
    tcase_add_test(tcase, reductions_come_on_top_of_copies);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
