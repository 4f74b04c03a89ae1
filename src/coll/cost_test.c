/* The cost model's choices on meshes: which algorithm from which size on, and how near to the
 * physical bound. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "coll/mesh_testing.h"

#define RATE UINT64_C(100000000000)
#define US INT64_C(1000000)

static struct coll_job job_of(enum weft_collective kind, uint64_t bytes)
{
    return (struct coll_job){
        .kind = kind, .dtype = WEFT_FLOAT32, .op = WEFT_SUM, .count = bytes / 4};
}

static enum weft_algorithm chosen(const struct coll_mesh *mesh, enum weft_collective kind,
                                  uint64_t bytes)
{
    struct coll_job job = job_of(kind, bytes);
    struct coll_choice choice;

    coll_choose(&job, mesh, &choice);
    return choice.algorithm;
}

/* Returns the size in bytes from which rings are chosen on a triangle. */
static uint64_t crossover(weft_ps delay_ps)
{
    uint64_t low = 8, high = UINT64_C(1) << 30;
    struct coll_mesh mesh;

    coll_mesh_full(3, RATE, delay_ps, &mesh);
    ck_assert_int_eq(chosen(&mesh, WEFT_ALL_REDUCE, low), WEFT_ALGORITHM_DIRECT);
    ck_assert_int_eq(chosen(&mesh, WEFT_ALL_REDUCE, high), WEFT_ALGORITHM_RINGS);
    while (high - low > 4) {
        uint64_t middle = (low + high) / 8 * 4;

        if (chosen(&mesh, WEFT_ALL_REDUCE, middle) == WEFT_ALGORITHM_DIRECT) {
            low = middle;
        } else {
            high = middle;
        }
    }
    coll_mesh_fini(&mesh);
    return high;
}

/* Only the mesh changes the crossover: longer cables favour algorithms with fewer hops. */
START_TEST(twice_the_delay_moves_the_crossover)
{
    uint64_t near = crossover(US), far = crossover(2 * US), farthest = crossover(50 * US);

    printf("triangle, all_reduce: direct below %llu bytes at 1 us, %llu at 2 us, "
           "%llu at 50 us\n",
           (unsigned long long)near, (unsigned long long)far,
           (unsigned long long)farthest);
    ck_assert_uint_lt(near * 5 / 4, far);
    ck_assert_uint_lt(far * 4, farthest);
    ck_assert_uint_gt(near, 8 << 10);
    ck_assert_uint_lt(near, 1 << 20);
}
END_TEST

/* 3 ranks at 100 Gbit/s, MTU 4096: a packet of 4096 bytes with its RETH takes 4194 byte times,
 * 335 520 ps. Direct exchange of 4096 bytes takes that on the wire and a gap of 0.3 us, then
 * the last message's 1 us of cable, 1 us of software and reduction of 20 480 ps; and 0.1 us to
 * post to each of two peers. */
START_TEST(costs_by_hand)
{
    struct coll_job job = job_of(WEFT_ALL_REDUCE, 4096);
    struct coll_mesh mesh;

    coll_mesh_full(3, RATE, US, &mesh);
    ck_assert_int_eq(coll_cost_ps(&job, &mesh, WEFT_ALGORITHM_DIRECT, 1 << 19),
                     335520 + 300000 + 2 * US + 20480 + 2 * 100000);
    job = job_of(WEFT_BROADCAST, 4096);
    ck_assert_int_eq(coll_cost_ps(&job, &mesh, WEFT_ALGORITHM_RING, 1 << 19), INT64_MAX);
    coll_mesh_fini(&mesh);
    coll_mesh_full(1, RATE, US, &mesh);
    ck_assert_int_eq(coll_cost_ps(&job, &mesh, WEFT_ALGORITHM_TREE, 1 << 19), 0);
    coll_mesh_fini(&mesh);
    coll_mesh_of_cables(4, (struct coll_cable[]){{0, 1}, {2, 3}}, 2, RATE, US, &mesh);
    ck_assert_int_eq(coll_cost_ps(&job, &mesh, WEFT_ALGORITHM_DIRECT, 1 << 19),
                     INT64_MAX);
    coll_mesh_fini(&mesh);
}
END_TEST

/* A connection passes at most 13 relays, and on a ring of 30 the farthest rank is 15 cables
 * away. AUTO then chooses an algorithm along cables. */
START_TEST(what_needs_too_many_relays_is_not_chosen)
{
    static const struct {
        uint32_t n;
        enum weft_algorithm to_all;
    } rows[] = {{3, WEFT_ALGORITHM_DIRECT},
                {24, WEFT_ALGORITHM_DIRECT},
                {26, WEFT_ALGORITHM_FORWARD}, /* a host would relay 144 pairs */
                {30, WEFT_ALGORITHM_FORWARD},
                {64, WEFT_ALGORITHM_FORWARD}};
    struct coll_cable cables[64];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct coll_mesh mesh;

        for (uint32_t a = 0; a < rows[i].n; a++) {
            cables[a] = (struct coll_cable){a, (a + 1) % rows[i].n};
        }
        coll_mesh_of_cables(rows[i].n, cables, rows[i].n, RATE, US, &mesh);
        for (int kind = WEFT_ALL_REDUCE; kind < WEFT_N_COLLECTIVES; kind++) {
            struct coll_job job = job_of((enum weft_collective)kind, 8);
            struct coll_choice choice;
            uint32_t n_relays;

            coll_choose(&job, &mesh, &choice);
            n_relays = coll_relays(&job, &mesh, choice.algorithm);
            if (kind == WEFT_ALL_TO_ALL) {
                ck_assert_int_eq(choice.algorithm, rows[i].to_all);
            }
            ck_assert_uint_le(n_relays, COLL_RELAYS_MAX);
            ck_assert_int_lt(choice.time_ps, INT64_MAX);
        }
        coll_mesh_fini(&mesh);
    }
}
END_TEST

/* Hosts without a rank relay too, so the least number of cables counts. */
START_TEST(hosts_without_ranks_count_as_relays)
{
    static const struct {
        uint32_t n_hosts; /* hosts on a ring */
        struct coll_cable chord;
        uint32_t n_ranks, hosts[4];
        uint32_t to_all, reduced; /* relays */
    } rows[] = {
        {40, {0, 0}, 2, {0, 14}, 13, 13},         {40, {0, 0}, 2, {0, 15}, 14, 14},
        {40, {0, 0}, 2, {0, 20}, 19, 19},         {40, {0, 0}, 4, {0, 10, 20, 30}, 9, 9},
        {60, {0, 0}, 4, {0, 13, 26, 39}, 12, 12}, /* not over the 21 cables */
        {40, {0, 20}, 2, {0, 20}, 0, 0},          {40, {1, 39}, 3, {39, 0, 1}, 0, 0},
        {44, {4, 40}, 3, {40, 0, 4}, 3, 3}, /* a chord, or 8 cables */
        {8, {0, 0}, 3, {0, 1, 2}, 1, 0},    /* 2 cables, although a lane has 6 */
    };

    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        struct coll_cable cables[64];
        uint32_t n = 0, roots[] = {0};
        struct mesh_graph graph;
        struct mesh_overlay overlay;
        struct coll_mesh mesh;

        for (; n < rows[i].n_hosts; n++) {
            cables[n] = (struct coll_cable){n, (n + 1) % rows[i].n_hosts};
        }
        cables[n] = rows[i].chord;
        n += rows[i].chord.a != rows[i].chord.b ? 1 : 0;
        coll_graph_of_cables(rows[i].n_hosts, cables, n, RATE, US, &graph);
        mesh_overlay_make(&graph, rows[i].hosts, rows[i].n_ranks, &overlay);
        coll_mesh_make(&overlay, roots, 1, NULL, 0, &mesh);
        for (int k = 0; k < 2; k++) {
            struct coll_job job = job_of(k == 0 ? WEFT_ALL_TO_ALL : WEFT_ALL_REDUCE, 8);
            uint32_t expected = k == 0 ? rows[i].to_all : rows[i].reduced;
            struct coll_choice choice;

            coll_choose(&job, &mesh, &choice);
            ck_assert_msg(coll_relays(&job, &mesh, choice.algorithm) == expected,
                          "row %zu, job %d: %u relays", i, k,
                          coll_relays(&job, &mesh, choice.algorithm));
        }
        coll_mesh_fini(&mesh);
        mesh_graph_fini(&graph);
    }
}
END_TEST

/* No delay that a scenario can have and no size makes a time that does not fit: with longer
 * cables every algorithm takes as long or longer, and no route is taken to be missing. */
START_TEST(long_cables_and_large_jobs_cost_no_less)
{
    static const uint32_t ns[] = {3, 12, 30};
    static const weft_ps delays[] = {US, 2000000 * US, 10000000000 * US,
                                     1000000000000 * US};
    static const uint64_t sizes[] = {8, UINT64_C(64) << 30, UINT64_C(1) << 50};
    static weft_ps before[WEFT_N_COLLECTIVES][WEFT_N_ALGORITHMS][3][2];

    memset(before, 0, sizeof(before));
    for (size_t d = 0; d < WEFT_LENGTH(delays); d++) {
        struct coll_mesh mesh;

        coll_mesh_ring(ns[_i], RATE, delays[d], &mesh);
        for (uint32_t k = 0; k < WEFT_N_COLLECTIVES * WEFT_N_ALGORITHMS * 6; k++) {
            uint32_t kind = k / 6 / WEFT_N_ALGORITHMS, size = k / 2 % 3;
            uint32_t algorithm = k / 6 % WEFT_N_ALGORITHMS;
            struct coll_job job = job_of((enum weft_collective)kind, sizes[size]);
            weft_ps *last = &before[kind][algorithm][size][k % 2], ps;

            if (algorithm == WEFT_ALGORITHM_AUTO ||
                !weft_collective_has(job.kind, (enum weft_algorithm)algorithm)) {
                continue;
            }
            ps = coll_cost_ps(&job, &mesh, (enum weft_algorithm)algorithm,
                              k % 2 == 0 ? 8u << 10 : 512u << 10);
            ck_assert_msg(ps >= *last && ps > 0 &&
                              (d == 0 || *last == INT64_MAX || ps < INT64_MAX),
                          "%s %s size %u delay %zu: %lld after %lld",
                          weft_collective_name(job.kind),
                          weft_algorithm_name((enum weft_algorithm)algorithm), size, d,
                          (long long)ps, (long long)*last);
            *last = ps;
        }
        coll_mesh_fini(&mesh);
    }
}
END_TEST

static void add(struct coll_cable *cables, uint32_t *n, uint32_t a, uint32_t b)
{
    cables[(*n)++] = (struct coll_cable){a, b};
}

/* Expected choices at 8 B and 256 MiB, and the least predicted percentage of the bound. */
static const struct {
    const char *name;
    uint32_t n;
    enum weft_algorithm small, large;
    int all_reduce, scatter, gather;
} rows[] = {
    {"triangle", 3, WEFT_ALGORITHM_DIRECT, WEFT_ALGORITHM_RINGS, 96, 96, 96},
    {"twin triangle", 3, WEFT_ALGORITHM_DIRECT, WEFT_ALGORITHM_RINGS, 95, 95, 95},
    {"ring", 4, WEFT_ALGORITHM_DIRECT, WEFT_ALGORITHM_RINGS, 95, 95, 95},
    {"full mesh", 16, WEFT_ALGORITHM_DIRECT, WEFT_ALGORITHM_EXCHANGE, 93, 93, 93},
    {"line", 3, WEFT_ALGORITHM_TREE, WEFT_ALGORITHM_TREE, 92, 92, 92},
    {"star", 5, WEFT_ALGORITHM_TREE, WEFT_ALGORITHM_TREE, 92, 92, 92},
    {"grid", 8, WEFT_ALGORITHM_AUTO, WEFT_ALGORITHM_TREES, 85, 85, 85},
    {"ring", 256, WEFT_ALGORITHM_AUTO, WEFT_ALGORITHM_RINGS, 95, 95, 95},
};

static uint32_t cables_of(size_t row, struct coll_cable *cables)
{
    uint32_t n = 0;

    switch (row) {
    case 0:
    case 1:
    case 3:
        for (uint32_t a = 0; a < rows[row].n; a++) {
            for (uint32_t b = a + 1; b < rows[row].n; b++) {
                add(cables, &n, a, b);
                if (row == 1) {
                    add(cables, &n, a, b);
                }
            }
        }
        break;
    case 5:
        for (uint32_t r = 1; r < 5; r++) {
            add(cables, &n, 0, r);
        }
        break;
    case 6:
        for (uint32_t r = 0; r < 4; r++) {
            add(cables, &n, r, r + 4);
            if (r < 3) {
                add(cables, &n, r, r + 1);
                add(cables, &n, r + 4, r + 5);
            }
        }
        break;
    default:
        for (uint32_t r = 0; r + 1 < rows[row].n; r++) {
            add(cables, &n, r, r + 1);
        }
        if (row != 4) {
            add(cables, &n, rows[row].n - 1, 0);
        }
        break;
    }
    return n;
}

static int share_of_bound(const struct coll_mesh *mesh, const struct mesh_graph *graph,
                          enum weft_collective kind, const char *name)
{
    static const enum weft_collective collectives[] = {
        [WEFT_ALL_REDUCE] = WEFT_ALL_REDUCE,
        [WEFT_REDUCE_SCATTER] = WEFT_REDUCE_SCATTER,
        [WEFT_ALL_GATHER] = WEFT_ALL_GATHER};
    struct coll_job job = job_of(kind, 256u << 20);
    uint32_t hosts[256];
    struct coll_choice choice;
    weft_ps bound;

    for (uint32_t r = 0; r < mesh->n_ranks; r++) {
        hosts[r] = r;
    }
    bound = mesh_limit_ps(graph, hosts, mesh->n_ranks, collectives[kind], 256u << 20);
    coll_choose(&job, mesh, &choice);
    printf("%s of %u: %s by %s, slices of %llu: predicted %lld%% of the bound\n", name,
           mesh->n_ranks, weft_collective_name(kind),
           weft_algorithm_name(choice.algorithm), (unsigned long long)choice.slice_bytes,
           (long long)(bound * 100 / choice.time_ps));
    return (int)(bound * 100 / choice.time_ps);
}

START_TEST(meshes_are_predicted_near_their_bound)
{
    struct coll_cable cables[256];
    uint32_t n_cables = cables_of((size_t)_i, cables);
    struct mesh_graph graph;
    struct coll_mesh mesh;

    coll_graph_of_cables(rows[_i].n, cables, n_cables, RATE, US, &graph);
    coll_mesh_of_cables(rows[_i].n, cables, n_cables, RATE, US, &mesh);
    printf("%s of %u: 8 B by %s\n", rows[_i].name, rows[_i].n,
           weft_algorithm_name(chosen(&mesh, WEFT_ALL_REDUCE, 8)));
    if (rows[_i].small != WEFT_ALGORITHM_AUTO) {
        ck_assert_int_eq(chosen(&mesh, WEFT_ALL_REDUCE, 8), rows[_i].small);
    }
    ck_assert_int_ge(share_of_bound(&mesh, &graph, WEFT_ALL_REDUCE, rows[_i].name),
                     rows[_i].all_reduce);
    ck_assert_int_eq(chosen(&mesh, WEFT_ALL_REDUCE, 256u << 20), rows[_i].large);
    ck_assert_int_ge(share_of_bound(&mesh, &graph, WEFT_REDUCE_SCATTER, rows[_i].name),
                     rows[_i].scatter);
    ck_assert_int_ge(share_of_bound(&mesh, &graph, WEFT_ALL_GATHER, rows[_i].name),
                     rows[_i].gather);
    coll_mesh_fini(&mesh);
    mesh_graph_fini(&graph);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coll/cost");
    TCase *tcase = tcase_create("cost");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, twice_the_delay_moves_the_crossover);
    tcase_add_test(tcase, costs_by_hand);
    tcase_add_test(tcase, what_needs_too_many_relays_is_not_chosen);
    tcase_add_test(tcase, hosts_without_ranks_count_as_relays);
    tcase_add_loop_test(tcase, long_cables_and_large_jobs_cost_no_less, 0, 3);
    tcase_add_loop_test(tcase, meshes_are_predicted_near_their_bound, 0,
                        (int)WEFT_LENGTH(rows));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
