/* Packets from any number of sources arrive at one port, which must keep almost nothing
 * of them. */
#include "sim/port_bytes.h"

#include <check.h>
#include <string.h>

#include "base/suite_testing.h"
#include "sim/link.h"
#include "sim/nic_objects.h"
#include "sim/wire_testing.h"

enum { N_FORGED = 20000, PSN = WIRE_RQ_PSN };

static struct wire wire;

/* Profile rxe checks the path of every packet; mlx5 keeps the path that matched. */
static void start(const char *profile)
{
    wire_init(&wire, &(struct rc_options){.profile = profile});
}

static void tear_down(void)
{
    wire_fini(&wire);
}

static struct sim_qp *qp_of_wire(void)
{
    return sim_qp_of(wire.pair.ends[0].qp);
}

/* Returns the path that the QP remembers once it has accepted a packet. */
static const struct sim_path *remembered(void)
{
    const struct sim_qp *qp = qp_of_wire();
    return qp->nic->profile->gid_checked_per_packet ? NULL : &qp->heard;
}

static size_t count_paths(void)
{
    size_t n = 0;
    for (const struct sim_path *at = wire.pair.ends[0].port->paths; at != NULL;
         at = at->next) {
        n++;
    }
    return n;
}

/* Puts one packet into the port without waiting for its effects. */
static enum sim_packet_reject put(const struct sim_roce *packet, bool is_corrupt)
{
    uint8_t bytes[SIM_PACKET_BYTES_MAX];
    size_t n = sim_roce_encode(packet, bytes, sizeof(bytes));
    bytes[n - 1] ^= is_corrupt ? 1 : 0;
    return sim_port_put_bytes(wire.pair.ends[0].port, bytes, n);
}

/* Writes 8 bytes with PSN `psn`, which must be acknowledged. */
static void write_one(uint32_t psn)
{
    wire_write(&wire, psn, 0, 8, (uint8_t)psn);
    (void)wire_expect_ack(&wire, 0x1f, psn);
    ck_assert_ptr_eq(qp_of_wire()->verified, remembered());
}

/* Sends N_FORGED packets from as many sources, none of which is the peer. */
static void flood(bool is_corrupt)
{
    struct sim_roce packet = wire_packet(&wire, RC_WRITE_ONLY, PSN + 1);
    size_t n_before = count_paths();
    for (uint32_t i = 1; i <= N_FORGED; i++) {
        memcpy(&packet.source_gid.raw[12], &i, sizeof(i));
        enum sim_packet_reject found = put(&packet, is_corrupt);
        if (found != (is_corrupt ? SIM_PACKET_ICRC : SIM_PACKET_OK) ||
            qp_of_wire()->verified != remembered()) {
            ck_abort_msg("packet %u", i);
        }
    }
    ck_assert_uint_eq(count_paths(), n_before);
}

START_TEST(forged_sources_leave_nothing_behind)
{
    bool is_corrupt = (_i & 1) != 0;
    start((_i & 2) != 0 ? "mlx5" : "rxe");
    const struct sim_nic_counters *counters = &wire.pair.ends[0].nic->counters;
    write_one(PSN);
    flood(is_corrupt);
    ck_assert_uint_eq(counters->icrc_errors, is_corrupt ? N_FORGED : 0);
    ck_assert_uint_eq(counters->dropped_unknown_qp, is_corrupt ? 0 : N_FORGED);
    write_one(PSN + 1);
}
END_TEST

/* The peer's own addresses with every traffic class and TTL: the QP accepts each. */
START_TEST(a_qp_keeps_one_path)
{
    start("mlx5");
    struct sim_roce packet = wire_packet(&wire, RC_WRITE_ONLY, PSN + 100);
    size_t n_before = count_paths();
    write_one(PSN);
    for (unsigned i = 0; i < 256 * 64; i++) {
        packet.traffic_class = (uint8_t)((i & 63) << 2);
        packet.hop_limit = (uint8_t)(i >> 6 | 1);
        ck_assert_int_eq(put(&packet, false), SIM_PACKET_OK);
        if (qp_of_wire()->heard.traffic_class != packet.traffic_class ||
            qp_of_wire()->heard.hop_limit != packet.hop_limit) {
            ck_abort_msg("packet %u", i);
        }
    }
    ck_assert_uint_eq(count_paths(), n_before);
    wire_run(&wire, RC_PS_PER_MS);
    while (wire_next(&wire) != NULL) {
        ; /* the NAK of the gap in PSNs */
    }
    write_one(PSN + 1);
}
END_TEST

/* A corrupt packet with the peer's addresses does not set the path. */
START_TEST(a_corrupt_packet_is_no_path)
{
    start("mlx5");
    struct sim_roce packet = wire_packet(&wire, RC_WRITE_ONLY, PSN);
    ck_assert_int_eq(put(&packet, true), SIM_PACKET_ICRC);
    ck_assert_ptr_null(qp_of_wire()->verified);
    write_one(PSN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("port_bytes");
    TCase *floods = tcase_create("floods");
    tcase_add_checked_fixture(floods, NULL, tear_down);
    tcase_add_loop_test(floods, forged_sources_leave_nothing_behind, 0, 4);
    tcase_add_test(floods, a_qp_keeps_one_path);
    tcase_add_test(floods, a_corrupt_packet_is_no_path);
    suite_add_tcase(suite, floods);
    return suite_run(suite);
}
