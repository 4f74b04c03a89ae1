/* Collectives end to end on the simulated fabric: every byte against the oracle, and as fast as
 * the cables allow. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "coll/oracle.h"
#include "xfer/fabric_testing.h"

struct rank {
    struct coll_exec *exec;
    struct xfer *send_to[FABRIC_HOSTS_MAX], *receive_from[FABRIC_HOSTS_MAX];
    struct coll_plan plan;
    uint8_t *input, *output;
    bool is_done;
};

static struct fabric fabric;
static struct rank ranks[FABRIC_HOSTS_MAX];
static uint32_t n_ranks;
static size_t room;

static struct coll_cost_input cost_of_fabric(void)
{
    return (struct coll_cost_input){.n_ranks = n_ranks,
                                    .rate_bps = UINT64_C(100000000000),
                                    .delay_ps = fabric.config.delay_ps,
                                    .path_mtu = 4096,
                                    .neighbours = {true, false}};
}

/* A rank on every host; a single one has the host next to it for company. */
static void open_ranks(const struct fabric_config *config, size_t n_bytes)
{
    struct fabric_config wanted = *config;
    struct weft_error error = {0};

    n_ranks = config->n_hosts;
    room = n_bytes;
    memset(ranks, 0, sizeof(ranks));
    wanted.n_hosts = n_ranks == 1 ? 2 : n_ranks;
    fabric_open(&fabric, &wanted);
    for (uint32_t r = 0; r < n_ranks; r++) {
        struct rank *rank = &ranks[r];
        struct coll_links links = {.rank = r,
                                   .n_ranks = n_ranks,
                                   .send_to = rank->send_to,
                                   .receive_from = rank->receive_from};
        struct io_gpu *gpu = fabric.hosts[r].env->gpu;
        void *memory;

        for (uint32_t peer = 0; peer < n_ranks; peer++) {
            rank->send_to[peer] = fabric.links[r][peer].out;
            rank->receive_from[peer] = fabric.links[peer][r].in;
        }
        ck_assert_int_eq(coll_exec_open(fabric.hosts[r].env, &links,
                                        &fabric.hosts[r].task, &rank->exec, &error),
                         WEFT_OK);
        ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, n_bytes, &memory), 0);
        rank->input = memory;
        ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, n_bytes, &memory), 0);
        rank->output = memory;
    }
}

static void close_ranks(void)
{
    for (uint32_t r = 0; r < n_ranks; r++) {
        struct io_gpu *gpu = fabric.hosts[r].env->gpu;

        coll_exec_stop(ranks[r].exec);
        coll_exec_close(ranks[r].exec);
        gpu->ops->free(gpu, ranks[r].input);
        gpu->ops->free(gpu, ranks[r].output);
    }
    fabric_close(&fabric);
}

static void start(const struct coll_job *job, uint64_t seed, uint32_t iterations)
{
    struct coll_cost_input cost = cost_of_fabric();
    struct weft_error error = {0};

    for (uint32_t r = 0; r < n_ranks; r++) {
        struct rank *rank = &ranks[r];
        struct coll_buffers buffers = {
            .input = job->in_place ? rank->output : rank->input, .output = rank->output};

        oracle_buffer_bytes(job, n_ranks, &buffers.input_bytes, &buffers.output_bytes);
        ck_assert_uint_le(buffers.output_bytes, room);
        memset(rank->output, 0xa5, buffers.output_bytes);
        oracle_fill(job, seed, r, n_ranks, buffers.input, buffers.input_bytes);
        ck_assert_int_eq(coll_exec_buffers(rank->exec, &buffers, &error), WEFT_OK);
        ck_assert_int_eq(coll_plan_make(job, r, n_ranks, &cost, &rank->plan, &error),
                         WEFT_OK);
        coll_exec_start(rank->exec, job, &rank->plan, iterations);
        rank->is_done = false;
    }
    fabric.woken = UINT32_MAX;
}

/* Progresses the ranks whose host was woken; the first error ends it. */
static weft_status run(weft_ns for_ns, struct weft_error *error)
{
    weft_ns until = fabric_now(&fabric) + for_ns;
    uint32_t n_done = 0;

    while (n_done < n_ranks) {
        for (uint32_t r = 0; r < n_ranks; r++) {
            weft_status status = WEFT_AGAIN;

            if ((fabric.woken >> r & 1) != 0 && !ranks[r].is_done) {
                status = coll_exec_progress(ranks[r].exec, error);
            }
            if (status < 0) {
                return status;
            }
            ranks[r].is_done = ranks[r].is_done || status == WEFT_OK;
            n_done += status == WEFT_OK;
        }
        fabric.woken = 0;
        if (n_done < n_ranks && !fabric_step(&fabric, until)) {
            return WEFT_ERR_TIMEOUT;
        }
    }
    return WEFT_OK;
}

static void verify(const struct coll_job *job, uint64_t seed)
{
    size_t input_bytes, output_bytes;
    uint64_t first = 0;

    oracle_buffer_bytes(job, n_ranks, &input_bytes, &output_bytes);
    for (uint32_t r = 0; r < n_ranks; r++) {
        uint64_t n_wrong =
            oracle_check(job, seed, r, n_ranks, ranks[r].output, output_bytes, &first);

        ck_assert_msg(n_wrong == 0,
                      "%s %s %s %s count %llu in_place %d: rank %u: %llu wrong from %llu",
                      coll_kind_name(job->kind), coll_algorithm_name(job->algorithm),
                      weft_dtype_name(job->dtype), weft_redop_name(job->op),
                      (unsigned long long)job->count, job->in_place, r,
                      (unsigned long long)n_wrong, (unsigned long long)first);
    }
}

static void do_job(const struct coll_job *job, uint32_t iterations)
{
    struct weft_error error = {0};
    weft_status status;

    start(job, job->count + 3, iterations);
    status = run(10 * FABRIC_S, &error);
    ck_assert_msg(status == WEFT_OK, "%s %s count %llu in_place %d: %s: %s",
                  weft_status_name(status), coll_algorithm_name(job->algorithm),
                  (unsigned long long)job->count, job->in_place, error.phase,
                  error.message);
    if (!job->in_place || iterations == 1) {
        verify(job, job->count + 3);
    }
    for (uint32_t r = 0; r < n_ranks; r++) {
        coll_plan_fini(&ranks[r].plan);
    }
}

/* ---- data ---- */

static const enum coll_algorithm algorithms[] = {COLL_AUTO, COLL_RING, COLL_RINGS,
                                                 COLL_DIRECT};

START_TEST(every_size_and_algorithm_is_exact)
{
    static const uint64_t counts[] = {0, 1, 2, 3, 5, 7, 31, 1024, 4099, 100003, 700001};

    open_ranks(&(struct fabric_config){.n_hosts = (uint32_t)_i}, 4u << 20);
    for (size_t c = 0; c < WEFT_LENGTH(counts); c++) {
        struct coll_job job = {.kind = COLL_ALL_REDUCE,
                               .dtype = WEFT_FLOAT32,
                               .op = WEFT_SUM,
                               .count = counts[c]};

        for (size_t a = 0; a < WEFT_LENGTH(algorithms); a++) {
            job.algorithm = algorithms[a];
            job.in_place = false;
            do_job(&job, 1 + (uint32_t)c % 3);
            job.in_place = true;
            do_job(&job, 1);
            do_job(&job, 2); /* ends */
        }
        job = (struct coll_job){.kind = COLL_SEND_RECV,
                                .dtype = WEFT_INT32,
                                .op = WEFT_SUM,
                                .count = counts[c]};
        do_job(&job, 1 + (uint32_t)c % 3);
    }
    close_ranks();
}
END_TEST

START_TEST(every_type_and_op_is_exact)
{
    open_ranks(&(struct fabric_config){.n_hosts = 3}, 1u << 20);
    for (int dtype = 0; dtype < WEFT_N_DTYPES; dtype++) {
        for (int op = 0; op < WEFT_N_REDOPS; op++) {
            for (size_t a = 1; a < WEFT_LENGTH(algorithms); a++) {
                struct coll_job job = {.kind = COLL_ALL_REDUCE,
                                       .algorithm = algorithms[a],
                                       .dtype = (enum weft_dtype)dtype,
                                       .op = (enum weft_redop)op,
                                       .count = 1013,
                                       .in_place = (dtype + op) % 2 == 1};

                do_job(&job, 1);
            }
        }
    }
    close_ranks();
}
END_TEST

/* Loss, duplicates and reordering cost time, not bytes. */
START_TEST(a_bad_cable_changes_no_byte)
{
    struct coll_job job = {
        .kind = COLL_ALL_REDUCE, .dtype = WEFT_INT32, .op = WEFT_SUM, .count = 300007};

    open_ranks(&(struct fabric_config){.n_hosts = 3,
                                       .seed = (uint64_t)_i,
                                       .impairment = {.loss_ppb = 1000000,
                                                      .duplicate_ppb = 500000,
                                                      .reorder_ppb = 500000}},
               4u << 20);
    for (size_t a = 1; a < WEFT_LENGTH(algorithms); a++) {
        job.algorithm = algorithms[a];
        do_job(&job, 3);
    }
    close_ranks();
}
END_TEST

/* ---- speed ---- */

/* Time until the last rank ended iteration i. */
static weft_ns finished(uint32_t iteration)
{
    weft_ns last = 0;

    for (uint32_t r = 0; r < n_ranks; r++) {
        weft_ns at = coll_exec_finished_ns(ranks[r].exec, iteration);

        last = at > last ? at : last;
    }
    return last;
}

/* 256 MiB on three hosts: each sends 4/3 of it over two cables, of whose bits 4096 in 4178 + 20
 * with preamble and gap are payload: no faster than 2/3 x 256 MiB x 4178 / 4096 x 80 ps. */
START_TEST(large_all_reduce_fills_the_cables)
{
    struct coll_job job = {.kind = COLL_ALL_REDUCE,
                           .dtype = WEFT_FLOAT32,
                           .op = WEFT_SUM,
                           .count = 64u << 20,
                           .algorithm = COLL_AUTO};
    struct weft_error error = {0};
    weft_ns bound_ns = (weft_ns)((UINT64_C(256) << 20) * 2 / 3 / 4096 * 4178 * 80 / 1000);
    weft_ns started, took;

    open_ranks(&(struct fabric_config){.n_hosts = 3}, 256u << 20);
    start(&job, 1, 2);
    started = fabric_now(&fabric);
    ck_assert_int_eq(run(10 * FABRIC_S, &error), WEFT_OK);
    verify(&job, 1);
    took = finished(1) - finished(0);
    printf("256 MiB on the triangle: %lld ns, then %lld ns; bound %lld ns: %lld%%\n",
           (long long)(finished(0) - started), (long long)took, (long long)bound_ns,
           (long long)(bound_ns * 100 / took));
    ck_assert_int_ge(bound_ns * 100, took * 96);
    for (uint32_t r = 0; r < n_ranks; r++) {
        coll_plan_fini(&ranks[r].plan);
    }
    close_ranks();
}
END_TEST

/* From the second iteration on nobody waits for a clear-to-send. */
START_TEST(small_all_reduce_takes_one_message_time)
{
    struct coll_job job = {.kind = COLL_ALL_REDUCE,
                           .dtype = WEFT_FLOAT32,
                           .op = WEFT_SUM,
                           .count = 2,
                           .algorithm = COLL_AUTO};
    struct weft_error error = {0};
    weft_ns worst = 0;

    open_ranks(&(struct fabric_config){.n_hosts = (uint32_t)_i}, 4096);
    start(&job, 1, 40);
    ck_assert_int_eq(ranks[0].plan.algorithm, COLL_DIRECT);
    ck_assert_int_eq(run(10 * FABRIC_S, &error), WEFT_OK);
    for (uint32_t i = 1; i < 40; i++) {
        weft_ns took = finished(i) - finished(i - 1);

        worst = took > worst ? took : worst;
    }
    printf("8 bytes on %d hosts: first %lld ns, worst of the others %lld ns\n", _i,
           (long long)(finished(0)), (long long)worst);
    verify(&job, 1);
    ck_assert_int_lt(worst, 3300);
    for (uint32_t r = 0; r < n_ranks; r++) {
        coll_plan_fini(&ranks[r].plan);
    }
    close_ranks();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coll/exec");
    TCase *data = tcase_create("data"), *speed = tcase_create("speed");
    SRunner *runner;
    int n_failed;

    tcase_set_timeout(data, 300);
    tcase_set_timeout(speed, 300);
    tcase_add_loop_test(data, every_size_and_algorithm_is_exact, 1, 6);
    tcase_add_test(data, every_type_and_op_is_exact);
    tcase_add_loop_test(data, a_bad_cable_changes_no_byte, 0, 4);
    tcase_add_test(speed, large_all_reduce_fills_the_cables);
    tcase_add_loop_test(speed, small_all_reduce_takes_one_message_time, 2, 4);
    suite_add_tcase(suite, data);
    suite_add_tcase(suite, speed);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
