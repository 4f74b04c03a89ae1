/* Bootstraps a job: its processes discover each other, gather small blobs and meet at barriers,
 * through a rendezvous on the management network or over the mesh itself (docs/boot.md). Messages
 * are authenticated with the job key (docs/wire.md). */
#ifndef WEFT_BOOT_BOOT_H
#define WEFT_BOOT_BOOT_H

#include "base/error.h"
#include "io/env.h"

#define BOOT_BLOB_MAX 65536
#define BOOT_KEY_BYTES 32

#define BOOT_ANNOUNCE_PORT 22341 /* UDP; "WE" */

enum boot_mode {
    BOOT_RENDEZVOUS, /* rank 0 serves, on a network from which all reach it */
    /* Announcements on the link of every RDMA port; records are flooded. */
    BOOT_NEIGHBOURS,
    BOOT_STATIC /* as NEIGHBOURS, but a file lists the neighbours */
};

/* A neighbour of a static mesh. */
struct boot_neighbour {
    uint32_t member;
    const struct io_endpoint *endpoints; /* endpoints of its control port, best first */
    uint32_t n_endpoints;
};

struct boot_config {
    enum boot_mode mode;
    uint32_t rank;      /* this process: a rank, or a relay (n_ranks and up) */
    uint32_t n_ranks;   /* number of processes with a rank */
    uint32_t n_members; /* n_ranks and the relays without a rank; 0 if no relays */
    uint8_t job_key[BOOT_KEY_BYTES];
    weft_ns patience_ns; /* how long to wait for missing members (900 s) */
    weft_ns step_ns;     /* limit of one all-gather once all members have joined (30 s) */
    /* Factor of the limits that are constants of boot/ (rdma/timers.h; 0 counts as 1). It does not
     * change the limits in this structure. */
    uint32_t patience;
    /* RENDEZVOUS: how long to retry while no connection from this host can reach rank 0: this host
     * has an address on some network but no route there (errno 101), or rank 0 of another host is
     * looked for at a loopback address. 0 for patience_ns. */
    weft_ns hopeless_ns;
    /* RENDEZVOUS: how long to retry while rank 0's machine, on a network of this host, does not
     * answer, or accepts connections but does not authenticate. 0 for patience_ns. */
    weft_ns ignored_ns;
    bool first_is_elsewhere; /* RENDEZVOUS: true if rank 0 is on another host */
    /* A member that does not join, leaves or is late becomes absent. The others do not fail, and
     * its blobs are zeros.
     *
     * RENDEZVOUS: without rank 0 the boot fails. Its address was that of an earlier rendezvous, so
     * if connections to it are refused, none will be held there again.
     *
     * Otherwise: the lowest member that is not absent waits for patience_ns and step_ns, the others
     * twice as long. A member that joins after it became absent fails. Members can disagree on
     * which others are absent, so a decision that must be common is that of the lowest member. */
    bool may_miss;

    struct io_endpoint rendezvous; /* RENDEZVOUS: the endpoint on which rank 0 listens */

    /* NEIGHBOURS, STATIC: endpoint on which this process listens; port 0 for any. */
    struct io_endpoint control;
    uint16_t announce_port; /* NEIGHBOURS; 0: BOOT_ANNOUNCE_PORT */
    /* STATIC: neighbours of this process [n_neighbours]. Not owned; must outlive boot. */
    const struct boot_neighbour *neighbours;
    uint32_t n_neighbours;
};

struct boot;

/* Starts the boot. `task_kind` tags its task; the owner calls boot_progress when the task is woken.
 * boot_close frees `*out`, which is NULL on failure. */
weft_status boot_open(struct io_env *env, const struct boot_config *config, int task_kind,
                      struct boot **out, struct weft_error *error) WEFT_MUST_CHECK;
struct io_task *boot_task(struct boot *boot);
/* Starts an all-gather of `n_bytes` (equal on all members, <= BOOT_BLOB_MAX; 0 for a barrier).
 * `mine` is copied. Only one can be active at a time. It can be started before all members have
 * joined. */
void boot_gather(struct boot *boot, const void *mine, size_t n_bytes);
/* Like boot_gather, but the other members may still work for `work_ns`, so the limit counts from
 * the end of that time, or from when boot_ended() reports the exit of a member. */
void boot_gather_after(struct boot *boot, const void *mine, size_t n_bytes,
                       weft_ns work_ns);
/* Like boot_gather_after, but this process can exit when it has the result. Once only relays
 * without a rank are missing, the limit counts from then, because they do no work. A member of a
 * mesh also waits for neighbours whose stream has ended, until they have the result or count as
 * dead. */
void boot_gather_last(struct boot *boot, const void *mine, size_t n_bytes,
                      weft_ns work_ns);
/* Like boot_gather, but only boot_first is certain to get the result. For large blobs that the
 * other members do not need. Either all members call it for a round, or none. */
void boot_gather_to_first(struct boot *boot, const void *mine, size_t n_bytes);
/* Advances the boot. Returns WEFT_OK once the gather is complete, until the next one is started;
 * `boot_result` then holds n_members * n_bytes, those of the ranks first. Returns WEFT_AGAIN before
 * that. An error names the member that is missing, exited or failed to authenticate, in the values
 * "rank" and "missing" (all that are missing, as far as they fit). */
weft_status boot_progress(struct boot *boot, struct weft_error *error) WEFT_MUST_CHECK;
/* Returns the result, valid until the next boot_gather; NULL if it is for rank 0 only and this is
 * another rank. */
const uint8_t *boot_result(const struct boot *boot);

/* Returns true if rank 0 has closed its rendezvous, so that another can be held at its address. */
bool boot_first_left(const struct boot *boot);
/* With may_miss: returns true if `member` is absent, as known to rank 0 of a rendezvous or to this
 * process of a mesh. */
bool boot_is_absent(const struct boot *boot, uint32_t member);
/* Returns the lowest member that is not absent; 0 with a rendezvous. */
uint32_t boot_first(const struct boot *boot);

/* A link between two members, a < b. */
struct boot_link {
    uint32_t a, b;
    uint8_t a_port, b_port; /* port number in device order of each end; 255 if none */
    bool carries;           /* true if their control stream uses this link */
};

/* Writes the first n_max links by (a, b, a_port, b_port), and returns the number of all. Only links
 * are counted that both ends report and of which at least one end is reached. None with a
 * rendezvous. */
uint32_t boot_links(const struct boot *boot, struct boot_link *out, uint32_t n_max);
/* Returns the number of changes of boot_links so far. */
uint64_t boot_links_changes(const struct boot *boot);
/* Returns true if `member` is reached over control streams, directly or through other members. */
bool boot_reaches(const struct boot *boot, uint32_t member);

/* Returns true if boot_progress waits for `member`: to join, or for its part in the round. A member
 * of a rendezvous waits for rank 0 only. */
bool boot_awaits(const struct boot *boot, uint32_t member);

/* Reports that the launcher saw the process of `member` exit. If the member has not joined 1 s
 * later, boot_progress fails with WEFT_ERR_CLOSED and value "rank". With may_miss, rank 0 (or every
 * member of a mesh) marks it absent instead. If it has joined, its streams report its end, and
 * rounds that need it fail at rank 0, and later at the others, if they do not. */
void boot_ended(struct boot *boot, uint32_t member);
/* Declares that another round follows that needs all members. Until it begins, boot_progress of a
 * member of a mesh also fails if a member ended, as boot_ended() reported, and no control stream
 * leads to it. */
void boot_expect_all(struct boot *boot);

/* Returns the errno of the last accept if it failed, so that others wait to join; otherwise 0. */
int boot_accept_errno(const struct boot *boot);
/* Gives up, and reports that to the others, whose boot_progress fails with the values "rank" and
 * "reason". */
void boot_abort(struct boot *boot, const char *reason);
/* Sends BYE to the other members unless the boot failed, and frees `boot`. NULL is ignored. */
void boot_close(struct boot *boot);

#endif
