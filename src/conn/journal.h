/* Records the work completions of each queue of each connection, in the order polled: their number,
 * a digest over all, and the first few. The record contains nothing that depends on timing, so it
 * is the same on every fabric.
 *
 * Excludes completions whose number depends on timing; conn->is_by_the_clock() identifies them.
 *
 * The record of a queue ends with its first failure, because the number of flushes that follow
 * depends on timing. It omits the length of completions that are not receives, because verbs do not
 * define it. */
#ifndef WEFT_CONN_JOURNAL_H
#define WEFT_CONN_JOURNAL_H

#include "conn/conn.h"

#define CONN_JOURNAL_FIRST 8
#define CONN_JOURNAL_DIGEST_BYTES 17 /* 16 hex digits and a NUL */

struct conn_completion {
    uint8_t status; /* enum ibv_wc_status */
    uint8_t opcode; /* enum ibv_wc_opcode; 0 if it failed */
    bool has_imm;
    uint32_t imm;     /* in host byte order (xfer/wire.h); 0 if it has none */
    uint32_t n_bytes; /* length of a receive; 0 otherwise */
};

/* The completions of one queue of a connection that was destroyed. */
struct conn_journal_entry {
    char peer[64]; /* host name that the peer reported */
    bool is_connector;
    /* Number of earlier connections with this peer and role that left entries. */
    uint32_t epoch;
    uint32_t rail, qp;
    bool is_send;
    uint64_t n;                             /* number of completions */
    char digest[CONN_JOURNAL_DIGEST_BYTES]; /* first 8 bytes of SHA-256, in hex */
    struct conn_completion first[CONN_JOURNAL_FIRST];
};

/* The entries of all destroyed connections, in the order of their destruction. Those of one
 * connection are sorted by queue pair, send queue first. A queue without completions has no
 * entry. */
struct conn_journal {
    struct conn_journal_entry *entries; /* Owned [n] */
    size_t n;
};
void conn_journal_fini(struct conn_journal *journal);

/* Records a completion polled from the CQ of `rail`. Does nothing if the configuration of the
 * connection has no journal. */
void conn_journal_note(struct conn *conn, uint32_t rail, const struct ibv_wc *wc);
/* Formats a completion as "RDMA_WRITE", "RECV_RDMA_WITH_IMM:64:0x20000000" (bytes, immediate) or
 * "RETRY_EXC_ERR". Returns `out`. */
const char *conn_completion_format(const struct conn_completion *completion, char *out,
                                   size_t n_bytes);

#endif
