/* What queue pairs completed: for each queue of each connection the sequence of its work
 * completions, in the order polled, as a number, a digest and the first few. No times, and
 * nothing that depends on them: what a queue's own order fixes is the same on every fabric.
 *
 * Left out is what comes as often as time will have it: conn->is_by_the_clock.
 *
 * A queue's sequence ends with its first failure, for how many flushes follow is chance. Of
 * completions that are not receives the length is left out: verbs do not define it. */
#ifndef WEFT_CONN_JOURNAL_H
#define WEFT_CONN_JOURNAL_H

#include "conn/conn.h"

#define CONN_JOURNAL_FIRST 8
#define CONN_JOURNAL_DIGEST_BYTES 17 /* 16 hex digits and a NUL */

struct conn_completion {
    uint8_t status; /* enum ibv_wc_status */
    uint8_t opcode; /* enum ibv_wc_opcode; of a failure 0 */
    bool has_imm;
    uint32_t imm;     /* as the sender wrote it (xfer/wire.h); 0 without one */
    uint32_t n_bytes; /* of receives */
};

/* One queue of one connection that is over. */
struct conn_journal_entry {
    char peer[64]; /* host, as it called itself */
    bool is_connector;
    uint32_t epoch; /* how many earlier connections with this peer had this role */
    uint32_t rail, qp;
    bool is_send;
    uint64_t n;
    char digest[CONN_JOURNAL_DIGEST_BYTES]; /* of SHA-256 over all n */
    struct conn_completion first[CONN_JOURNAL_FIRST];
};

/* Where connections leave what they completed, when they are destroyed: as they ended, and
 * within one by queue pair, the send queue first. Queues without completions leave nothing. */
struct conn_journal {
    struct conn_journal_entry *entries; /* Owned [n] */
    size_t n;
};
void conn_journal_fini(struct conn_journal *journal);

/* A completion was polled from the CQ of `rail`. Nothing without a journal in the
 * connection's configuration. */
void conn_journal_note(struct conn *conn, uint32_t rail, const struct ibv_wc *wc);
/* "RDMA_WRITE", "RECV_RDMA_WITH_IMM:64:0x20000000" (bytes, immediate), "RETRY_EXC_ERR".
 * Returns `out`. */
const char *conn_completion_format(const struct conn_completion *completion, char *out,
                                   size_t n_bytes);

#endif
