#ifndef WEFT_BOOT_PRIVATE_H
#define WEFT_BOOT_PRIVATE_H

#include "boot/boot.h"
#include "boot/message.h"
#include "conn/client.h"
#include "conn/frame.h"
#include "conn/prove.h"

#define BOOT_TX_BYTES (2 * CODEC_FRAME_MAX)
/* Beside one for every member: all of them may come at once. */
#define BOOT_STRANGERS_MAX 32
#define BOOT_AUTHENTICATE_NS 5000000000
#define BOOT_BACKOFF_NS 20000000
#define BOOT_BACKOFF_MAX_NS 1000000000
#define BOOT_BACKOFF_CROWD_NS 80000000
#define BOOT_ENDED_NS 1000000000
/* may_miss: rank 0's previous rendezvous is over by then, as a rule; and nobody listens where it
 * was for as long as this only if rank 0 is no more. */
#define BOOT_AGAIN_NS 50000000
#define BOOT_GONE_NS 3000000000

/* A stream to another rank, authenticated. */
struct boot_stream {
    struct frame_link link;
    uint8_t rx[CODEC_FRAME_MAX];
    uint8_t tx[BOOT_TX_BYTES];
};

/* A rank, as rank 0 sees it. */
struct boot_rank {
    struct boot_stream *stream; /* Owned; NULL: not there */
    bool joined;                /* was there at least once */
    bool left;                  /* with BYE */
    bool has_ended;    /* without BYE, but with the result: after the last round */
    bool is_absent;    /* may_miss: and stays so */
    uint32_t received; /* bytes of its blob of the present round */
    bool contributed;  /* all of them */
    uint32_t sent;     /* bytes of the result it was sent */
    bool result_sent;
};

/* Where clients come in: strangers under limits, until they prove that they know the key. */
struct boot_door {
    struct io_listener *listener;
    struct client_identity identity;
    struct client *strangers; /* Owned [n_strangers] */
    uint32_t n_strangers;
    uint32_t n_used;     /* places used so far; the others are not initialised */
    weft_ns resume_ns;   /* nobody is let in before: accept failed; 0: it did not */
    weft_ns next_log_ns; /* refusals are not logged before ... */
    uint64_t n_unlogged; /* ... but counted */
};

struct boot_server {
    struct boot_door door;
    struct boot_rank *ranks; /* Owned [n_members]; [0] is this rank */
    uint32_t n_joined;       /* rank 0 included */
    weft_ns joined_ns;       /* when all were there */
    bool round_known;        /* a rank told the blob size of the next round */
    uint32_t each;           /* of the next round */
    uint8_t *blobs;          /* Owned: gathering */
    bool handing_out;        /* the present round is complete; its result goes out */
};

enum boot_dial { BOOT_DIAL_IDLE, BOOT_DIAL_TCP, BOOT_DIAL_CHALLENGE, BOOT_DIAL_JOINED };

struct boot_client {
    enum boot_dial state;
    struct boot_stream stream;
    uint8_t key[AUTH_KEY_BYTES];
    uint8_t hello[PROVE_HELLO_BYTES];
    uint64_t id;
    uint32_t attempt;
    uint32_t n_timeouts; /* attempts in a row that opened no stream in time */
    weft_ns resume_ns, step_ns, backoff_ns;
    weft_ns
        short_ns; /* since when this end has no descriptor or memory for it; 0: it has */
    weft_ns refused_ns;  /* since when nobody listens there; 0: not so */
    weft_ns hopeless_ns; /* since when no call from this host can reach it; 0: not so */
    weft_ns dialled_ns;  /* when the present attempt began */
    weft_ns ignored_ns;  /* since when its machine does not answer; 0: not so */
    weft_ns
        lost_ns; /* when the stream ended that rank 0 may not have known; 0: none did */
    int last_errno;
    bool server_left;
    uint32_t sent, received; /* bytes of this round's blob and result */
    bool blob_sent;
};

struct boot {
    struct io_task task;
    struct io_env *env; /* Not owned. */
    struct boot_config config;
    uint32_t n_members;
    weft_ns opened_ns;
    weft_ns started_ns; /* of the present gather */
    uint32_t round;     /* of the present or last gather, from 1; 0: none */
    bool is_active;
    bool to_first; /* the present or last gather's result is for rank 0 only */
    uint8_t *mine; /* Owned [each] */
    uint32_t each;
    uint8_t *result;  /* Owned [n_members * each] */
    bool *has_ended;  /* Owned [n_members], or NULL: none; as boot_ended was told */
    weft_ns ended_ns; /* when those that have not come by then are given up */
    struct weft_error error;
    struct boot_server *server; /* Owned; rank 0 */
    struct boot_client *client; /* Owned; the others */
    struct mesh *mesh;          /* Owned; without a rendezvous (mesh.h) */
};

/* The blobs that go to those who are not rank 0: bytes of each. */
static inline uint32_t boot_told_each(const struct boot *boot)
{
    return boot->to_first ? 0 : boot->each;
}

/* Fails with value "rank" and keeps the error. */
weft_status boot_fail(struct boot *boot, weft_status status, uint32_t rank,
                      const char *message) WEFT_MUST_CHECK;
/* A stream broke because of this end's own want, of memory say: that is the cause, and told with
 * the error. */
void boot_own_errno(struct boot *boot, const struct weft_error *why);

weft_status boot_server_open(struct boot *boot, struct weft_error *error) WEFT_MUST_CHECK;
weft_status boot_server_progress(struct boot *boot) WEFT_MUST_CHECK;
void boot_server_gather(struct boot *boot);
/* Tells every rank that is there, but `rank` itself. */
void boot_server_tell_all(struct boot *boot, uint32_t rank, const char *reason);
/* may_miss: it is not waited for any more. */
void boot_server_drop(struct boot *boot, uint32_t rank);
void boot_server_close(struct boot *boot);
weft_ns boot_server_deadline(const struct boot *boot);

/* door.c */
weft_status boot_door_open(struct boot *boot, struct boot_door *door,
                           const struct io_endpoint *at, struct io_endpoint *out_at,
                           struct weft_error *error) WEFT_MUST_CHECK;
/* Lets in who waits. */
void boot_door_welcome(struct boot *boot, struct boot_door *door);
/* The next client, from slot `*at` on, that proved the key and said its first sealed word;
 * NULL if there is none (yet). The caller hands it over or refuses it. */
struct client *boot_door_next(struct boot *boot, struct boot_door *door, uint32_t *at,
                              struct frame *out);
/* Logged at most once a second. */
void boot_door_refuse(struct boot *boot, struct boot_door *door, struct client *client,
                      const struct weft_error *error);
/* Moves the client's link to `out`, and frees the slot. */
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
