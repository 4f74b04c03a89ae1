/* Long random runs over bad cables, with every frame checked as bytes. With a file name
 * as argument, the program writes what was sent to a capture (pcap, nanoseconds), which
 * ci/test_wire_bytes.py checks with tshark and Scapy. With a row number behind it, it
 * writes what left and reached both ports in that run (pcapng), as `weft run --pcap`
 * does; ci/test_capture.py checks the rules of go-back-N. With "drawn" and a seed behind
 * it, profile, addresses, MTU, limits and faults are drawn; the program also writes the
 * event log to FILE.events, and prints the options that `ci/wire-check` needs for the
 * queue pairs. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "sim/packet.h"
#include "sim/rc_testing.h"

enum {
    N_OPS = 400,
    N_CAPTURED_OPS = 90,
    DEPTH = 16,
    SLOT = 16 << 10,
    PCAP_NS_MAGIC = 0xa1b23c4d
};

struct row {
    const char *name;
    const char *profile;
    enum ibv_mtu path_mtu;
    bool is_ipv6;
    uint16_t vlan_id;
    bool is_roce_v1;
};

static const struct row rows[] = {
    {"mlx5, IPv4, 4096", "mlx5", IBV_MTU_4096, false, 0, false},
    {"mlx5, IPv6, 1024", "mlx5", IBV_MTU_1024, true, 0, false},
    {"hns, IPv4, 256", "hns-hip09", IBV_MTU_256, false, 0, false},
    {"hns, IPv6, 4096", "hns-hip09", IBV_MTU_4096, true, 0, false},
    {"rxe, IPv4, 1024", "rxe", IBV_MTU_1024, false, 0, false},
    {"rxe, IPv6, 2048", "rxe", IBV_MTU_2048, true, 0, false},
    {"mlx5, IPv4 with a tag, 2048", "mlx5", IBV_MTU_2048, false, 100, false},
    {"mlx5, IPv6 with a tag, 512", "mlx5", IBV_MTU_512, true, 4094, false},
    {"mlx5, RoCE v1, 1024", "mlx5", IBV_MTU_1024, false, 0, true},
};

/* Settings that a seed determines. */
struct draw {
    struct row row;
    struct sim_impairment bad;
    uint8_t timeout, min_rnr_timer, rd_atomic;
    uint32_t sq_psn[2];
    uint32_t flap_ppb; /* chance of a flap per step of the run */
};

struct tally {
    const struct draw *draw; /* NULL for a row of the table with fixed faults */
    FILE *file;              /* NULL if none */
    bool is_ng;              /* pcapng, both directions */
    unsigned n_ops;          /* operations of each end */
    unsigned opcodes[256];
    unsigned n_frames, n_rnr, n_sequence, n_corrupt, n_marked, n_padded;
    enum sim_roce_layer layer;
    uint16_t vlan_id;
};

struct run {
    struct rc_pair pair;
    struct weft_rng rng;
    struct tally *tally;
    unsigned n_posted[2], n_done[2], n_receives[2];
    weft_ps down_until; /* when the cable comes up again; 0 if it is up */
};

static void put_u32(FILE *file, uint32_t value)
{
    uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                        (uint8_t)(value >> 24)};
    ck_assert_uint_eq(fwrite(bytes, 1, 4, file), 4);
}

static void record(FILE *file, weft_ns at, const uint8_t *bytes, size_t n_bytes)
{
    put_u32(file, (uint32_t)(at / 1000000000));
    put_u32(file, (uint32_t)(at % 1000000000));
    put_u32(file, (uint32_t)n_bytes);
    put_u32(file, (uint32_t)n_bytes);
    ck_assert_uint_eq(fwrite(bytes, 1, n_bytes, file), n_bytes);
}

/* Writes the section and the interfaces "a:p0" and "b:p0" (blocks of
 * draft-ietf-opsawg-pcapng). */
static void begin_ng(FILE *file)
{
    static const uint32_t section[] = {0x0a0d0d0a, 28, 0x1a2b3c4d, 1, ~0u, ~0u, 28};
    for (size_t i = 0; i < WEFT_LENGTH(section); i++) {
        put_u32(file, section[i]);
    }
    for (uint32_t end = 0; end < 2; end++) {
        uint32_t name = ('a' + end) | ':' << 8 | 'p' << 16 | '0' << 24;
        const uint32_t interface[] = {1,    40,          1, 0, 2 | 4 << 16,
                                      name, 9 | 1 << 16, 9, 0, 40};
        for (size_t i = 0; i < WEFT_LENGTH(interface); i++) {
            put_u32(file, interface[i]);
        }
    }
}

static void record_ng(FILE *file, weft_ns at, const struct sim_port *port,
                      bool is_outgoing, const uint8_t *bytes, size_t n_bytes,
                      const char *comment)
{
    static const uint8_t zeros[4];
    uint32_t padded = (uint32_t)(n_bytes + 3) & ~3u;
    uint32_t n_comment = comment == NULL ? 0 : (uint32_t)strlen(comment);
    uint32_t note = comment == NULL ? 0 : 4 + ((n_comment + 3) & ~3u);
    uint32_t length = 32 + padded + 8 + note + 4;
    const uint32_t head[] = {6,
                             length,
                             sim_port_host(port)[0] == 'b',
                             (uint32_t)(at >> 32),
                             (uint32_t)at,
                             (uint32_t)n_bytes,
                             (uint32_t)n_bytes};
    for (size_t i = 0; i < WEFT_LENGTH(head); i++) {
        put_u32(file, head[i]);
    }
    (void)fwrite(bytes, 1, n_bytes, file);
    (void)fwrite(zeros, 1, padded - n_bytes, file);
    put_u32(file, 2 | 4 << 16);
    put_u32(file, is_outgoing ? 2 : 1);
    if (comment != NULL) {
        put_u32(file, 1 | n_comment << 16);
        (void)fwrite(comment, 1, n_comment, file);
        (void)fwrite(zeros, 1, note - 4 - n_comment, file);
    }
    put_u32(file, 0);
    put_u32(file, length);
}

static void count(struct tally *tally, const struct sim_roce *roce)
{
    tally->n_frames++;
    tally->opcodes[roce->opcode]++;
    tally->n_padded += roce->n_payload % 4 != 0;
    ck_assert_int_eq(roce->layer, tally->layer);
    ck_assert(roce->has_vlan == (tally->vlan_id != 0));
    ck_assert_uint_eq(roce->vlan_tci, tally->vlan_id);
    if (roce->opcode == RC_ACK) {
        tally->n_rnr += (roce->syndrome & 0xe0) == RC_SYNDROME_RNR;
        tally->n_sequence += roce->syndrome == RC_SYNDROME_SEQUENCE;
    }
}

/* Checks that every sent frame is correct, and that every received frame is correct or
 * has a wrong ICRC. */
static void on_frame(void *context, weft_ns at, const struct sim_port *port,
                     bool is_outgoing, const uint8_t *bytes, size_t n_bytes,
                     const char *comment)
{
    struct tally *tally = context;
    uint8_t again[SIM_PACKET_BYTES_MAX];
    struct sim_roce roce;
    size_t used = 0;
    enum sim_packet_reject reject = sim_roce_decode(bytes, n_bytes, &roce, &used);
    ck_assert_uint_eq(used, n_bytes);
    if (tally->is_ng) {
        record_ng(tally->file, at, port, is_outgoing, bytes, n_bytes, comment);
    }
    if (!is_outgoing) {
        bool is_corrupt = comment != NULL && strcmp(comment, "corrupt") == 0;
        ck_assert_int_eq(reject, is_corrupt ? SIM_PACKET_ICRC : SIM_PACKET_OK);
        tally->n_corrupt += is_corrupt;
        tally->n_marked += (roce.traffic_class & 3) == 3;
        return;
    }
    ck_assert_int_eq(reject, SIM_PACKET_OK);
    ck_assert_uint_eq(sim_roce_encode(&roce, again, sizeof(again)), n_bytes);
    ck_assert_mem_eq(again, bytes, n_bytes);
    count(tally, &roce);
    if (tally->file != NULL && !tally->is_ng) {
        record(tally->file, at, bytes, n_bytes);
    }
}

static void start(struct run *run, const struct row *row, struct tally *tally)
{
    const struct sim_impairment usual = {10000000, 5000000,  5000000,
                                         5000000,  20000000, false};
    const struct draw *draw = tally->draw;
    const struct sim_impairment *bad = draw != NULL ? &draw->bad : &usual;
    struct rc_options options = {
        .profile = row->profile,
        .is_ipv6 = row->is_ipv6,
        .is_roce_v1 = row->is_roce_v1,
        .vlan_id = row->vlan_id,
        .path_mtu = row->path_mtu,
        .min_rnr_timer = 1,
        .timeout = 8,
        .sq_psn = {0xfffff0, 0x7fffe0},
        .overrides = {{"retry_cnt_7_is_endless", "true"}},
    };
    if (draw != NULL) {
        options.min_rnr_timer = draw->min_rnr_timer;
        options.timeout = draw->timeout;
        options.max_rd_atomic = options.max_dest_rd_atomic = draw->rd_atomic;
        const struct sim_profile *profile = sim_profile_find(row->profile);
        options.depth = profile->max_qp_wr < 64 ? profile->max_qp_wr : 0;
        options.cqe = profile->max_cqe < 256 ? (int)profile->max_cqe : 0;
        options.sq_psn[0] = draw->sq_psn[0];
        options.sq_psn[1] = draw->sq_psn[1];
    }
    memset(run, 0, sizeof(*run));
    run->tally = tally;
    tally->layer = row->is_ipv6 ? SIM_ROCE_IPV6 : SIM_ROCE_IPV4;
    if (row->is_roce_v1) {
        tally->layer = SIM_ROCE_V1;
    }
    tally->vlan_id = row->vlan_id;
    weft_rng_init(&run->rng, 42, row->name);
    rc_pair_init(&run->pair, &options);
    rc_fill(&run->pair);
    for (unsigned end = 0; end < 2; end++) {
        sim_port_tap(run->pair.ends[end].port, on_frame, tally);
    }
    sim_port_set_impairment(run->pair.ends[0].port, true, true, bad);
}

static void post(struct run *run, unsigned end)
{
    static const enum ibv_wr_opcode opcodes[] = {
        IBV_WR_SEND,      IBV_WR_SEND_WITH_IMM,       IBV_WR_RDMA_WRITE,
        IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_ATOMIC_FETCH_AND_ADD,
        IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP};
    bool has_atomics = run->pair.profile.atomic_cap != IBV_ATOMIC_NONE;
    size_t n_opcodes = has_atomics ? WEFT_LENGTH(opcodes) : 5; /* atomics are last */
    enum ibv_wr_opcode opcode = opcodes[weft_rng_below(&run->rng, n_opcodes)];
    bool is_atomic =
        opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    uint32_t most = weft_rng_below(&run->rng, 2) == 0 ? 64 : SLOT;
    uint32_t bytes = is_atomic ? 8 : (uint32_t)weft_rng_below(&run->rng, most);
    /* Sources, targets of READs and memory that the peer may change are separate. */
    bool lands_here = is_atomic || opcode == IBV_WR_RDMA_READ;
    size_t local = ((lands_here ? 16 : 0) + weft_rng_below(&run->rng, 16)) * SLOT;
    size_t remote = (32 + weft_rng_below(&run->rng, 16)) * SLOT;
    if (opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
        opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        /* posted later, so that the peer is not always ready */
        run->n_receives[1 - end]++;
    }
    ck_assert_int_eq(
        rc_post(&run->pair, end, opcode, run->n_posted[end], local, bytes, remote), 0);
    run->n_posted[end]++;
}

static void collect(struct run *run, unsigned end)
{
    struct ibv_wc wc;
    while (rc_poll(&run->pair, end, &wc, 1) == 1) {
        ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
        if ((wc.opcode & IBV_WC_RECV) == 0) {
            ck_assert_uint_eq(wc.wr_id, run->n_done[end]);
            run->n_done[end]++;
        }
    }
}

/* Takes the cable down now and then, for 5 to 300 us. */
static void flap(struct run *run)
{
    struct sim_port *port = run->pair.ends[0].port;
    const struct draw *draw = run->tally->draw;
    if (run->down_until != 0 && sim_now(run->pair.engine) >= run->down_until) {
        run->down_until = 0;
        sim_port_set_down(port, true, true, false);
    } else if (run->down_until == 0 && draw != NULL &&
               weft_rng_chance(&run->rng, draw->flap_ppb)) {
        weft_ps us = 5 + (weft_ps)weft_rng_below(&run->rng, 296);
        run->down_until = sim_now(run->pair.engine) + us * RC_PS_PER_US;
        sim_port_set_down(port, true, true, true);
    }
}

static void play(struct run *run)
{
    unsigned n_ops = run->tally->n_ops;
    while (run->n_done[0] < n_ops || run->n_done[1] < n_ops) {
        for (unsigned end = 0; end < 2; end++) {
            if (run->n_posted[end] < n_ops &&
                run->n_posted[end] - run->n_done[end] < DEPTH) {
                post(run, end);
            }
            if (run->n_receives[end] > 0 && weft_rng_below(&run->rng, 3) == 0) {
                run->n_receives[end]--;
                ck_assert_int_eq(rc_post_recv(&run->pair, end, 0, 48 * SLOT, SLOT), 0);
            }
            collect(run, end);
        }
        flap(run);
        rc_run(&run->pair, (weft_ps)weft_rng_below(&run->rng, 8) * RC_PS_PER_US);
        ck_assert_int_lt(sim_now(run->pair.engine), 100 * RC_PS_PER_S);
    }
}

static void play_row(const struct row *row, struct tally *tally)
{
    struct run run;
    start(&run, row, tally);
    play(&run);
    rc_pair_fini(&run.pair);
}

START_TEST(every_frame_of_a_random_run_is_right)
{
    struct tally tally = {.n_ops = N_OPS};
    play_row(&rows[_i], &tally);
    for (unsigned opcode = 0; opcode < RC_N_OPCODES; opcode++) {
        bool is_spoken = (rc_opcode_info(opcode)->flags & RC_IS_SPOKEN) != 0;
        ck_assert_msg((tally.opcodes[opcode] > 0) == is_spoken, "%s: %u %s",
                      rows[_i].name, tally.opcodes[opcode], rc_opcode_info(opcode)->name);
    }
    ck_assert_uint_gt(tally.n_frames, 5 * N_OPS);
    ck_assert_uint_gt(tally.n_rnr, 10);
    ck_assert_uint_gt(tally.n_sequence, 10);
    ck_assert_uint_gt(tally.n_corrupt, 10);
    ck_assert_uint_gt(tally.n_marked, 10);
    ck_assert_uint_gt(tally.n_padded, 10);
}
END_TEST

static const char *capture_path;

START_TEST(what_was_sent_is_written)
{
    struct tally tally = {.file = fopen(capture_path, "wb"), .n_ops = N_CAPTURED_OPS};
    ck_assert_ptr_nonnull(tally.file);
    put_u32(tally.file, PCAP_NS_MAGIC);
    put_u32(tally.file, 2 | 4 << 16); /* version 2.4 */
    put_u32(tally.file, 0);
    put_u32(tally.file, 0);
    put_u32(tally.file, 65535);
    put_u32(tally.file, 1); /* Ethernet */
    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        play_row(&rows[i], &tally);
    }
    ck_assert_int_eq(fclose(tally.file), 0);
}
END_TEST

static unsigned captured_row;

START_TEST(what_passed_both_ports_is_written)
{
    struct tally tally = {
        .file = fopen(capture_path, "wb"), .is_ng = true, .n_ops = N_OPS / 2};
    ck_assert_ptr_nonnull(tally.file);
    ck_assert_uint_lt(captured_row, WEFT_LENGTH(rows));
    begin_ng(tally.file);
    play_row(&rows[captured_row], &tally);
    ck_assert_int_eq(fclose(tally.file), 0);
}
END_TEST

static uint64_t drawn_seed;

/* Draws a probability, in one of three cases 0, so that each fault also occurs without
 * the others. */
static uint32_t draw_share(struct weft_rng *rng, uint32_t most_ppb)
{
    return weft_rng_below(rng, 3) == 0 ? 0 : (uint32_t)weft_rng_below(rng, most_ppb);
}

static const struct sim_profile *draw_all(struct draw *draw)
{
    struct weft_rng rng;
    weft_rng_init(&rng, drawn_seed, "wire");
    const struct sim_profile *profile =
        sim_profile((enum weft_profile)weft_rng_below(&rng, WEFT_N_PROFILES));
    /* otherwise a VLAN's address gets no slot */
    bool has_room = profile->gid_tbl_len > 2;
    uint64_t layer = weft_rng_below(&rng, profile->has_roce_v1 ? 4 : has_room ? 3 : 2);
    uint64_t deepest = 5; /* 16 */
    while (deepest > 1 && (1u << (deepest - 1) > profile->max_qp_rd_atom ||
                           1u << (deepest - 1) > profile->max_qp_init_rd_atom)) {
        deepest--;
    }
    memset(draw, 0, sizeof(*draw));
    draw->row = (struct row){
        .name = "drawn",
        .profile = weft_profile_name(profile->id),
        .path_mtu = (enum ibv_mtu)(IBV_MTU_256 + weft_rng_below(&rng, 5)),
        .is_ipv6 = layer == 1,
        .vlan_id = (uint16_t)(layer == 2 ? 1 + weft_rng_below(&rng, 4094) : 0),
        .is_roce_v1 = layer == 3,
    };
    draw->bad = (struct sim_impairment){
        .loss_ppb = draw_share(&rng, 60000000),
        .corrupt_ppb = draw_share(&rng, 20000000),
        .duplicate_ppb = draw_share(&rng, 60000000),
        .reorder_ppb = draw_share(&rng, 40000000),
        .ecn_ppb = draw_share(&rng, 50000000),
    };
    draw->timeout = (uint8_t)(7 + weft_rng_below(&rng, 4));
    draw->min_rnr_timer = (uint8_t)(1 + weft_rng_below(&rng, 6));
    draw->rd_atomic = (uint8_t)(1u << weft_rng_below(&rng, deepest));
    for (unsigned end = 0; end < 2; end++) {
        bool wraps = weft_rng_below(&rng, 2) == 0;
        draw->sq_psn[end] = wraps ? 0xffffff - (uint32_t)weft_rng_below(&rng, 400)
                                  : 1 + (uint32_t)weft_rng_below(&rng, 0xfffffe);
    }
    draw->flap_ppb = draw_share(&rng, 4000000);
    return profile;
}

/* In half of the runs the last operation of end 0 crosses the end of a memory region
 * whose length is no multiple of 8: an atomic, WRITE or READ that begins in its last 1 to
 * 7 bytes. Prints the region. */
static void cross_an_edge(struct run *run)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                                 IBV_WR_ATOMIC_FETCH_AND_ADD};
    struct rc_pair *pair = &run->pair;
    struct rc_end *peer = &pair->ends[1];
    bool has_atomics = pair->profile.atomic_cap != IBV_ATOMIC_NONE;
    size_t left = 1 + weft_rng_below(&run->rng, 7);
    struct sim_request mr = {.verb = SIM_VERB_REG_MR};
    mr.arg.reg_mr.pd = peer->pd;
    mr.arg.reg_mr.addr = peer->memory + 60 * SLOT;
    mr.arg.reg_mr.length = 64 + left;
    mr.arg.reg_mr.access = pair->options.mr_access;
    if (weft_rng_below(&run->rng, 2) == 0) {
        return;
    }
    ck_assert_int_eq(rc_verb(pair, 1, &mr), 0);
    printf("--region b:p0,%u,%" PRIuPTR ",%zu ", mr.out.mr->rkey,
           (uintptr_t)(peer->memory + 60 * SLOT), 64 + left);
    enum ibv_wr_opcode opcode = opcodes[weft_rng_below(&run->rng, has_atomics ? 3 : 2)];
    struct ibv_mr *whole = peer->mr;
    peer->mr = mr.out.mr;
    ck_assert_int_eq(
        rc_post(pair, 0, opcode, run->n_posted[0], 16 * SLOT, 8, 60 * SLOT + 64), 0);
    peer->mr = whole;
    rc_run(pair, 10 * RC_PS_PER_MS);
}

START_TEST(a_drawn_run_is_written)
{
    struct draw draw;
    struct run run;
    const struct sim_profile *profile = draw_all(&draw);
    struct tally tally = {.draw = &draw, .is_ng = true, .n_ops = N_CAPTURED_OPS};
    char name[512];
    tally.file = fopen(capture_path, "wb");
    ck_assert_ptr_nonnull(tally.file);
    begin_ng(tally.file);
    start(&run, &draw.row, &tally);
    weft_rng_init(&run.rng, drawn_seed, "operations");
    play(&run);
    if (run.down_until != 0) {
        sim_port_set_down(run.pair.ends[0].port, true, true, false);
    }
    cross_an_edge(&run);
    ck_assert_int_eq(fclose(tally.file), 0);
    (void)snprintf(name, sizeof(name), "%s.events", capture_path);
    FILE *events = fopen(name, "wb");
    ck_assert_ptr_nonnull(events);
    ck_assert_uint_eq(fwrite(run.pair.story.bytes, 1, run.pair.story.n, events),
                      run.pair.story.n);
    ck_assert_int_eq(fclose(events), 0);
    printf("--answer-us 100 --timeout %u --window %u --ack-req %u --rd-atomic %u%s\n",
           draw.timeout, profile->window_packets, profile->ack_req_packets,
           draw.rd_atomic, profile->dialect == SIM_DIALECT_RXE ? " --rdma-rxe" : "");
    rc_pair_fini(&run.pair);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("wire_random");
    TCase *random = tcase_create("random");
    tcase_set_timeout(random, 120);
    if (argc > 1) {
        capture_path = argv[1];
    }
    if (argc == 4) {
        drawn_seed = strtoull(argv[3], NULL, 10);
        tcase_add_test(random, a_drawn_run_is_written);
    } else if (argc == 3) {
        captured_row = (unsigned)strtoul(argv[2], NULL, 10);
        tcase_add_test(random, what_passed_both_ports_is_written);
    } else if (argc == 2) {
        tcase_add_test(random, what_was_sent_is_written);
    } else {
        tcase_add_loop_test(random, every_frame_of_a_random_run_is_right, 0,
                            (int)WEFT_LENGTH(rows));
    }
    suite_add_tcase(suite, random);
    return suite_run(suite);
}
