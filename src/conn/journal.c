#include "conn/journal.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/wire.h"
#include "conn/private.h"

/* Size of a completion in the digest: status, opcode, has_imm, imm, n_bytes. */
#define ITEM_BYTES 11

void conn_journal_fini(struct conn_journal *journal)
{
    free(journal->entries);
    *journal = (struct conn_journal){NULL, 0};
}

/* ---- recording ---- */

static struct conn_sequence *sequence_of(struct conn *conn, uint32_t qp, bool is_send)
{
    struct conn_private *private = conn->private;

    if (private->sequences == NULL) {
        private->sequences =
            weft_calloc(2 * (size_t)conn->n_qps, sizeof(*private->sequences));
        for (uint32_t i = 0; i < 2 * conn->n_qps; i++) {
            crypto_hash_sha256_init(&private->sequences[i].hash);
        }
    }
    return &private->sequences[(is_send ? 0 : conn->n_qps) + qp];
}

/* Returns the index of the QP of `rail` with this number, or n_qps if there is none. */
static uint32_t qp_of(const struct conn *conn, uint32_t rail, uint32_t qpn)
{
    for (uint32_t q = rail; q < conn->n_qps; q += conn->n_rails) {
        if (conn->qps[q].qp != NULL && conn->qps[q].qp->qp_num == qpn) {
            return q;
        }
    }
    return conn->n_qps;
}

static uint32_t immediate_of(const struct ibv_wc *wc)
{
    struct wire_reader reader = wire_reader_init(&wc->imm_data, sizeof(wc->imm_data));

    return wire_get_u32(&reader);
}

static struct conn_completion completion_of(const struct ibv_wc *wc, bool is_send)
{
    struct conn_completion out = {.status = (uint8_t)wc->status};

    if (wc->status == IBV_WC_SUCCESS) {
        out.opcode = (uint8_t)wc->opcode;
        out.has_imm = !is_send && (wc->wc_flags & IBV_WC_WITH_IMM) != 0;
        out.imm = out.has_imm ? immediate_of(wc) : 0;
        out.n_bytes = is_send ? 0 : wc->byte_len;
    }
    return out;
}

void conn_journal_note(struct conn *conn, uint32_t rail, const struct ibv_wc *wc)
{
    /* A failed completion has no valid opcode, so wr_id decides. */
    bool is_send = wc->wr_id != CONN_WR_RECV;
    struct conn_sequence *sequence;
    struct conn_completion completion;
    uint8_t item[ITEM_BYTES];
    struct wire_writer writer = wire_writer_init(item, sizeof(item));
    uint32_t qp;

    if (conn->config.journal == NULL ||
        (wc->status == IBV_WC_SUCCESS && conn->is_by_the_clock != NULL &&
         conn->is_by_the_clock(wc))) {
        return;
    }
    if (wc->status == IBV_WC_WR_FLUSH_ERR && conn->peer_closed) {
        return; /* an orderly close is no failure, and which end flushes depends on timing */
    }
    qp = qp_of(conn, rail, wc->qp_num);
    sequence = qp < conn->n_qps ? sequence_of(conn, qp, is_send) : NULL;
    if (sequence == NULL || sequence->is_over) {
        return;
    }
    completion = completion_of(wc, is_send);
    sequence->is_over = completion.status != IBV_WC_SUCCESS;
    if (sequence->n < CONN_JOURNAL_FIRST) {
        sequence->first[sequence->n] = completion;
    }
    sequence->n++;
    wire_put_u8(&writer, completion.status);
    wire_put_u8(&writer, completion.opcode);
    wire_put_u8(&writer, completion.has_imm);
    wire_put_u32(&writer, completion.imm);
    wire_put_u32(&writer, completion.n_bytes);
    crypto_hash_sha256_update(&sequence->hash, item, sizeof(item));
}

/* ---- moving to the journal ---- */

static uint32_t epoch_of(const struct conn_journal *journal, size_t n_before,
                         const struct conn *conn)
{
    uint32_t epoch = 0;

    for (size_t i = 0; i < n_before; i++) {
        const struct conn_journal_entry *entry = &journal->entries[i];

        if (entry->is_connector == conn->is_connector &&
            strcmp(entry->peer, conn->peer.host) == 0) {
            epoch = entry->epoch + 1;
        }
    }
    return epoch;
}

static void leave(struct conn *conn, uint32_t qp, bool is_send, uint32_t epoch)
{
    struct conn_journal *journal = conn->config.journal;
    struct conn_sequence *sequence = sequence_of(conn, qp, is_send);
    struct conn_journal_entry *entry;
    unsigned char digest[crypto_hash_sha256_BYTES];

    if (sequence->n == 0) {
        return;
    }
    journal->entries =
        weft_realloc(journal->entries, (journal->n + 1) * sizeof(*journal->entries));
    entry = &journal->entries[journal->n++];
    *entry = (struct conn_journal_entry){.is_connector = conn->is_connector,
                                         .epoch = epoch,
                                         .rail = qp % conn->n_rails,
                                         .qp = qp,
                                         .is_send = is_send,
                                         .n = sequence->n};
    weft_format(entry->peer, sizeof(entry->peer), "%s", conn->peer.host);
    memcpy(entry->first, sequence->first, sizeof(entry->first));
    crypto_hash_sha256_final(&sequence->hash, digest);
    sodium_bin2hex(entry->digest, sizeof(entry->digest), digest,
                   (sizeof(entry->digest) - 1) / 2);
}

void conn_journal_leave(struct conn *conn)
{
    struct conn_private *private = conn->private;
    uint32_t epoch;

    if (private->sequences == NULL) {
        return;
    }
    epoch = epoch_of(conn->config.journal, conn->config.journal->n, conn);
    for (uint32_t qp = 0; qp < conn->n_qps; qp++) {
        leave(conn, qp, true, epoch);
        leave(conn, qp, false, epoch);
    }
    free(private->sequences);
    private->sequences = NULL;
}

/* ---- formatting ---- */

const char *conn_completion_format(const struct conn_completion *completion, char *out,
                                   size_t n_bytes)
{
    if (completion->status != IBV_WC_SUCCESS) {
        weft_format(out, n_bytes, "%s", io_wc_status_name(completion->status));
    } else if (completion->has_imm) {
        weft_format(out, n_bytes, "%s:%u:0x%08x", io_wc_opcode_name(completion->opcode),
                    completion->n_bytes, completion->imm);
    } else if ((completion->opcode & IBV_WC_RECV) != 0) {
        weft_format(out, n_bytes, "%s:%u", io_wc_opcode_name(completion->opcode),
                    completion->n_bytes);
    } else {
        weft_format(out, n_bytes, "%s", io_wc_opcode_name(completion->opcode));
    }
    return out;
}
