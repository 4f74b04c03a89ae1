/* Tests of host memory as a GPU that the conformance suite does not contain. */
#include "backends/hostmem/hostmem.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"
#include "io/gpu_conformance_testing.h"

static struct io_gpu *gpu;
static struct io_loop loop;
static struct io_task task;

static void setup(void)
{
    gpu = hostmem_create();
    io_loop_init(&loop, 1);
    io_task_init(&task, &loop, 0, 0);
}

static void teardown(void)
{
    io_task_fini(&task);
    io_loop_fini(&loop);
    hostmem_destroy(gpu);
    hostmem_destroy(NULL);
}

START_TEST(work_is_done_at_once_and_still_wakes)
{
    static const uint8_t a[4] = {1, 2, 3, 255}, b[4] = {10, 20, 30, 1};
    static const uint8_t sums[4] = {11, 22, 33, 0};
    uint8_t out[4] = {0};
    struct io_gpu_op op = {.kind = IO_GPU_REDUCE,
                           .task = &task,
                           .out = out,
                           .a = a,
                           .b = b,
                           .count = 4,
                           .dtype = WEFT_UINT8,
                           .redop = WEFT_SUM};
    ck_assert_int_eq(gpu->ops->poll(gpu, &op), EINPROGRESS); /* not started */
    ck_assert_int_eq(gpu->ops->start(gpu, &op), 0);
    ck_assert(op.done);
    ck_assert_int_eq(gpu->ops->poll(gpu, &op), 0);
    ck_assert_mem_eq(out, sums, 4);
    ck_assert_ptr_eq(io_loop_pop(&loop), &task);
    /* Copies can overlap, because a ring moves a chunk within one buffer. */
    uint8_t bytes[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    op =
        (struct io_gpu_op){.kind = IO_GPU_COPY, .out = bytes + 2, .a = bytes, .count = 6};
    ck_assert_int_eq(gpu->ops->start(gpu, &op), 0);
    static const uint8_t moved[8] = {0, 1, 0, 1, 2, 3, 4, 5};
    ck_assert_mem_eq(bytes, moved, 8);
}
END_TEST

START_TEST(memory_is_fresh_and_what_is_left_is_freed)
{
    uint8_t *memory[2];
    for (int i = 0; i < 2; i++) {
        void *out;
        ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, 5000, &out), 0);
        memory[i] = out;
        ck_assert_uint_eq((uintptr_t)out % 4096, 0);
        ck_assert(memory[i][0] == 0 && memory[i][4999] == 0);
        memset(out, 0xff, 5000);
    }
    gpu->ops->free(gpu, memory[0]);
    void *out;
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_HOST, 5000, &out), 0);
    ck_assert_uint_eq(*(uint8_t *)out, 0);
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_HOST, 0, &out), EINVAL);
    ck_assert(gpu->is_host_memory && gpu->rdma_direct);
}
END_TEST

static struct io_gpu *simple;

static bool open_simple(struct io_gpu **out, struct io_gpu **out_peer, const char **why)
{
    (void)why;
    simple = hostmem_create();
    *out = simple;
    *out_peer = NULL;
    return true;
}

static void close_simple(void)
{
    hostmem_destroy(simple);
}

static const struct gpu_bed simple_bed = {open_simple, close_simple, NULL};

int main(void)
{
    Suite *suite = suite_create("hostmem");
    TCase *tcase = tcase_create("hostmem");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, work_is_done_at_once_and_still_wakes);
    tcase_add_test(tcase, memory_is_fresh_and_what_is_left_is_freed);
    suite_add_tcase(suite, tcase);
    suite_add_tcase(suite, gpu_conformance(&simple_bed));
    return suite_run(suite);
}
