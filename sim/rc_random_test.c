/* Random operations with random impairments: every message completes exactly once and in
 * order, and memory equals that of a model without packets. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/suite_testing.h"
#include "sim/rc_testing.h"

enum {
    N_OPS = 48,
    SOURCE_BYTES = 256 << 10,
    SLOT_BYTES = 12 << 10,
    LANDING = SOURCE_BYTES,                 /* a slot for each op of the peer */
    OWN = LANDING + N_OPS * SLOT_BYTES / 2, /* at most half of the ops write */
    COUNTER = RC_MEMORY_BYTES - 64
};

struct op {
    enum ibv_wr_opcode opcode;
    size_t source, target;
    uint32_t bytes;
    uint64_t found; /* atomics: what the model finds */
};

struct side {
    struct op ops[N_OPS];
    unsigned n_posted, n_sent_done, n_recvs, n_recv_done;
    unsigned received[N_OPS]; /* ops that use the peer's receive queue, in order */
    size_t next_target, next_own;
};

struct trial {
    struct rc_pair pair;
    struct weft_rng rng;
    struct side sides[2];
    uint8_t *model[2];
};

static bool consumes_recv(enum ibv_wr_opcode opcode)
{
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
           opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static size_t take(size_t *next, uint32_t bytes)
{
    size_t at = *next;
    *next += (bytes + 15u) & ~15u;
    return at;
}

/* Draws an op of `end` and applies it to the model. */
static void draw(struct trial *trial, unsigned end)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND,
                                                 IBV_WR_SEND_WITH_IMM,
                                                 IBV_WR_RDMA_WRITE,
                                                 IBV_WR_RDMA_WRITE_WITH_IMM,
                                                 IBV_WR_RDMA_READ,
                                                 IBV_WR_RDMA_READ,
                                                 IBV_WR_ATOMIC_FETCH_AND_ADD};
    struct side *side = &trial->sides[end];
    struct op *op = &side->ops[side->n_posted];
    uint8_t *own = trial->model[end];
    uint8_t *peer = trial->model[1 - end];
    op->opcode = opcodes[weft_rng_below(&trial->rng, 7)];
    op->bytes = (uint32_t)weft_rng_below(&trial->rng, SLOT_BYTES / 2);
    op->source = weft_rng_below(&trial->rng, SOURCE_BYTES - SLOT_BYTES);
    if (op->opcode == IBV_WR_RDMA_READ) {
        op->target = take(&side->next_own, op->bytes);
        memcpy(own + op->target, peer + op->source, op->bytes);
    } else if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        uint64_t value;
        op->bytes = 8;
        op->target = take(&side->next_own, 8);
        memcpy(&value, peer + COUNTER, 8);
        memcpy(own + op->target, &value, 8);
        value += side->n_posted;
        memcpy(peer + COUNTER, &value, 8);
    } else {
        op->target = take(&side->next_target, op->bytes);
        memcpy(peer + op->target, own + op->source, op->bytes);
    }
}

static void post(struct trial *trial, unsigned end)
{
    struct side *side = &trial->sides[end];
    draw(trial, end);
    const struct op *op = &side->ops[side->n_posted];
    bool is_send = op->opcode == IBV_WR_SEND || op->opcode == IBV_WR_SEND_WITH_IMM;
    bool lands_here =
        op->opcode == IBV_WR_RDMA_READ || op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    if (consumes_recv(op->opcode)) {
        side->received[side->n_recvs] = side->n_posted;
        /* The buffer of a SEND must be the one that the model wrote. */
        ck_assert_int_eq(rc_post_recv(&trial->pair, 1 - end, side->n_recvs,
                                      is_send ? op->target : 0, is_send ? op->bytes : 0),
                         0);
        side->n_recvs++;
    }
    size_t local = lands_here ? op->target : op->source;
    size_t remote = lands_here ? op->source : op->target;
    if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        remote = COUNTER;
    }
    ck_assert_int_eq(
        rc_post(&trial->pair, end, op->opcode, side->n_posted, local, op->bytes, remote),
        0);
    side->n_posted++;
}

static const char *tail_of(const struct weft_text *story)
{
    return story->n > 4000 ? story->bytes + story->n - 4000 : story->bytes;
}

static void collect(struct trial *trial, unsigned end)
{
    struct ibv_wc wc[8];
    int n = rc_poll(&trial->pair, end, wc, 8);
    for (int i = 0; i < n; i++) {
        ck_assert_msg(wc[i].status == IBV_WC_SUCCESS, "status %d, story:\n%s",
                      wc[i].status, tail_of(&trial->pair.story));
        if ((wc[i].opcode & IBV_WC_RECV) != 0) {
            struct side *peer = &trial->sides[1 - end];
            ck_assert_uint_eq(wc[i].wr_id, peer->n_recv_done);
            const struct op *op = &peer->ops[peer->received[peer->n_recv_done]];
            ck_assert_uint_eq(wc[i].byte_len, op->bytes);
            peer->n_recv_done++;
        } else {
            struct side *side = &trial->sides[end];
            ck_assert_uint_eq(wc[i].wr_id, side->n_sent_done);
            side->n_sent_done++;
        }
    }
}

static bool is_over(const struct trial *trial)
{
    for (unsigned end = 0; end < 2; end++) {
        const struct side *side = &trial->sides[end];
        if (side->n_sent_done < N_OPS || side->n_recv_done < side->n_recvs) {
            return false;
        }
    }
    return true;
}

static void start(struct trial *trial, uint64_t seed)
{
    static const uint32_t losses[] = {1000000, 5000000, 20000000, 100000000};
    static const enum ibv_mtu mtus[] = {IBV_MTU_4096, IBV_MTU_1024, IBV_MTU_256};
    memset(trial, 0, sizeof(*trial));
    weft_rng_init(&trial->rng, seed, "trial");
    struct rc_options options = {
        .seed = seed,
        .path_mtu = mtus[seed % 3],
        .overrides = {{"retry_cnt_7_is_endless", "true"}, {"window_packets", "24"}},
        .sq_psn = {0xfffff0, 0x10 + (uint32_t)seed},
        .max_rd_atomic = (uint8_t)(1 + seed % 4),
        .max_dest_rd_atomic = 4,
        .timeout = 8,
    };
    rc_pair_init(&trial->pair, &options);
    rc_fill(&trial->pair);
    uint32_t loss = losses[seed % 4];
    struct sim_impairment impairment = {loss, loss / 4, loss / 2, loss / 2, loss, false};
    sim_port_set_impairment(trial->pair.ends[0].port, true, true, &impairment);
    if (seed % 5 == 0) {
        sim_port_set_delay(trial->pair.ends[0].port, true, true, RC_PS_PER_US,
                           3 * RC_PS_PER_US);
    }
    for (unsigned end = 0; end < 2; end++) {
        trial->model[end] = malloc(RC_MEMORY_BYTES);
        memcpy(trial->model[end], trial->pair.ends[end].memory, RC_MEMORY_BYTES);
        trial->sides[end].next_target = LANDING;
        trial->sides[end].next_own = OWN;
    }
}

static void run(uint64_t seed)
{
    struct trial trial;
    start(&trial, seed);
    while (!is_over(&trial)) {
        for (unsigned end = 0; end < 2; end++) {
            struct side *side = &trial.sides[end];
            if (side->n_posted < N_OPS && weft_rng_below(&trial.rng, 2) == 0) {
                post(&trial, end);
            }
            collect(&trial, end);
        }
        rc_run(&trial.pair, (weft_ps)weft_rng_below(&trial.rng, 4) * RC_PS_PER_US);
        ck_assert_msg(sim_now(trial.pair.engine) < 100 * RC_PS_PER_S,
                      "seed %llu hangs:\n%s", (unsigned long long)seed,
                      tail_of(&trial.pair.story));
    }
    for (unsigned end = 0; end < 2; end++) {
        ck_assert_mem_eq(trial.pair.ends[end].memory, trial.model[end], RC_MEMORY_BYTES);
        free(trial.model[end]);
    }
    rc_pair_fini(&trial.pair);
}

START_TEST(memory_equals_the_model)
{
    run((uint64_t)_i + 1);
}
END_TEST

START_TEST(the_same_seed_tells_the_same_story)
{
    struct weft_text stories[2];
    for (unsigned i = 0; i < 2; i++) {
        struct trial trial;
        start(&trial, 7);
        for (unsigned n = 0; n < 20; n++) {
            post(&trial, 0);
            post(&trial, 1);
        }
        rc_run(&trial.pair, 20 * RC_PS_PER_MS);
        stories[i] = trial.pair.story;
        trial.pair.story = (struct weft_text){0};
        free(trial.model[0]);
        free(trial.model[1]);
        rc_pair_fini(&trial.pair);
    }
    ck_assert_uint_gt(stories[0].n, 1000);
    ck_assert_str_eq(stories[0].bytes, stories[1].bytes);
    weft_text_fini(&stories[0]);
    weft_text_fini(&stories[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rc_random");
    TCase *random = tcase_create("random");
    tcase_set_timeout(random, 120);
    tcase_add_loop_test(random, memory_equals_the_model, 0, 120);
    tcase_add_test(random, the_same_seed_tells_the_same_story);
    suite_add_tcase(suite, random);
    return suite_run(suite);
}
