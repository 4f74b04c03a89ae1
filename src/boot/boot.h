/* How the processes of a job learn of each other, an all-gather of small blobs, and barriers:
 * by a rendezvous over the management network, or without one, over the mesh itself
 * (docs/boot.md). Messages are authenticated with the job key (docs/wire.md). */
#ifndef WEFT_BOOT_BOOT_H
#define WEFT_BOOT_BOOT_H

#include "base/error.h"
#include "io/env.h"

#define BOOT_BLOB_MAX 65536
#define BOOT_KEY_BYTES 32

#define BOOT_ANNOUNCE_PORT 22341 /* UDP; "WE" */

enum boot_mode {
    BOOT_RENDEZVOUS, /* rank 0 serves, on a network that reaches it from everywhere */
    BOOT_NEIGHBOURS, /* announcements on every RDMA port's link; the rest is flooded */
    BOOT_STATIC      /* as NEIGHBOURS, but who is where comes from a file */
};

/* A neighbour of a static mesh. */
struct boot_neighbour {
    uint32_t member;
    const struct io_endpoint *endpoints; /* where its control port is; best first */
    uint32_t n_endpoints;
};

struct boot_config {
    enum boot_mode mode;
    uint32_t rank;      /* this process: a rank, or a relay (n_ranks and up) */
    uint32_t n_ranks;   /* processes with a rank */
    uint32_t n_members; /* and those that only relay; 0: no relays */
    uint8_t job_key[BOOT_KEY_BYTES];
    weft_ns patience_ns; /* how long others may be missing: 900 s */
    weft_ns step_ns;     /* limit for one all-gather once all are there: 30 s */
    /* RENDEZVOUS: for how long it may be out of this host's reach, although the host has an address
     * on some network: it has no route there (errno 101), or looks for a rank 0 of another host at
     * its own loopback address. 0: as long as patience_ns. */
    weft_ns hopeless_ns;
    /* RENDEZVOUS: for how long rank 0's machine may be there, as a neighbour on a network of this
     * host or as one that takes the call, and not answer it; 0: as long as patience_ns. */
    weft_ns ignored_ns;
    bool first_is_elsewhere; /* RENDEZVOUS: rank 0 is on another host */
    /* Whoever does not come, goes or is late is absent, and nobody's failure; its blobs are zeros.
     * RENDEZVOUS: without rank 0 there is nothing. At the address there was a rendezvous before:
     * where nobody listens any more, nobody will. Else: the first of those that are here waits as
     * long as patience_ns and step_ns say, the others twice as long; an absent one that comes
     * after all fails. What members know of others that went may differ: what has to be the same
     * for all is what the first of them says. */
    bool may_miss;

    struct io_endpoint rendezvous; /* RENDEZVOUS: where rank 0 listens, and binds to */

    /* NEIGHBOURS, STATIC: where this process listens; port 0: any. */
    struct io_endpoint control;
    uint16_t announce_port; /* NEIGHBOURS; 0: BOOT_ANNOUNCE_PORT */
    /* STATIC: [n_neighbours], of this process; Not owned, outlive boot. */
    const struct boot_neighbour *neighbours;
    uint32_t n_neighbours;
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
/* The same, of which all ranks use one or none; only boot_first is sure to have the result. For
 * what is large and nobody else's business. */
void boot_gather_to_first(struct boot *boot, const void *mine, size_t n_bytes);
/* WEFT_OK: the gather is complete, `boot_result` holds n_members * n_bytes, the ranks' in
 * their order first; so it stays until the next is started. AGAIN: wait. An error names the
 * member that is missing, died or failed to authenticate (values "rank", "missing": all that
 * are, as far as they fit). */
weft_status boot_progress(struct boot *boot, struct weft_error *error) WEFT_MUST_CHECK;
/* Valid until the next boot_gather. NULL: it is for rank 0 only. */
const uint8_t *boot_result(const struct boot *boot);

/* The first rank has closed its rendezvous: another may be held there. */
bool boot_first_left(const struct boot *boot);
/* With may_miss, as rank 0 of a rendezvous knows, or this process of a mesh. */
bool boot_is_absent(const struct boot *boot, uint32_t member);
/* The lowest member that is not absent: 0 with a rendezvous. */
uint32_t boot_first(const struct boot *boot);

/* Two members that reach each other directly, a < b. */
struct boot_link {
    uint32_t a, b;
    uint8_t a_port, b_port; /* in the order of each one's devices' ports; 255: none */
    bool carries;           /* their control stream runs here */
};

/* The mesh as its members tell it now, without what only one end claims, and without links of
 * which no end is reached any more: writes the first
 * n_max links by (a, b, a_port, b_port) and returns how many there are. None in RENDEZVOUS. */
uint32_t boot_links(const struct boot *boot, struct boot_link *out, uint32_t n_max);
/* Counts what changed in boot_links. */
uint64_t boot_links_changes(const struct boot *boot);
/* Whether control streams lead to `member`, over others or directly. */
bool boot_reaches(const struct boot *boot, uint32_t member);

/* Whoever started the members says that `member` ended: if it has not come a second from now,
 * nobody waits for it any longer, and boot_progress fails with "rank". */
void boot_ended(struct boot *boot, uint32_t member);

/* This rank gave up: tells the others, whose next progress fails with "rank" and
 * `reason`. */
void boot_abort(struct boot *boot, const char *reason);
/* NULL is ignored. */
void boot_close(struct boot *boot);

#endif
