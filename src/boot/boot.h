/* How the ranks of a job learn of each other: a rendezvous over the management
 * network, an all-gather of small blobs, and barriers. Rank 0 serves; messages are
 * authenticated with the job key (docs/wire.md). */
#ifndef WEFT_BOOT_BOOT_H
#define WEFT_BOOT_BOOT_H

#include "base/error.h"
#include "io/env.h"

#define BOOT_BLOB_MAX 65536
#define BOOT_KEY_BYTES 32

struct boot_config {
    uint32_t rank, n_ranks;
    struct io_endpoint rendezvous; /* where rank 0 listens; rank 0 binds to it */
    uint8_t job_key[BOOT_KEY_BYTES];
    weft_ns patience_ns; /* how long others may be missing: 900 s */
    weft_ns step_ns;     /* limit for one all-gather once all are there: 30 s */
};

struct boot;

/* `task_kind` tags boot's task; the owner calls boot_progress when it is woken. */
weft_status boot_open(struct io_env *env, const struct boot_config *config, int task_kind,
                      struct boot **out, struct weft_error *error) WEFT_MUST_CHECK;
struct io_task *boot_task(struct boot *boot);
/* Starts an all-gather of `n_bytes` (the same on all ranks, <= BOOT_BLOB_MAX; 0: a
 * barrier). `mine` is copied. One at a time. May be started before the rendezvous is
 * complete. */
void boot_gather(struct boot *boot, const void *mine, size_t n_bytes);
/* WEFT_OK: the gather is complete, `boot_result` holds n_ranks * n_bytes in rank
 * order; so it stays until the next is started. AGAIN: wait. An error names the rank
 * that is missing, died or failed to
 * authenticate (values "rank", "missing"). */
weft_status boot_progress(struct boot *boot, struct weft_error *error) WEFT_MUST_CHECK;
/* Valid until the next boot_gather. */
const uint8_t *boot_result(const struct boot *boot);
/* This rank gave up: tells the others, whose next progress fails with "rank" and
 * `reason`. */
void boot_abort(struct boot *boot, const char *reason);
/* NULL is ignored. */
void boot_close(struct boot *boot);

#endif
