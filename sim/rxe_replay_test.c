/* A conversation that the kernel's soft-RoCE (Linux 7.2.13) had with an independent endpoint,
 * once more: the simulated NIC hears every request that the kernel heard, and must give every
 * answer that the kernel gave, field by field. Queue pair 0x11 of sim/testdata/rxe-interop.pcap. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/capture_testing.h"
#include "sim/wire_testing.h"

enum {
    KERNEL_QPN = 0x11, /* of the one that is played */
    KERNEL_RKEY = 0x268,
    FIRST_PSN = 1050924,
    MEMORY_BYTES = 0x7000,
    N_RECEIVES = 4 /* that its user had posted before the sender met none */
};
#define KERNEL_VA 0x4033b000u

static const uint8_t kernel_ip[4] = {192, 168, 100, 1};

static struct wire wire;
static struct capture capture;
static uint32_t rkey;

/* The next RoCE packet to or from that queue pair. */
static bool next_packet(struct sim_roce *out, bool *is_answer)
{
    size_t n = 0;
    for (const uint8_t *frame; (frame = capture_next(&capture, &n)) != NULL;) {
        if (sim_roce_decode(frame, n, out, NULL) != SIM_PACKET_OK) {
            continue;
        }
        *is_answer = memcmp(out->source_gid.raw + 12, kernel_ip, 4) == 0;
        if (out->dest_qpn == (*is_answer ? WIRE_QPN : KERNEL_QPN)) {
            return true;
        }
    }
    return false;
}

/* What the kernel's memory held is known from what it answered. */
static void fill_memory(void)
{
    struct sim_roce packet;
    struct sim_roce asked = {0};
    bool is_answer = false;
    uint8_t *memory = wire.pair.ends[0].memory;
    capture_open(&capture, "sim/testdata/rxe-interop.pcap");
    while (next_packet(&packet, &is_answer)) {
        size_t at = asked.va - KERNEL_VA + (size_t)(packet.psn - asked.psn) * WIRE_MTU;
        if (!is_answer) {
            asked = packet;
        } else if (packet.opcode == RC_ATOMIC_ACK) {
            memcpy(memory + at, &packet.va, 8);
        } else if (packet.n_payload > 0) {
            ck_assert_uint_le(at + packet.n_payload, MEMORY_BYTES);
            memcpy(memory + at, packet.payload, packet.n_payload);
        }
    }
}

static void set_up(void)
{
    struct rc_options options = {.sq_psn = {WIRE_SQ_PSN, FIRST_PSN}};
    wire_init(&wire, &options);
    struct rc_end *end = &wire.pair.ends[0];
    struct sim_request request = {.verb = SIM_VERB_REG_MR};
    request.arg.reg_mr = (struct sim_reg_mr){
        .pd = end->pd,
        .addr = end->memory,
        .length = MEMORY_BYTES,
        .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
        .has_iova = true,
        .iova = KERNEL_VA,
    };
    ck_assert_int_eq(rc_verb(&wire.pair, 0, &request), 0);
    rkey = request.out.mr->rkey;
    fill_memory();
    for (unsigned i = 0; i < N_RECEIVES; i++) {
        ck_assert_int_eq(rc_post_recv(&wire.pair, 0, i, MEMORY_BYTES, 4096), 0);
    }
}

static void tear_down(void)
{
    wire_fini(&wire);
}

/* The kernel's packet with the addresses, numbers and keys of here. */
static void ask(const struct sim_roce *heard)
{
    struct sim_roce packet = wire_packet(&wire, heard->opcode, heard->psn);
    struct sim_roce said = *heard;
    said.destination_mac = packet.destination_mac;
    said.source_mac = packet.source_mac;
    said.source_gid = packet.source_gid;
    said.destination_gid = packet.destination_gid;
    said.dest_qpn = packet.dest_qpn;
    if (heard->rkey != 0) {
        said.rkey = heard->rkey - KERNEL_RKEY + rkey; /* a wrong one stays wrong */
    }
    wire_say(&wire, &said);
}

static void ck_assert_same_answer(const struct sim_roce *kernel, unsigned index)
{
    const struct wire_frame *frame = wire_expect(&wire, kernel->opcode, kernel->psn);
    const struct sim_roce *ours = &frame->roce;
    ck_assert_msg(ours->syndrome == kernel->syndrome, "answer %u: %x, %x", index,
                  ours->syndrome, kernel->syndrome);
    ck_assert_msg(ours->msn == kernel->msn, "answer %u: msn %u, %u", index, ours->msn,
                  kernel->msn);
    ck_assert_uint_eq(ours->va, kernel->va);
    ck_assert_uint_eq(ours->n_payload, kernel->n_payload);
    if (kernel->n_payload > 0) {
        ck_assert_mem_eq(ours->payload, kernel->payload, kernel->n_payload);
    }
    ck_assert_uint_eq(ours->traffic_class, kernel->traffic_class);
    ck_assert_uint_eq(ours->hop_limit, kernel->hop_limit);
    ck_assert(ours->dont_fragment == kernel->dont_fragment);
    ck_assert_uint_eq(ours->udp_checksum, kernel->udp_checksum);
    ck_assert_uint_eq(ours->pkey, kernel->pkey);
    ck_assert(ours->mig_req == kernel->mig_req && ours->solicited == kernel->solicited);
    ck_assert(ours->ack_req == kernel->ack_req);
    ck_assert_uint_ne(ours->ipv4_id, 0);
    /* The rule for source ports, by the numbers of there. */
    ck_assert_uint_eq(kernel->sport, sim_udp_sport(0, KERNEL_QPN, WIRE_QPN));
}

START_TEST(every_answer_is_the_kernels)
{
    struct sim_roce packet;
    bool is_answer = false;
    unsigned n_asked = 0;
    unsigned n_answers = 0;
    unsigned n_not_ready = 0;
    capture_open(&capture, "sim/testdata/rxe-interop.pcap");
    while (next_packet(&packet, &is_answer)) {
        if (!is_answer) {
            ask(&packet);
            n_asked++;
            continue;
        }
        ck_assert_same_answer(&packet, n_answers);
        n_answers++;
        if (packet.opcode == RC_ACK && packet.syndrome == 0x2c && ++n_not_ready == 2) {
            /* Here its user posted one more. */
            ck_assert_int_eq(rc_post_recv(&wire.pair, 0, 9, MEMORY_BYTES, 4096), 0);
        }
    }
    wire_expect_silence(&wire);
    ck_assert_uint_eq(n_asked, 40);
    ck_assert_uint_eq(n_answers, 31);
    ck_assert_int_eq(wire_qp_state(&wire), IBV_QPS_ERR); /* the rkey at the end */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rxe_replay");
    TCase *tcase = tcase_create("replay");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, every_answer_is_the_kernels);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
