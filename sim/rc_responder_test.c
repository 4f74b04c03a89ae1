/* A responder's replies, packet by packet: sim/rules/responder.csv and psn.csv. Packets
 * are injected, and the replies are read from the wire. */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/rc_testing.h"
#include "sim/rules_testing.h"

enum { MTU = 4096, BTH_AT = 14 + 20 + 8, PSN = 0x100, NO_ANSWER = -1 };

static struct rc_pair pair;
static uint8_t payload[2 * MTU];
static uint32_t next_psn;
/* Syndrome and PSN of the last reply. */
static int answer;
static uint32_t answer_psn;

static void tap(void *context, weft_ns at, const struct sim_port *port, bool is_outgoing,
                const uint8_t *bytes, size_t n_bytes, const char *comment)
{
    (void)context, (void)at, (void)port, (void)comment;
    if (is_outgoing && n_bytes > BTH_AT + 16 && bytes[BTH_AT] >= RC_READ_FIRST) {
        answer = bytes[BTH_AT + 12]; /* of the AETH, behind 12 bytes of BTH */
        answer_psn = (uint32_t)bytes[BTH_AT + 9] << 16 |
                     (uint32_t)bytes[BTH_AT + 10] << 8 | bytes[BTH_AT + 11];
    }
}

static struct sim_frame packet(uint8_t opcode, uint32_t n_payload)
{
    return (struct sim_frame){
        .opcode = opcode,
        .psn = next_psn,
        .flags = SIM_FRAME_ACK_REQ,
        .payload = payload,
        .n_payload = n_payload,
        .va = (uintptr_t)pair.ends[1].memory,
        .rkey = pair.ends[1].mr->rkey,
        .dma_bytes = n_payload,
    };
}

static void give(const struct sim_frame *frame)
{
    rc_inject(&pair, 1, frame);
    next_psn = (next_psn + 1) & 0xffffff;
}

static void send_packet(uint8_t opcode, uint32_t n_payload)
{
    struct sim_frame frame = packet(opcode, n_payload);
    give(&frame);
}

/* Sends the first packet of a message of three. */
static void start(uint8_t opcode)
{
    struct sim_frame frame = packet(opcode, MTU);
    frame.dma_bytes = 3 * MTU;
    give(&frame);
}

static void set_access(unsigned access)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .qp_access_flags = access};
    ck_assert_int_eq(
        rc_modify(&pair, 1, pair.ends[1].qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS),
        0);
}

/* Restarts without the receive WR that all cases begin with. */
static void without_receive(void)
{
    rc_pair_fini(&pair);
    rc_pair_init(&pair, NULL);
    sim_port_tap(pair.ends[1].port, tap, NULL);
}

static void send_middle_first(void)
{
    send_packet(RC_SEND_MIDDLE, MTU);
}
static void send_last_first(void)
{
    send_packet(RC_SEND_LAST, 10);
}
static void write_middle_first(void)
{
    send_packet(RC_WRITE_MIDDLE, MTU);
}
static void send_first_twice(void)
{
    start(RC_SEND_FIRST);
    start(RC_SEND_FIRST);
}
static void write_inside_send(void)
{
    start(RC_SEND_FIRST);
    send_packet(RC_WRITE_MIDDLE, MTU);
}
static void read_inside_write(void)
{
    start(RC_WRITE_FIRST);
    send_packet(RC_READ_REQUEST, 0);
}
static void sequence_before_access(void)
{
    struct sim_frame frame = packet(RC_WRITE_MIDDLE, MTU);
    set_access(0);
    give(&frame);
}
static void write_not_enabled(void)
{
    set_access(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    send_packet(RC_WRITE_ONLY, 10);
}
static void read_request(uint32_t bytes, uint32_t key_change)
{
    struct sim_frame frame = packet(RC_READ_REQUEST, 0);
    frame.dma_bytes = bytes;
    frame.rkey ^= key_change;
    give(&frame);
}
static void read_not_enabled(void)
{
    set_access(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    read_request(10, 0);
}
static void atomic_not_enabled(void)
{
    set_access(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    send_packet(RC_FETCH_ADD, 0);
}
static void access_before_receive(void)
{
    without_receive();
    set_access(0);
    send_packet(RC_WRITE_ONLY_IMM, 10);
}
static void send_without_receive(void)
{
    without_receive();
    send_packet(RC_SEND_ONLY, 10);
}
static void write_imm_without_receive(void)
{
    without_receive();
    send_packet(RC_WRITE_ONLY_IMM, 10);
}
static void write_without_receive(void)
{
    without_receive();
    send_packet(RC_WRITE_ONLY, 10);
}
static void receive_before_length(void)
{
    without_receive();
    send_packet(RC_SEND_ONLY, MTU + 4);
}
static void only_too_long(void)
{
    send_packet(RC_SEND_ONLY, MTU + 4);
}
static void first_too_short(void)
{
    send_packet(RC_SEND_FIRST, MTU - 4);
}
static void middle_too_short(void)
{
    start(RC_WRITE_FIRST);
    send_packet(RC_WRITE_MIDDLE, 100);
}
static void last_empty(void)
{
    start(RC_SEND_FIRST);
    send_packet(RC_SEND_LAST, 0);
}
static void last_too_long(void)
{
    start(RC_WRITE_FIRST);
    send_packet(RC_WRITE_LAST, MTU + 4);
}
static void bad_key(uint8_t opcode, uint32_t n_payload, uint32_t change)
{
    struct sim_frame frame = packet(opcode, n_payload);
    frame.rkey ^= change;
    give(&frame);
}
static void length_before_key(void)
{
    bad_key(RC_WRITE_ONLY, MTU + 4, 1u << 31);
}
static void unknown_key(void)
{
    bad_key(RC_WRITE_ONLY, 10, 1u << 31);
}
static void old_variant_of_key(void)
{
    bad_key(RC_WRITE_ONLY, 10, 1);
}
static void key_before_total(void)
{
    struct sim_frame frame = packet(RC_WRITE_ONLY, 100);
    frame.dma_bytes = 50;
    frame.rkey ^= 1;
    give(&frame);
}
static void announce(uint32_t announced, uint32_t n_payload)
{
    struct sim_frame frame = packet(RC_WRITE_ONLY, n_payload);
    frame.dma_bytes = announced;
    give(&frame);
}
static void write_less_than_announced(void)
{
    announce(100, 50);
}
static void write_more_than_announced(void)
{
    announce(50, 100);
}
static void write_of_nothing_bad_key(void)
{
    bad_key(RC_WRITE_ONLY, 0, 1u << 31);
}
static void read_of_nothing_bad_key(void)
{
    read_request(0, 1u << 31);
}
static void read_beyond_2_to_31(void)
{
    read_request((1u << 31) + 1, 1);
}
static void atomic(uint64_t offset, uint32_t key_change)
{
    struct sim_frame frame = packet(RC_FETCH_ADD, 0);
    frame.va += offset;
    frame.rkey ^= key_change;
    give(&frame);
}
static void atomic_not_aligned(void)
{
    atomic(4, 0);
}
static void alignment_before_key(void)
{
    atomic(4, 1);
}
static void atomic_bad_key(void)
{
    atomic(8, 1);
}

#define CASE(name)                                                                       \
    {                                                                                    \
#name, name                                                                      \
    }

static const struct {
    const char *name;
    void (*act)(void);
} cases[] = {
    CASE(send_middle_first),
    CASE(send_last_first),
    CASE(write_middle_first),
    CASE(send_first_twice),
    CASE(write_inside_send),
    CASE(read_inside_write),
    CASE(sequence_before_access),
    CASE(write_not_enabled),
    CASE(read_not_enabled),
    CASE(atomic_not_enabled),
    CASE(access_before_receive),
    CASE(send_without_receive),
    CASE(write_imm_without_receive),
    CASE(write_without_receive),
    CASE(receive_before_length),
    CASE(only_too_long),
    CASE(first_too_short),
    CASE(middle_too_short),
    CASE(last_empty),
    CASE(last_too_long),
    CASE(length_before_key),
    CASE(unknown_key),
    CASE(old_variant_of_key),
    CASE(key_before_total),
    CASE(write_less_than_announced),
    CASE(write_more_than_announced),
    CASE(write_of_nothing_bad_key),
    CASE(read_of_nothing_bad_key),
    CASE(read_beyond_2_to_31),
    CASE(atomic_not_aligned),
    CASE(alignment_before_key),
    CASE(atomic_bad_key),
};

static void act(const char *name)
{
    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        if (strcmp(cases[i].name, name) == 0) {
            cases[i].act();
            return;
        }
    }
    ck_abort_msg("how to bring about %s?", name);
}

static void begin(const char *profile)
{
    rc_pair_init(&pair, &(struct rc_options){.profile = profile});
    sim_port_tap(pair.ends[1].port, tap, NULL);
    next_psn = PSN;
    answer = NO_ANSWER;
}

START_TEST(each_packet_has_its_answer)
{
    struct rules rules;
    struct ibv_wc wc[4];
    unsigned row = (unsigned)_i;
    rules_read(&rules, "responder");
    const char *name = rules_cell(&rules, row, "case");
    begin(rules_cell(&rules, row, "profile"));
    ck_assert_int_eq(rc_post_recv(&pair, 1, 1, 0, 4 * MTU), 0);
    act(name);
    rc_run(&pair, RC_PS_PER_S);
    int expected = (int)rules_number(rules_cell(&rules, row, "answer"));
    ck_assert_msg(answer == expected, "%s: %#x", name, (unsigned)answer);
    ck_assert_uint_eq(answer_psn, (next_psn - 1) & 0xffffff);
    int status = rules_status(rules_cell(&rules, row, "receive"));
    int n = rc_poll(&pair, 1, wc, 4);
    ck_assert_msg(n == (status == RULES_NO_COMPLETION ? 0 : 1), "%s: %d", name, n);
    ck_assert_msg(n == 0 || (int)wc[0].status == status, "%s: %d", name, wc[0].status);
    ck_assert_int_eq(pair.ends[1].qp->state,
                     rules_state(rules_cell(&rules, row, "state")));
    rc_pair_fini(&pair);
    rules_fini(&rules);
}
END_TEST

START_TEST(the_window_is_half_of_all_numbers)
{
    struct rules rules;
    unsigned row = (unsigned)_i;
    rules_read(&rules, "psn");
    begin("mlx5");
    struct sim_frame frame = packet(RC_WRITE_ONLY, 8);
    frame.psn = (PSN + rules_number(rules_cell(&rules, row, "offset"))) & 0xffffff;
    memset(payload, 0xa5, 8);
    give(&frame);
    rc_run(&pair, RC_PS_PER_S);
    bool is_executed = pair.ends[1].memory[0] == 0xa5;
    ck_assert_int_eq(is_executed,
                     strcmp(rules_cell(&rules, row, "verdict"), "executed") == 0);
    ck_assert_int_eq(answer, (int)rules_number(rules_cell(&rules, row, "answer")));
    bool is_before = strcmp(rules_cell(&rules, row, "answer_offset"), "-1") == 0;
    ck_assert_uint_eq(answer_psn, is_before ? PSN - 1 : PSN);
    ck_assert_int_eq(pair.ends[1].qp->state, IBV_QPS_RTS);
    rc_pair_fini(&pair);
    rules_fini(&rules);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rc_responder");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, each_packet_has_its_answer, 0, rules_count("responder"));
    tcase_add_loop_test(all, the_window_is_half_of_all_numbers, 0, rules_count("psn"));
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
