/* Tests the journal of completions that a connection leaves when it is destroyed. */
#include "conn/journal.h"

#include <check.h>
#include <sodium.h>
#include <string.h>

#include "base/suite_testing.h"
#include "conn/conn_testing.h"

/* The completions of a probe: a small WRITE and READ, then a full-size WRITE and READ. An item has
 * 11 bytes: status 0, opcode 1 (IBV_WC_RDMA_WRITE) or 2 (IBV_WC_RDMA_READ), and zeros. */
static const unsigned char probe_items[4][11] = {{0, 1}, {0, 2}, {0, 1}, {0, 2}};

static void digest_of(const void *items, size_t n_bytes, char out[17])
{
    unsigned char digest[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(digest, items, n_bytes);
    sodium_bin2hex(out, 17, digest, 8);
}

static void open_pair(struct bed *bed, struct conn_journal journals[2])
{
    bed_open(bed, &(struct bed_config){.seed = 1});
    bed->conn.journal = &journals[1];
    bed_listen(bed, 1);
    bed->conn.journal = &journals[0];
    bed_connect(bed, 0, 1);
    ck_assert(bed_run(bed, 40 * BED_S, bed_all_up));
}

START_TEST(a_connection_leaves_its_probes_when_it_goes)
{
    struct conn_journal journals[2] = {{NULL, 0}, {NULL, 0}};
    struct bed bed;
    char digest[17];
    char text[64];

    digest_of(probe_items, sizeof(probe_items), digest);
    open_pair(&bed, journals);
    ck_assert_uint_eq(journals[0].n, 0); /* the connection still exists */
    conn_close(bed_conn(&bed, 0));
    conn_close(bed_conn(&bed, 1));
    ck_assert(bed_run(&bed, 40 * BED_S, bed_all_settled));
    bed_close(&bed);
    for (int end = 0; end < 2; end++) {
        ck_assert_uint_eq(journals[end].n, 2); /* two send queues; no receive completed */
        for (uint32_t q = 0; q < 2; q++) {
            const struct conn_journal_entry *entry = &journals[end].entries[q];

            ck_assert_str_eq(entry->peer, end == 0 ? "iceberg" : "titanic");
            ck_assert(entry->is_connector == (end == 0));
            ck_assert(entry->is_send);
            ck_assert_uint_eq(entry->epoch, 0);
            ck_assert_uint_eq(entry->rail, 0);
            ck_assert_uint_eq(entry->qp, q);
            ck_assert_uint_eq(entry->n, 4);
            ck_assert_str_eq(entry->digest, digest);
            ck_assert_str_eq(conn_completion_format(&entry->first[0], text, sizeof(text)),
                             "RDMA_WRITE");
            ck_assert_str_eq(conn_completion_format(&entry->first[3], text, sizeof(text)),
                             "RDMA_READ");
        }
        conn_journal_fini(&journals[end]);
    }
}
END_TEST

/* Notes two receives, a failed send and a flush. The journal omits completions after a failure,
 * because NICs differ in their number. It also omits lengths of sends, and completions of unknown
 * QPs. */
START_TEST(what_is_chance_is_left_out)
{
    static const unsigned char receives[2][11] = {
        {0, 129, 1, 0x12, 0x34, 0x56, 0x78, 0, 1, 0, 0},
        {0, 128, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
    static const unsigned char sends[5][11] = {{0, 1}, {0, 2}, {0, 1}, {0, 2}, {12}};
    static const uint8_t imm[4] = {0x12, 0x34, 0x56, 0x78};
    struct conn_journal journals[2] = {{NULL, 0}, {NULL, 0}};
    const struct conn_journal_entry *entry;
    struct bed bed;
    struct conn *conn;
    struct ibv_wc wc;
    char digest[17];
    char text[64];

    open_pair(&bed, journals);
    conn = bed_conn(&bed, 0);
    wc = (struct ibv_wc){.wr_id = CONN_WR_RECV,
                         .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                         .wc_flags = IBV_WC_WITH_IMM,
                         .byte_len = 65536,
                         .qp_num = conn->qps[1].qp->qp_num};
    memcpy(&wc.imm_data, imm, sizeof(imm));
    conn_journal_note(conn, 0, &wc);
    wc.opcode = IBV_WC_RECV;
    wc.wc_flags = 0;
    wc.byte_len = 9;
    conn_journal_note(conn, 0, &wc);
    wc =
        (struct ibv_wc){.wr_id = 7,
                        .status = IBV_WC_RETRY_EXC_ERR,
                        .opcode = IBV_WC_RDMA_READ, /* undefined in an error completion */
                        .byte_len = 77,
                        .qp_num = conn->qps[1].qp->qp_num};
    conn_journal_note(conn, 0, &wc);
    wc.status = IBV_WC_WR_FLUSH_ERR;
    conn_journal_note(conn, 0, &wc);
    wc = (struct ibv_wc){.qp_num = 0xabcdef};
    conn_journal_note(conn, 0, &wc);
    bed_close(&bed);

    ck_assert_uint_eq(journals[0].n, 3);
    ck_assert_uint_eq(journals[0].entries[0].n, 4); /* QP 0: its probe only */
    entry = &journals[0].entries[1];
    digest_of(sends, sizeof(sends), digest);
    ck_assert(entry->is_send);
    ck_assert_uint_eq(entry->n, 5);
    ck_assert_str_eq(entry->digest, digest);
    ck_assert_str_eq(conn_completion_format(&entry->first[4], text, sizeof(text)),
                     "RETRY_EXC_ERR");
    entry = &journals[0].entries[2];
    digest_of(receives, sizeof(receives), digest);
    ck_assert(!entry->is_send);
    ck_assert_uint_eq(entry->qp, 1);
    ck_assert_uint_eq(entry->n, 2);
    ck_assert_str_eq(entry->digest, digest);
    ck_assert_str_eq(conn_completion_format(&entry->first[0], text, sizeof(text)),
                     "RECV_RDMA_WITH_IMM:65536:0x12345678");
    ck_assert_str_eq(conn_completion_format(&entry->first[1], text, sizeof(text)),
                     "RECV:9");
    conn_journal_fini(&journals[0]);
    conn_journal_fini(&journals[1]);
}
END_TEST

static bool is_read(const struct ibv_wc *wc)
{
    return wc->opcode == IBV_WC_RDMA_READ;
}

/* The journal omits successful completions for which is_by_the_clock() returns true. It includes
 * their failures. */
START_TEST(what_comes_by_the_clock_is_left_out)
{
    static const unsigned char sends[6][11] = {{0, 1}, {0, 2}, {0, 1},
                                               {0, 2}, {0, 1}, {5}};
    struct conn_journal journals[2] = {{NULL, 0}, {NULL, 0}};
    const struct conn_journal_entry *entry;
    struct bed bed;
    struct conn *conn;
    struct ibv_wc wc;
    char digest[17];

    open_pair(&bed, journals);
    conn = bed_conn(&bed, 0);
    conn->is_by_the_clock = is_read;
    wc = (struct ibv_wc){.qp_num = conn->qps[1].qp->qp_num, .opcode = IBV_WC_RDMA_READ};
    conn_journal_note(conn, 0, &wc);
    wc.opcode = IBV_WC_RDMA_WRITE;
    conn_journal_note(conn, 0, &wc);
    wc = (struct ibv_wc){.qp_num = conn->qps[1].qp->qp_num,
                         .status = IBV_WC_WR_FLUSH_ERR,
                         .opcode = IBV_WC_RDMA_READ};
    conn_journal_note(conn, 0, &wc);
    bed_close(&bed);

    digest_of(sends, sizeof(sends), digest);
    entry = &journals[0].entries[1];
    ck_assert_uint_eq(entry->n, 6);
    ck_assert_str_eq(entry->digest, digest);
    conn_journal_fini(&journals[0]);
    conn_journal_fini(&journals[1]);
}
END_TEST

START_TEST(connections_with_the_same_peer_are_counted)
{
    struct conn_journal journals[2] = {{NULL, 0}, {NULL, 0}};
    struct bed bed;

    open_pair(&bed, journals);
    bed_connect(&bed, 0, 1);
    ck_assert(bed_run(&bed, 40 * BED_S, bed_all_up));
    bed_close(&bed);
    for (int end = 0; end < 2; end++) {
        ck_assert_uint_eq(journals[end].n, 4);
        for (uint32_t i = 0; i < 4; i++) {
            ck_assert_uint_eq(journals[end].entries[i].epoch, i / 2);
        }
        conn_journal_fini(&journals[end]);
        ck_assert_uint_eq(journals[end].n, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("conn/journal");
    TCase *tcase = tcase_create("journal");

    tcase_add_test(tcase, a_connection_leaves_its_probes_when_it_goes);
    tcase_add_test(tcase, what_is_chance_is_left_out);
    tcase_add_test(tcase, what_comes_by_the_clock_is_left_out);
    tcase_add_test(tcase, connections_with_the_same_peer_are_counted);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
