/* Streams, events and memory of simulated GPUs across processes of a host: the contract of all
 * GPUs, and the simulated time. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "backends/sim/bed_testing.h"
#include "base/suite_testing.h"
#include "io/gpu_conformance_testing.h"

#define LEGACY (1u << IO_GPU_HANDLE_LEGACY)
#define BYTES 200000 /* about 1 us of the GPU's memory bandwidth */

static struct bed bed;
static struct io_env *envs[2];
static struct io_gpu *gpus[2];

static void start(void)
{
    sim_bed_pair_inside(&bed, envs);
    for (uint32_t i = 0; i < 2; i++) {
        gpus[i] = envs[i]->gpu;
    }
}

static void stop(void)
{
    sim_bed_fini(&bed);
}

static void step(void)
{
    (void)sim_bed_run(&bed, io_now(envs[0]) + 1000, NULL, NULL);
}

static bool open_bed(struct io_gpu **out, struct io_gpu **out_peer, const char **why)
{
    (void)why;
    start();
    *out = gpus[0];
    *out_peer = gpus[1];
    return true;
}

static const struct gpu_bed sim_gpu_bed = {open_bed, stop, step};

static uint8_t *alloc(int i, size_t n_bytes, uint8_t value)
{
    void *memory;

    ck_assert_int_eq(gpus[i]->ops->alloc(gpus[i], IO_MEMORY_DEVICE, n_bytes, &memory), 0);
    memset(memory, value, n_bytes);
    return memory;
}

static void copy(int i, struct io_gpu_op *op, void *out, const void *a, size_t n_bytes,
                 struct io_gpu_stream *stream)
{
    *op = (struct io_gpu_op){
        .kind = IO_GPU_COPY, .out = out, .a = a, .count = n_bytes, .stream = stream};
    ck_assert_int_eq(gpus[i]->ops->start(gpus[i], op), 0);
}

/* Runs until the operation is done. Returns the time in nanoseconds. */
static weft_ns last(const struct io_gpu_op *op)
{
    weft_ns began = io_now(envs[0]);

    while (!op->done) {
        (void)sim_bed_run(&bed, io_now(envs[0]) + 1, NULL, NULL);
    }
    return io_now(envs[0]) - began;
}

static void *opened(int by, const struct io_gpu_export *exported, int expected)
{
    void *memory = NULL;

    ck_assert_int_eq(gpus[by]->sharing->import_memory(gpus[by], exported, &memory),
                     expected);
    return memory;
}

START_TEST(a_copy_waits_for_work_of_the_other_process)
{
    struct io_gpu_export exported;
    struct io_gpu_handle handle;
    struct io_gpu_event *event, *theirs;
    struct io_gpu_stream *stream;
    struct io_gpu_op produce, fetch, other;
    uint8_t *from = alloc(0, BYTES, 1), *shared = alloc(0, BYTES, 2);
    uint8_t *to = alloc(1, BYTES, 3), *elsewhere = alloc(1, BYTES, 4);

    ck_assert_int_eq(gpus[0]->sharing->export_memory(gpus[0], shared, LEGACY, &exported),
                     0);
    ck_assert_int_eq(gpus[0]->sharing->event_create(gpus[0], &event), 0);
    ck_assert_int_eq(gpus[1]->sharing->stream_create(gpus[1], &stream), 0);
    copy(0, &produce, shared, from, BYTES, NULL);
    ck_assert_int_eq(gpus[0]->sharing->record(gpus[0], event, NULL), 0);
    ck_assert_int_eq(gpus[0]->sharing->export_event(gpus[0], event, &handle), 0);
    ck_assert_int_eq(gpus[1]->sharing->import_event(gpus[1], &handle, &theirs), 0);
    ck_assert_int_eq(gpus[1]->sharing->query(gpus[1], theirs), EINPROGRESS);
    ck_assert_int_eq(gpus[1]->sharing->wait(gpus[1], theirs, stream), 0);
    copy(1, &fetch, to, opened(1, &exported, 0), BYTES, stream);
    /* Work outside the stream does not wait. */
    copy(1, &other, elsewhere, elsewhere, 0, NULL);
    ck_assert_int_lt(last(&other), 1000);
    ck_assert_int_eq(fetch.done, 0);
    /* The GPUs work one after the other: 1 us plus the launch, twice. */
    ck_assert_int_eq(last(&fetch), 2200 - 100);
    ck_assert_int_eq(produce.done, 1);
    ck_assert_int_eq(gpus[1]->sharing->query(gpus[1], theirs), 0);
    for (size_t i = 0; i < BYTES; i++) {
        ck_assert_uint_eq(to[i], 1);
    }
    gpus[1]->sharing->stream_destroy(gpus[1], stream);
    gpus[1]->sharing->event_destroy(gpus[1], theirs);
    gpus[0]->sharing->event_destroy(gpus[0], event);
    gpus[1]->sharing->unimport(gpus[1], shared);
}
END_TEST

START_TEST(a_dead_process_keeps_nobody_waiting)
{
    struct io_gpu_handle handle;
    struct io_gpu_event *event, *theirs;
    struct io_gpu_stream *stream;
    struct io_gpu_op produce, after;
    struct world_fault kill = {
        .kind = WORLD_FAULT_KILL, .has_process = true, .process = 0};
    uint8_t *a = alloc(0, BYTES, 1), *b = alloc(1, BYTES, 2);

    ck_assert_int_eq(gpus[0]->sharing->event_create(gpus[0], &event), 0);
    ck_assert_int_eq(gpus[1]->sharing->stream_create(gpus[1], &stream), 0);
    copy(0, &produce, a, a, BYTES, NULL);
    ck_assert_int_eq(gpus[0]->sharing->record(gpus[0], event, NULL), 0);
    ck_assert_int_eq(gpus[0]->sharing->export_event(gpus[0], event, &handle), 0);
    ck_assert_int_eq(gpus[1]->sharing->import_event(gpus[1], &handle, &theirs), 0);
    ck_assert_int_eq(gpus[1]->sharing->wait(gpus[1], theirs, stream), 0);
    copy(1, &after, b, b, 8, stream);
    /* A destroyed stream still executes its queued work. */
    gpus[1]->sharing->stream_destroy(gpus[1], stream);
    ck_assert_int_eq(backend_sim.inject(bed.world, &kill), 0);
    ck_assert_int_eq(produce.error, EIO);
    ck_assert_int_lt(last(&after), 1000);
    ck_assert_int_eq(after.error, 0);
    gpus[1]->sharing->event_destroy(gpus[1], theirs);
}
END_TEST

START_TEST(memory_opens_to_whom_it_was_given_while_it_is_there)
{
    struct io_gpu_export exported, again, wrong;
    uint8_t *memory = alloc(0, BYTES, 1), *seen;

    ck_assert_int_eq(
        gpus[0]->sharing->export_memory(gpus[0], memory + 5, LEGACY, &exported), 0);
    ck_assert_uint_eq(exported.base, (uintptr_t)memory);
    ck_assert_int_eq(gpus[0]->sharing->export_memory(gpus[0], memory, 0, &again),
                     EOPNOTSUPP);
    ck_assert_int_eq(gpus[1]->sharing->export_memory(gpus[1], memory, LEGACY, &again),
                     EINVAL);
    (void)opened(0, &exported, EINVAL); /* a process's own memory */
    wrong = exported;
    wrong.handle.bytes[0] ^= 1;
    (void)opened(1, &wrong, ENOENT);
    wrong = exported;
    wrong.n_bytes += 4096;
    (void)opened(1, &wrong, EINVAL);
    wrong = exported;
    wrong.kind = IO_GPU_HANDLE_FD;
    (void)opened(1, &wrong, EOPNOTSUPP);
    seen = opened(1, &exported, 0);
    (void)opened(1, &exported, EALREADY);
    /* Freed while another process has it open: it stays valid there, and cannot be opened
     * again. */
    gpus[0]->ops->free(gpus[0], memory);
    memset(seen, 7, BYTES);
    gpus[1]->sharing->unimport(gpus[1], seen);
    (void)opened(1, &exported, ENOENT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backends/sim/gpu_sharing");
    TCase *tests = tcase_create("sharing");

    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, a_copy_waits_for_work_of_the_other_process);
    tcase_add_test(tests, a_dead_process_keeps_nobody_waiting);
    tcase_add_test(tests, memory_opens_to_whom_it_was_given_while_it_is_there);
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, gpu_conformance(&sim_gpu_bed));
    return suite_run(suite);
}
