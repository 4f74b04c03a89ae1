/* Checks and measures kernels and memory handles on a GPU, for ci/gpu. Prints one JSON object per
 * line.
 *
 *   gpu_bench check            compares every reduction of every type with the host's, bit by bit
 *   gpu_bench rate [BYTES]     measures copies within the GPU's memory, and reductions
 *   gpu_bench ipc [BYTES]      checks and measures another process's memory on the same GPU
 *
 * WEFT_GPU_KERNELS is as for `weft run`; the GPU is the first visible one. Exit status: 0 passed,
 * 1 failed, 77 no GPU (with the reason). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/cuda/cuda.h"
#include "base/check.h"
#include "base/rng.h"
#include "base/text.h"

#define CHECKED 5003u /* elements: whole packs and a remainder */
#define N_TIMED 20
#define SKIPPED 77

static struct io_gpu *gpu;

static void open_gpu(void)
{
    const struct cuda_choice choice = {.kernels = getenv("WEFT_GPU_KERNELS")};
    struct weft_error error = {0};

    if (cuda_choose(&choice, NULL, &gpu, &error) != WEFT_OK) {
        fprintf(stderr, "SKIP gpu_bench: %s; enable with: an NVIDIA GPU\n",
                error.message);
        exit(SKIPPED);
    }
}

static _Noreturn void fail(const char *what, int sys_errno)
{
    fprintf(stderr, "gpu_bench: %s: %s\n", what, strerror(sys_errno));
    exit(1);
}

static uint8_t *take(size_t n_bytes)
{
    void *out = NULL;
    int sys_errno = gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, n_bytes, &out);

    if (sys_errno != 0) {
        fail("allocation", sys_errno);
    }
    return out;
}

static void start(struct io_gpu_op *op)
{
    int sys_errno = gpu->ops->start(gpu, op);

    if (sys_errno != 0) {
        fail("start", sys_errno);
    }
}

static void await(struct io_gpu_op *op)
{
    int sys_errno;

    while ((sys_errno = gpu->ops->poll(gpu, op)) == EINPROGRESS) {
    }
    if (sys_errno != 0) {
        fail("work", sys_errno);
    }
}

static void move(void *to, const void *from, size_t n_bytes, bool is_up)
{
    int sys_errno = is_up ? gpu->ops->upload(gpu, to, from, n_bytes)
                          : gpu->ops->download(gpu, to, from, n_bytes);

    if (sys_errno != 0) {
        fail(is_up ? "upload" : "download", sys_errno);
    }
}

static double now_s(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

/* ---- check ---- */

/* NaNs are compared as NaNs only, without their bits. */
static bool is_nan(enum weft_dtype dtype, const uint8_t *at)
{
    static const uint64_t infinity[WEFT_N_DTYPES] = {[WEFT_FLOAT16] = 0x7c00,
                                                     [WEFT_BFLOAT16] = 0x7f80,
                                                     [WEFT_FLOAT32] = 0x7f800000u,
                                                     [WEFT_FLOAT64] =
                                                         0x7ff0000000000000u};
    size_t n = weft_dtype_bytes(dtype);
    uint64_t bits = 0;

    memcpy(&bits, at, n);
    return infinity[dtype] != 0 &&
           (bits & ~((uint64_t)1 << (8 * n - 1))) > infinity[dtype];
}

static uint64_t count_wrong(enum weft_dtype dtype, const uint8_t *got,
                            const uint8_t *right)
{
    size_t n = weft_dtype_bytes(dtype);
    uint64_t n_wrong = 0;

    for (size_t i = 0; i < CHECKED; i++) {
        n_wrong += memcmp(got + i * n, right + i * n, n) != 0 &&
                   !(is_nan(dtype, got + i * n) && is_nan(dtype, right + i * n));
    }
    return n_wrong;
}

static uint64_t check_one(struct io_gpu_op *op, uint8_t *memory, size_t offset,
                          struct weft_rng *rng)
{
    static uint8_t a[CHECKED * 8], b[CHECKED * 8], right[CHECKED * 8], got[CHECKED * 8];
    size_t n = weft_dtype_bytes(op->dtype) * CHECKED;
    size_t skip = offset * weft_dtype_bytes(op->dtype);
    enum weft_redop redop = op->redop == WEFT_AVG ? WEFT_SUM : op->redop;

    weft_rng_bytes(rng, a, n);
    weft_rng_bytes(rng, b, n);
    op->kind = IO_GPU_REDUCE;
    op->out = memory + 2 * sizeof(a) + skip + 64;
    op->a = memory + skip;
    op->b = memory + sizeof(a) + skip + 32;
    op->count = CHECKED;
    move((void *)(uintptr_t)op->a, a, n, true);
    move((void *)(uintptr_t)op->b, b, n, true);
    start(op);
    await(op);
    move(got, op->out, n, false);
    weft_reduce(op->dtype, redop, right, a, b, CHECKED);
    if (op->divisor > 1) {
        weft_reduce_divide(op->dtype, right, CHECKED, op->divisor);
    }
    return count_wrong(op->dtype, got, right);
}

/* Returns the number of wrong elements of one type and operation, over all divisors of an
 * average. */
static uint64_t check_operation(enum weft_dtype dtype, enum weft_redop redop,
                                uint8_t *memory, struct weft_rng *rng, uint64_t *n_cases)
{
    static const int divisors[] = {3, 2, 7, 100, 65537, 16777217};
    size_t n_divisors = redop == WEFT_AVG ? sizeof(divisors) / sizeof(divisors[0]) : 1;
    uint64_t n_wrong = 0;

    for (size_t i = 0; i < 2 * n_divisors; i++) {
        struct io_gpu_op op = {.dtype = dtype,
                               .redop = redop,
                               .divisor = redop == WEFT_AVG ? divisors[i / 2] : 1};
        uint64_t n = check_one(&op, memory, i % 2, rng);

        if (n > 0) {
            fprintf(stderr, "gpu_bench: %s %s by %d, offset %zu: %llu wrong\n",
                    weft_dtype_name(dtype), weft_redop_name(redop), op.divisor, i % 2,
                    (unsigned long long)n);
        }
        n_wrong += n;
        ++*n_cases;
    }
    return n_wrong;
}

static int check(void)
{
    uint8_t *memory = take(3 * (size_t)CHECKED * 8 + 4096);
    uint64_t n_wrong = 0, n_cases = 0;
    struct weft_rng rng;

    weft_rng_init(&rng, 1, "gpu");
    for (int dtype = 0; dtype < WEFT_N_DTYPES; dtype++) {
        for (int redop = 0; redop < WEFT_N_REDOPS; redop++) {
            n_wrong += check_operation((enum weft_dtype)dtype, (enum weft_redop)redop,
                                       memory, &rng, &n_cases);
        }
    }
    gpu->ops->free(gpu, memory);
    printf("{\"what\": \"check\", \"gpu\": \"%s\", \"cases\": %llu, \"wrong\": %llu}\n",
           gpu->name, (unsigned long long)n_cases, (unsigned long long)n_wrong);
    return n_wrong == 0 ? 0 : 1;
}

/* ---- rate ---- */

/* Returns the seconds per operation, after one that is not timed. */
static double time_of(const struct io_gpu_op *what)
{
    static struct io_gpu_op ops[N_TIMED];
    double began;

    ops[0] = *what;
    start(&ops[0]);
    await(&ops[0]);
    began = now_s();
    for (int i = 0; i < N_TIMED; i++) {
        ops[i] = *what;
        start(&ops[i]);
    }
    for (int i = 0; i < N_TIMED; i++) {
        await(&ops[i]);
    }
    return (now_s() - began) / N_TIMED;
}

/* Prints rates in bytes read and written: two per byte of a copy, three per byte of a
 * reduction. */
static int rate(size_t n_bytes)
{
    uint8_t *memory[3] = {take(n_bytes), take(n_bytes), take(n_bytes)};
    struct io_gpu_op op = {
        .kind = IO_GPU_COPY, .out = memory[0], .a = memory[1], .count = n_bytes};
    double copied = 2 * (double)n_bytes / time_of(&op) / 1e9;

    printf("{\"what\": \"copy\", \"gpu\": \"%s\", \"bytes\": %zu, \"GBps\": %.2f}\n",
           gpu->name, n_bytes, copied);
    for (int dtype = 0; dtype < WEFT_N_DTYPES; dtype++) {
        for (int redop = 0; redop < WEFT_N_REDOPS; redop++) {
            double reduced;

            op = (struct io_gpu_op){.kind = IO_GPU_REDUCE,
                                    .out = memory[0],
                                    .a = memory[1],
                                    .b = memory[2],
                                    .count = n_bytes /
                                             weft_dtype_bytes((enum weft_dtype)dtype),
                                    .dtype = (enum weft_dtype)dtype,
                                    .redop = (enum weft_redop)redop,
                                    .divisor = redop == WEFT_AVG ? 3 : 1};
            reduced = 3 * (double)n_bytes / time_of(&op) / 1e9;
            printf("{\"what\": \"reduce\", \"dtype\": \"%s\", \"op\": \"%s\", \"bytes\": "
                   "%zu, \"GBps\": %.2f, \"of_copy\": %.3f}\n",
                   weft_dtype_name(op.dtype), weft_redop_name(op.redop), n_bytes, reduced,
                   reduced / copied);
        }
    }
    for (int i = 0; i < 3; i++) {
        gpu->ops->free(gpu, memory[i]);
    }
    return 0;
}

/* ---- ipc ---- */

/* The message from the owner of the memory. */
struct told {
    struct io_gpu_export memory;
    struct io_gpu_handle event;
    char uuid[48];
};

static uint8_t byte_of(size_t i, uint8_t by)
{
    return (uint8_t)(i * 7 + (i >> 12) + by);
}

static uint64_t wrong_bytes(const uint8_t *memory, size_t n_bytes, uint8_t by)
{
    uint8_t *got = weft_alloc(n_bytes);
    uint64_t n_wrong = 0;

    move(got, memory, n_bytes, false);
    for (size_t i = 0; i < n_bytes; i++) {
        n_wrong += got[i] != byte_of(i, by);
    }
    free(got);
    return n_wrong;
}

static void fill(uint8_t *memory, size_t n_bytes, uint8_t by)
{
    uint8_t *bytes = weft_alloc(n_bytes);

    for (size_t i = 0; i < n_bytes; i++) {
        bytes[i] = byte_of(i, by);
    }
    move(memory, bytes, n_bytes, true);
    free(bytes);
}

static void get(int from, void *out, size_t n_bytes)
{
    if (read(from, out, n_bytes) != (ssize_t)n_bytes) {
        exit(SKIPPED); /* the other process has printed the reason */
    }
}

static void put(int to, const void *bytes, size_t n_bytes)
{
    if (write(to, bytes, n_bytes) != (ssize_t)n_bytes) {
        exit(1);
    }
}

/* Owns the memory, and exports it while the work that writes it may not have begun. */
static _Noreturn void own(size_t n_bytes, int to, int from)
{
    struct io_gpu_op op = {.kind = IO_GPU_COPY, .count = n_bytes};
    struct io_gpu_event *event;
    struct told told = {.event = {{0}}};
    uint8_t *memory, *source;
    char word;
    int sys_errno;

    open_gpu();
    memory = take(n_bytes);
    source = take(n_bytes);
    fill(source, n_bytes, 1);
    weft_format(told.uuid, sizeof(told.uuid), "%s", gpu->uuid);
    op.out = memory;
    op.a = source;
    sys_errno = gpu->sharing->event_create(gpu, &event);
    start(&op);
    sys_errno = sys_errno != 0 ? sys_errno : gpu->sharing->record(gpu, event, NULL);
    sys_errno =
        sys_errno != 0 ? sys_errno : gpu->sharing->export_event(gpu, event, &told.event);
    sys_errno = sys_errno != 0
                    ? sys_errno
                    : gpu->sharing->export_memory(gpu, memory, UINT32_MAX, &told.memory);
    if (sys_errno != 0) {
        fail("export", sys_errno);
    }
    put(to, &told, sizeof(told));
    get(from, &word, 1); /* the user has read the memory and written it again */
    await(&op);
    gpu->sharing->event_destroy(gpu, event);
    exit(wrong_bytes(memory, n_bytes, 2) == 0 ? 0 : 1);
}

static int use(size_t n_bytes, const struct told *told, int to, pid_t owner)
{
    uint8_t *mine = take(n_bytes), *other = take(n_bytes), *theirs;
    struct io_gpu_op op = {.kind = IO_GPU_COPY, .out = mine, .count = n_bytes};
    struct io_gpu_event *event;
    double here, there, opened = now_s();
    uint64_t n_wrong;
    void *imported;
    int status = 0, sys_errno;

    op.a = other;
    here = 2 * (double)n_bytes / time_of(&op) / 1e9;
    opened = now_s();
    sys_errno = gpu->sharing->import_memory(gpu, &told->memory, &imported);
    opened = now_s() - opened;
    sys_errno = sys_errno != 0 ? sys_errno
                               : gpu->sharing->import_event(gpu, &told->event, &event);
    sys_errno = sys_errno != 0 ? sys_errno : gpu->sharing->wait(gpu, event, NULL);
    if (sys_errno != 0) {
        fail("import", sys_errno);
    }
    theirs = imported;
    op.a = theirs;
    start(&op);
    await(&op);
    n_wrong = wrong_bytes(mine, n_bytes, 1);
    there = 2 * (double)n_bytes / time_of(&op) / 1e9;
    fill(mine, n_bytes, 2);
    op.out = theirs;
    op.a = mine;
    start(&op);
    await(&op);
    gpu->sharing->event_destroy(gpu, event);
    gpu->sharing->unimport(gpu, imported);
    put(to, "", 1);
    waitpid(owner, &status, 0);
    printf(
        "{\"what\": \"ipc\", \"gpu\": \"%s\", \"same_gpu\": %s, \"kind\": %d, \"bytes\": "
        "%zu, \"GBps\": %.2f, \"local_GBps\": %.2f, \"open_us\": %.1f, \"wrong\": %llu, "
        "\"owner\": %d}\n",
        gpu->name, strcmp(gpu->uuid, told->uuid) == 0 ? "true" : "false",
        (int)told->memory.kind, n_bytes, there, here, opened * 1e6,
        (unsigned long long)n_wrong, status);
    gpu->ops->free(gpu, mine);
    gpu->ops->free(gpu, other);
    return n_wrong == 0 && status == 0 ? 0 : 1;
}

/* Forks before either process uses CUDA. */
static int ipc(size_t n_bytes)
{
    struct told told;
    int tells[2], hears[2];
    pid_t owner;

    if (pipe(tells) != 0 || pipe(hears) != 0) {
        fail("pipe", errno);
    }
    owner = fork();
    if (owner == 0) {
        (void)close(hears[1]);
        (void)close(tells[0]);
        own(n_bytes, tells[1], hears[0]);
    }
    (void)close(tells[1]);
    open_gpu();
    get(tells[0], &told, sizeof(told));
    return use(n_bytes, &told, hears[1], owner);
}

int main(int argc, char **argv)
{
    size_t n_bytes = argc > 2 ? (size_t)strtoull(argv[2], NULL, 10) : (size_t)256 << 20;
    const char *what = argc > 1 ? argv[1] : "";
    int status;

    if (strcmp(what, "ipc") == 0) {
        status = ipc(n_bytes);
    } else if (strcmp(what, "check") == 0 || strcmp(what, "rate") == 0) {
        open_gpu();
        status = what[0] == 'c' ? check() : rate(n_bytes);
    } else {
        fprintf(stderr, "usage: gpu_bench check | rate [BYTES] | ipc [BYTES]\n");
        return 2;
    }
    cuda_close(gpu);
    return status;
}
