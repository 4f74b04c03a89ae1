/* A run with packet trains equals the run without. Performs random traffic and
 * interference twice, and compares everything observable. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/suite_testing.h"
#include "sim/rc_impl.h"
#include "sim/rc_testing.h"

enum {
    QPS_MAX = 6,       /* QPs of each end, on one port */
    CROWDED = 1000000, /* first seed of crowded trials */
    N_ACTIONS = 220,
    RANKS_MAX = 16,
    SOURCE_BYTES = 512 << 10,
    TARGETS_BYTES = 384 << 10, /* targets of all QPs */
    OWN = SOURCE_BYTES + TARGETS_BYTES,
    OWN_BYTES = 64 << 10, /* where READs land */
    FULL_PACKET_PS = 334240,
    FIRST_RANK = 2 << 28 /* of ports, with a free rank between any two of them */
};

/* Time and rank of an action; drawn in the run without trains. */
struct moment {
    weft_ps at;
    uint32_t rank;
};

struct trial {
    struct rc_pair pair;
    struct weft_rng rng; /* draws the actions */
    struct weft_text log;
    struct ibv_qp *qps[2][QPS_MAX];
    /* a second region on the same memory, which is registered anew now and then */
    struct ibv_mr *spare[2];
    struct sim_event interference;
    unsigned n_qps, n_done;
    bool is_crowded;       /* many QPs on a short cable, without faults */
    uint32_t target_bytes; /* size of one target */
    weft_ps delay_ps;
    unsigned faults_per_mille; /* share of actions that are faults */
};

static struct trial trial;

/* ---- actions ---- */

static void note(const char *what, uint64_t number, const char *other,
                 uint64_t other_number)
{
    weft_text_add(&trial.log, "%lld %s %llu %s %llu\n",
                  (long long)sim_now(trial.pair.engine), what, (unsigned long long)number,
                  other, (unsigned long long)other_number);
}

static uint32_t draw(uint32_t below)
{
    return (uint32_t)weft_rng_below(&trial.rng, below);
}

/* Returns mostly the first QP, unless the port is crowded. */
static unsigned some_qp(void)
{
    return trial.is_crowded || draw(3) == 0 ? draw(trial.n_qps) : 0;
}

static struct ibv_mr *some_mr(unsigned end)
{
    bool is_spare = draw(4) == 0 && trial.spare[end] != NULL;
    return is_spare ? trial.spare[end] : trial.pair.ends[end].mr;
}

static enum ibv_wr_opcode some_opcode(void)
{
    static const enum ibv_wr_opcode opcodes[] = {
        IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WR_SEND,       IBV_WR_RDMA_READ,
    };
    return opcodes[draw(5)];
}

/* Posts mostly one piece of memory, sometimes two that are not contiguous. */
static void post_send(unsigned end, unsigned index)
{
    struct rc_end *own = &trial.pair.ends[end];
    struct ibv_mr *local = some_mr(end);
    struct ibv_mr *remote = some_mr(1 - end);
    enum ibv_wr_opcode opcode = some_opcode();
    bool is_read = opcode == IBV_WR_RDMA_READ;
    uint32_t bytes = draw(3) == 0 ? draw(9000) : draw(trial.target_bytes);
    bytes = is_read ? bytes % OWN_BYTES : bytes;
    uint32_t first = draw(4) == 0 ? draw(bytes + 1) : bytes;
    uintptr_t from = (uintptr_t)own->memory + (is_read ? OWN : draw(64));
    struct ibv_sge sges[2] = {
        {from, first, local->lkey},
        {from + first + (is_read ? 0 : 4096), bytes - first, local->lkey},
    };
    struct ibv_send_wr wr = {
        .wr_id = trial.n_done,
        .sg_list = sges,
        .num_sge = first == bytes ? 1 : 2,
        .opcode = opcode,
        .send_flags = draw(3) > 0 ? IBV_SEND_SIGNALED : 0,
        .imm_data = trial.n_done,
    };
    struct ibv_send_wr *bad;
    wr.send_flags |= draw(8) == 0 ? IBV_SEND_SOLICITED : 0;
    size_t target = SOURCE_BYTES + index * trial.target_bytes;
    wr.wr.rdma.remote_addr =
        (uintptr_t)trial.pair.ends[1 - end].memory + (is_read ? draw(64) : target);
    wr.wr.rdma.rkey = remote->rkey;
    int error = sim_nic_post_send(trial.qps[end][index], &wr, &bad);
    note("post", trial.n_done, "error", (unsigned)error);
}

static void post_recv(unsigned end, unsigned index)
{
    struct ibv_mr *mr = some_mr(end);
    uintptr_t at = (uintptr_t)trial.pair.ends[end].memory + SOURCE_BYTES +
                   index * trial.target_bytes;
    uint32_t bytes = draw(12) == 0 ? draw(trial.target_bytes) : trial.target_bytes;
    uint32_t first = draw(bytes);
    struct ibv_sge sges[2] = {{at, first, mr->lkey},
                              {at + first, bytes - first, mr->lkey}};
    struct ibv_recv_wr wr = {.wr_id = trial.n_done, .sg_list = sges, .num_sge = 2};
    struct ibv_recv_wr *bad;
    int error = sim_nic_post_recv(trial.qps[end][index], &wr, &bad);
    note("recv", trial.n_done, "error", (unsigned)error);
}

static void collect(unsigned end)
{
    struct ibv_wc wc[16];
    int n = rc_poll(&trial.pair, end, wc, 16);
    for (int i = 0; i < n; i++) {
        note("wc", wc[i].wr_id, "status", wc[i].status);
        note("qp", wc[i].qp_num, "bytes", wc[i].byte_len);
    }
    ck_assert_int_eq(sim_nic_req_notify(trial.pair.ends[end].cq, draw(2) == 0), 0);
}

static uint64_t memory_hash(unsigned end)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a, by words */
    for (size_t i = 0; i < RC_MEMORY_BYTES; i += 8) {
        uint64_t word;
        memcpy(&word, trial.pair.ends[end].memory + i, 8);
        hash = (hash ^ word) * 1099511628211u;
    }
    return hash;
}

/* Logs everything that can be queried. */
static void look(unsigned end)
{
    struct sim_nic_counters counters = rc_counters(&trial.pair, end);
    struct sim_direction_stats stats = sim_port_sent(trial.pair.ends[end].port);
    note("memory", memory_hash(0), "%llu", memory_hash(1));
    note("tx", counters.tx_packets, "rx", counters.rx_packets);
    note("retransmits", counters.retransmits, "timeouts", counters.timeouts);
    note("naks", counters.naks_sent, "rnr", counters.rnr_naks_sent);
    note("duplicates", counters.duplicates, "gaps", counters.out_of_sequence);
    note("packets", stats.packets, "bytes", stats.bytes);
    note("drops", stats.drops, "busy", (uint64_t)stats.busy_ps);
}

static void query(unsigned end, unsigned index)
{
    struct ibv_qp_attr attr;
    ck_assert_int_eq(sim_nic_query_qp(trial.qps[end][index], &attr), 0);
    note("sq_psn", attr.sq_psn, "rq_psn", attr.rq_psn);
}

/* Sends a frame of the host stack that does not affect its receiver. */
static void send_packet(unsigned end)
{
    struct sim_packet *packet = weft_calloc(1, sizeof(*packet));
    packet->kind = SIM_FRAME_PAUSE;
    packet->wire_bytes = 64 + draw(1400);
    sim_port_send(trial.pair.ends[end].port, packet);
}

static void heal(void)
{
    struct sim_port *port = trial.pair.ends[0].port;
    sim_port_set_impairment(port, true, true, &(struct sim_impairment){0});
    sim_port_set_delay(port, true, true, trial.delay_ps, 0);
    sim_port_set_rate(port, 100000000000u);
    sim_port_set_path_limit(port, 0);
    sim_port_set_paused(port, true, true, false);
    sim_port_set_mtu(port, 9000);
    sim_port_set_down(port, true, true, false);
}

static void trouble(void)
{
    const struct sim_impairment some = {
        .loss_ppb = 10000000, .duplicate_ppb = 5000000, .reorder_ppb = 5000000};
    struct sim_port *port = trial.pair.ends[draw(2)].port;
    struct sim_match match = {.action = (enum sim_match_action)draw(4),
                              .qp = 1 + draw(trial.n_qps),
                              .psn = draw(300),
                              .delay_ps = draw(5000000)};
    switch (draw(9)) {
    case 0:
        sim_port_set_impairment(port, true, draw(2) == 0, &some);
        break;
    case 1:
        sim_port_set_down(port, true, draw(2) == 0, true);
        break;
    case 2:
        sim_port_set_delay(port, true, true, draw(2000000), draw(2) * 300000);
        break;
    case 3:
        sim_port_set_rate(port, 25000000000u + draw(9) * 12345678901u);
        break;
    case 4:
        sim_port_set_paused(port, true, draw(2) == 0, true);
        break;
    case 5:
        sim_port_set_mtu(port, 1500);
        break;
    case 6:
        sim_port_set_path_limit(port, 4000);
        break;
    default:
        sim_port_add_match(port, &match);
        break;
    }
}

/* Registers the spare region anew. The verbs take time, during which other events
 * happen. */
static void renew_spare(unsigned end)
{
    struct sim_request dereg = {.verb = SIM_VERB_DEREG_MR};
    struct sim_request reg = {.verb = SIM_VERB_REG_MR};
    if (trial.spare[end] != NULL) {
        dereg.arg.mr = trial.spare[end];
        trial.spare[end] = NULL;
        ck_assert_int_eq(rc_verb(&trial.pair, end, &dereg), 0);
    }
    reg.arg.reg_mr.pd = trial.pair.ends[end].pd;
    reg.arg.reg_mr.addr = trial.pair.ends[end].memory;
    reg.arg.reg_mr.length = RC_MEMORY_BYTES;
    reg.arg.reg_mr.access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    ck_assert_int_eq(rc_verb(&trial.pair, end, &reg), 0);
    trial.spare[end] = reg.out.mr;
}

static void set_state(unsigned end, unsigned index, enum ibv_qp_state state)
{
    int error = rc_to_state(&trial.pair, end, trial.qps[end][index], state);
    note("state", state, "error", (unsigned)error);
}

static void connect(unsigned index)
{
    for (unsigned end = 0; end < 2; end++) {
        set_state(end, index, IBV_QPS_RESET);
    }
    for (unsigned end = 0; end < 2; end++) {
        rc_connect(&trial.pair, end, trial.qps[end][index],
                   trial.qps[1 - end][index]->qp_num);
    }
}

static bool is_broken(unsigned index)
{
    return trial.qps[0][index]->state == IBV_QPS_ERR ||
           trial.qps[1][index]->state == IBV_QPS_ERR;
}

/* Performs an action that takes no time. Also called between the events of one
 * picosecond. */
static void act_at_once(void)
{
    unsigned end = draw(2);
    unsigned index = some_qp();
    uint32_t what = draw(100);
    trial.n_done++;
    if (draw(1000) < trial.faults_per_mille) {
        trouble();
    } else if (what < 40) {
        post_send(end, index);
    } else if (what < 60) {
        post_recv(end, index);
    } else if (what < 75) {
        collect(end);
    } else if (what < 80) {
        look(end);
    } else if (what < 85) {
        query(end, index);
    } else if (what < 92) {
        send_packet(end);
    } else {
        heal();
    }
}

static void on_interference(struct sim_event *event)
{
    (void)event;
    act_at_once();
}

static void act(void)
{
    unsigned end = draw(2);
    unsigned index = some_qp();
    uint32_t what = draw(40);
    if (what == 0) {
        renew_spare(end);
    } else if (what == 1 && trial.faults_per_mille > 0) {
        set_state(end, index, IBV_QPS_SQD);
        set_state(end, index, IBV_QPS_RTS);
    } else if (what == 2 && trial.faults_per_mille > 0) {
        set_state(end, index, IBV_QPS_ERR);
    } else if (is_broken(index)) {
        heal();
        connect(index);
    } else {
        act_at_once();
    }
}

/* ---- two runs ---- */

static void start(uint64_t seed, bool with_trains)
{
    static const char *const ack_reqs[] = {"64", "4", "16", "1", "1000"};
    static const char *const windows[] = {"16384", "24", "128", "5"};
    static const unsigned n_qps[] = {1, 2, 2, QPS_MAX};
    static const enum ibv_mtu mtus[] = {IBV_MTU_4096, IBV_MTU_4096, IBV_MTU_1024};
    struct rc_options options = {
        .seed = seed,
        .path_mtu = mtus[seed % 3],
        .overrides = {{"ack_req_packets", ack_reqs[seed % 5]},
                      {"window_packets", windows[seed / 5 % 4]},
                      {"rx_overhead", seed % 7 == 0 ? "0ns" : "200ns"}},
        .sq_psn = {0xffff00, 0x10},
        .timeout = 8,
        .cqe = 4096,
        .depth = 32,
    };
    memset(&trial, 0, sizeof(trial));
    weft_rng_init(&trial.rng, seed, "trial");
    rc_pair_init(&trial.pair, &options);
    sim_engine_allow_trains(trial.pair.engine, with_trains);
    rc_fill(&trial.pair);
    trial.is_crowded = seed >= CROWDED;
    trial.n_qps = trial.is_crowded ? QPS_MAX : n_qps[seed / 2 % 4];
    trial.target_bytes = TARGETS_BYTES / trial.n_qps;
    bool is_short = trial.is_crowded || seed / 3 % 3 == 0;
    trial.delay_ps = is_short ? RC_PS_PER_US / 10 : RC_PS_PER_US;
    trial.faults_per_mille =
        trial.is_crowded || seed % 4 == 0 ? 0 : 30 * (unsigned)(seed % 4);
    for (unsigned end = 0; end < 2; end++) {
        struct sim_port *port = trial.pair.ends[end].port;
        /* Hashing would prevent trains. */
        sim_nic_check_payloads(trial.pair.ends[end].nic, false);
        trial.qps[end][0] = trial.pair.ends[end].qp;
        for (unsigned i = 1; i < trial.n_qps; i++) {
            trial.qps[end][i] = rc_make_qp(&trial.pair, end);
        }
        /* Leaves room for interference between any two ranks. */
        port->out.arrival.rank *= 2;
        port->transmit.rank *= 2;
    }
    for (unsigned i = 1; i < trial.n_qps; i++) {
        connect(i);
    }
    heal();
    sim_event_init(&trial.interference, on_interference);
}

/* Draws the moment of an action in the run without trains, often one at which another
 * event happens. */
static struct moment some_moment(struct weft_rng *rng)
{
    struct moment moment = {.at = sim_now(trial.pair.engine)};
    weft_ps next = sim_next(trial.pair.engine);
    uint64_t what = weft_rng_below(rng, 8);
    if (what < 3 && next != SIM_NEVER && next < moment.at + 100 * RC_PS_PER_US) {
        moment.at = next;
    } else if (what < 6) {
        moment.at += (weft_ps)weft_rng_below(rng, 2 * FULL_PACKET_PS);
    } else {
        moment.at += (weft_ps)weft_rng_below(rng, 60) * FULL_PACKET_PS;
    }
    if (weft_rng_below(rng, 2) == 0) {
        moment.rank = FIRST_RANK + 1 + 2 * (uint32_t)weft_rng_below(rng, RANKS_MAX);
    }
    return moment;
}

static void reach(const struct moment *moment)
{
    struct sim_engine *engine = trial.pair.engine;
    if (moment->rank != 0 && moment->at > sim_now(engine)) {
        trial.interference.rank = moment->rank;
        sim_schedule(engine, &trial.interference, moment->at);
    }
    while (sim_step(engine, moment->at)) {
    }
    act();
}

static void finish(void)
{
    heal();
    rc_run(&trial.pair, 300 * RC_PS_PER_MS);
    collect(0);
    collect(1);
    look(0);
    look(1);
}

/* Returns the number of events run. */
static uint64_t run(uint64_t seed, bool with_trains, struct moment *moments,
                    struct weft_text *story)
{
    struct weft_rng rng;
    weft_rng_init(&rng, seed, "moments");
    start(seed, with_trains);
    for (unsigned i = 0; i < N_ACTIONS; i++) {
        if (!with_trains) {
            moments[i] = some_moment(&rng);
        }
        if (moments[i].at < sim_now(trial.pair.engine)) {
            moments[i].at = sim_now(trial.pair.engine);
        }
        reach(&moments[i]);
    }
    finish();
    uint64_t n_events = sim_n_events(trial.pair.engine);
    weft_text_add_bytes(story, trial.pair.story.bytes, trial.pair.story.n);
    weft_text_add_bytes(story, trial.log.bytes, trial.log.n);
    weft_text_fini(&trial.log);
    rc_pair_fini(&trial.pair);
    return n_events;
}

static void compare(const struct weft_text *a, const struct weft_text *b, uint64_t seed)
{
    size_t n = a->n < b->n ? a->n : b->n;
    size_t i = 0;
    size_t line = 0;
    while (i < n && a->bytes[i] == b->bytes[i]) {
        i++;
        line = a->bytes[i - 1] == '\n' ? i : line;
    }
    ck_assert_msg(i == n && a->n == b->n,
                  "seed %llu: without trains\n%.300s\nwith trains\n%.300s",
                  (unsigned long long)seed, a->bytes + line, b->bytes + line);
}

static void run_both(uint64_t from, uint64_t to)
{
    struct moment moments[N_ACTIONS];
    struct weft_text stories[2] = {{0}};
    uint64_t n_events[2] = {0};
    for (uint64_t seed = from; seed < to; seed++) {
        for (unsigned i = 0; i < 2; i++) {
            n_events[i] += run(seed, i == 1, moments, &stories[i]);
        }
        compare(&stories[0], &stories[1], seed);
        weft_text_fini(&stories[0]);
        weft_text_fini(&stories[1]);
        memset(stories, 0, sizeof(stories));
    }
    ck_assert_uint_lt(n_events[1], n_events[0]);
}

START_TEST(with_trains_the_run_is_the_same)
{
    run_both((uint64_t)_i * 10, (uint64_t)_i * 10 + 10);
}
END_TEST

/* Packets of a train arrive while others of it have not been sent. */
START_TEST(also_with_many_queue_pairs_on_a_short_cable)
{
    run_both(CROWDED + (uint64_t)_i * 10, CROWDED + (uint64_t)_i * 10 + 10);
    run_both(1551, 1552); /* directly behind a delayed frame */
}
END_TEST

/* A job that is given up ends wherever it is. The event of a freed port must not run. */
START_TEST(both_ends_can_be_destroyed_within_trains)
{
    struct rc_options options = {.overrides = {{"ack_req_packets", "1000"}}};
    struct rc_pair pair;
    struct sim_port *ports[2];
    rc_pair_init(&pair, &options);
    rc_fill(&pair);
    for (unsigned end = 0; end < 2; end++) {
        ports[end] = pair.ends[end].port;
        sim_nic_check_payloads(pair.ends[end].nic, false);
        rc_post(&pair, end, IBV_WR_RDMA_WRITE, 1, 0, SOURCE_BYTES, SOURCE_BYTES);
    }
    while (!ports[0]->in_train || !ports[1]->in_train) {
        ck_assert(sim_step(pair.engine, SIM_NEVER));
    }
    for (int i = 0; i < _i; i++) {
        ck_assert(sim_step(pair.engine, SIM_NEVER));
    }
    ck_assert(ports[0]->in_train && ports[1]->in_train);
    rc_pair_fini(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("train");
    TCase *cases = tcase_create("train");
    tcase_set_timeout(cases, 120);
    suite_add_sweep(cases, with_trains_the_run_is_the_same, 0, 25);
    suite_add_sweep(cases, also_with_many_queue_pairs_on_a_short_cable, 0, 5);
    tcase_add_loop_test(cases, both_ends_can_be_destroyed_within_trains, 0, 3);
    suite_add_tcase(suite, cases);
    return suite_run(suite);
}
