#include "coll/ranks_testing.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define GPU_STEP_NS 200

struct grid grid;
struct rank ranks[FABRIC_HOSTS_MAX];
uint32_t n_ranks;
struct ranks_gpus ranks_gpus;
uint32_t ranks_window;
static size_t room;
static uint8_t *shadow; /* [room]: copy of memory that the CPU cannot access */

static struct coll_mesh mesh;

/* Opens a flow for every pair, in both directions. */
static void connect_all(void)
{
    for (uint32_t from = 0; from < n_ranks; from++) {
        for (uint32_t to = 0; to < n_ranks; to++) {
            if (from != to) {
                grid_route(&grid, from, to, 0, NULL, 0);
            }
        }
    }
    ck_assert(grid_run_until_up(&grid, FABRIC_S));
}

void ranks_open(const struct fabric_config *config, size_t n_bytes)
{
    struct fabric_config wanted = *config;
    struct weft_error error = {0};

    n_ranks = config->n_hosts;
    room = n_bytes;
    memset(ranks, 0, sizeof(ranks));
    wanted.n_hosts = n_ranks == 1 ? 2 : n_ranks;
    grid_open(&grid, &wanted);
    connect_all();
    shadow = weft_alloc(room);
    coll_mesh_full(n_ranks, UINT64_C(100000000000), grid.fabric.config.delay_ps, &mesh);
    for (uint32_t r = 0; r < n_ranks; r++) {
        struct rank *rank = &ranks[r];
        struct coll_links links = {.rank = r,
                                   .n_ranks = n_ranks,
                                   .send_to = rank->send_to,
                                   .receive_from = rank->receive_from,
                                   .window = ranks_window};
        struct io_gpu *gpu;
        void *memory;

        if (ranks_gpus.open != NULL) {
            ranks_gpus.open(grid.fabric.hosts[r].env);
        }
        gpu = grid.fabric.hosts[r].env->gpu;
        for (uint32_t peer = 0; peer < n_ranks; peer++) {
            for (uint32_t i = 0; i < grid.n_flows; i++) {
                const struct grid_flow *flow = &grid.flows[i];

                if (flow->from == r && flow->to == peer) {
                    transport_net(&rank->links[0][peer], flow->out);
                    rank->send_to[peer] = &rank->links[0][peer];
                }
                if (flow->from == peer && flow->to == r) {
                    transport_net(&rank->links[1][peer], flow->in);
                    rank->receive_from[peer] = &rank->links[1][peer];
                }
            }
        }
        ck_assert_int_eq(coll_exec_open(grid.fabric.hosts[r].env, &links,
                                        &grid.fabric.hosts[r].task, &rank->exec, &error),
                         WEFT_OK);
        ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, n_bytes, &memory), 0);
        rank->input = memory;
        ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, n_bytes, &memory), 0);
        rank->output = memory;
    }
}

void ranks_open_over(const struct coll_cable *cables, uint32_t n_cables,
                     const struct fabric_config *config, size_t n_bytes)
{
    ranks_open(config, n_bytes);
    coll_mesh_fini(&mesh);
    coll_mesh_of_cables(n_ranks, cables, n_cables, UINT64_C(100000000000), 1000000,
                        &mesh);
}

void ranks_close(void)
{
    for (uint32_t r = 0; r < n_ranks; r++) {
        struct io_gpu *gpu = grid.fabric.hosts[r].env->gpu;

        coll_exec_stop(ranks[r].exec);
        coll_exec_close(ranks[r].exec);
        gpu->ops->free(gpu, ranks[r].input);
        gpu->ops->free(gpu, ranks[r].output);
        if (ranks_gpus.close != NULL) {
            ranks_gpus.close(grid.fabric.hosts[r].env);
        }
    }
    free(shadow);
    grid_close(&grid);
    coll_mesh_fini(&mesh);
}

static void upload(uint32_t rank, uint8_t *to, const uint8_t *from, size_t n_bytes)
{
    struct io_gpu *gpu = grid.fabric.hosts[rank].env->gpu;

    if (from != to && n_bytes > 0) {
        ck_assert_int_eq(gpu->ops->upload(gpu, to, from, n_bytes), 0);
    }
}

static void fill(const struct coll_job *job, uint64_t seed, uint32_t r,
                 const struct coll_buffers *buffers)
{
    bool is_near = grid.fabric.hosts[r].env->gpu->is_host_memory;
    struct coll_extent extent = coll_extent_of(job, r, n_ranks);
    uint8_t *input =
        (uint8_t *)buffers->input + extent.input_at * weft_dtype_bytes(job->dtype);
    uint8_t *at = is_near ? ranks[r].output : shadow;

    memset(at, 0xa5, room);
    upload(r, ranks[r].output, at, room);
    at = is_near ? input : shadow;
    oracle_fill(job, seed, r, n_ranks, at, buffers->input_bytes);
    upload(r, input, at, buffers->input_bytes);
}

void ranks_start(const struct coll_job *job, uint64_t seed, uint32_t iterations)
{
    struct weft_error error = {0};

    for (uint32_t r = 0; r < n_ranks; r++) {
        struct rank *rank = &ranks[r];
        struct coll_buffers buffers = {
            .input = job->in_place ? rank->output : rank->input, .output = rank->output};

        oracle_buffer_bytes(job, n_ranks, &buffers.input_bytes, &buffers.output_bytes);
        ck_assert_uint_le(buffers.output_bytes, room);
        ck_assert_uint_le(buffers.input_bytes, room);
        fill(job, seed, r, &buffers);
        if (job->in_place) {
            buffers.input_bytes = buffers.output_bytes = room;
        }
        ck_assert_int_eq(coll_exec_buffers(rank->exec, &buffers, &error), WEFT_OK);
        ck_assert_int_eq(coll_plan_make(job, r, &mesh, &rank->plan, &error), WEFT_OK);
        coll_exec_start(rank->exec, job, &rank->plan, iterations);
        rank->is_done = false;
    }
    grid.fabric.woken = UINT32_MAX;
}

weft_status ranks_run(weft_ns for_ns, struct weft_error *error)
{
    weft_ns until = fabric_now(&grid.fabric) + for_ns;
    uint32_t n_done = 0;

    while (n_done < n_ranks) {
        for (uint32_t r = 0; r < n_ranks; r++) {
            weft_status status = WEFT_AGAIN;

            if ((grid.fabric.woken >> r & 1) != 0 && !ranks[r].is_done &&
                !ranks[r].is_late) {
                status = coll_exec_progress(ranks[r].exec, error);
            }
            if (status < 0) {
                return status;
            }
            ranks[r].is_done = ranks[r].is_done || status == WEFT_OK;
            n_done += status == WEFT_OK;
        }
        grid.fabric.woken = 0;
        if (n_done < n_ranks && ranks_gpus.step != NULL && ranks_gpus.step()) {
            (void)fabric_step(&grid.fabric, fabric_now(&grid.fabric) + GPU_STEP_NS);
        } else if (n_done < n_ranks && !fabric_step(&grid.fabric, until)) {
            return WEFT_ERR_TIMEOUT;
        }
    }
    return WEFT_OK;
}

void ranks_verify(const struct coll_job *job, uint64_t seed)
{
    size_t input_bytes, output_bytes;
    uint64_t first = 0;

    oracle_buffer_bytes(job, n_ranks, &input_bytes, &output_bytes);
    for (uint32_t r = 0; r < n_ranks; r++) {
        struct io_gpu *gpu = grid.fabric.hosts[r].env->gpu;
        struct coll_extent extent = coll_extent_of(job, r, n_ranks);
        const uint8_t *output =
            ranks[r].output + extent.output_at * weft_dtype_bytes(job->dtype);
        uint64_t n_wrong;

        if (!gpu->is_host_memory && output_bytes > 0) {
            ck_assert_int_eq(gpu->ops->download(gpu, shadow, output, output_bytes), 0);
            output = shadow;
        }
        n_wrong = oracle_check(job, seed, r, n_ranks, output, output_bytes, &first);

        ck_assert_msg(n_wrong == 0,
                      "%s %s %s %s count %llu in_place %d: rank %u: %llu wrong from %llu",
                      weft_collective_name(job->kind),
                      weft_algorithm_name(job->algorithm), weft_dtype_name(job->dtype),
                      weft_redop_name(job->op), (unsigned long long)job->count,
                      job->in_place, r, (unsigned long long)n_wrong,
                      (unsigned long long)first);
    }
}

void ranks_fini_plans(void)
{
    for (uint32_t r = 0; r < n_ranks; r++) {
        coll_plan_fini(&ranks[r].plan);
    }
}

weft_ns ranks_finished(uint32_t iteration)
{
    weft_ns last = 0;

    for (uint32_t r = 0; r < n_ranks; r++) {
        weft_ns at = coll_exec_finished_ns(ranks[r].exec, iteration);

        last = at > last ? at : last;
    }
    return last;
}
