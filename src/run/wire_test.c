#include "run/wire.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/suite_testing.h"
#include "base/text.h"

/* Hand-made frames: 64 B of payload in RoCE v2 over IPv4, with a wrong ICRC. The comment of a frame
 * disables the check of the ICRC. */
enum { FIRST_PSN = 0xfffffe, FRAME_BYTES = 14 + 20 + 8 + 12 + 64 + 4 };

/* Opcodes of IBA 9.2.1. */
enum {
    SEND_ONLY = 4,
    WRITE_FIRST = 6,
    WRITE_LAST = 8,
    WRITE_ONLY = 10,
    ACKNOWLEDGE = 17
};

struct bench {
    struct world_spec spec;
    struct world_host hosts[2];
    struct world_port port;
    struct world_setting window;
    struct run_wire *wire;
    int64_t now_ns;
};

static void bench_init(struct bench *bench)
{
    *bench = (struct bench){.port = {.name = "p0"},
                            .window = {.name = "window_packets", .value = "4"}};
    for (int i = 0; i < 2; i++) {
        bench->hosts[i] = (struct world_host){
            .name = i == 0 ? "a" : "b",
            .profile = WEFT_PROFILE_MLX5,
            .ports = &bench->port,
            .n_ports = 1,
            .overrides = &bench->window,
            .n_overrides = 1,
        };
    }
    bench->spec = (struct world_spec){.hosts = bench->hosts, .n_hosts = 2};
    bench->wire = run_wire_create(&bench->spec, false);
}

/* AETH of an acknowledgement. */
struct aeth {
    uint8_t syndrome;
    uint32_t msn;
};

static void see(struct bench *bench, uint32_t host, bool is_outgoing, uint8_t opcode,
                uint32_t psn, const struct aeth *aeth)
{
    uint8_t bytes[FRAME_BYTES] = {0};
    bool is_answer = opcode == ACKNOWLEDGE;
    bool from_a = (host == 0) == is_outgoing;
    size_t n = is_answer ? FRAME_BYTES - 60 : FRAME_BYTES;
    uint8_t *bth = bytes + 14 + 20 + 8;
    struct world_frame frame = {.at_ns = bench->now_ns,
                                .host = host,
                                .is_outgoing = is_outgoing,
                                .bytes = bytes,
                                .n_bytes = n < 60 ? 60 : n,
                                .comment = is_outgoing ? "delayed" : NULL};

    bench->now_ns += 1000;
    bytes[12] = 0x08;
    bytes[14] = 0x45;
    bytes[14 + 9] = 17;
    bytes[14 + 15] = from_a ? 1 : 2;
    bytes[14 + 19] = from_a ? 2 : 1;
    bytes[14 + 20 + 2] = 4791 >> 8;
    bytes[14 + 20 + 3] = 4791 & 0xff;
    bth[0] = opcode;
    bth[7] = from_a ? 22 : 11; /* queue pair */
    bth[9] = (uint8_t)(psn >> 16);
    bth[10] = (uint8_t)(psn >> 8);
    bth[11] = (uint8_t)psn;
    if (aeth != NULL) {
        bth[12] = aeth->syndrome;
        bth[13] = (uint8_t)(aeth->msn >> 16);
        bth[14] = (uint8_t)(aeth->msn >> 8);
        bth[15] = (uint8_t)aeth->msn;
    }
    run_wire_take(bench->wire, &frame);
}

/* Request `i` leaves a and, unless lost, arrives at b. */
static void send(struct bench *bench, uint32_t i, uint8_t opcode, bool is_lost)
{
    see(bench, 0, true, opcode, (FIRST_PSN + i) & 0xffffff, NULL);
    if (!is_lost) {
        see(bench, 1, false, opcode, (FIRST_PSN + i) & 0xffffff, NULL);
    }
}

static void answer(struct bench *bench, uint32_t i, uint8_t syndrome, uint32_t msn)
{
    const struct aeth aeth = {syndrome, msn};

    see(bench, 1, true, ACKNOWLEDGE, (FIRST_PSN + i) & 0xffffff, &aeth);
    see(bench, 0, false, ACKNOWLEDGE, (FIRST_PSN + i) & 0xffffff, &aeth);
}

/* Two messages across the wrap of PSNs; the second is lost, NAKed and sent again. */
static void good(struct bench *bench)
{
    send(bench, 0, WRITE_FIRST, false);
    send(bench, 1, WRITE_LAST, false);
    answer(bench, 1, 0, 1);
    send(bench, 2, WRITE_ONLY, true);
    send(bench, 3, WRITE_ONLY, false);
    answer(bench, 2, 0x60, 1);
    send(bench, 2, WRITE_ONLY, false);
    send(bench, 3, WRITE_ONLY, false);
    answer(bench, 3, 0, 3);
}

static void skips(struct bench *bench)
{
    send(bench, 5, WRITE_ONLY, false);
}

static void starts_twice(struct bench *bench)
{
    send(bench, 4, WRITE_FIRST, false);
    send(bench, 5, WRITE_FIRST, false);
}

static void repeats_done(struct bench *bench)
{
    bench->now_ns += 100000000;
    send(bench, 3, WRITE_ONLY, false);
}

static void repeats_early(struct bench *bench)
{
    send(bench, 4, WRITE_ONLY, false);
    send(bench, 4, WRITE_ONLY, false);
}

static void repeats_other(struct bench *bench)
{
    send(bench, 4, WRITE_ONLY, true);
    bench->now_ns += 100000000;
    send(bench, 4, WRITE_FIRST, false);
}

static void fills(struct bench *bench)
{
    for (uint32_t i = 4; i < 9; i++) {
        send(bench, i, WRITE_ONLY, false);
    }
}

static void acknowledges_lost(struct bench *bench)
{
    send(bench, 4, WRITE_ONLY, true);
    answer(bench, 4, 0, 4);
}

static void miscounts(struct bench *bench)
{
    send(bench, 4, WRITE_ONLY, false);
    answer(bench, 4, 0, 5);
}

static void refuses_twice(struct bench *bench)
{
    send(bench, 4, WRITE_ONLY, true);
    send(bench, 5, WRITE_ONLY, false);
    answer(bench, 4, 0x60, 3);
    answer(bench, 4, 0x60, 3);
}

/* The missing request arrives after the receiver has decided to send a NAK, but before the NAK
 * leaves. */
static void refuses_late(struct bench *bench)
{
    const struct aeth nak = {0x60, 3}, ack = {0, 4};
    uint32_t psn = (FIRST_PSN + 4) & 0xffffff;

    see(bench, 0, true, WRITE_ONLY, psn, NULL);
    send(bench, 5, WRITE_ONLY, false);
    see(bench, 1, false, WRITE_ONLY, psn, NULL);
    see(bench, 1, true, ACKNOWLEDGE, psn, &nak);
    see(bench, 1, true, ACKNOWLEDGE, psn, &ack);
}

/* The same two queue pairs are connected again with other PSNs. A retransmission after a NAK is
 * then justified. */
static void connects_again(struct bench *bench)
{
    send(bench, 0x400000, WRITE_ONLY, true);
    send(bench, 0x400001, WRITE_ONLY, false);
    answer(bench, 0x400000, 0x60, 0);
    send(bench, 0x400000, WRITE_ONLY, false);
}

/* Frames of RoCE v1 can be as short as 56 B after the Ethernet header. */
static void see_v1(struct bench *bench, bool from_a, uint8_t opcode, uint32_t psn)
{
    uint8_t bytes[14 + 40 + 12 + 4 + 4] = {[12] = 0x89, [13] = 0x15, [14] = 0x60};
    struct world_frame frame = {.at_ns = bench->now_ns,
                                .bytes = bytes,
                                .n_bytes =
                                    sizeof(bytes) - (opcode == ACKNOWLEDGE ? 0 : 4)};
    uint8_t *bth = bytes + 14 + 40;

    bytes[14 + 8 + 15] = from_a ? 1 : 2;
    bytes[14 + 24 + 15] = from_a ? 2 : 1;
    bth[0] = opcode;
    bth[7] = from_a ? 22 : 11;
    bth[11] = (uint8_t)psn;
    bth[15] = opcode == ACKNOWLEDGE ? (uint8_t)(psn + 1) : 0;
    for (uint32_t i = 0; i < 2; i++) {
        frame.is_outgoing = i == 0;
        frame.comment = i == 0 ? "delayed" : NULL;
        frame.host = from_a ? i : 1 - i;
        run_wire_take(bench->wire, &frame);
    }
    bench->now_ns += 1000;
}

static void repeats_done_v1(struct bench *bench)
{
    see_v1(bench, true, SEND_ONLY, 0);
    see_v1(bench, false, ACKNOWLEDGE, 0);
    bench->now_ns += 100000000;
    see_v1(bench, true, SEND_ONLY, 0);
}

static void refuses_beyond(struct bench *bench)
{
    send(bench, 4, WRITE_ONLY, true);
    answer(bench, 5, 0x60, 3);
}

static const struct {
    void (*goes_on)(struct bench *bench);
    const char *rule;
} cases[] = {
    {NULL, ""},
    {skips, "order of PSNs: a:p0"},
    {starts_twice, "order of FIRST and LAST: a:p0"},
    {repeats_done, "repeat of what was acknowledged: a:p0"},
    {repeats_early, "repeat without a NAK or a timeout: a:p0"},
    {repeats_other, "repeat of something else: a:p0"},
    {fills, "window: a:p0"},
    {acknowledges_lost, "ACK of what did not arrive: b:p0"},
    {miscounts, "MSN: b:p0"},
    {refuses_twice, "two NAKs for one gap: b:p0"},
    {connects_again, ""},
    {refuses_late, ""},
    {repeats_done_v1, "repeat of what was acknowledged: a:p0"},
    {refuses_beyond, "NAK of what is not missing: b:p0"},
};

START_TEST(each_rule_is_judged)
{
    struct bench bench;
    const char *broken;

    bench_init(&bench);
    good(&bench);
    ck_assert_str_eq(run_wire_broken(bench.wire), "");
    if (cases[_i].goes_on != NULL) {
        cases[_i].goes_on(&bench);
    }
    broken = run_wire_broken(bench.wire);
    ck_assert_msg(strncmp(broken, cases[_i].rule, strlen(cases[_i].rule)) == 0, "%s",
                  broken);
    ck_assert_int_eq(broken[0] == '\0', cases[_i].rule[0] == '\0');
    run_wire_free(bench.wire);
}
END_TEST

/* The ICRC is checked because the frame has no comment. */
START_TEST(a_wrong_icrc_is_seen)
{
    struct bench bench;
    uint8_t bytes[FRAME_BYTES] = {[12] = 0x08, [14] = 0x45, [23] = 17};
    struct world_frame frame = {
        .is_outgoing = true, .bytes = bytes, .n_bytes = FRAME_BYTES};

    bytes[36] = 4791 >> 8;
    bytes[37] = 4791 & 0xff;
    bench_init(&bench);
    run_wire_take(bench.wire, &frame);
    ck_assert_msg(strncmp(run_wire_broken(bench.wire), "icrc: a:p0", 10) == 0, "%s",
                  run_wire_broken(bench.wire));
    run_wire_free(bench.wire);
}
END_TEST

/* The frame ends where memory does. Its IPv4 header has `words` words. */
static void see_at_the_end(struct bench *bench, uint8_t words)
{
    enum { PAGE = 65536, SHORT = 60 };
    uint8_t *pages = aligned_alloc(PAGE, (size_t)2 * PAGE);
    uint8_t *bytes = pages + PAGE - SHORT;
    struct world_frame frame = {
        .host = 0, .is_outgoing = true, .bytes = bytes, .n_bytes = SHORT};

    ck_assert_ptr_nonnull(pages);
    memset(pages, 0, PAGE);
    ck_assert_int_eq(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
    bytes[12] = 0x08;
    bytes[14] = 0x40 | words;
    bytes[14 + 9] = 17;
    bytes[14 + 20 + 2] = 4791 >> 8;
    bytes[14 + 20 + 3] = 4791 & 0xff;
    run_wire_take(bench->wire, &frame);
    ck_assert_int_eq(mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
    free(pages);
}

START_TEST(a_header_is_no_longer_than_its_frame)
{
    for (uint8_t words = 0; words < 16; words++) {
        struct bench bench;

        bench_init(&bench);
        see_at_the_end(&bench, words);
        /* Without options the frame is one, and its ICRC is wrong. */
        ck_assert_int_eq(run_wire_broken(bench.wire)[0] != '\0', words == 5);
        run_wire_free(bench.wire);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire");
    TCase *tests = tcase_create("wire");

    tcase_add_loop_test(tests, each_rule_is_judged, 0,
                        (int)(sizeof(cases) / sizeof(cases[0])));
    tcase_add_test(tests, a_wrong_icrc_is_seen);
    tcase_add_test(tests, a_header_is_no_longer_than_its_frame);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
