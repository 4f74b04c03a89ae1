/* Tests the purpose of a connection, the answer of the acceptor's owner, conn_refuse() and excluded
 * ports. */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "conn/conn_testing.h"

static struct bed bed;

static void open_bed(uint32_t n_cables)
{
    bed_open(&bed, &(struct bed_config){.n_cables = n_cables, .seed = 7});
    bed_listen(&bed, 1);
}

static void fill(uint8_t bytes[CONN_PURPOSE_BYTES], uint8_t first)
{
    for (size_t i = 0; i < CONN_PURPOSE_BYTES; i++) {
        bytes[i] = (uint8_t)(first + i);
    }
}

static bool is_accepted(const struct bed *the_bed)
{
    return the_bed->hosts[1].n_conns > 0;
}

START_TEST(the_acceptor_reads_the_purpose)
{
    uint8_t purpose[CONN_PURPOSE_BYTES], none[CONN_PURPOSE_BYTES] = {0};

    open_bed(1);
    fill(purpose, 3);
    memcpy(bed.conn.purpose, purpose, sizeof(purpose));
    bed_connect(&bed, 0, 1);
    ck_assert(bed_run(&bed, BED_S, is_accepted));
    ck_assert_mem_eq(bed_conn(&bed, 1)->peer.purpose, purpose, sizeof(purpose));
    ck_assert(!bed_conn(&bed, 1)->peer.wants_answer);
    ck_assert(bed_run(&bed, BED_S, bed_all_up));
    ck_assert_mem_eq(bed_conn(&bed, 0)->peer.purpose, none, sizeof(none));
    ck_assert_mem_eq(bed_conn(&bed, 0)->answer, none, sizeof(none));
    bed_close(&bed);
}
END_TEST

START_TEST(a_wanted_answer_is_waited_for)
{
    uint8_t answer[CONN_PURPOSE_BYTES];

    open_bed(1);
    fill(answer, 100);
    bed.conn.wants_answer = true;
    bed_connect(&bed, 0, 1);
    ck_assert(!bed_run(&bed, BED_S, bed_all_up));
    ck_assert(bed_conn(&bed, 1)->peer.wants_answer);
    ck_assert_int_eq(bed_conn(&bed, 0)->state, CONN_META);
    ck_assert_int_eq(bed_conn(&bed, 1)->state, CONN_META);
    conn_answer(bed_conn(&bed, 1), answer);
    ck_assert(bed_run(&bed, BED_S, bed_all_up));
    ck_assert_mem_eq(bed_conn(&bed, 0)->answer, answer, sizeof(answer));
    bed_close(&bed);
}
END_TEST

/* The connector times out after total_ns. The acceptor fails when it receives the ABORT. */
START_TEST(an_answer_that_never_comes_ends_both)
{
    open_bed(1);
    bed.conn.wants_answer = true;
    bed.conn.total_ns = 3 * BED_S;
    bed_connect(&bed, 0, 1);
    ck_assert(bed_run(&bed, 4 * BED_S, bed_all_settled));
    ck_assert_int_eq(bed_conn(&bed, 0)->error.status, WEFT_ERR_TIMEOUT);
    ck_assert_int_eq(bed_conn(&bed, 1)->state, CONN_FAILED);
    bed_close(&bed);
}
END_TEST

/* Either end refuses the connection, during set-up (_i < 2) or when it is UP. The other end
 * receives status and phase. */
START_TEST(either_end_refuses)
{
    uint32_t end = (uint32_t)_i % 2;
    bool when_up = _i / 2 == 1;
    struct weft_error why = {0};
    const struct conn *other;

    open_bed(1);
    bed.conn.wants_answer = !when_up;
    bed_connect(&bed, 0, 1);
    ck_assert_int_eq(bed_run(&bed, BED_S, bed_all_up), when_up);
    weft_fail(&why, WEFT_ERR_LIMIT, WEFT_PHASE_RELAY, "no more");
    weft_error_set_phase(&why, "relay.memory.1");
    conn_refuse(bed_conn(&bed, end), &why);
    conn_refuse(bed_conn(&bed, end), &why); /* has no effect in FAILED */
    ck_assert_int_eq(bed_conn(&bed, end)->state, CONN_FAILED);
    bed_run(&bed, 100 * BED_MS, NULL);
    other = bed_conn(&bed, 1 - end);
    ck_assert_int_eq(other->state, CONN_FAILED);
    ck_assert_int_eq(other->error.status, WEFT_ERR_CLOSED);
    ck_assert_str_eq(weft_error_value(&other->error, WEFT_VALUE_PEER_PHASE)->text,
                     "relay.memory.1");
    ck_assert_str_eq(weft_error_value(&other->error, WEFT_VALUE_PEER_STATUS)->text,
                     weft_status_name(WEFT_ERR_LIMIT));
    bed_close(&bed);
}
END_TEST

START_TEST(excluded_ports_stay_out)
{
    uint32_t out = (uint32_t)_i;

    open_bed(2);
    bed.conn.n_excluded = 1;
    bed.conn.excluded[0].device = bed.hosts[0].rdma->ports[out].device_index;
    bed.conn.excluded[0].port = bed.hosts[0].rdma->ports[out].port;
    bed_connect(&bed, 0, 1);
    ck_assert(bed_run(&bed, BED_S, bed_all_up));
    ck_assert_uint_eq(bed_conn(&bed, 0)->n_rails, 1);
    ck_assert_ptr_eq(bed_conn(&bed, 0)->rails[0].port,
                     &bed.hosts[0].rdma->ports[1 - out]);
    ck_assert(!bed_conn(&bed, 1)->peer.ports[out].is_active);
    ck_assert(bed_conn(&bed, 1)->peer.ports[1 - out].is_active);
    bed_close(&bed);
}
END_TEST

START_TEST(nothing_but_excluded_ports_is_no_route)
{
    open_bed(1);
    bed.conn.n_excluded = 1;
    bed.conn.excluded[0].device = bed.hosts[0].rdma->ports[0].device_index;
    bed.conn.excluded[0].port = 1;
    bed_connect(&bed, 0, 1);
    ck_assert(bed_run(&bed, BED_S, bed_all_settled));
    ck_assert_int_eq(bed_conn(&bed, 0)->error.status, WEFT_ERR_ROUTE);
    bed_close(&bed);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("conn/purpose");

    tcase_add_test(tcase, the_acceptor_reads_the_purpose);
    tcase_add_test(tcase, a_wanted_answer_is_waited_for);
    tcase_add_test(tcase, an_answer_that_never_comes_ends_both);
    tcase_add_loop_test(tcase, either_end_refuses, 0, 4);
    tcase_add_loop_test(tcase, excluded_ports_stay_out, 0, 2);
    tcase_add_test(tcase, nothing_but_excluded_ports_is_no_route);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
