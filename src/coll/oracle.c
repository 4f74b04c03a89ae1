#include "coll/oracle.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "coll/oracle_value.h"

#define BLOCK 1024

/* Maximum size of a memo: 16 Mi elements, 32 MiB. */
#define MEMO_BLOCKS_MAX (16u * 1024)

#define N_VALUES (2 * ORACLE_RESULT_MAX + 1)

/* Representation of every value as an element; the index is the value plus ORACLE_RESULT_MAX. */
struct table {
    size_t width;
    union {
        uint8_t one[N_VALUES];
        uint16_t two[N_VALUES];
        uint32_t four[N_VALUES];
        uint64_t eight[N_VALUES];
    } as;
};

static void table_make(struct table *table, enum weft_dtype dtype, int32_t divisor)
{
    table->width = oracle_width(dtype);
    for (int32_t i = 0; i < N_VALUES; i++) {
        uint64_t bits = oracle_bits(dtype, i - ORACLE_RESULT_MAX, divisor);

        switch (table->width) {
        case 1:
            table->as.one[i] = (uint8_t)bits;
            break;
        case 2:
            table->as.two[i] = (uint16_t)bits;
            break;
        case 4:
            table->as.four[i] = (uint32_t)bits;
            break;
        default:
            table->as.eight[i] = bits;
            break;
        }
    }
}

/* Elements in the machine's byte order. */
#define STORE(type, member)                                                              \
    do {                                                                                 \
        type *at = out;                                                                  \
        for (size_t i = 0; i < n; i++) {                                                 \
            at[i] = table->as.member[indices[i]];                                        \
        }                                                                                \
    } while (0)

/* `out` must be aligned for the element. */
static void store_block(const struct table *table, const uint16_t *indices, size_t n,
                        void *out)
{
    switch (table->width) {
    case 1:
        STORE(uint8_t, one);
        return;
    case 2:
        STORE(uint16_t, two);
        return;
    case 4:
        STORE(uint32_t, four);
        return;
    default:
        STORE(uint64_t, eight);
        return;
    }
}

/* Returns the number of elements that differ. Sets *out_first if n_wrong is 0 and one differs. */
static uint64_t count_wrong(const uint8_t *want, const uint8_t *got, size_t n,
                            size_t width, uint64_t first, uint64_t n_wrong,
                            uint64_t *out_first)
{
    uint64_t n_new = 0;

    if (memcmp(want, got, n * width) == 0) {
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (memcmp(want + i * width, got + i * width, width) != 0) {
            if (n_wrong + n_new == 0) {
                *out_first = first + i;
            }
            n_new++;
        }
    }
    return n_new;
}

static void combine(enum weft_redop op, int32_t *into, const int32_t *more, size_t n)
{
    switch (op) {
    case WEFT_SUM:
    case WEFT_AVG:
        for (size_t i = 0; i < n; i++) {
            into[i] += more[i];
        }
        return;
    case WEFT_PROD:
        for (size_t i = 0; i < n; i++) {
            into[i] *= more[i];
        }
        return;
    case WEFT_MIN:
        for (size_t i = 0; i < n; i++) {
            into[i] = more[i] < into[i] ? more[i] : into[i];
        }
        return;
    case WEFT_MAX:
        for (size_t i = 0; i < n; i++) {
            into[i] = more[i] > into[i] ? more[i] : into[i];
        }
        return;
    case WEFT_N_REDOPS:
        break;
    }
    weft_check(op < WEFT_N_REDOPS);
}

/* Kinds that only move data ignore op; their values are those of a sum. */
static bool reduces(enum weft_collective kind)
{
    return kind == WEFT_ALL_REDUCE || kind == WEFT_REDUCE_SCATTER || kind == WEFT_REDUCE;
}

static enum weft_redop value_op(const struct coll_job *job)
{
    return reduces(job->kind) ? job->op : WEFT_SUM;
}

/* The source of a range of output: elements from `first` on of one rank's input, or of the
 * reduction of all inputs. */
struct source {
    bool is_all;
    uint32_t rank;
    uint64_t first;
};

/* Computes the expected values of `n` <= BLOCK elements, as indices of the table. */
static void expect_block(const struct coll_job *job, uint64_t seed, uint32_t n_ranks,
                         const struct source *source, uint64_t skip, size_t n,
                         uint16_t *indices)
{
    enum weft_redop op = value_op(job);
    struct oracle_range range = oracle_range_of(job->dtype, op, n_ranks);
    uint32_t first_rank = source->is_all ? 0 : source->rank;
    uint32_t n_sources = source->is_all ? n_ranks : 1;
    uint64_t first = source->first + skip;
    int32_t values[BLOCK], more[BLOCK];

    range.stride = reduces(job->kind) ? range.stride : 1;
    if ((op == WEFT_SUM || op == WEFT_AVG) && first % 8 == 0 && range.stride == 1 &&
        n_sources <= ORACLE_SUM_RANKS_MAX) {
        oracle_sums(seed, first_rank, n_sources, range, first, n, indices);
        return;
    }
    oracle_values(seed, first_rank, job->dtype, op, range, first, n, values);
    for (uint32_t i = 1; i < n_sources; i++) {
        oracle_values(seed, first_rank + i, job->dtype, op, range, first, n, more);
        combine(op, values, more, n);
    }
    for (size_t i = 0; i < n; i++) {
        indices[i] = (uint16_t)(values[i] + ORACLE_RESULT_MAX);
    }
}

/* ---- the memo ---- */

void oracle_memo_fini(struct oracle_memo *memo)
{
    free(memo->indices);
    free(memo->is_known);
    *memo = (struct oracle_memo){0};
}

/* Makes room for `n_blocks` blocks of expected values of this job. Known blocks are kept if
 * the job matches, because values do not depend on the number of blocks. */
static void memo_open(struct oracle_memo *memo, const struct coll_job *job, uint64_t seed,
                      uint32_t n_ranks, uint64_t n_blocks)
{
    if (memo->dtype != job->dtype || memo->op != job->op || memo->seed != seed ||
        memo->n_ranks != n_ranks) {
        oracle_memo_fini(memo);
    }
    memo->dtype = job->dtype;
    memo->op = job->op;
    memo->seed = seed;
    memo->n_ranks = n_ranks;
    if (n_blocks <= memo->n_blocks) {
        return;
    }
    memo->indices =
        weft_realloc(memo->indices, n_blocks * BLOCK * sizeof(*memo->indices));
    memo->is_known = weft_realloc(memo->is_known, n_blocks * sizeof(*memo->is_known));
    memset(memo->is_known + memo->n_blocks, 0,
           (n_blocks - memo->n_blocks) * sizeof(*memo->is_known));
    memo->n_blocks = n_blocks;
}

struct check {
    struct oracle_memo *memo; /* NULL if there is none */
    const struct coll_job *job;
    uint64_t seed;
    uint32_t n_ranks;
    const uint8_t *output;
    const struct table *table;
    uint64_t n_wrong, first_wrong;
};

/* Returns the expected values of a block, from the memo or computed into `made`. */
static const uint16_t *answers(struct check *check, const struct source *source,
                               uint64_t skip, size_t n, uint16_t *made)
{
    struct oracle_memo *memo = check->memo;
    uint64_t block = skip / BLOCK;

    if (memo == NULL) {
        expect_block(check->job, check->seed, check->n_ranks, source, skip, n, made);
        return made;
    }
    if (!memo->is_known[block]) {
        expect_block(check->job, check->seed, check->n_ranks, source, skip, BLOCK,
                     memo->indices + skip);
        memo->is_known[block] = true;
    }
    return memo->indices + skip;
}

/* Checks `n` elements of the output from `at` on. */
static void check_stretch(struct check *check, uint64_t at, uint64_t n,
                          struct source source)
{
    size_t width = check->table->width;
    uint16_t made[BLOCK];
    uint64_t want[BLOCK];

    for (uint64_t done = 0; done < n; done += BLOCK) {
        size_t n_now = n - done < BLOCK ? (size_t)(n - done) : BLOCK;

        store_block(check->table, answers(check, &source, done, n_now, made), n_now,
                    want);
        check->n_wrong +=
            count_wrong((const uint8_t *)want, check->output + (at + done) * width, n_now,
                        width, at + done, check->n_wrong, &check->first_wrong);
    }
}

void oracle_buffer_bytes(const struct coll_job *job, uint32_t n_ranks, size_t *out_input,
                         size_t *out_output)
{
    size_t whole = (size_t)job->count * oracle_width(job->dtype);
    size_t share = (size_t)(job->count / n_ranks) * oracle_width(job->dtype);

    *out_input = job->kind == WEFT_ALL_GATHER ? share : whole;
    *out_output = job->kind == WEFT_REDUCE_SCATTER ? share : whole;
    if (job->kind == WEFT_BARRIER) {
        *out_input = 0;
        *out_output = 0;
    }
}

void oracle_fill(const struct coll_job *job, uint64_t seed, uint32_t rank,
                 uint32_t n_ranks, void *out, size_t out_bytes)
{
    struct source source = {.rank = rank};
    struct table table;
    uint16_t indices[BLOCK];
    uint64_t n;

    table_make(&table, job->dtype, 1);
    n = out_bytes / table.width;
    for (uint64_t done = 0; done < n; done += BLOCK) {
        size_t n_now = n - done < BLOCK ? (size_t)(n - done) : BLOCK;

        expect_block(job, seed, n_ranks, &source, done, n_now, indices);
        store_block(&table, indices, n_now, (uint8_t *)out + done * table.width);
    }
}

/* Checks one range of the output for every rank that it comes from. */
static void check_shares(struct check *check, uint32_t rank)
{
    uint64_t share = check->job->count / check->n_ranks;
    uint64_t first = check->job->kind == WEFT_ALL_TO_ALL ? rank * share : 0;

    for (uint32_t other = 0; other < check->n_ranks; other++) {
        check_stretch(check, other * share, share,
                      (struct source){.rank = other, .first = first});
    }
}

uint64_t oracle_check(const struct coll_job *job, uint64_t seed, uint32_t rank,
                      uint32_t n_ranks, const void *output, size_t output_bytes,
                      uint64_t *out_first)
{
    return oracle_check_with(NULL, job, seed, rank, n_ranks, output, output_bytes,
                             out_first);
}

uint64_t oracle_check_with(struct oracle_memo *memo, const struct coll_job *job,
                           uint64_t seed, uint32_t rank, uint32_t n_ranks,
                           const void *output, size_t output_bytes, uint64_t *out_first)
{
    uint64_t n_blocks = (job->count + BLOCK - 1) / BLOCK;
    struct table table;
    struct check check = {
        .job = job, .seed = seed, .n_ranks = n_ranks, .output = output, .table = &table};
    size_t input_need, output_need;

    oracle_buffer_bytes(job, n_ranks, &input_need, &output_need);
    weft_check(output_bytes >= output_need);
    table_make(&table, job->dtype, value_op(job) == WEFT_AVG ? (int32_t)n_ranks : 1);
    switch (job->kind) {
    case WEFT_ALL_REDUCE:
        if (memo != NULL && n_blocks <= MEMO_BLOCKS_MAX) {
            memo_open(memo, job, seed, n_ranks, n_blocks);
            check.memo = memo;
        }
        check_stretch(&check, 0, job->count, (struct source){.is_all = true});
        break;
    case WEFT_REDUCE:
        if (rank == job->root) {
            check_stretch(&check, 0, job->count, (struct source){.is_all = true});
        }
        break;
    case WEFT_REDUCE_SCATTER:
        check_stretch(
            &check, 0, job->count / n_ranks,
            (struct source){.is_all = true, .first = rank * (job->count / n_ranks)});
        break;
    case WEFT_BROADCAST:
        check_stretch(&check, 0, job->count, (struct source){.rank = job->root});
        break;
    case WEFT_SEND_RECV:
        check_stretch(&check, 0, job->count,
                      (struct source){.rank = (rank + n_ranks - 1) % n_ranks});
        break;
    case WEFT_ALL_GATHER:
    case WEFT_ALL_TO_ALL:
        check_shares(&check, rank);
        break;
    case WEFT_BARRIER:
        break;
    }
    if (out_first != NULL) {
        *out_first = check.first_wrong;
    }
    return check.n_wrong;
}
