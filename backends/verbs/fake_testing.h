/* A libibverbs scripted by a test: facts of devices, failures and stalls of verbs. Counts
 * objects, so that a test can detect leaks. */
#ifndef WEFT_BACKENDS_VERBS_FAKE_TESTING_H
#define WEFT_BACKENDS_VERBS_FAKE_TESTING_H

#include "backends/verbs/library.h"

#define FAKE_DEVICES_MAX 4
#define FAKE_GIDS 8
#define FAKE_FIRST_WR 77u /* wr_id of a CQ's first completion; later ones count up */

struct fake_device {
    const char *name;
    uint64_t guid; /* in host order */
    uint32_t vendor_id;
    uint32_t hw_ver;
    uint32_t max_msg_bytes;
    uint32_t max_inline_bytes; /* more is rejected, unless lowers_inline */
    bool lowers_inline;
    uint8_t n_ports;                      /* 0 means 1; only port 1 has GIDs */
    bool cannot_open;                     /* fails with EPERM */
    struct ibv_gid_entry gids[FAKE_GIDS]; /* zero if empty */
};

struct fake {
    struct verbs_library library;
    struct fake_device devices[FAKE_DEVICES_MAX];
    int n_devices;   /* -1: the list fails with ENOSYS */
    bool has_dmabuf; /* reg_dmabuf_mr fails with EBADF, otherwise with EOPNOTSUPP */
    int create_qp_errno;
    int modify_qp_result; /* returned unchanged; -1 with errno EINVAL */
    unsigned n_to_error;  /* modify_qp calls to ERR so far */
    bool takes_receives;  /* post_recv succeeds; the kernel is not notified */
    int destroy_cq_result;
    unsigned n_arms; /* req_notify_cq calls so far */
    int arming_result;
    int completes_before_arming; /* completions that arrive just before arming */
    bool poll_cq_fails;
    int reg_mr_access; /* of the last reg_mr or reg_mr_iova2 */
    bool used_iova2;
    int n_live; /* unused; see fake_n_live() */
};

extern struct fake fake;

/* Resets to an empty fake with all functions and no devices. */
void fake_reset(void);
/* Returns the number of existing PDs, MRs, CQs, QPs, channels and contexts. */
int fake_n_live(void);
/* Makes modify_qp and create_qp block until fake_go_on(). */
void fake_stall(void);
void fake_go_on(void);
/* Adds a completion; raises an event if `cq` is armed. */
void fake_complete(struct ibv_cq *cq);
void fake_async(struct ibv_context *context, enum ibv_event_type type, void *element);
/* Writes `text` to root/path and creates its directories, for a fake sysfs. */
void fake_put_file(const char *root, const char *path, const char *text);

#endif
