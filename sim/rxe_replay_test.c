/* Replays conversations in which the kernel's soft-RoCE (Linux 7.2.13) was the responder
 * and an independent endpoint the requester. The simulated NIC receives every request
 * that the kernel received, and must send every reply that the kernel sent, field by
 * field. The queue pairs of sim/testdata/rxe-interop.pcap that received requests. */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/capture_testing.h"
#include "sim/wire_testing.h"

enum {
    KERNEL_QPN = 0x11, /* the first; its peer is WIRE_QPN, and so on */
    KERNEL_RKEY = 0x268,
    MEMORY_BYTES = 0x8000,
    N_ASKED_MAX = 64
};
#define KERNEL_VA 0x4033b000u

struct conversation {
    uint32_t flow;
    uint32_t rq_psn;
    uint8_t max_dest_rd_atomic;
    unsigned n_receives; /* posted before the first RNR NAK */
    unsigned n_asked, n_answers;
    enum ibv_qp_state end;
};

static const struct conversation conversations[] = {
    /* all kinds of requests; a bad rkey at the end */
    {0, 1050924, 16, 4, 40, 31, IBV_QPS_ERR},
    {5, 1048901, 16, 1, 1, 1, IBV_QPS_RTS},
    {14, 1050499, 4, 0, 12, 19, IBV_QPS_ERR}, /* more READs than max_dest_rd_atomic */
    {15, 1050559, 16, 0, 5, 3, IBV_QPS_RTS},  /* half a message */
};

static const uint8_t kernel_ip[4] = {192, 168, 100, 1};

static struct wire wire;
static struct capture capture;
static uint32_t rkey;

/* Reads the next request to that queue pair, or reply from it. Returns false at the end
 * of the capture. */
static bool next_packet(uint32_t flow, struct sim_roce *out, bool *is_answer)
{
    size_t n = 0;
    for (const uint8_t *frame; (frame = capture_next(&capture, &n)) != NULL;) {
        if (sim_roce_decode(frame, n, out, NULL) != SIM_PACKET_OK) {
            continue;
        }
        *is_answer = memcmp(out->source_gid.raw + 12, kernel_ip, 4) == 0;
        bool is_response = out->opcode != RC_CNP &&
                           (rc_opcode_info(out->opcode)->flags & RC_IS_RESPONSE) != 0;
        bool is_unasked = !*is_answer && flow == 0; /* an unsolicited ACK */
        if (out->dest_qpn == flow + (*is_answer ? WIRE_QPN : KERNEL_QPN) &&
            (is_response == *is_answer || is_unasked)) {
            return true;
        }
    }
    return false;
}

/* Returns the request that `packet` answers: the last one that covers its PSN. */
static const struct sim_roce *asked_by(const struct sim_roce *asked, unsigned n,
                                       const struct sim_roce *packet)
{
    while (n > 0) {
        const struct sim_roce *one = &asked[--n];
        if ((packet->psn - one->psn) * WIRE_MTU <= one->dma_bytes) {
            return one;
        }
    }
    return NULL;
}

/* Fills the memory with the kernel's contents, which are known from its replies. */
static void fill_memory(uint32_t flow)
{
    static struct sim_roce asked[N_ASKED_MAX];
    struct sim_roce packet;
    bool is_answer = false;
    unsigned n = 0;
    uint8_t *memory = wire.pair.ends[0].memory;
    capture_open(&capture, "sim/testdata/rxe-interop.pcap");
    while (next_packet(flow, &packet, &is_answer)) {
        if (!is_answer) {
            ck_assert_uint_lt(n, N_ASKED_MAX);
            asked[n++] = packet;
            continue;
        }
        const struct sim_roce *by = asked_by(asked, n, &packet);
        if (packet.opcode == RC_ATOMIC_ACK) {
            memcpy(memory + (by->va - KERNEL_VA), &packet.va, 8);
        } else if (packet.n_payload > 0) {
            size_t at = by->va - KERNEL_VA + (size_t)(packet.psn - by->psn) * WIRE_MTU;
            ck_assert_uint_le(at + packet.n_payload, MEMORY_BYTES);
            memcpy(memory + at, packet.payload, packet.n_payload);
        }
    }
}

static void set_up(const struct conversation *one)
{
    struct rc_options options = {.sq_psn = {WIRE_SQ_PSN, one->rq_psn},
                                 .max_dest_rd_atomic = one->max_dest_rd_atomic};
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
    fill_memory(one->flow);
    for (unsigned i = 0; i < one->n_receives; i++) {
        ck_assert_int_eq(rc_post_recv(&wire.pair, 0, i, MEMORY_BYTES, 4096), 0);
    }
}

/* Sends the kernel's packet with the addresses, numbers and keys of this side. */
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
        said.rkey = heard->rkey - KERNEL_RKEY + rkey; /* a wrong key stays wrong */
    }
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    size_t n = sim_roce_encode(&said, bytes, sizeof(bytes));
    ck_assert_int_eq(sim_port_put_bytes(wire.pair.ends[0].port, bytes, n), SIM_PACKET_OK);
}

static void ck_assert_same_answer(uint32_t flow, const struct sim_roce *kernel,
                                  unsigned index)
{
    if (wire.n_read == wire.n_heard) {
        wire_run(&wire, RC_PS_PER_MS);
    }
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
    /* The rule for source ports, with the kernel's QPNs. */
    ck_assert_uint_eq(kernel->sport,
                      sim_udp_sport(0, KERNEL_QPN + flow, WIRE_QPN + flow));
}

START_TEST(every_answer_is_the_kernels)
{
    const struct conversation *one = &conversations[_i];
    struct sim_roce packet;
    bool is_answer = false;
    unsigned n_asked = 0;
    unsigned n_answers = 0;
    unsigned n_not_ready = 0;
    set_up(one);
    capture_open(&capture, "sim/testdata/rxe-interop.pcap");
    while (next_packet(one->flow, &packet, &is_answer)) {
        if (!is_answer) {
            ask(&packet);
            n_asked++;
            continue;
        }
        ck_assert_same_answer(one->flow, &packet, n_answers);
        n_answers++;
        if (packet.opcode == RC_ACK && packet.syndrome == 0x2c && ++n_not_ready == 2) {
            /* The kernel's user posted one more receive here. */
            ck_assert_int_eq(rc_post_recv(&wire.pair, 0, 9, MEMORY_BYTES, 4096), 0);
        }
    }
    wire_run(&wire, RC_PS_PER_MS);
    wire_expect_silence(&wire);
    ck_assert_uint_eq(n_asked, one->n_asked);
    ck_assert_uint_eq(n_answers, one->n_answers);
    ck_assert_int_eq(wire_qp_state(&wire), one->end);
    wire_fini(&wire);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rxe_replay");
    TCase *tcase = tcase_create("replay");
    tcase_add_loop_test(tcase, every_answer_is_the_kernels, 0,
                        (int)WEFT_LENGTH(conversations));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
