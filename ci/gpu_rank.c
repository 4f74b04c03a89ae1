/* One rank of ci/gpu: runs collectives of NCCL, verifies every element and prints a line of JSON
 * for each row. NCCL and what is below it are chosen by the environment.
 *
 *     gpu_rank RANK N_RANKS ID_FILE OPS MAX_BYTES [ROUNDS]
 *
 * Rank 0 writes NCCL's id to ID_FILE, the others wait for it. OPS are names separated by commas.
 * With ROUNDS all rows are repeated that often.
 * All data are int32, so that sums are exact in any order. The first call that fails ends it. */
#define _POSIX_C_SOURCE 200809L
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, n_ranks;
static ncclComm_t comm;
static cudaStream_t stream;
static int32_t *in, *out;    /* on the GPU */
static int32_t *given, *got; /* on the host */

static void fail(const char *call, const char *why)
{
    fprintf(stderr, "rank %d: %s: %s\n", rank, call, why);
    exit(1);
}

#define NCCL(call)                                                                       \
    do {                                                                                 \
        ncclResult_t result_ = (call);                                                   \
        if (result_ != ncclSuccess) {                                                    \
            fail(#call, ncclGetErrorString(result_));                                    \
        }                                                                                \
    } while (0)
#define CUDA(call)                                                                       \
    do {                                                                                 \
        cudaError_t result_ = (call);                                                    \
        if (result_ != cudaSuccess) {                                                    \
            fail(#call, cudaGetErrorString(result_));                                    \
        }                                                                                \
    } while (0)

/* ---- the operations; `n` elements is the size of a row: of the larger buffer ---- */

/* What rank `r` gives at `i`, small enough that no sum overflows. */
static int32_t value(int r, size_t i)
{
    return (int32_t)((i * 7 + (size_t)r * 131 + i / 1021) % 10007);
}

static int32_t sum(size_t i)
{
    int32_t total = 0;

    for (int r = 0; r < n_ranks; r++) {
        total += value(r, i);
    }
    return total;
}

static int next(int by)
{
    return (rank + by + n_ranks) % n_ranks;
}

static int root(void)
{
    return n_ranks - 1;
}

static void all_reduce(size_t n)
{
    NCCL(ncclAllReduce(in, out, n, ncclInt32, ncclSum, comm, stream));
}
static void all_gather(size_t n)
{
    NCCL(ncclAllGather(in, out, n / (size_t)n_ranks, ncclInt32, comm, stream));
}
static void reduce_scatter(size_t n)
{
    NCCL(ncclReduceScatter(in, out, n / (size_t)n_ranks, ncclInt32, ncclSum, comm,
                           stream));
}
static void broadcast(size_t n)
{
    NCCL(ncclBroadcast(in, out, n, ncclInt32, root(), comm, stream));
}
static void send_recv(size_t n)
{
    NCCL(ncclGroupStart());
    NCCL(ncclSend(in, n, ncclInt32, next(1), comm, stream));
    NCCL(ncclRecv(out, n, ncclInt32, next(-1), comm, stream));
    NCCL(ncclGroupEnd());
}
static void all_to_all(size_t n)
{
    size_t part = n / (size_t)n_ranks;

    NCCL(ncclGroupStart());
    for (int r = 0; r < n_ranks; r++) {
        NCCL(ncclSend(in + (size_t)r * part, part, ncclInt32, r, comm, stream));
        NCCL(ncclRecv(out + (size_t)r * part, part, ncclInt32, r, comm, stream));
    }
    NCCL(ncclGroupEnd());
}

/* What must be at `i` of the result, of a row of n elements. */
static int32_t of_sum(size_t i, size_t n)
{
    (void)n;
    return sum(i);
}
static int32_t of_gather(size_t i, size_t n)
{
    size_t part = n / (size_t)n_ranks;

    return value((int)(i / part), i % part);
}
static int32_t of_scatter(size_t i, size_t n)
{
    return sum((size_t)rank * (n / (size_t)n_ranks) + i);
}
static int32_t of_root(size_t i, size_t n)
{
    (void)n;
    return value(root(), i);
}
static int32_t of_previous(size_t i, size_t n)
{
    (void)n;
    return value(next(-1), i);
}
static int32_t of_all(size_t i, size_t n)
{
    size_t part = n / (size_t)n_ranks;

    return value((int)(i / part), (size_t)rank * part + i % part);
}

static const struct operation {
    const char *name;
    void (*start)(size_t n);
    int32_t (*expected)(size_t i, size_t n);
    int is_divided;   /* n is a multiple of the number of ranks */
    int has_one_part; /* the result is one rank's share */
    int bus_factor;   /* of algbw: 0: 1, 1: (n-1)/n, 2: 2(n-1)/n, as nccl-tests has it */
} operations[] = {
    {"all_reduce", all_reduce, of_sum, 0, 0, 2},
    {"all_gather", all_gather, of_gather, 1, 0, 1},
    {"reduce_scatter", reduce_scatter, of_scatter, 1, 1, 1},
    {"broadcast", broadcast, of_root, 0, 0, 0},
    {"send_recv", send_recv, of_previous, 0, 0, 0},
    {"all_to_all", all_to_all, of_all, 1, 0, 1},
};

/* ---- rows ---- */

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void finish(void)
{
    ncclResult_t async = ncclSuccess;

    CUDA(cudaStreamSynchronize(stream));
    NCCL(ncclCommGetAsyncError(comm, &async));
    NCCL(async);
}

static size_t verify(const struct operation *op, size_t n, size_t *out_first)
{
    size_t n_result = op->has_one_part ? n / (size_t)n_ranks : n, n_wrong = 0;

    CUDA(cudaMemcpy(got, out, n_result * sizeof(*got), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n_result; i++) {
        if (got[i] != op->expected(i, n)) {
            *out_first = n_wrong == 0 ? i : *out_first;
            n_wrong++;
        }
    }
    return n_wrong;
}

static void run_row(const struct operation *op, size_t n_bytes)
{
    size_t n = n_bytes / sizeof(*in), first = 0, n_wrong;
    int repeats = n_bytes <= 65536 ? 20 : 5;
    double us, algbw, factor = 1;

    if (op->is_divided) {
        n = n < (size_t)n_ranks ? (size_t)n_ranks : n / (size_t)n_ranks * (size_t)n_ranks;
    }
    for (size_t i = 0; i < n; i++) {
        given[i] = value(rank, i);
    }
    CUDA(cudaMemcpy(in, given, n * sizeof(*in), cudaMemcpyHostToDevice));
    CUDA(cudaMemset(out, 0xff, n * sizeof(*out)));
    op->start(n); /* connects */
    finish();
    n_wrong = verify(op, n, &first);
    CUDA(cudaMemset(out, 0xff, n * sizeof(*out)));
    us = now_us();
    for (int i = 0; i < repeats; i++) {
        op->start(n);
    }
    finish();
    us = (now_us() - us) / repeats;
    n_wrong += verify(op, n, &first);
    if (op->bus_factor > 0) {
        factor = (double)op->bus_factor * (n_ranks - 1) / n_ranks;
    }
    algbw = (double)(n * sizeof(*in)) / us / 1e3;
    printf(
        "{\"rank\": %d, \"op\": \"%s\", \"bytes\": %zu, \"us\": %.2f, \"algbw\": %.4f, "
        "\"busbw\": %.4f, \"wrong\": %zu, \"first\": %zu}\n",
        rank, op->name, n * sizeof(*in), us, algbw, algbw * factor, n_wrong, first);
    fflush(stdout);
}

static void run_rows(const char *names, size_t max_bytes)
{
    for (size_t k = 0; k < sizeof(operations) / sizeof(operations[0]); k++) {
        const char *at = strstr(names, operations[k].name);

        for (size_t bytes = 8; at != NULL && bytes <= max_bytes; bytes *= 8) {
            run_row(&operations[k], bytes);
            if (bytes < max_bytes && bytes * 8 > max_bytes) {
                run_row(&operations[k], max_bytes);
            }
        }
    }
}

/* ---- start ---- */

static void exchange_id(const char *path, ncclUniqueId *id)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    char temporary[512];
    FILE *file;

    if (rank == 0) {
        NCCL(ncclGetUniqueId(id));
        snprintf(temporary, sizeof(temporary), "%s.new", path);
        file = fopen(temporary, "wb");
        if (file == NULL || fwrite(id, sizeof(*id), 1, file) != 1 || fclose(file) != 0 ||
            rename(temporary, path) != 0) {
            fail("id", path);
        }
        return;
    }
    while ((file = fopen(path, "rb")) == NULL) {
        nanosleep(&pause, NULL);
    }
    if (fread(id, sizeof(*id), 1, file) != 1) {
        fail("id", path);
    }
    fclose(file);
}

int main(int argc, char **argv)
{
    ncclUniqueId id;
    size_t max_bytes, room;
    int version = 0;
    long rounds;

    if (argc != 6 && argc != 7) {
        fprintf(stderr, "usage: gpu_rank RANK N_RANKS ID_FILE OPS MAX_BYTES [ROUNDS]\n");
        return 2;
    }
    rounds = argc == 7 ? strtol(argv[6], NULL, 10) : 1;
    rank = (int)strtol(argv[1], NULL, 10);
    n_ranks = (int)strtol(argv[2], NULL, 10);
    max_bytes = (size_t)strtoull(argv[5], NULL, 10);
    room = max_bytes + (size_t)n_ranks * sizeof(*in);
    CUDA(cudaSetDevice(0));
    exchange_id(argv[3], &id);
    NCCL(ncclGetVersion(&version));
    NCCL(ncclCommInitRank(&comm, n_ranks, id, rank));
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaMalloc((void **)&in, room));
    CUDA(cudaMalloc((void **)&out, room));
    given = malloc(room);
    got = malloc(room);
    if (given == NULL || got == NULL) {
        fail("malloc", "no memory");
    }
    printf("{\"rank\": %d, \"nccl\": %d}\n", rank, version);
    for (long round = 0; round < rounds; round++) {
        run_rows(argv[4], max_bytes);
    }
    NCCL(ncclCommDestroy(comm));
    CUDA(cudaFree(in));
    CUDA(cudaFree(out));
    CUDA(cudaStreamDestroy(stream));
    free(given);
    free(got);
    printf("{\"rank\": %d, \"done\": true}\n", rank);
    return 0;
}
