#ifndef WEFT_BOOT_PRIVATE_H
#define WEFT_BOOT_PRIVATE_H

#include "boot/boot.h"
#include "boot/message.h"
#include "conn/client.h"
#include "conn/frame.h"
#include "conn/prove.h"
#include "rdma/timers.h"

#define BOOT_TX_BYTES (2 * CODEC_FRAME_MAX)
/* In addition to one per member, because all members can connect at once. */
#define BOOT_STRANGERS_MAX 32
#define BOOT_AUTHENTICATE_NS TIMER_AUTHENTICATE_NS
#define BOOT_BACKOFF_NS 20000000
#define BOOT_BACKOFF_MAX_NS 1000000000
#define BOOT_BACKOFF_CROWD_NS 80000000
#define BOOT_ENDED_NS 1000000000
#define BOOT_ENDED_JOINED 0 /* in due_ns: ended after it had joined */
/* How long a client waits, after the launcher's report of a member that ended, for rank 0 to report
 * why. Exceeds BOOT_ENDED_NS, after which rank 0 gives up a member that ended before it joined. */
#define BOOT_UNREPORTED_NS 1500000000
/* With may_miss: delay before the first dial, by which rank 0 has usually closed its previous
 * rendezvous; and how long connections must be refused before rank 0 counts as gone. */
#define BOOT_AGAIN_NS 50000000
#define BOOT_GONE_NS 3000000000
/* A stream that timed out does not show that the process at its other end has exited. */
#define BOOT_CUT_OFF "is cut off: its machine does not answer"

/* An authenticated stream to another rank. */
struct boot_stream {
    struct frame_link link;
    uint8_t rx[CODEC_FRAME_MAX];
    uint8_t tx[BOOT_TX_BYTES];
};

/* State of one rank on rank 0. */
struct boot_rank {
    struct boot_stream *stream; /* Owned; NULL if not connected */
    bool joined;                /* has joined, even if it has left since */
    bool left;                  /* sent BYE */
    bool has_ended;    /* its stream ended without BYE after it was sent the result */
    bool is_absent;    /* may_miss: absent, permanently */
    uint32_t received; /* bytes received of its blob of the present round */
    bool contributed;  /* its blob is complete */
    uint32_t sent;     /* bytes of the result sent to it */
    bool result_sent;
};

/* A listener and its unauthenticated clients, limited in number and time. */
struct boot_door {
    struct io_listener *listener;
    struct client_identity identity;
    struct client *strangers; /* Owned [n_strangers] */
    uint32_t n_strangers;
    uint32_t n_used;   /* slots used so far; the others are not initialised */
    weft_ns resume_ns; /* no accept before this, because accept failed; 0 if it did not */
    int short_errno;   /* of the last accept if it failed; otherwise 0 */
    weft_ns next_log_ns; /* no refusal is logged before this */
    uint64_t n_unlogged; /* refusals not logged since the last one */
};

struct boot_server {
    struct boot_door door;
    struct boot_rank *ranks; /* Owned [n_members]; [0] is this rank */
    uint32_t n_joined;       /* including rank 0 */
    weft_ns joined_ns;       /* time of the last join */
    bool round_known;        /* the blob size of the next round is known */
    uint32_t each;           /* blob size of the next round */
    uint8_t *blobs;   /* Owned [n_members * each]: blobs received for the next result */
    bool handing_out; /* the present round is complete and its result is being sent */
};

enum boot_dial {
    BOOT_DIAL_IDLE,      /* waiting for resume_ns */
    BOOT_DIAL_TCP,       /* waiting for the TCP connection */
    BOOT_DIAL_CHALLENGE, /* HELLO sent; waiting for CHALLENGE */
    BOOT_DIAL_JOINED     /* JOIN sent; blobs and results are exchanged */
};

struct boot_client {
    enum boot_dial state;
    struct boot_stream stream;
    uint8_t key[AUTH_KEY_BYTES];
    uint8_t hello[PROVE_HELLO_BYTES];
    uint64_t id;
    uint32_t attempt;
    /* Consecutive attempts that timed out before TCP was connected. */
    uint32_t n_timeouts;
    weft_ns resume_ns, step_ns, backoff_ns;
    /* Since when this end lacks a descriptor or memory for it; 0 if it does not. */
    weft_ns short_ns;
    weft_ns refused_ns; /* since when connections are refused; 0 if they are not */
    /* Since when no connection from this host can reach it; 0 if one can. */
    weft_ns hopeless_ns;
    weft_ns dialled_ns; /* start of the present attempt */
    weft_ns ignored_ns; /* since when its machine does not answer; 0 if it does */
    /* Time at which a stream ended before rank 0 may have identified this rank; 0 if none did. */
    weft_ns lost_ns;
    weft_ns joined_ns; /* time of the last JOIN */
    int last_errno;    /* of the last attempt that failed; 0 once joined */
    char why[160]; /* may_miss: message of the last failure after which it tried again */
    bool server_left;
    /* Bytes of this round's blob sent, and of its result received. */
    uint32_t sent, received;
    bool blob_sent;
};

struct boot {
    struct io_task task;
    struct io_env *env; /* Not owned. */
    struct boot_config config;
    uint32_t n_members;
    weft_ns opened_ns;
    /* Start of the present gather, or the end of the time in which members may still work. */
    weft_ns started_ns;
    uint32_t round; /* number of the present or last gather, from 1; 0 if none */
    bool is_active;
    bool is_last;   /* the present or last gather is the last one of this process */
    bool needs_all; /* a round that needs all members follows the one that is over */
    /* True if the result of the present or last gather is for rank 0 only. */
    bool to_first;
    uint8_t *mine; /* Owned [each] */
    uint32_t each;
    uint8_t *result; /* Owned [n_members * each] */
    /* Owned [n_members]: deadlines for ended members to join; WEFT_NEVER for those that were not
     * reported as ended, or are judged; BOOT_ENDED_JOINED for those that had joined. NULL if none
     * ended. */
    weft_ns *due_ns;
    weft_ns ended_ns; /* earliest of them; WEFT_NEVER if none */
    /* Client: the first member that was reported as ended, and until when rank 0 may report why;
     * WEFT_NEVER if none ended. */
    uint32_t first_ended;
    weft_ns unreported_ns;
    struct weft_error error;
    struct boot_server *server; /* Owned; on rank 0 of a rendezvous */
    struct boot_client *client; /* Owned; on the other ranks of a rendezvous */
    struct mesh *mesh;          /* Owned; without a rendezvous (mesh.h) */
};

/* Returns a limit of boot/ at the patience of the job. */
static inline weft_ns boot_limit(const struct boot *boot, weft_ns limit)
{
    return timer_limit(limit, boot->config.patience);
}

/* Returns the size of each blob in the result for ranks other than 0. */
static inline uint32_t boot_result_each(const struct boot *boot)
{
    return boot->to_first ? 0 : boot->each;
}

/* failure.c */
/* Sets boot->error, with value "rank", and returns `status`, or the status of an earlier error. */
weft_status boot_fail(struct boot *boot, weft_status status, uint32_t rank,
                      const char *message) WEFT_MUST_CHECK;
/* Adds to boot->error the errno of `why` if its cause lies at this host, such as lack of memory. */
void boot_own_errno(struct boot *boot, const struct weft_error *why);

weft_status boot_server_open(struct boot *boot, struct weft_error *error) WEFT_MUST_CHECK;
weft_status boot_server_progress(struct boot *boot) WEFT_MUST_CHECK;
void boot_server_gather(struct boot *boot);
/* Returns true if all have joined, and the present round lacks blobs. */
bool boot_server_gathers(const struct boot *boot);
/* boot_awaits() of rank 0 of a rendezvous. */
bool boot_server_awaits(const struct boot *boot, uint32_t member);
/* Reports to every connected rank except `rank` that `rank` is at fault. */
void boot_server_notify_all(struct boot *boot, uint32_t rank, const char *reason);
/* may_miss: marks `rank` absent and closes its stream. */
void boot_server_drop(struct boot *boot, uint32_t rank);
void boot_server_close(struct boot *boot);
weft_ns boot_server_deadline(const struct boot *boot);

/* door.c */
weft_status boot_door_open(struct boot *boot, struct boot_door *door,
                           const struct io_endpoint *at, struct io_endpoint *out_at,
                           struct weft_error *error) WEFT_MUST_CHECK;
/* Accepts waiting clients. */
void boot_door_welcome(struct boot *boot, struct boot_door *door);
/* Returns the next client, from slot `*at` on, that has authenticated and sent its first sealed
 * message, `out`; NULL if there is none yet. The caller hands the client over or refuses it. */
struct client *boot_door_next(struct boot *boot, struct boot_door *door, uint32_t *at,
                              struct frame *out);
/* Refuses a client. Logs at most one refusal per second. */
void boot_door_refuse(struct boot *boot, struct boot_door *door, struct client *client,
                      const struct weft_error *error);
/* Moves the client's link to `out` and frees the slot. */
void boot_door_hand_over(struct client *client, struct boot_stream *out);
weft_ns boot_door_deadline(const struct boot_door *door);
void boot_door_close(struct boot *boot, struct boot_door *door);

void boot_client_open(struct boot *boot);
weft_status boot_client_progress(struct boot *boot) WEFT_MUST_CHECK;
void boot_client_gather(struct boot *boot);
void boot_client_give_up(struct boot *boot, const char *reason);
void boot_client_close(struct boot *boot);
weft_ns boot_client_deadline(const struct boot *boot);

#endif
