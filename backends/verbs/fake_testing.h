/* A libibverbs that a test scripts: what its devices say, which verb fails how, which stalls.
 * Objects are counted, so that a test sees what was left. */
#ifndef WEFT_BACKENDS_VERBS_FAKE_TESTING_H
#define WEFT_BACKENDS_VERBS_FAKE_TESTING_H

#include "backends/verbs/library.h"

#define FAKE_DEVICES_MAX 4
#define FAKE_GIDS 8
#define FAKE_FIRST_WR 77u /* wr_id of a CQ's first completion; they rise */

struct fake_device {
    const char *name;
    uint64_t guid; /* host order */
    uint32_t vendor_id;
    uint32_t hw_ver;
    uint32_t max_msg_bytes;
    uint32_t max_inline_bytes; /* more is refused, unless lowers_inline */
    bool lowers_inline;
    bool cannot_open;                     /* EPERM */
    struct ibv_gid_entry gids[FAKE_GIDS]; /* zero: empty */
};

struct fake {
    struct verbs_library library;
    struct fake_device devices[FAKE_DEVICES_MAX];
    int n_devices;   /* -1: the list cannot be had, ENOSYS */
    bool has_dmabuf; /* reg_dmabuf_mr says EBADF, else EOPNOTSUPP */
    int create_qp_errno;
    int modify_qp_result; /* returned as it is; -1 with errno EINVAL */
    unsigned n_to_error;  /* modify_qp to ERR so far; one at a time */
    bool takes_receives;  /* post_recv succeeds, and the kernel hears nothing of it */
    int destroy_cq_result;
    unsigned n_arms; /* of CQs, so far */
    int arming_result;
    int completes_before_arming; /* so many completions come a moment before it */
    bool poll_cq_fails;
    int reg_mr_access; /* of the last reg_mr; with optional flags: of reg_mr_iova2 */
    bool used_iova2;
    int n_live; /* PDs, MRs, CQs, QPs, channels, contexts */
};

extern struct fake fake;

/* An empty fake with all functions, and no device. */
void fake_reset(void);
/* PDs, MRs, CQs, QPs, channels and contexts that live. */
int fake_n_live(void);
/* From now on modify_qp and create_qp wait, until fake_go_on. */
void fake_stall(void);
void fake_go_on(void);
/* A completion arrives: an event if `cq` is armed. */
void fake_complete(struct ibv_cq *cq);
void fake_async(struct ibv_context *context, enum ibv_event_type type, void *element);
/* Writes `text` to root/path, making folders; for a sysfs of one's own. */
void fake_put_file(const char *root, const char *path, const char *text);

#endif
