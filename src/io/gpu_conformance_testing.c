#include "io/gpu_conformance_testing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define N 777 /* elements; odd, so that no block size divides it */

static const struct gpu_bed *bed;
static struct io_gpu *gpu, *peer;

static void setup(void)
{
    const char *why = "";

    gpu = NULL;
    peer = NULL;
    if (!bed->open(&gpu, &peer, &why)) {
        printf("SKIP conformance of a GPU: %s; enable with: a GPU and its driver\n", why);
        gpu = NULL;
    }
}

static void teardown(void)
{
    if (gpu != NULL) {
        bed->close();
    }
}

static int finish(struct io_gpu *on, struct io_gpu_op *op)
{
    int result;

    while ((result = on->ops->poll(on, op)) == EINPROGRESS) {
        if (bed->step != NULL) {
            bed->step();
        }
    }
    return result;
}

static void *alloc(struct io_gpu *on, size_t n_bytes)
{
    void *memory;

    ck_assert_int_eq(on->ops->alloc(on, IO_MEMORY_DEVICE, n_bytes, &memory), 0);
    return memory;
}

static void start_copy(struct io_gpu *on, struct io_gpu_op *op, void *out, const void *a,
                       size_t n_bytes, struct io_gpu_stream *stream)
{
    *op = (struct io_gpu_op){
        .kind = IO_GPU_COPY, .out = out, .a = a, .count = n_bytes, .stream = stream};
    ck_assert_int_eq(on->ops->start(on, op), 0);
}

START_TEST(memory_is_zeroed_aligned_and_as_large_as_asked)
{
    static uint8_t got[10000];
    void *host, *device;

    if (gpu == NULL) {
        return;
    }
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_HOST, sizeof(got), &host), 0);
    device = alloc(gpu, sizeof(got));
    ck_assert_uint_eq((uintptr_t)host % 4096, 0);
    ck_assert_uint_eq((uintptr_t)device % 4096, 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(
            gpu->ops->download(gpu, got, i == 0 ? host : device, sizeof(got)), 0);
        for (size_t k = 0; k < sizeof(got); k++) {
            ck_assert_uint_eq(got[k], 0);
        }
    }
    gpu->ops->free(gpu, host);
    gpu->ops->free(gpu, device);
    gpu->ops->free(gpu, NULL);
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, 0, &device), EINVAL);
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, SIZE_MAX, &device), ENOMEM);
}
END_TEST

/* ---- reductions of small whole numbers, which every type can represent ---- */

/* Returns the bits of a small whole number in a floating-point type with `n_fraction` fraction
 * bits. */
static uint64_t float_bits(unsigned value, unsigned n_fraction, unsigned bias)
{
    unsigned exponent = 0;

    if (value == 0) {
        return 0;
    }
    while (value >> (exponent + 1) != 0) {
        exponent++;
    }
    return (uint64_t)(bias + exponent) << n_fraction |
           (uint64_t)(value - (1u << exponent)) << (n_fraction - exponent);
}

static uint64_t bits_of(enum weft_dtype dtype, unsigned value)
{
    switch (dtype) {
    case WEFT_FLOAT16:
        return float_bits(value, 10, 15);
    case WEFT_BFLOAT16:
        return float_bits(value, 7, 127);
    case WEFT_FLOAT32:
        return float_bits(value, 23, 127);
    case WEFT_FLOAT64:
        return float_bits(value, 52, 1023);
    case WEFT_INT8:
    case WEFT_UINT8:
    case WEFT_INT16:
    case WEFT_UINT16:
    case WEFT_INT32:
    case WEFT_UINT32:
    case WEFT_INT64:
    case WEFT_UINT64:
    case WEFT_N_DTYPES:
        break;
    }
    return value;
}

static unsigned result_of(enum weft_redop redop, unsigned a, unsigned b)
{
    switch (redop) {
    case WEFT_SUM:
        return a + b;
    case WEFT_AVG:
        return (a + b) / 2;
    case WEFT_PROD:
        return a * b;
    case WEFT_MIN:
        return a < b ? a : b;
    case WEFT_MAX:
        return a > b ? a : b;
    case WEFT_N_REDOPS:
        break;
    }
    return 0;
}

static unsigned first_of(size_t i)
{
    return (unsigned)(i * 5 % 11);
}

/* Has the same parity as first_of(i), so that avg is exact. */
static unsigned second_of(size_t i)
{
    return (unsigned)(i * 7 % 5) * 2 + first_of(i) % 2;
}

static void put(enum weft_dtype dtype, uint8_t *out, size_t i, unsigned value)
{
    uint64_t bits = bits_of(dtype, value);
    size_t n = weft_dtype_bytes(dtype);

    for (size_t k = 0; k < n; k++) {
        out[i * n + k] = (uint8_t)(bits >> (8 * k));
    }
}

static void reduce(enum weft_dtype dtype, enum weft_redop redop, bool in_place)
{
    static uint8_t a[N * 8], b[N * 8], right[N * 8], got[N * 8];
    size_t n_bytes = N * weft_dtype_bytes(dtype);
    uint8_t *first = alloc(gpu, n_bytes), *second = alloc(gpu, n_bytes);
    uint8_t *out = in_place ? first : alloc(gpu, n_bytes);
    struct io_gpu_op op = {.kind = IO_GPU_REDUCE,
                           .out = out,
                           .a = first,
                           .b = second,
                           .count = N,
                           .dtype = dtype,
                           .redop = redop,
                           .divisor = redop == WEFT_AVG ? 2 : 0};

    for (size_t i = 0; i < N; i++) {
        put(dtype, a, i, first_of(i));
        put(dtype, b, i, second_of(i));
        put(dtype, right, i, result_of(redop, first_of(i), second_of(i)));
    }
    ck_assert_int_eq(gpu->ops->upload(gpu, first, a, n_bytes), 0);
    ck_assert_int_eq(gpu->ops->upload(gpu, second, b, n_bytes), 0);
    ck_assert_int_eq(gpu->ops->start(gpu, &op), 0);
    ck_assert_int_eq(finish(gpu, &op), 0);
    ck_assert_int_eq(gpu->ops->download(gpu, got, out, n_bytes), 0);
    ck_assert_msg(memcmp(got, right, n_bytes) == 0, "%s of %s is wrong",
                  weft_redop_name(redop), weft_dtype_name(dtype));
    gpu->ops->free(gpu, first);
    gpu->ops->free(gpu, second);
    if (!in_place) {
        gpu->ops->free(gpu, out);
    }
}

START_TEST(every_reduction_of_every_type_is_right)
{
    for (int redop = 0; redop < WEFT_N_REDOPS && gpu != NULL; redop++) {
        reduce((enum weft_dtype)_i, (enum weft_redop)redop, false);
        reduce((enum weft_dtype)_i, (enum weft_redop)redop, true);
    }
}
END_TEST

/* ---- order ---- */

#define BYTES 50000

static uint8_t pattern(size_t i, int which)
{
    return (uint8_t)(i * 13 + (i >> 8) + (size_t)which * 101);
}

static void upload_pattern(struct io_gpu *on, void *to, int which)
{
    static uint8_t bytes[BYTES];

    for (size_t i = 0; i < BYTES; i++) {
        bytes[i] = pattern(i, which);
    }
    ck_assert_int_eq(on->ops->upload(on, to, bytes, BYTES), 0);
}

static bool has_pattern(struct io_gpu *on, const void *from, int which)
{
    static uint8_t got[BYTES];

    ck_assert_int_eq(on->ops->download(on, got, from, BYTES), 0);
    for (size_t i = 0; i < BYTES; i++) {
        if (got[i] != pattern(i, which)) {
            return false;
        }
    }
    return true;
}

START_TEST(work_of_one_stream_is_done_in_order)
{
    void *memory[3];
    struct io_gpu_op first, second;

    if (gpu == NULL) {
        return;
    }
    for (int i = 0; i < 3; i++) {
        memory[i] = alloc(gpu, BYTES);
    }
    upload_pattern(gpu, memory[0], 1);
    start_copy(gpu, &first, memory[1], memory[0], BYTES, NULL);
    start_copy(gpu, &second, memory[2], memory[1], BYTES, NULL);
    ck_assert_int_eq(finish(gpu, &second), 0);
    ck_assert_int_eq(gpu->ops->poll(gpu, &first), 0);
    ck_assert(has_pattern(gpu, memory[2], 1));
    for (int i = 0; i < 3; i++) {
        gpu->ops->free(gpu, memory[i]);
    }
}
END_TEST

START_TEST(an_event_orders_two_streams)
{
    struct io_gpu_stream *stream;
    struct io_gpu_event *event;
    struct io_gpu_op first, second;
    void *memory[3];

    if (gpu == NULL || gpu->sharing == NULL) {
        return;
    }
    for (int i = 0; i < 3; i++) {
        memory[i] = alloc(gpu, BYTES);
    }
    ck_assert_int_eq(gpu->sharing->stream_create(gpu, &stream), 0);
    ck_assert_int_eq(gpu->sharing->event_create(gpu, &event), 0);
    upload_pattern(gpu, memory[0], 2);
    start_copy(gpu, &first, memory[1], memory[0], BYTES, NULL);
    ck_assert_int_eq(gpu->sharing->record(gpu, event, NULL), 0);
    ck_assert_int_eq(gpu->sharing->wait(gpu, event, stream), 0);
    start_copy(gpu, &second, memory[2], memory[1], BYTES, stream);
    ck_assert_int_eq(finish(gpu, &second), 0);
    ck_assert_int_eq(gpu->sharing->query(gpu, event), 0);
    ck_assert_int_eq(finish(gpu, &first), 0);
    ck_assert(has_pattern(gpu, memory[2], 2));
    gpu->sharing->event_destroy(gpu, event);
    gpu->sharing->event_destroy(gpu, NULL);
    gpu->sharing->stream_destroy(gpu, stream);
    gpu->sharing->stream_destroy(gpu, NULL);
    for (int i = 0; i < 3; i++) {
        gpu->ops->free(gpu, memory[i]);
    }
}
END_TEST

/* ---- two processes ---- */

START_TEST(an_export_names_the_whole_allocation)
{
    struct io_gpu_identity identity;
    struct io_gpu_export first, inner, again;
    uint8_t *memory;

    if (gpu == NULL || gpu->sharing == NULL) {
        return;
    }
    ck_assert_int_eq(gpu->sharing->identify(gpu, &identity), 0);
    ck_assert_str_eq(identity.uuid, gpu->uuid);
    if (identity.kinds == 0) {
        return; /* it cannot share memory */
    }
    memory = alloc(gpu, BYTES);
    ck_assert_int_eq(gpu->sharing->export_memory(gpu, memory, identity.kinds, &first), 0);
    ck_assert_int_eq(
        gpu->sharing->export_memory(gpu, memory + 49, identity.kinds, &inner), 0);
    ck_assert_uint_eq(first.base, inner.base);
    ck_assert_uint_ge(first.n_bytes, BYTES);
    ck_assert_uint_eq(first.buffer_id, inner.buffer_id);
    ck_assert_mem_eq(&first.handle, &inner.handle, sizeof(first.handle));
    ck_assert_int_eq(gpu->sharing->export_memory(gpu, &identity, identity.kinds, &again),
                     EINVAL);
    gpu->sharing->unexport(gpu, &first);
    gpu->ops->free(gpu, memory);
    memory = alloc(gpu, BYTES);
    ck_assert_int_eq(gpu->sharing->export_memory(gpu, memory, identity.kinds, &again), 0);
    ck_assert_uint_ne(again.buffer_id, first.buffer_id);
    gpu->sharing->unexport(gpu, &again);
    gpu->ops->free(gpu, memory);
}
END_TEST

START_TEST(another_process_copies_from_it_after_the_event)
{
    const uint32_t legacy = 1u << IO_GPU_HANDLE_LEGACY;
    struct io_gpu_export exported;
    struct io_gpu_handle handle;
    struct io_gpu_event *event, *theirs;
    struct io_gpu_op produce, copy;
    void *memory[2], *opened, *twice, *there;

    if (gpu == NULL || peer == NULL) {
        return;
    }
    memory[0] = alloc(gpu, BYTES);
    memory[1] = alloc(gpu, BYTES);
    there = alloc(peer, BYTES);
    upload_pattern(gpu, memory[0], 3);
    ck_assert_int_eq(gpu->sharing->export_memory(gpu, memory[1], legacy, &exported), 0);
    ck_assert_int_eq(peer->sharing->import_memory(peer, &exported, &opened), 0);
    ck_assert_int_eq(peer->sharing->import_memory(peer, &exported, &twice), EALREADY);
    ck_assert_int_eq(gpu->sharing->event_create(gpu, &event), 0);
    start_copy(gpu, &produce, memory[1], memory[0], BYTES, NULL);
    ck_assert_int_eq(gpu->sharing->record(gpu, event, NULL), 0);
    ck_assert_int_eq(gpu->sharing->export_event(gpu, event, &handle), 0);
    ck_assert_int_eq(peer->sharing->import_event(peer, &handle, &theirs), 0);
    ck_assert_int_eq(peer->sharing->wait(peer, theirs, NULL), 0);
    start_copy(peer, &copy, there, opened, BYTES, NULL);
    ck_assert_int_eq(finish(peer, &copy), 0);
    ck_assert_int_eq(finish(gpu, &produce), 0);
    ck_assert(has_pattern(peer, there, 3));
    peer->sharing->unimport(peer, opened);
    peer->sharing->unimport(peer, NULL);
    peer->sharing->event_destroy(peer, theirs);
    gpu->sharing->event_destroy(gpu, event);
    gpu->sharing->unexport(gpu, &exported);
    gpu->ops->free(gpu, memory[1]);
    ck_assert_int_ne(peer->sharing->import_memory(peer, &exported, &opened), 0);
    gpu->ops->free(gpu, memory[0]);
    peer->ops->free(peer, there);
}
END_TEST

TCase *gpu_conformance(const struct gpu_bed *which)
{
    TCase *tcase = tcase_create("conformance of a GPU");

    bed = which;
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, memory_is_zeroed_aligned_and_as_large_as_asked);
    tcase_add_loop_test(tcase, every_reduction_of_every_type_is_right, 0, WEFT_N_DTYPES);
    tcase_add_test(tcase, work_of_one_stream_is_done_in_order);
    tcase_add_test(tcase, an_event_orders_two_streams);
    tcase_add_test(tcase, an_export_names_the_whole_allocation);
    tcase_add_test(tcase, another_process_copies_from_it_after_the_event);
    return tcase;
}
