/* Worlds that are timing only have the same event log as others, without storage for GPU memory.
 * Any access to such memory crashes. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "backends/sim/bed_testing.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "io/gpu.h"
#include "io/verbs.h"

#define MS ((weft_ns)1000000)

static struct bed bed;
static struct bed_end ends[3];

/* Three hosts at a switch with a short queue, one of them with a lossy cable. */
static void build(bool is_timing_only)
{
    static const char *const addresses[] = {"10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"};
    sim_bed_init(&bed);
    bed.switches[0] = (struct world_switch){.name = "sw0", .n_ports = 3};
    bed.spec.n_switches = 1;
    bed.spec.is_timing_only = is_timing_only;
    for (uint32_t i = 0; i < 3; i++) {
        sim_bed_host(&bed);
        sim_bed_port(&bed, i, addresses[i], 0);
        sim_bed_cable(&bed, (struct world_end){.node = i},
                      (struct world_end){.is_switch = true, .port = i});
    }
    bed.hosts[0].n_processes = 2;
    bed.cables[2].impairment.loss_ppb = 5000000;
    bed.cables[2].impairment.duplicate_ppb = 5000000;
    bed.cables[1].queue_bytes = 64 << 10;
    sim_bed_create(&bed);
}

static void stop(void)
{
    sim_bed_fini(&bed);
}

static void post(struct bed_end *from, const struct bed_end *to,
                 enum ibv_wr_opcode opcode)
{
    struct ibv_sge sges[2] = {
        {.addr = (uintptr_t)from->memory + 100, .length = 5000, .lkey = from->mr->lkey},
        {.addr = (uintptr_t)from->memory + 9000,
         .length = 70001,
         .lkey = from->mr->lkey}};
    struct ibv_send_wr wr = {
        .sg_list = sges, .num_sge = 2, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)to->memory + 7;
    wr.wr.rdma.rkey = to->mr->rkey;
    ck_assert_int_eq(from->device->ops->post_send(from->qp, &wr, &bad), 0);
}

static void receive(struct bed_end *end)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)end->memory, .length = BED_BYTES, .lkey = end->mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;
    ck_assert_int_eq(end->device->ops->post_recv(end->qp, &wr, &bad), 0);
}

static void compute(struct bed_end *end, enum io_gpu_op_kind kind)
{
    struct io_gpu *gpu = end->env->gpu;
    struct io_gpu_op op = {.kind = kind,
                           .out = end->memory,
                           .a = end->memory + 4096,
                           .b = end->memory + 8192,
                           .count = 1000,
                           .dtype = WEFT_FLOAT32,
                           .redop = WEFT_SUM};
    ck_assert_int_eq(gpu->ops->start(gpu, &op), 0);
    while (gpu->ops->poll(gpu, &op) == EINPROGRESS) {
        sim_bed_run(&bed, backend_sim.now(bed.world) + 10, NULL, NULL);
    }
    ck_assert_int_eq(op.error, 0);
}

static void count_bytes(void *context, const struct world_frame *frame)
{
    *(uint64_t *)context += frame->n_bytes;
}

/* Uses everything that moves or computes bytes once. Returns the time at the end. */
static weft_ns act(uint64_t *out_tapped)
{
    uint8_t some[64] = {1};
    *out_tapped = 0;
    ck_assert_int_eq(backend_sim.tap(bed.world, count_bytes, out_tapped), 0);
    for (int other = 1; other < 4; other++) {
        bool is_local = other == 3;
        sim_bed_open(&bed, &ends[0], 0, 0, 0);
        sim_bed_open(&bed, &ends[1], is_local ? 0 : (uint32_t)other, is_local ? 1 : 0, 0);
        ck_assert_int_eq(sim_bed_connect(&ends[0], &ends[1]), 0);
        sim_bed_write(&ends[0], &ends[1], BED_BYTES, 8);
        (void)sim_bed_wait(&ends[0], 8);
        post(&ends[0], &ends[1], IBV_WR_RDMA_WRITE);
        post(&ends[0], &ends[1], IBV_WR_RDMA_READ);
        receive(&ends[1]);
        post(&ends[0], &ends[1], IBV_WR_SEND);
        (void)sim_bed_wait(&ends[0], 3);
        (void)sim_bed_wait(&ends[1], 1);
        compute(&ends[0], IO_GPU_COPY);
        compute(&ends[1], IO_GPU_REDUCE);
        struct io_gpu *gpu = ends[0].env->gpu;
        ck_assert_int_eq(gpu->ops->upload(gpu, ends[0].memory, some, sizeof some), 0);
        ck_assert_int_eq(gpu->ops->download(gpu, some, ends[0].memory, sizeof some), 0);
        sim_bed_close(&ends[0]);
        sim_bed_close(&ends[1]);
    }
    return backend_sim.now(bed.world);
}

START_TEST(the_story_is_the_same)
{
    uint64_t tapped[2];
    build(false);
    weft_ns real = act(&tapped[0]);
    char *story = weft_strdup(bed.story.bytes);
    ck_assert(sim_bed_told(&bed, "retransmit"));
    stop();
    build(true);
    ck_assert_int_eq(act(&tapped[1]), real);
    ck_assert_str_eq(bed.story.bytes, story);
    ck_assert_uint_eq(tapped[0], tapped[1]);
    free(story);
}
END_TEST

START_TEST(it_costs_addresses_only)
{
    build(true);
    struct io_gpu *gpu = backend_sim.host_env(bed.world, 1, 0)->gpu;
    void *memory[16];
    ck_assert(!gpu->is_host_memory);
    for (int i = 0; i < 16; i++) { /* 16 TiB */
        ck_assert_int_eq(
            gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, (size_t)1 << 40, &memory[i]), 0);
        ck_assert_uint_eq((uintptr_t)memory[i] % 4096, 0);
        for (int j = 0; j < i; j++) {
            ck_assert_ptr_ne(memory[i], memory[j]);
        }
    }
    /* Freed ranges are reused, so a run of any length has enough addresses. */
    for (int i = 0; i < 1000; i++) {
        gpu->ops->free(gpu, memory[i % 16]);
        ck_assert_int_eq(
            gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, (size_t)1 << 40, &memory[i % 16]), 0);
    }
    void *more;
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, (size_t)1 << 46, &more),
                     ENOMEM);
}
END_TEST

START_TEST(memory_of_the_host_is_real)
{
    build(true);
    struct io_gpu *gpu = backend_sim.host_env(bed.world, 1, 0)->gpu;
    uint8_t *memory[2];
    void *at;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_HOST, 8192, &at), 0);
        memory[i] = at;
    }
    memset(memory[0], 7, 8192);
    ck_assert_int_eq(gpu->ops->upload(gpu, memory[1], memory[0], 8192), 0);
    ck_assert_mem_eq(memory[0], memory[1], 8192);
    gpu->ops->free(gpu, memory[0]);
    gpu->ops->free(gpu, memory[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backends/sim/phantom");
    TCase *phantom = tcase_create("timing only");
    tcase_add_checked_fixture(phantom, NULL, stop);
    tcase_add_test(phantom, the_story_is_the_same);
    tcase_add_test(phantom, it_costs_addresses_only);
    tcase_add_test(phantom, memory_of_the_host_is_real);
    suite_add_tcase(suite, phantom);
    return suite_run(suite);
}
