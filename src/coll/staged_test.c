/* Collectives on GPUs whose memory neither NIC nor CPU can access: every message passes
 * through host memory, every byte is right, and nothing touches memory that the GPU still
 * uses. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/hostmem/far_testing.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "coll/ranks_testing.h"

static struct hostmem_machine *machine;
static enum hostmem_far_reach reach;

static void open_gpu(struct io_env *env)
{
    hostmem_far_open(machine, env, reach);
}

static bool step_gpus(void)
{
    return hostmem_step(machine);
}

/* Opens ranks whose GPUs copy in up to `n_pieces` pieces while messages are in flight. */
static void open_far(uint32_t n, size_t n_bytes, uint32_t n_pieces,
                     enum hostmem_far_reach by)
{
    reach = by;
    machine = hostmem_machine_create(n + n_pieces, n_pieces);
    ranks_gpus = (struct ranks_gpus){open_gpu, step_gpus, hostmem_far_close};
    ranks_open(&(struct fabric_config){.n_hosts = n}, n_bytes);
}

static void close_far(void)
{
    ck_assert_msg(hostmem_n_violations(machine) == 0, "%s", hostmem_violation(machine));
    ranks_close();
    hostmem_machine_destroy(machine);
}

static void do_job(const struct coll_job *job, uint32_t iterations)
{
    struct weft_error error = {0};
    weft_status status;

    ranks_start(job, job->count + 3, iterations);
    status = ranks_run(10 * FABRIC_S, &error);
    ck_assert_msg(status == WEFT_OK, "%s %s %s count %llu in_place %d: %s: %s",
                  weft_status_name(status), weft_collective_name(job->kind),
                  weft_algorithm_name(job->algorithm), (unsigned long long)job->count,
                  job->in_place, weft_phase_name(error.phase), error.message);
    if (!job->in_place || iterations == 1) {
        ranks_verify(job, job->count + 3);
    }
    ranks_fini_plans();
}

static bool has_in_place(enum weft_collective kind)
{
    return kind != WEFT_ALL_TO_ALL && kind != WEFT_SEND_RECV;
}

/* On three and four ranks: every algorithm, with sizes of less than a slice and of several
 * slices. */
START_TEST(every_kind_and_algorithm_is_exact)
{
    static const uint64_t counts[] = {0, 3, 4099, 300007};

    open_far(3 + (uint32_t)_i / WEFT_N_COLLECTIVES, 2u << 20, 3, HOSTMEM_FAR_NONE);
    for (size_t c = 0; c < WEFT_LENGTH(counts); c++) {
        struct coll_job job = {.kind = (enum weft_collective)(_i % WEFT_N_COLLECTIVES),
                               .dtype = WEFT_FLOAT32,
                               .op = WEFT_SUM,
                               .root = 1,
                               .count = counts[c]};

        for (int a = 0; a < WEFT_N_ALGORITHMS; a++) {
            job.algorithm = (enum weft_algorithm)a;
            if (!weft_collective_has(job.kind, job.algorithm)) {
                continue;
            }
            job.in_place = false;
            do_job(&job, 1 + (uint32_t)c % 3);
            job.in_place = has_in_place(job.kind);
            if (job.in_place) {
                do_job(&job, 1);
            }
        }
    }
    close_far();
}
END_TEST

START_TEST(every_type_and_op_is_exact)
{
    static const enum weft_algorithm by[] = {WEFT_ALGORITHM_RING, WEFT_ALGORITHM_DIRECT};

    open_far(3, 1u << 20, 2, HOSTMEM_FAR_NONE);
    for (int dtype = 0; dtype < WEFT_N_DTYPES; dtype++) {
        for (int op = 0; op < WEFT_N_REDOPS; op++) {
            struct coll_job job = {.kind = WEFT_ALL_REDUCE,
                                   .algorithm = by[(dtype + op) % 2],
                                   .dtype = (enum weft_dtype)dtype,
                                   .op = (enum weft_redop)op,
                                   .count = 1013,
                                   .in_place = op % 2 == 1};

            do_job(&job, 1);
        }
    }
    close_far();
}
END_TEST

/* A NIC claims to reach the GPU's memory but does not. Messages are staged from then on, also
 * on connections that are first used later. */
START_TEST(a_nic_that_refuses_the_memory_gets_the_hosts)
{
    struct coll_job job = {.kind = WEFT_ALL_REDUCE,
                           .algorithm = WEFT_ALGORITHM_RING,
                           .dtype = WEFT_INT32,
                           .op = WEFT_SUM,
                           .count = 200003};
    uint32_t n_refused[3];

    open_far(3, 1u << 20, 3, HOSTMEM_FAR_CLAIMED);
    do_job(&job, 2);
    for (uint32_t r = 0; r < 3; r++) {
        n_refused[r] = hostmem_far_n_refused(grid.fabric.hosts[r].env);
        ck_assert_uint_gt(n_refused[r], 0);
    }
    job.algorithm = WEFT_ALGORITHM_DIRECT;
    do_job(&job, 2);
    job.in_place = true;
    do_job(&job, 1);
    for (uint32_t r = 0; r < 3; r++) {
        ck_assert_uint_eq(hostmem_far_n_refused(grid.fabric.hosts[r].env), n_refused[r]);
    }
    close_far();
}
END_TEST

static const struct io_gpu_ops *full_ops;
static int fail_errno;
static uint32_t n_failed;

static int fail_alloc(struct io_gpu *gpu, enum io_memory where, size_t n_bytes,
                      void **out)
{
    if (fail_errno == 0) {
        return full_ops->alloc(gpu, where, n_bytes, out);
    }
    n_failed++;
    return fail_errno;
}

/* A GPU that allocates nothing ends the run with its own error: it is not taken for a NIC that
 * refuses the memory, and nothing is done with memory that does not exist. */
START_TEST(a_gpu_without_memory_ends_the_run)
{
    static const int errors[] = {ENOMEM, EINVAL, EFAULT, EOPNOTSUPP};
    static const enum weft_algorithm by[] = {WEFT_ALGORITHM_RING, WEFT_ALGORITHM_DIRECT,
                                             WEFT_ALGORITHM_HALVING};
    struct coll_job job = {.kind = WEFT_ALL_REDUCE,
                           .algorithm = by[_i % 3],
                           .dtype = WEFT_INT32,
                           .op = WEFT_SUM,
                           .count = 200003};
    struct weft_error error = {0};
    struct io_gpu_ops ops;
    struct io_gpu *gpu;

    open_far(3, 1u << 20, 3, HOSTMEM_FAR_CLAIMED);
    gpu = grid.fabric.hosts[0].env->gpu;
    full_ops = gpu->ops;
    ops = *full_ops;
    ops.alloc = fail_alloc;
    gpu->ops = &ops;
    fail_errno = errors[_i / 3];
    n_failed = 0;
    ranks_start(&job, 1, 1);
    ck_assert_int_lt(ranks_run(10 * FABRIC_S, &error), 0);
    ck_assert_int_eq(error.sys_errno, fail_errno);
    ck_assert_uint_eq(n_failed, 1);
    if (job.algorithm !=
        WEFT_ALGORITHM_DIRECT) { /* of which the input is refused before */
        ck_assert_uint_eq(hostmem_far_n_refused(grid.fabric.hosts[0].env), 0);
    }
    gpu->ops = full_ops;
    ranks_fini_plans();
    close_far();
}
END_TEST

/* With a dma-buf, messages go directly to the GPU's memory, which the CPU still cannot access. */
START_TEST(dma_bufs_are_straight)
{
    static const enum weft_algorithm by[] = {WEFT_ALGORITHM_RING, WEFT_ALGORITHM_DIRECT,
                                             WEFT_ALGORITHM_TREE};

    open_far(3, 1u << 20, 3, HOSTMEM_FAR_DMABUF);
    for (size_t a = 0; a < WEFT_LENGTH(by); a++) {
        struct coll_job job = {.kind = WEFT_ALL_REDUCE,
                               .algorithm = by[a],
                               .dtype = WEFT_INT32,
                               .op = WEFT_SUM,
                               .count = 200003,
                               .in_place = a == 1};

        do_job(&job, 1);
    }
    for (uint32_t r = 0; r < 3; r++) {
        ck_assert_uint_eq(hostmem_far_n_refused(grid.fabric.hosts[r].env), 0);
    }
    close_far();
}
END_TEST

/* ---- throughput by number of pieces ---- */

static void forbid_direct(struct io_env *env)
{
    env->gpu->rdma_direct = false;
}

/* Returns the throughput between two DGX Sparks with one cable, per mille of what the slowest
 * of wire, PCIe and copy permits. The cable is two rails of 100 Gbit/s behind PCIe of
 * `pcie_root_bps` in total; the GPU copies at 200 GB/s. Averages five jobs, registration
 * included, each of which carries all its data in one or both directions. 4096 bytes of
 * payload take 4178 byte times and 20 of preamble and gap on the wire, and 4178 on PCIe. */
static int64_t per_mille(struct coll_job job, uint64_t pcie_root_bps, uint32_t n_pieces)
{
    static const struct fabric_cable twins[] = {{0, 1}, {0, 1}};
    static const struct coll_cable cable = {0, 1};
    const struct fabric_config config = {
        .n_hosts = 2, .cables = twins, .n_cables = 2, .pcie_root_bps = pcie_root_bps};
    uint64_t wire_bps = (uint64_t)200000000000u * 4096 / 4198;
    uint64_t pcie_bps = pcie_root_bps * 4096 / 4178;
    uint64_t least = pcie_root_bps > 0 && pcie_bps < wire_bps ? pcie_bps : wire_bps;
    weft_ns began, took;

    ranks_gpus = (struct ranks_gpus){.open = forbid_direct};
    ranks_window = n_pieces;
    ranks_open_over(&cable, 1, &config, job.count);
    began = fabric_now(&grid.fabric);
    do_job(&job, 5);
    took = (ranks_finished(4) - began) / 5;
    ranks_close();
    return (int64_t)(job.count * 8 * 1000000000u / (uint64_t)took * 1000 / least);
}

#define broadcast_from(rank)                                                             \
    {                                                                                    \
        .kind = WEFT_BROADCAST, .algorithm = WEFT_ALGORITHM_DIRECT, .root = (rank),      \
        .count = 4u << 20                                                                \
    }
#define all_reduce                                                                       \
    {                                                                                    \
        .kind = WEFT_ALL_REDUCE, .algorithm = WEFT_ALGORITHM_EXCHANGE, .count = 4u << 20 \
    }

START_TEST(four_pieces_keep_the_slowest_busy)
{
    static const struct {
        struct coll_job job;
        uint64_t pcie_root_bps;
    } cases[] = {{broadcast_from(0), 0},
                 {broadcast_from(1), UINT64_C(126000000000)},
                 {broadcast_from(0), UINT64_C(60000000000)},
                 {all_reduce, 0}, /* both directions at once, with reductions */
                 {all_reduce, UINT64_C(60000000000)}};
    static const uint32_t counts[] = {1, 2, 4, 8};
    int64_t before = 0;

    for (size_t i = 0; i < WEFT_LENGTH(counts); i++) {
        int64_t reached = per_mille(cases[_i].job, cases[_i].pcie_root_bps, counts[i]);

        printf("%s from %u, PCIe %llu Gb/s, %u pieces: %lld of 1000\n",
               weft_collective_name(cases[_i].job.kind), cases[_i].job.root,
               (unsigned long long)(cases[_i].pcie_root_bps / 1000000000u), counts[i],
               (long long)reached);
        ck_assert_int_le(reached, 1000);
        ck_assert_int_ge(reached + 20, before);
        ck_assert(counts[i] > 1 || reached < 900);
        ck_assert(counts[i] < 4 || reached >= 900);
        before = reached;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coll/staged");
    TCase *tcase = tcase_create("data");

    tcase_set_timeout(tcase, 120);
    suite_add_sweep(tcase, every_kind_and_algorithm_is_exact, 0, 2 * WEFT_N_COLLECTIVES);
    tcase_add_test(tcase, every_type_and_op_is_exact);
    tcase_add_test(tcase, a_nic_that_refuses_the_memory_gets_the_hosts);
    tcase_add_loop_test(tcase, a_gpu_without_memory_ends_the_run, 0, 12);
    tcase_add_test(tcase, dma_bufs_are_straight);
    suite_add_sweep(tcase, four_pieces_keep_the_slowest_busy, 0, 5);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
