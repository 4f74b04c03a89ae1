/* Duplicate requests: sim/rules/replay.csv. They are injected at the responder, and its
 * replies are read from the wire. */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/rc_testing.h"
#include "sim/rules_testing.h"

enum {
    BTH_AT = 14 + 20 + 8,
    PSN = 0x100,
    MTU = 4096,
    WHOLE_BYTES = 10000,
    REMEMBERED = 4
};

static struct rc_pair pair;
static uint8_t payload[64];

/* Replies since the last reset. */
static struct {
    unsigned n;
    uint8_t opcode;
    uint8_t syndrome; /* if the opcode is RC_ACK */
    uint32_t psn;
    struct {
        uint8_t opcode, syndrome;
        uint32_t psn;
    } all[16];
} answers;

static void tap(void *context, weft_ns at, const struct sim_port *port, bool is_outgoing,
                const uint8_t *bytes, size_t n_bytes, const char *comment)
{
    (void)context, (void)at, (void)port, (void)comment;
    if (!is_outgoing || n_bytes < BTH_AT + 16) {
        return;
    }
    if (answers.n == 0) {
        answers.opcode = bytes[BTH_AT];
        answers.syndrome = bytes[BTH_AT + 12];
        answers.psn = (uint32_t)bytes[BTH_AT + 9] << 16 |
                      (uint32_t)bytes[BTH_AT + 10] << 8 | bytes[BTH_AT + 11];
    }
    if (answers.n < WEFT_LENGTH(answers.all)) {
        answers.all[answers.n].opcode = bytes[BTH_AT];
        answers.all[answers.n].psn = bytes[BTH_AT + 11];
        answers.all[answers.n].syndrome = bytes[BTH_AT + 12];
    }
    answers.n++;
}

static void expect_answer(unsigned i, uint8_t opcode, uint32_t psn, uint8_t syndrome)
{
    ck_assert_uint_gt(answers.n, i);
    ck_assert_uint_eq(answers.all[i].opcode, opcode);
    ck_assert_uint_eq(answers.all[i].psn, psn & 0xff);
    ck_assert_uint_eq(answers.all[i].syndrome, syndrome);
}

static struct sim_frame request(uint8_t opcode, uint32_t psn, uint64_t offset,
                                uint32_t bytes)
{
    return (struct sim_frame){
        .opcode = opcode,
        .psn = psn,
        .flags = SIM_FRAME_ACK_REQ,
        .payload = payload,
        .n_payload = opcode == RC_WRITE_ONLY || opcode == RC_SEND_ONLY ? bytes : 0,
        .va = (uintptr_t)pair.ends[1].memory + offset,
        .rkey = pair.ends[1].mr->rkey,
        .dma_bytes = bytes,
        .swap_add = 1,
    };
}

static void give(const struct sim_frame *frame)
{
    rc_inject(&pair, 1, frame);
    rc_run(&pair, RC_PS_PER_MS);
}

static void ask(uint8_t opcode, uint32_t psn, uint64_t offset, uint32_t bytes)
{
    struct sim_frame frame = request(opcode, psn, offset, bytes);
    give(&frame);
}

/* Sends `n` READs of 100 bytes, or atomics, with one PSN each. */
static void history(uint8_t opcode, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        ask(opcode, PSN + i, 128 * i, opcode == RC_READ_REQUEST ? 100 : 8);
    }
}

static struct sim_frame read_whole(void)
{
    ask(RC_READ_REQUEST, PSN, 0, WHOLE_BYTES);
    return request(RC_READ_REQUEST, PSN, 0, WHOLE_BYTES);
}
static struct sim_frame read_tail(void)
{
    (void)read_whole();
    return request(RC_READ_REQUEST, PSN + 1, MTU, WHOLE_BYTES - MTU);
}
static struct sim_frame read_middle_packet(void)
{
    (void)read_whole();
    return request(RC_READ_REQUEST, PSN + 1, MTU, MTU);
}
static struct sim_frame read_other_key(void)
{
    struct sim_frame frame = read_whole();
    frame.rkey ^= 1;
    return frame;
}
static struct sim_frame read_other_address(void)
{
    struct sim_frame frame = read_whole();
    frame.va += 8;
    return frame;
}
static struct sim_frame read_beyond_its_end(void)
{
    struct sim_frame frame = read_whole();
    frame.dma_bytes++;
    return frame;
}
static struct sim_frame read_key_gone(void)
{
    struct sim_frame frame = read_whole();
    struct sim_request dereg = {.verb = SIM_VERB_DEREG_MR, .arg.mr = pair.ends[1].mr};
    ck_assert_int_eq(rc_verb(&pair, 1, &dereg), 0);
    return frame;
}
static struct sim_frame read_1st_of_4(void)
{
    history(RC_READ_REQUEST, REMEMBERED);
    return request(RC_READ_REQUEST, PSN, 0, 100);
}
static struct sim_frame read_1st_of_5(void)
{
    history(RC_READ_REQUEST, REMEMBERED + 1);
    return request(RC_READ_REQUEST, PSN, 0, 100);
}
static struct sim_frame read_2nd_of_5(void)
{
    history(RC_READ_REQUEST, REMEMBERED + 1);
    return request(RC_READ_REQUEST, PSN + 1, 128, 100);
}
static struct sim_frame atomic(void)
{
    history(RC_FETCH_ADD, 1);
    return request(RC_FETCH_ADD, PSN, 0, 8);
}
static struct sim_frame atomic_1st_of_5(void)
{
    history(RC_FETCH_ADD, REMEMBERED + 1);
    return request(RC_FETCH_ADD, PSN, 0, 8);
}
static struct sim_frame atomic_as_read(void)
{
    history(RC_FETCH_ADD, 1);
    return request(RC_READ_REQUEST, PSN, 0, 8);
}
static struct sim_frame atomic_as_read_of_nothing(void)
{
    history(RC_FETCH_ADD, 1);
    return request(RC_READ_REQUEST, PSN, 0, 0);
}
static struct sim_frame atomic_as_other_atomic(void)
{
    history(RC_FETCH_ADD, 1);
    return request(RC_COMPARE_SWAP, PSN, 0, 8);
}
static struct sim_frame read_as_atomic(void)
{
    history(RC_READ_REQUEST, 1);
    return request(RC_FETCH_ADD, PSN, 0, 8);
}
static struct sim_frame write_again(void)
{
    ask(RC_WRITE_ONLY, PSN, 0, 8);
    memset(pair.ends[1].memory, 0x77, 8); /* changed by the host meanwhile */
    return request(RC_WRITE_ONLY, PSN, 0, 8);
}
static struct sim_frame send_again(void)
{
    ask(RC_SEND_ONLY, PSN, 0, 8);
    return request(RC_SEND_ONLY, PSN, 0, 8);
}
static struct sim_frame send_of_before_a_write(void)
{
    ask(RC_SEND_ONLY, PSN, 0, 8);
    ask(RC_WRITE_ONLY, PSN + 1, 512, 8);
    return request(RC_SEND_ONLY, PSN, 0, 8);
}

#define CASE(name)                                                                       \
    {                                                                                    \
#name, name                                                                      \
    }

static const struct {
    const char *name;
    /* makes the original request; returns the duplicate */
    struct sim_frame (*make)(void);
} cases[] = {
    CASE(read_whole),
    CASE(read_tail),
    CASE(read_middle_packet),
    CASE(read_other_key),
    CASE(read_other_address),
    CASE(read_beyond_its_end),
    CASE(read_key_gone),
    CASE(read_1st_of_4),
    CASE(read_1st_of_5),
    CASE(read_2nd_of_5),
    CASE(atomic),
    CASE(atomic_1st_of_5),
    CASE(atomic_as_read),
    CASE(atomic_as_read_of_nothing),
    CASE(atomic_as_other_atomic),
    CASE(read_as_atomic),
    {"write", write_again},
    {"send", send_again},
    CASE(send_of_before_a_write),
};

static struct sim_frame make(const char *name)
{
    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        if (strcmp(cases[i].name, name) == 0) {
            return cases[i].make();
        }
    }
    ck_abort_msg("what comes again in %s?", name);
    return (struct sim_frame){0};
}

START_TEST(what_comes_again_is_answered_not_executed)
{
    struct rules rules;
    struct ibv_wc wc[4];
    uint8_t before[1024];
    unsigned row = (unsigned)_i;
    rules_read(&rules, "replay");
    const char *name = rules_cell(&rules, row, "case");
    rc_pair_init(&pair,
                 &(struct rc_options){.profile = rules_cell(&rules, row, "profile"),
                                      .max_dest_rd_atomic = REMEMBERED});
    sim_port_tap(pair.ends[1].port, tap, NULL);
    ck_assert_int_eq(rc_post_recv(&pair, 1, 1, 2048, 64), 0);
    ck_assert_int_eq(rc_post_recv(&pair, 1, 2, 4096, 64), 0);
    memset(payload, 0xa5, sizeof(payload));
    struct sim_frame again = make(name);
    (void)rc_poll(&pair, 1, wc, 4);
    memcpy(before, pair.ends[1].memory, sizeof(before));
    memset(&answers, 0, sizeof(answers));
    give(&again);
    ck_assert_msg(answers.n == rules_number(rules_cell(&rules, row, "n")), "%s: %u", name,
                  answers.n);
    if (answers.n > 0) {
        ck_assert_uint_eq(answers.opcode,
                          rules_number(rules_cell(&rules, row, "opcode")));
        ck_assert_uint_eq(answers.psn,
                          again.psn + rules_number(rules_cell(&rules, row, "psn")));
    }
    ck_assert_mem_eq(before, pair.ends[1].memory, sizeof(before));
    bool is_refused = strcmp(name, "read_key_gone") == 0; /* flushes the receives */
    ck_assert_int_eq(rc_poll(&pair, 1, wc, 4), is_refused ? 2 : 0);
    rc_pair_fini(&pair);
    rules_fini(&rules);
}
END_TEST

/* A gap draws one NAK. After the missing packet has arrived, the next gap draws
 * another. */
START_TEST(each_gap_draws_one_nak)
{
    rc_pair_init(&pair, NULL);
    sim_port_tap(pair.ends[1].port, tap, NULL);
    memset(&answers, 0, sizeof(answers));
    for (uint32_t gap = 0; gap < 3; gap++) {
        uint32_t psn = PSN + 4 * gap;
        ask(RC_WRITE_ONLY, psn + 1, 0, 8);
        ask(RC_WRITE_ONLY, psn + 2, 0, 8);
        ask(RC_WRITE_ONLY, psn + 3, 0, 8);
        ck_assert_uint_eq(answers.n, 5 * gap + 1);
        for (uint32_t i = 0; i < 4; i++) {
            ask(RC_WRITE_ONLY, psn + i, 0, 8);
        }
        ck_assert_uint_eq(answers.n, 5 * gap + 5);
    }
    ck_assert_uint_eq(rc_counters(&pair, 1).naks_sent, 3);
    rc_pair_fini(&pair);
}
END_TEST

/* A NAK includes the acknowledgement of the duplicate. */
START_TEST(a_duplicate_does_not_replace_a_nak_that_waits)
{
    static const struct {
        uint8_t opcode; /* of the packet that draws the NAK */
        uint32_t ahead;
        uint8_t syndrome;
    } naks[] = {{RC_WRITE_ONLY, 1, 0x60}, {RC_SEND_ONLY, 0, 0x20 | 12}};
    static const uint8_t duplicates[] = {RC_WRITE_ONLY, RC_SEND_ONLY};
    unsigned nak = (unsigned)_i / 2;
    uint8_t opcode = duplicates[_i % 2];
    rc_pair_init(&pair, NULL);
    ck_assert_int_eq(rc_post_recv(&pair, 1, 1, 2048, 64), 0);
    ask(RC_SEND_ONLY, PSN, 0, 8);
    sim_port_tap(pair.ends[1].port, tap, NULL);
    memset(&answers, 0, sizeof(answers));
    struct sim_frame refused = request(naks[nak].opcode, PSN + 1 + naks[nak].ahead, 0, 8);
    struct sim_frame again = request(opcode, PSN, 0, 8);
    rc_inject(&pair, 1, &refused);
    rc_inject(&pair, 1, &again);
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert_uint_eq(answers.n, 1);
    ck_assert_uint_eq(answers.opcode, RC_ACK);
    ck_assert_uint_eq(answers.syndrome, naks[nak].syndrome);
    ck_assert_uint_eq(answers.psn, PSN + 1);
    rc_pair_fini(&pair);
}
END_TEST

/* Packets that arrive while a reply is waiting are acknowledged together. */
START_TEST(acknowledgements_coalesce)
{
    rc_pair_init(&pair, NULL);
    sim_port_tap(pair.ends[1].port, tap, NULL);
    memset(&answers, 0, sizeof(answers));
    for (uint32_t i = 0; i < 6; i++) {
        struct sim_frame frame = request(RC_WRITE_ONLY, PSN + i, 0, 8);
        rc_inject(&pair, 1, &frame);
    }
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert_uint_eq(answers.n, 1);
    ck_assert_uint_eq(answers.opcode, RC_ACK);
    ck_assert_uint_eq(answers.psn, PSN + 5);
    /* Without AckReq there is no reply. */
    struct sim_frame frame = request(RC_WRITE_ONLY, PSN + 6, 0, 8);
    frame.flags = 0;
    give(&frame);
    ck_assert_uint_eq(answers.n, 1);
    rc_pair_fini(&pair);
}
END_TEST

static void begin(const struct rc_options *options)
{
    rc_pair_init(&pair, options);
    sim_port_tap(pair.ends[1].port, tap, NULL);
    memset(&answers, 0, sizeof(answers));
}

static void put(uint8_t opcode, uint32_t psn, uint32_t bytes, weft_ps then)
{
    struct sim_frame frame = request(opcode, psn, 0, bytes);
    rc_inject(&pair, 1, &frame);
    rc_run(&pair, then);
}

/* The missing request arrives while its NAK is waiting behind responses. A NAK that left
 * after the response would request what was answered. */
START_TEST(a_nak_leaves_before_the_response_of_its_psn)
{
    begin(NULL);
    put(RC_READ_REQUEST, PSN, 3 * MTU, 0);
    put(RC_WRITE_ONLY, PSN + 4, 8, 0);
    put(RC_READ_REQUEST, PSN + 3, 8, RC_PS_PER_MS);
    ck_assert_uint_eq(answers.n, 5);
    expect_answer(3, RC_ACK, PSN + 3, RC_SYNDROME_SEQUENCE);
    expect_answer(4, RC_READ_ONLY, PSN + 3, RC_SYNDROME_ACK);
    rc_pair_fini(&pair);
}
END_TEST

/* The first packet of a SEND, or all of a WRITE with immediate data, is accepted the
 * second time, while its first refusal is still waiting. */
START_TEST(what_is_taken_is_not_refused_after_all)
{
    uint8_t opcode = _i == 0 ? RC_SEND_FIRST : RC_WRITE_ONLY_IMM;
    begin(NULL);
    struct sim_frame first = request(opcode, PSN + 10, 0, MTU);
    first.flags = 0;
    first.payload = pair.ends[0].memory;
    first.n_payload = MTU;
    put(RC_READ_REQUEST, PSN, 10 * MTU, 0);
    rc_inject(&pair, 1, &first);
    ck_assert_uint_eq(rc_counters(&pair, 1).rnr_naks_sent, 1);
    ck_assert_int_eq(rc_post_recv(&pair, 1, 1, 0, 4 * MTU), 0);
    rc_run(&pair, RC_PS_PER_US);
    give(&first);
    ck_assert_uint_eq(answers.n, 10);
    expect_answer(9, RC_READ_LAST, PSN + 9, RC_SYNDROME_ACK);
    rc_pair_fini(&pair);
}
END_TEST

/* While the first response occupies the wire, the ACK that is next is replaced by a NAK
 * that is last. The second response then has its own time, and nothing else would wake
 * the queue pair. */
START_TEST(a_reply_that_gives_way_wakes_the_next)
{
    const struct rc_options options = {.overrides = {{"ack_delay", "1us"}}};
    const weft_ps ns = RC_PS_PER_US / 1000;
    begin(&options);
    put(RC_READ_REQUEST, PSN, MTU, 100 * ns);
    put(RC_WRITE_ONLY, PSN + 1, 8, 400 * ns);
    put(RC_READ_REQUEST, PSN + 2, 8, 700 * ns);
    put(RC_SEND_ONLY, PSN + 3, 8, RC_PS_PER_MS);
    ck_assert_uint_eq(answers.n, 3);
    expect_answer(0, RC_READ_ONLY, PSN, RC_SYNDROME_ACK);
    expect_answer(1, RC_READ_ONLY, PSN + 2, RC_SYNDROME_ACK);
    expect_answer(2, RC_ACK, PSN + 3, RC_SYNDROME_RNR | 12);
    rc_pair_fini(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rc_replay");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, what_comes_again_is_answered_not_executed, 0,
                        rules_count("replay"));
    tcase_add_test(all, each_gap_draws_one_nak);
    tcase_add_test(all, acknowledgements_coalesce);
    tcase_add_test(all, a_nak_leaves_before_the_response_of_its_psn);
    tcase_add_loop_test(all, what_is_taken_is_not_refused_after_all, 0, 2);
    tcase_add_test(all, a_reply_that_gives_way_wakes_the_next);
    tcase_add_loop_test(all, a_duplicate_does_not_replace_a_nak_that_waits, 0, 4);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
