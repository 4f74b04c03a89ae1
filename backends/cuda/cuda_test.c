/* Tests real GPUs if there are any; always the backend over a fake driver, the kernel bodies as C
 * compared with base/reduce.c, and the errors without a driver. */
#include "backends/cuda/cuda.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/driver_testing.h"
#include "backends/cuda/kernels_testing.h"
#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "io/gpu_conformance_testing.h"

/* ---- fixtures ---- */

static struct io_gpu *gpu;
static struct weft_error why_not;

static bool open_real(struct io_gpu **out, struct io_gpu **out_peer, const char **why)
{
    memset(&why_not, 0, sizeof(why_not));
    *out_peer = NULL; /* a peer needs another process; ci/gpu has two */
    if (cuda_open(0, &gpu, &why_not) != WEFT_OK) {
        *why = why_not.message;
        return false;
    }
    *out = gpu;
    return true;
}

static bool open_fake(struct io_gpu **out, struct io_gpu **out_peer, const char **why)
{
    struct cuda_driver driver = driver_testing();

    (void)why;
    *out_peer = NULL;
    ck_assert_int_eq(cuda_open_with(&driver, "image", 0, &gpu, NULL), WEFT_OK);
    *out = gpu;
    return true;
}

static void close_gpu(void)
{
    cuda_close(gpu);
    gpu = NULL;
    ck_assert_int_eq(driver_now.n_allocated, 0);
    ck_assert_int_eq(driver_now.n_host_allocated, 0);
    ck_assert_int_eq(driver_now.n_events, 0);
    ck_assert_int_eq(driver_now.n_streams, 0);
    ck_assert_int_eq(driver_now.n_contexts_pushed, 0);
    ck_assert_int_eq(driver_now.n_contexts_retained, 0);
}

static const struct gpu_bed real_bed = {open_real, close_gpu, NULL};
static const struct gpu_bed fake_bed = {open_fake, close_gpu, NULL};

/* ---- the kernels' bodies, as C ---- */

#define N 515

/* Compares bits; NaNs are equal to all NaNs. */
static bool is_same(enum weft_dtype dtype, const uint8_t *a, const uint8_t *b)
{
    uint64_t x = 0, y = 0, exponent = 0, sign;
    size_t n = weft_dtype_bytes(dtype);

    memcpy(&x, a, n);
    memcpy(&y, b, n);
    switch (dtype) {
    case WEFT_FLOAT16:
        exponent = 0x7c00;
        break;
    case WEFT_BFLOAT16:
        exponent = 0x7f80;
        break;
    case WEFT_FLOAT32:
        exponent = 0x7f800000u;
        break;
    case WEFT_FLOAT64:
        exponent = 0x7ff0000000000000u;
        break;
    case WEFT_INT8:
    case WEFT_UINT8:
    case WEFT_INT16:
    case WEFT_UINT16:
    case WEFT_INT32:
    case WEFT_UINT32:
    case WEFT_INT64:
    case WEFT_UINT64:
    case WEFT_N_DTYPES:
        return x == y;
    }
    sign = (uint64_t)1 << (8 * n - 1);
    if ((x & ~sign) > exponent && (y & ~sign) > exponent) {
        return true;
    }
    return x == y;
}

static void compare(enum weft_dtype dtype, enum weft_redop redop, int divisor,
                    size_t offset, struct weft_rng *rng)
{
    static _Alignas(16) uint8_t a[N * 8 + 64], b[N * 8 + 64], right[N * 8 + 64],
        got[N * 8 + 64];
    size_t n = weft_dtype_bytes(dtype), at = offset * n;
    void *out = got + at, *first = a + at, *second = b + at;
    uint64_t count = N;
    void *arguments[] = {&out, &first, &second, &count, &divisor};
    char name[48];

    weft_rng_bytes(rng, a, sizeof(a));
    weft_rng_bytes(rng, b, sizeof(b));
    weft_format(name, sizeof(name), "weft_%s_%s", weft_dtype_name(dtype),
                weft_redop_name(redop));
    weft_reduce(dtype, redop, right + at, first, second, N);
    if (divisor > 1) {
        weft_reduce_divide(dtype, right + at, N, divisor);
    }
    for (uint64_t i = 0; i < 7; i++) {
        ck_assert(kernels_run(name, arguments, i, 7));
    }
    for (size_t i = 0; i < N; i++) {
        ck_assert_msg(is_same(dtype, got + at + i * n, right + at + i * n),
                      "%s: element %zu of offset %zu", name, i, offset);
    }
}

START_TEST(the_bodies_compute_what_the_host_computes)
{
    struct weft_rng rng;

    weft_rng_init(&rng, 1, "bits");
    for (int redop = 0; redop < WEFT_AVG; redop++) {
        for (size_t offset = 0; offset < 3; offset++) {
            compare((enum weft_dtype)_i, (enum weft_redop)redop, 0, offset, &rng);
        }
    }
    compare((enum weft_dtype)_i, WEFT_SUM, 3, 0, &rng);
    compare((enum weft_dtype)_i, WEFT_SUM, 7, 1, &rng);
}
END_TEST

static void divide(uint32_t bits, int divisor)
{
    float value, got, right;

    memcpy(&value, &bits, sizeof(value));
    got = kernels_divide(value, (float)divisor);
    right = value / (float)divisor;
    ck_assert_msg(is_same(WEFT_FLOAT32, (uint8_t *)&got, (uint8_t *)&right),
                  "%a / %d: %a, not %a", (double)value, divisor, (double)got,
                  (double)right);
}

/* Divides all values that bfloat16 has, values close to them (which include those of float16),
 * and values close to the ends of the range in which the inverse is used. */
START_TEST(an_inverse_divides_as_a_division)
{
    static const int divisors[] = {2,    3,     5,        6,        7,         9,   11,
                                   13,   48,    65,       100,      127,       255, 256,
                                   1000, 65537, 16777215, 16777217, 2147483647};
    static const uint32_t ends[] = {0,          1,          0x007fffff, 0x00800000,
                                    0x10000000, 0x10800000, 0x20000000, 0x7f7fffff,
                                    0x7f800000, 0x7fc00000};
    struct weft_rng rng;
    int divisor = divisors[_i];

    weft_rng_init(&rng, (uint64_t)_i, "divide");
    for (uint32_t half = 0; half < 65536; half++) {
        divide(half << 16, divisor);
        divide(half << 16 | (uint32_t)weft_rng_below(&rng, 65536), divisor);
        divide(half << 16 | 0xe000, divisor);
    }
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        for (uint32_t j = 0; j < 4096; j++) {
            divide(ends[i] + j, divisor);
            divide((ends[i] - j) | 0x80000000u, divisor);
        }
    }
}
END_TEST

START_TEST(all_values_of_8_bits_are_divided)
{
    for (int divisor = 2; divisor != 1; divisor = divisor < 70000       ? divisor + 1
                                                  : divisor < INT32_MAX ? INT32_MAX
                                                                        : 1) {
        for (int value = -128; value < 256; value++) {
            if (kernels_divide_small(value, divisor) != value / divisor) {
                ck_abort_msg("%d / %d: %d", value, divisor,
                             kernels_divide_small(value, divisor));
            }
        }
    }
}
END_TEST

/* ---- missing drivers and devices ---- */

START_TEST(without_a_driver_it_is_said)
{
    struct weft_error error = {0};
    struct io_gpu *none = NULL;
    weft_status status = cuda_open(0, &none, &error);

    if (status == WEFT_OK) {
        cuda_close(none);
        return;
    }
    ck_assert_int_eq(status, WEFT_ERR_ENVIRONMENT);
    ck_assert_str_eq(weft_phase_name(error.phase), "cuda");
    ck_assert_msg(strstr(error.message, "CUDA") != NULL, "%s", error.message);
    printf("%s\n", error.message);
    cuda_close(NULL);
}
END_TEST

/* One case is the second process on a GPU in exclusive mode. */
START_TEST(a_driver_that_fails_is_named)
{
    static const struct {
        int result;
        const char *text;
    } cases[] = {
        {CUDA_OUT_OF_MEMORY, "cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY (2)"},
        {CUDA_DEVICE_UNAVAILABLE,
         "cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE (46)"}};
    struct cuda_driver driver = driver_testing();
    struct weft_error error = {0};
    struct io_gpu *none = NULL;

    ck_assert_int_eq(cuda_open_with(&driver, "image", 5, &none, &error),
                     WEFT_ERR_ENVIRONMENT);
    ck_assert_str_eq(error.message, "cuDeviceGet: CUDA_ERROR_TEST (1)");
    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        weft_error_clear(&error);
        driver_now.fails_with = cases[i].result;
        ck_assert_int_eq(cuda_open_with(&driver, "image", 0, &none, &error),
                         WEFT_ERR_ENVIRONMENT);
        ck_assert_str_eq(error.message, cases[i].text);
    }
    weft_error_clear(&error);
    driver_now.push_fails_with = CUDA_INVALID_CONTEXT;
    ck_assert_int_eq(cuda_open_with(&driver, "image", 0, &none, &error),
                     WEFT_ERR_ENVIRONMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "cuCtxPushCurrent: "));
    ck_assert_int_eq(driver_now.n_contexts_retained, 0);
}
END_TEST

/* ---- differences between devices ---- */

START_TEST(a_gpu_without_memory_of_its_own_gets_the_hosts)
{
    struct cuda_driver driver = driver_testing();
    struct io_gpu_identity identity;
    void *memory;

    driver_now.attributes[CUDA_ATTR_INTEGRATED] = 1;
    driver_now.attributes[CUDA_ATTR_RDMA_SUPPORTED] = 0;
    ck_assert_int_eq(cuda_open_with(&driver, NULL, 0, &gpu, NULL), WEFT_OK);
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, 100, &memory), 0);
    ck_assert_int_eq(driver_now.n_host_allocated, 1);
    ck_assert_int_eq(driver_now.n_allocated, 0);
    ck_assert(gpu->is_host_memory && gpu->rdma_direct);
    ck_assert_int_eq(cuda_memory_of(gpu, memory), CUDA_IS_PINNED);
    ck_assert(cuda_can_register(gpu, memory));
    ck_assert_int_eq(gpu->ops->fence(gpu, memory, 100), 0);
    ck_assert_int_eq(driver_now.n_flushed, 0);
    ck_assert_int_eq(gpu->sharing->identify(gpu, &identity), 0);
    ck_assert_uint_eq(identity.kinds, 0);
    gpu->ops->free(gpu, memory);
    close_gpu();
}
END_TEST

START_TEST(a_gpu_with_memory_is_flushed_if_it_must_be)
{
    struct cuda_driver driver = driver_testing();
    int fd, local = 0;
    void *memory;

    ck_assert_int_eq(cuda_open_with(&driver, NULL, 0, &gpu, NULL), WEFT_OK);
    ck_assert_str_eq(gpu->uuid, "GPU-00112233-4455-6677-8899-aabbccddeeff");
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, 100, &memory), 0);
    ck_assert_int_eq(cuda_memory_of(gpu, memory), CUDA_IS_DEVICE);
    ck_assert_int_eq(cuda_memory_of(gpu, &local), CUDA_IS_PAGEABLE);
    ck_assert(cuda_can_register(gpu, memory));
    ck_assert_int_eq(cuda_dma_buf(gpu, memory, 100, &fd), EOPNOTSUPP);
    ck_assert_int_eq(gpu->ops->fence(gpu, memory, 100), 0);
    ck_assert_int_eq(driver_now.n_flushed, 1);
    close_gpu();
    /* Neither ordered nor flushable: data must be read through the NIC. Without RDMA it is
     * staged. */
    driver = driver_testing();
    driver_now.attributes[CUDA_ATTR_RDMA_FLUSH] = 0;
    driver_now.attributes[CUDA_ATTR_RDMA_SUPPORTED] = 0;
    ck_assert_int_eq(cuda_open_with(&driver, NULL, 0, &gpu, NULL), WEFT_OK);
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, 100, &memory), 0);
    ck_assert_int_eq(gpu->ops->fence(gpu, memory, 100), EOPNOTSUPP);
    ck_assert(!gpu->rdma_direct && !cuda_can_register(gpu, memory));
    close_gpu();
    /* Ordered by the GPU: no flush is needed. */
    driver = driver_testing();
    driver_now.attributes[CUDA_ATTR_RDMA_ORDERING] = CUDA_ORDERING_OWNER;
    ck_assert_int_eq(cuda_open_with(&driver, NULL, 0, &gpu, NULL), WEFT_OK);
    ck_assert_int_eq(gpu->ops->fence(gpu, NULL, 0), 0);
    ck_assert_int_eq(driver_now.n_flushed, 0);
    close_gpu();
}
END_TEST

/* An allocation has one dma-buf, which is closed when it is freed. */
START_TEST(memory_has_a_dma_buf_where_the_driver_says_so)
{
    struct cuda_driver driver = driver_testing();
    uint64_t offset = 0;
    void *memory, *host;
    int fd = -1, again = -1;

    driver_now.attributes[CUDA_ATTR_DMA_BUF] = 1;
    driver_now.attributes[CUDA_ATTR_RDMA_SUPPORTED] = 0;
    ck_assert_int_eq(cuda_open_with(&driver, NULL, 0, &gpu, NULL), WEFT_OK);
    ck_assert(gpu->rdma_direct);
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, 100000, &memory), 0);
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_HOST, 100000, &host), 0);
    ck_assert_int_eq(
        gpu->ops->dma_buf(gpu, (uint8_t *)memory + 5000, 95000, &fd, &offset), 0);
    ck_assert_uint_eq(offset, 5000);
    ck_assert_int_eq(gpu->ops->dma_buf(gpu, memory, 1, &again, &offset), 0);
    ck_assert_int_eq(again, fd);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(gpu->ops->dma_buf(gpu, memory, 8u << 20, &again, &offset), EINVAL);
    ck_assert_int_eq(gpu->ops->dma_buf(gpu, host, 1, &again, &offset), EOPNOTSUPP);
    ck_assert_int_eq(gpu->ops->dma_buf(gpu, &fd, 1, &again, &offset), EOPNOTSUPP);
    gpu->ops->free(gpu, memory);
    ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
    gpu->ops->free(gpu, host);
    close_gpu();
}
END_TEST

START_TEST(errors_and_wake_ups_come_through)
{
    struct io_loop loop;
    struct io_task task;
    struct io_gpu *peer;
    struct io_gpu_op op = {.kind = IO_GPU_COPY, .count = 4, .task = &task};
    struct pollfd wait = {.events = POLLIN};
    uint8_t bytes[8] = {1, 2, 3, 4};
    void *memory;

    (void)open_fake(&gpu, &peer, NULL);
    io_loop_init(&loop, 1);
    io_task_init(&task, &loop, 0, 0);
    op.out = bytes + 4;
    op.a = bytes;
    ck_assert_int_eq(gpu->ops->start(gpu, &op), 0);
    wait.fd = cuda_wake_fd(gpu);
    ck_assert_int_eq(poll(&wait, 1, 0), 1);
    cuda_progress(gpu);
    ck_assert_ptr_eq(io_loop_pop(&loop), &task);
    ck_assert_int_eq(poll(&wait, 1, 0), 0);
    ck_assert_int_eq(gpu->ops->poll(gpu, &op), 0);
    ck_assert_mem_eq(bytes, bytes + 4, 4);
    driver_now.fails_with = CUDA_OUT_OF_MEMORY;
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, 10, &memory), ENOMEM);
    ck_assert_int_eq(gpu->ops->start(gpu, &op), 0);
    driver_now.fails_with = 700; /* CUDA_ERROR_ILLEGAL_ADDRESS */
    ck_assert_int_eq(gpu->ops->poll(gpu, &op), EIO);
    io_task_fini(&task);
    io_loop_fini(&loop);
    close_gpu();
}
END_TEST

/* A copy is followed by the record of an event, and that by a wake-up. If one of these fails, the
 * caller does not wait for the copy. */
START_TEST(a_start_that_fails_leaves_no_work)
{
    struct io_loop loop;
    struct io_task task;
    struct io_gpu *peer;
    struct io_gpu_op op = {.kind = IO_GPU_COPY, .count = 4, .task = &task};
    uint8_t bytes[8] = {1, 2, 3, 4};

    (void)open_fake(&gpu, &peer, NULL);
    io_loop_init(&loop, 1);
    io_task_init(&task, &loop, 0, 0);
    op.out = bytes + 4;
    op.a = bytes;
    ck_assert_int_eq(gpu->ops->start(gpu, &op), 0); /* creates the event */
    ck_assert_int_eq(driver_now.n_running, 1);
    ck_assert_int_eq(gpu->ops->poll(gpu, &op), 0);
    for (int i = 1; i <= 2; i++) {
        driver_now.fails_with = CUDA_OUT_OF_MEMORY;
        driver_now.n_pass = i;
        ck_assert_int_eq(gpu->ops->start(gpu, &op), ENOMEM);
        ck_assert_int_eq(driver_now.fails_with, CUDA_OK);
        ck_assert_int_eq(driver_now.n_running, 0);
    }
    ck_assert_int_eq(gpu->ops->start(gpu, &op), 0);
    ck_assert_int_eq(gpu->ops->poll(gpu, &op), 0);
    io_task_fini(&task);
    io_loop_fini(&loop);
    close_gpu();
}
END_TEST

START_TEST(without_kernels_there_are_no_reductions)
{
    struct cuda_driver driver = driver_testing();
    struct io_gpu_op op = {.kind = IO_GPU_REDUCE, .count = 1};

    ck_assert_int_eq(cuda_open_with(&driver, NULL, 0, &gpu, NULL), WEFT_OK);
    ck_assert_int_eq(gpu->ops->start(gpu, &op), EOPNOTSUPP);
    close_gpu();
    if (cuda_built_image() == NULL) {
        printf("SKIP cuda kernels: built without nvcc; enable with: CUDA's toolkit\n");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda");
    TCase *tcase = tcase_create("cuda");

    suite_add_tcase(
        suite, gpu_conformance(getenv("WEFT_TEST_GPU") != NULL ? &real_bed : &fake_bed));
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, the_bodies_compute_what_the_host_computes, 0,
                        WEFT_N_DTYPES);
    tcase_add_loop_test(tcase, an_inverse_divides_as_a_division, 0, 19);
    tcase_add_test(tcase, all_values_of_8_bits_are_divided);
    tcase_add_test(tcase, without_a_driver_it_is_said);
    tcase_add_test(tcase, a_driver_that_fails_is_named);
    tcase_add_test(tcase, a_gpu_without_memory_of_its_own_gets_the_hosts);
    tcase_add_test(tcase, a_gpu_with_memory_is_flushed_if_it_must_be);
    tcase_add_test(tcase, memory_has_a_dma_buf_where_the_driver_says_so);
    tcase_add_test(tcase, errors_and_wake_ups_come_through);
    tcase_add_test(tcase, a_start_that_fails_leaves_no_work);
    tcase_add_test(tcase, without_kernels_there_are_no_reductions);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
