/* Replays conversations in which the kernel's soft-RoCE (Linux 7.2.13) was the requester
 * and an independent endpoint the responder. The simulated NIC gets the kernel's work
 * requests, receives what the kernel received in the same order, and must send what the
 * kernel sent, in the kernel's order. Queue pairs 0x12 to 0x1e of
 * sim/testdata/rxe-interop.pcap; sim/rxe_replay_test.c has those in which the kernel was
 * the responder. */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/capture_testing.h"
#include "sim/wire_testing.h"

enum {
    KERNEL_QPN = 0x11, /* the first, a responder; its peer is WIRE_QPN, and so on */
    N_FLOWS = 14,
    N_PACKETS = 700
};

static const uint8_t kernel_ip[4] = {192, 168, 100, 1};

struct packet {
    struct sim_roce roce; /* its payload is in the capture */
    bool is_kernels;
};

static struct wire wire;
static struct capture capture;
static struct packet packets[N_PACKETS];
static unsigned n_packets;
static uint32_t post_psn; /* of the next work request */

/* Loads the kernel's requests and the replies to it, of one queue pair. */
static void load(uint32_t flow)
{
    size_t n = 0;
    n_packets = 0;
    capture_open(&capture, "sim/testdata/rxe-interop.pcap");
    for (const uint8_t *frame; (frame = capture_next(&capture, &n)) != NULL;) {
        struct packet *packet = &packets[n_packets];
        if (sim_roce_decode(frame, n, &packet->roce, NULL) != SIM_PACKET_OK) {
            continue;
        }
        packet->is_kernels = memcmp(packet->roce.source_gid.raw + 12, kernel_ip, 4) == 0;
        uint32_t first = packet->is_kernels ? WIRE_QPN : KERNEL_QPN;
        bool is_request =
            (rc_opcode_info(packet->roce.opcode)->flags & RC_IS_REQUEST) != 0;
        if (packet->roce.dest_qpn == first + flow && is_request == packet->is_kernels) {
            ck_assert_uint_lt(++n_packets, N_PACKETS);
        }
    }
}

/* Returns the SEND, WRITE or READ that starts at `index`, from its packets, and its
 * size. */
static struct ibv_send_wr work_at(unsigned index, uint32_t *n_bytes)
{
    const struct sim_roce *first = &packets[index].roce;
    const struct sim_roce *last = first;
    unsigned flags = rc_opcode_info(first->opcode)->flags;
    for (unsigned i = index; (rc_opcode_info(last->opcode)->flags & RC_IS_LAST) == 0;
         i++) {
        ck_assert_uint_lt(i, n_packets);
        if (packets[i].is_kernels &&
            packets[i].roce.psn == ((last->psn + 1) & RC_PSN_MASK)) {
            last = &packets[i].roce;
        }
    }
    uint32_t n_psn = ((last->psn - first->psn) & RC_PSN_MASK) + 1;
    bool has_imm = (rc_opcode_info(last->opcode)->flags & RC_HAS_IMM) != 0;
    struct ibv_send_wr wr = {.send_flags = IBV_SEND_SIGNALED};
    *n_bytes = (n_psn - 1) * WIRE_MTU + last->n_payload;
    if ((flags & RC_IS_READ) != 0) {
        wr.opcode = IBV_WR_RDMA_READ;
        *n_bytes = first->dma_bytes;
        n_psn = *n_bytes == 0 ? 1 : (*n_bytes - 1) / WIRE_MTU + 1;
    } else if ((flags & RC_IS_WRITE) != 0) {
        wr.opcode = has_imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
        ck_assert_uint_eq(*n_bytes, first->dma_bytes);
    } else {
        wr.opcode = has_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
    }
    wr.wr.rdma.remote_addr = first->va;
    wr.wr.rdma.rkey = first->rkey;
    post_psn = (post_psn + n_psn) & RC_PSN_MASK;
    return wr;
}

static void post(unsigned index)
{
    struct rc_end *end = &wire.pair.ends[0];
    struct ibv_send_wr *bad = NULL;
    uint32_t n_bytes = 0;
    struct ibv_send_wr wr = work_at(index, &n_bytes);
    struct ibv_sge sge = {(uintptr_t)end->memory, n_bytes, end->mr->lkey};
    wr.sg_list = &sge;
    wr.num_sge = n_bytes > 0 ? 1 : 0;
    ck_assert_int_eq(sim_nic_post_send(end->qp, &wr, &bad), 0);
}

/* Sends the endpoint's reply to the simulated NIC. */
static void answer(const struct sim_roce *heard)
{
    struct sim_roce here = wire_packet(&wire, heard->opcode, heard->psn);
    struct sim_roce said = *heard;
    said.destination_mac = here.destination_mac;
    said.source_mac = here.source_mac;
    said.source_gid = here.source_gid;
    said.destination_gid = here.destination_gid;
    said.dest_qpn = here.dest_qpn;
    wire_say(&wire, &said);
}

static void ck_assert_same_request(const struct sim_roce *kernel)
{
    weft_ps until = sim_now(wire.pair.engine) + 10 * RC_PS_PER_S;
    while (wire.n_read == wire.n_heard && sim_step(wire.pair.engine, until)) {
    }
    const struct sim_roce *ours = &wire_expect(&wire, kernel->opcode, kernel->psn)->roce;
    bool has_reth = (rc_opcode_info(kernel->opcode)->flags & RC_HAS_RETH) != 0;
    ck_assert_uint_eq(ours->n_payload, kernel->n_payload);
    ck_assert(!has_reth || ours->va == kernel->va);
    ck_assert(!has_reth || ours->rkey == kernel->rkey);
    ck_assert(!has_reth || ours->dma_bytes == kernel->dma_bytes);
    ck_assert_msg(ours->ack_req == kernel->ack_req, "AckReq of psn %x", kernel->psn);
    ck_assert(ours->solicited == kernel->solicited && ours->mig_req == kernel->mig_req);
    ck_assert_uint_eq(ours->pkey, kernel->pkey);
}

START_TEST(every_request_is_the_kernels)
{
    uint32_t flow = (uint32_t)_i;
    load(flow);
    unsigned first = 0;
    while (first < n_packets && !packets[first].is_kernels) {
        first++;
    }
    ck_assert_uint_lt(first, n_packets);
    post_psn = packets[first].roce.psn;
    struct rc_options options = {
        .sq_psn = {post_psn, WIRE_RQ_PSN}, .timeout = 14, .depth = 256, .cqe = 1024};
    wire_init(&wire, &options);
    for (unsigned i = 0; i < n_packets; i++) {
        const struct sim_roce *roce = &packets[i].roce;
        if (!packets[i].is_kernels) {
            answer(roce);
            continue;
        }
        if (roce->psn == post_psn) {
            post(i);
        }
        ck_assert_same_request(roce);
    }
    wire_fini(&wire);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rxe_replay_requester");
    TCase *tcase = tcase_create("replay");
    tcase_add_loop_test(tcase, every_request_is_the_kernels, 1, N_FLOWS);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
