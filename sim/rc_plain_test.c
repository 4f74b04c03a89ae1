/* The fast paths change nothing: plain operations give the same result, packet by packet,
 * as with the general paths, which taps, hashed payloads and a relaxed region enforce. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/suite_testing.h"
#include "sim/nic_objects.h"
#include "sim/rc_testing.h"

enum {
    N_QPS = 3,
    N_POSTS = 150,
    N_RECEIVES = 60,
    SLOT_BYTES = 16384,
    N_TRIALS = 12,
    N_BURSTS = 8,
    BURST = 5
};

struct trial {
    struct rc_pair pair;
    struct ibv_qp *qps[2][N_QPS];
    unsigned n_qps;
    bool in_bursts; /* several posts at one time, before any other event */
    uint8_t *odd;   /* Owned; memory of an additional region */
    struct weft_rng rng;
    struct weft_text completions;
};

static void listen_only(void *context, weft_ns at, const struct sim_port *port,
                        bool is_outgoing, const uint8_t *bytes, size_t n_bytes,
                        const char *comment)
{
    (void)context;
    (void)at;
    (void)port;
    (void)is_outgoing;
    (void)bytes;
    (void)n_bytes;
    (void)comment;
}

static void choose_way(struct trial *trial, unsigned end, bool is_long)
{
    struct rc_end *at = &trial->pair.ends[end];
    struct sim_request request = {.verb = SIM_VERB_REG_MR};

    request.arg.reg_mr.pd = at->pd;
    request.arg.reg_mr.addr = trial->odd;
    request.arg.reg_mr.length = SLOT_BYTES;
    request.arg.reg_mr.access = is_long ? (int)IBV_ACCESS_RELAXED_ORDERING : 0;
    ck_assert_int_eq(rc_verb(&trial->pair, end, &request), 0);
    sim_nic_check_payloads(at->nic, is_long);
    if (is_long) {
        sim_port_tap(at->port, listen_only, NULL);
    }
}

/* Even seeds use NICs without overheads, so that more events coincide. Trials after
 * N_TRIALS post in bursts, on one QP or several, and their event logs do not include
 * packets. */
static void start(struct trial *trial, uint64_t seed, bool is_long)
{
    struct rc_options options = {.seed = seed,
                                 .path_mtu = seed % 3 == 0 ? IBV_MTU_1024 : IBV_MTU_4096,
                                 .depth = 256,
                                 .cqe = 2048,
                                 .level = WEFT_TRACE_PACKET};
    bool in_bursts = seed > N_TRIALS;

    for (unsigned i = 0; i < 4 && (seed % 2 == 0 || in_bursts); i++) {
        static const char *const times[] = {"tx_overhead", "rx_overhead", "cqe_overhead",
                                            "ack_delay"};
        options.overrides[i][0] = times[i];
        options.overrides[i][1] = "0ns";
    }
    /* The profile's value, or one that single packets or short messages reach. */
    options.overrides[4][0] = seed % 4 != 3 ? "ack_req_packets" : NULL;
    options.overrides[4][1] = seed % 4 == 2 ? "3" : "1";
    options.level = in_bursts ? WEFT_TRACE_STORY : WEFT_TRACE_PACKET;
    memset(trial, 0, sizeof(*trial));
    trial->in_bursts = in_bursts;
    trial->n_qps = in_bursts && seed % 2 == 0 ? 1 : N_QPS;
    weft_rng_init(&trial->rng, seed, "plain");
    rc_pair_init(&trial->pair, &options);
    rc_fill(&trial->pair);
    trial->odd = calloc(1, SLOT_BYTES);
    for (unsigned i = 0; i < trial->n_qps; i++) {
        trial->qps[0][i] = rc_make_qp(&trial->pair, 0);
        trial->qps[1][i] = rc_make_qp(&trial->pair, 1);
        rc_connect(&trial->pair, 0, trial->qps[0][i], trial->qps[1][i]->qp_num);
        rc_connect(&trial->pair, 1, trial->qps[1][i], trial->qps[0][i]->qp_num);
        for (unsigned k = 0; k < 2 * N_RECEIVES; k++) {
            struct ibv_sge sge = {.addr = (uintptr_t)trial->pair.ends[k % 2].memory,
                                  .length = SLOT_BYTES,
                                  .lkey = trial->pair.ends[k % 2].mr->lkey};
            struct ibv_recv_wr wr = {.wr_id = k, .sg_list = &sge, .num_sge = 1};
            struct ibv_recv_wr *bad;

            ck_assert_int_eq(sim_nic_post_recv(trial->qps[k % 2][i], &wr, &bad), 0);
        }
    }
    for (unsigned end = 0; end < 2; end++) {
        choose_way(trial, end, is_long);
    }
    rc_clear_story(&trial->pair);
}

static void post(struct trial *trial, uint64_t wr_id)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND,
                                                 IBV_WR_RDMA_WRITE_WITH_IMM,
                                                 IBV_WR_RDMA_WRITE_WITH_IMM};
    unsigned end = (unsigned)weft_rng_below(&trial->rng, 2);
    struct ibv_qp *qp = trial->qps[end][weft_rng_below(&trial->rng, trial->n_qps)];
    const struct rc_end *from = &trial->pair.ends[end];
    const struct rc_end *to = &trial->pair.ends[1 - end];
    bool is_small = weft_rng_below(&trial->rng, 3) > 0;
    struct ibv_sge sge = {
        .addr = (uintptr_t)from->memory + RC_MEMORY_BYTES / 2,
        .length = (uint32_t)weft_rng_below(&trial->rng, is_small ? 4097 : SLOT_BYTES),
        .lkey = from->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = wr_id,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcodes[weft_rng_below(&trial->rng, 4)]};
    struct ibv_send_wr *bad;

    wr.send_flags = weft_rng_below(&trial->rng, 2) == 0 ? IBV_SEND_SIGNALED : 0;
    wr.send_flags |= weft_rng_below(&trial->rng, 4) == 0 ? IBV_SEND_SOLICITED : 0;
    wr.wr.rdma.remote_addr = (uintptr_t)to->memory;
    wr.wr.rdma.rkey = to->mr->rkey;
    ck_assert_int_eq(sim_nic_post_send(qp, &wr, &bad), 0);
}

static void collect(struct trial *trial)
{
    struct ibv_wc wc;

    for (unsigned end = 0; end < 2; end++) {
        while (rc_poll(&trial->pair, end, &wc, 1) == 1) {
            ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
            weft_text_add(&trial->completions, "%lld %u %llu %d %u %x %u\n",
                          (long long)sim_now(trial->pair.engine), end,
                          (unsigned long long)wc.wr_id, (int)wc.opcode, wc.byte_len,
                          wc.imm_data, wc.qp_num);
        }
    }
}

/* Runs until the next completion, if it is soon, and through all events of that time. The
 * caller then posts between two events, as a woken user does. */
static void run_to_completion(struct trial *trial)
{
    struct sim_engine *engine = trial->pair.engine;
    weft_ps latest = sim_now(engine) + 20 * RC_PS_PER_US;
    size_t n_before = trial->completions.n;

    while (trial->completions.n == n_before && sim_next(engine) <= latest) {
        weft_ps next = sim_next(engine);

        while (sim_next(engine) == next) {
            sim_step(engine, next);
        }
        collect(trial);
    }
    if (trial->completions.n == n_before) {
        rc_run(&trial->pair, latest - sim_now(engine));
    }
}

static void run(struct trial *trial, uint64_t seed, bool is_long)
{
    static const weft_ps pauses[] = {0, 0, 100000, 341360, 1000000, 7000000};

    start(trial, seed, is_long);
    for (uint64_t i = 0; i < N_POSTS; i++) {
        weft_ps pause = pauses[weft_rng_below(&trial->rng, 6)];

        post(trial, i);
        if (!trial->in_bursts) {
            rc_run(&trial->pair, pause);
        } else if (i % BURST == 0) {
            run_to_completion(trial);
        }
        collect(trial);
    }
    rc_run(&trial->pair, RC_PS_PER_MS);
    collect(trial);
}

/* Fails the test with the first line that differs. */
static void expect_same(const struct weft_text *one, const struct weft_text *other)
{
    size_t line = 0;
    size_t i = 0;

    for (; i < one->n && i < other->n && one->bytes[i] == other->bytes[i]; i++) {
        line = one->bytes[i] == '\n' ? i + 1 : line;
    }
    ck_assert_msg(i == one->n && i == other->n, "%.*s\nwhere it should say\n%.*s",
                  (int)strcspn(one->bytes + line, "\n"), one->bytes + line,
                  (int)strcspn(other->bytes + line, "\n"), other->bytes + line);
}

START_TEST(a_short_cut_leads_to_the_same_place)
{
    struct trial trials[2];
    uint64_t seed = (uint64_t)_i + 1;

    for (int i = 0; i < 2; i++) {
        run(&trials[i], seed, i == 1);
    }
    ck_assert_uint_gt(trials[0].pair.story.n, 5000);
    expect_same(&trials[0].pair.story, &trials[1].pair.story);
    ck_assert_uint_gt(trials[0].completions.n, 1000);
    expect_same(&trials[0].completions, &trials[1].completions);
    for (unsigned end = 0; end < 2; end++) {
        struct sim_nic_counters counters[2] = {rc_counters(&trials[0].pair, end),
                                               rc_counters(&trials[1].pair, end)};

        ck_assert_mem_eq(trials[0].pair.ends[end].memory, trials[1].pair.ends[end].memory,
                         RC_MEMORY_BYTES);
        ck_assert_mem_eq(&counters[0], &counters[1], sizeof(counters[0]));
        ck_assert_uint_eq(sim_nic_payload_changes(trials[1].pair.ends[end].nic), 0);
    }
    ck_assert_uint_lt(sim_n_events(trials[0].pair.engine),
                      sim_n_events(trials[1].pair.engine));
    for (int i = 0; i < 2; i++) {
        weft_text_fini(&trials[i].completions);
        rc_pair_fini(&trials[i].pair);
        free(trials[i].odd);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rc_plain");
    TCase *tcase = tcase_create("plain");
    tcase_add_loop_test(tcase, a_short_cut_leads_to_the_same_place, 0,
                        N_TRIALS + N_BURSTS);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
