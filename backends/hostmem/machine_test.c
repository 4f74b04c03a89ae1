/* The machine of GPUs conforms to the GPU interface, and exposes what real GPUs may hide: each
 * planted bug causes wrong data or a violation. */
#include "backends/hostmem/machine_testing.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"
#include "io/gpu_conformance_testing.h"
#include "ipc/world_testing.h"

#define N_SEEDS 12

/* ---- fixtures ---- */

static struct hostmem_machine *machine;

static bool open_machine(struct io_gpu **out, struct io_gpu **out_peer, const char **why)
{
    (void)why;
    machine = hostmem_machine_create(1, 5);
    *out = hostmem_join(machine, &(struct hostmem_process){.uuid = "GPU-a"});
    *out_peer = hostmem_join(machine, &(struct hostmem_process){.uuid = "GPU-b"});
    return true;
}

static void close_machine(void)
{
    ck_assert_msg(hostmem_n_violations(machine) == 0, "%s", hostmem_violation(machine));
    hostmem_machine_destroy(machine);
}

static void step_machine(void)
{
    (void)hostmem_step(machine);
}

static const struct gpu_bed machine_bed = {open_machine, close_machine, step_machine};

/* ---- planted bugs ---- */

static struct ipc_world world;
static struct io_gpu_sharing_ops planted;

/* Returns the number of errors in a run of 60 messages in each direction with a planted bug. */
static uint64_t harm(uint64_t seed, void (*plant)(void))
{
    uint64_t n;

    ipc_world_init(
        &world, &(struct ipc_world_config){
                    .seed = seed, .processes = {{.uuid = "GPU-a"}, {.uuid = "GPU-b"}}});
    plant();
    ipc_world_send(&world, 60, 60);
    ipc_world_run(&world);
    n = world.sides[0].n_wrong + world.sides[1].n_wrong +
        hostmem_n_violations(world.machine);
    ipc_world_fini(&world);
    return n;
}

static void plant_nothing(void)
{
}

static void use_planted(void)
{
    world.sides[0].gpu->sharing = &planted;
    world.sides[1].gpu->sharing = &planted;
}

static int do_not_wait(struct io_gpu *gpu, struct io_gpu_event *event,
                       struct io_gpu_stream *stream)
{
    (void)gpu;
    (void)event;
    (void)stream;
    return 0;
}

static void plant_no_wait(void)
{
    planted = *world.sides[0].gpu->sharing;
    planted.wait = do_not_wait;
    use_planted();
}

static const struct io_gpu_sharing_ops *real;

static int wait_elsewhere(struct io_gpu *gpu, struct io_gpu_event *event,
                          struct io_gpu_stream *stream)
{
    (void)stream;
    return real->wait(gpu, event, NULL);
}

static void plant_wrong_stream(void)
{
    real = world.sides[0].gpu->sharing;
    planted = *real;
    planted.wait = wait_elsewhere;
    use_planted();
}

static int record_elsewhere(struct io_gpu *gpu, struct io_gpu_event *event,
                            struct io_gpu_stream *stream)
{
    (void)stream;
    return real->record(gpu, event, NULL);
}

static void plant_wrong_producer(void)
{
    real = world.sides[0].gpu->sharing;
    planted = *real;
    planted.record = record_elsewhere;
    use_planted();
}

static void plant_early_free(void)
{
    world.frees_early = true;
}

static void (*const plants[])(void) = {plant_no_wait, plant_wrong_stream,
                                       plant_wrong_producer, plant_early_free};

START_TEST(a_planted_bug_is_caught)
{
    uint64_t n_harm = 0;

    for (uint64_t seed = 0; seed < N_SEEDS && n_harm == 0; seed++) {
        n_harm = harm(seed, plants[_i]);
    }
    ck_assert_uint_gt(n_harm, 0);
    for (uint64_t seed = 0; seed < 3; seed++) {
        ck_assert_uint_eq(harm(seed, plant_nothing), 0);
    }
}
END_TEST

/* Copies what a NIC wrote. The copy is right after a fence, and sometimes wrong without. */
static bool copy_after_nic(uint64_t seed, bool flushes)
{
    uint8_t data[64];
    struct io_gpu *gpu;
    struct io_gpu_op op;
    void *landing, *out;
    uint8_t got[64];

    memset(data, 0x77, sizeof(data));

    machine = hostmem_machine_create(seed, 1);
    gpu = hostmem_join(machine, &(struct hostmem_process){.uuid = "GPU-a"});
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, 64, &landing), 0);
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, 64, &out), 0);
    hostmem_nic_write(gpu, landing, data, sizeof(data));
    if (flushes) {
        ck_assert_int_eq(gpu->ops->fence(gpu, landing, 64), 0);
    }
    op = (struct io_gpu_op){.kind = IO_GPU_COPY, .out = out, .a = landing, .count = 64};
    ck_assert_int_eq(gpu->ops->start(gpu, &op), 0);
    while (gpu->ops->poll(gpu, &op) == EINPROGRESS) {
        (void)hostmem_step(machine);
    }
    ck_assert_int_eq(gpu->ops->download(gpu, got, out, 64), 0);
    hostmem_machine_destroy(machine);
    return memcmp(got, data, sizeof(data)) == 0;
}

START_TEST(a_missing_flush_is_caught)
{
    unsigned n_wrong = 0;

    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        ck_assert(copy_after_nic(seed, true));
        n_wrong += !copy_after_nic(seed, false);
    }
    ck_assert_uint_gt(n_wrong, 0);
    ck_assert_uint_lt(n_wrong, N_SEEDS);
}
END_TEST

START_TEST(freed_memory_comes_back_at_its_address_as_another)
{
    struct io_gpu *gpu, *peer;
    struct io_gpu_export before, after;
    void *first, *second, *opened;

    (void)open_machine(&gpu, &peer, NULL);
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, 5000, &first), 0);
    ck_assert_int_eq(gpu->sharing->export_memory(gpu, first, 1, &before), 0);
    ck_assert_int_eq(peer->sharing->import_memory(peer, &before, &opened), 0);
    gpu->ops->free(gpu, first); /* while a process has it open */
    ck_assert_uint_eq(hostmem_n_violations(machine), 1);
    ck_assert_str_eq(hostmem_violation(machine),
                     "process 1: freed memory that another process has open");
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, 4097, &second), 0);
    ck_assert_ptr_eq(first, second);
    ck_assert_int_eq(gpu->sharing->export_memory(gpu, second, 1, &after), 0);
    ck_assert_uint_ne(before.buffer_id, after.buffer_id);
    ck_assert_uint_eq(*(uint8_t *)opened, 0xdb); /* its old content is gone */
    ck_assert_uint_eq(*(uint8_t *)second, 0);
    peer->sharing->unimport(peer, opened);
    hostmem_machine_destroy(machine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hostmem machine");
    TCase *tcase = tcase_create("planted bugs");

    suite_add_tcase(suite, gpu_conformance(&machine_bed));
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_planted_bug_is_caught, 0, 4);
    tcase_add_test(tcase, a_missing_flush_is_caught);
    tcase_add_test(tcase, freed_memory_comes_back_at_its_address_as_another);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
