/* Bootstraps over the mesh: neighbours discover each other, keep one authenticated stream per pair,
 * and flood the records and blobs of all members (docs/boot.md). Private to boot/:
 *
 *   mesh.c       a gather from start to end, limits, missing members
 *   mesh_hear.c  announcements: which neighbours exist, and on which ports
 *   mesh_peer.c  one neighbour: dialling, accepting, its stream
 *   mesh_flood.c records and pieces: received and forwarded
 *   mesh_links.c the graph that the records form */
#ifndef WEFT_BOOT_MESH_H
#define WEFT_BOOT_MESH_H

#include "boot/private.h"
#include "boot/record.h"

/* Addresses of one neighbour: cables times address families. */
#define MESH_CANDIDATES_MAX 16
#define MESH_PEERS_MAX 64 /* neighbours with a stream */
#define MESH_PORTS_MAX 32
#define MESH_HEARD_MAX 64 /* announcements received per port in one step */

#define MESH_ABSENT "the others go on without it"

#define MESH_SECOND ((weft_ns)1000000000)
/* Limit of one attempt: TCP, authentication and greeting. */
#define MESH_DIAL_NS (2 * MESH_SECOND)
/* Interval after which ALIVE is sent on an idle stream. */
#define MESH_ALIVE_NS MESH_SECOND
#define MESH_SILENT_NS (4 * MESH_SECOND) /* silence after which a stream is dropped */
/* Maximum time in which a stream comes up if no frame of it is retransmitted. A kernel first
 * retransmits after 200 ms (TCP_RTO_MIN). */
#define MESH_QUICK_NS (MESH_SECOND / 10)
/* Number of streams in a row that must fall silent until their data counts as lost. */
#define MESH_SILENCED_MIN 2
#define MESH_FORGET_NS (4 * MESH_SECOND) /* validity of an announcement */
/* Time without BYE and without contact after which a member is dead. */
#define MESH_DIED_NS (3 * MESH_SECOND)
/* How long to wait for a neighbour that fell silent, if no other member can forward the round to
 * it. A cable can be down for 5 s (TIMER_OUTAGE_NS), of which at least 3 s have passed when the
 * silence is noticed. Then an announcement and two address resolutions follow, 1 s each. */
#define MESH_AWAIT_NS (5 * MESH_SECOND)
/* Additional time for which members that are not its neighbours wait for a lost member. */
#define MESH_GRACE_NS (MESH_SECOND / 2)
#define MESH_SOON_NS (MESH_SECOND / 20)  /* minimum interval between announcements */
#define MESH_EAGER_NS (MESH_SECOND / 10) /* interval during the first MESH_EAGER_FOR_NS */
#define MESH_EAGER_FOR_NS (2 * MESH_SECOND)
#define MESH_WAITING_NS                                                                  \
    (MESH_SECOND / 2) /* while a member is missing; otherwise MESH_SECOND */

/* An address of a neighbour: the source of one of its announcements, or from a file. */
struct mesh_candidate {
    /* Control port; ifindex is the netdev, or 0 within this host. */
    struct io_endpoint at;
    uint8_t port, peer_port;
    uint64_t nonce;   /* nonce of the announcing process; 0 if from a file */
    weft_ns heard_ns; /* time of the last announcement; WEFT_NEVER if from a file */
};

enum mesh_state {
    MESH_IDLE,      /* waiting for resume_ns, or for the neighbour to dial */
    MESH_TCP,       /* waiting for the TCP connection */
    MESH_CHALLENGE, /* HELLO sent; waiting for CHALLENGE */
    MESH_GREET,     /* own greeting sent; waiting for the neighbour's */
    MESH_UP         /* authenticated; messages are exchanged */
};

/* The part of a member's blob that a neighbour is known to have. */
struct mesh_known {
    uint32_t round, n_bytes;
    bool whole;
};

struct mesh_peer {
    uint32_t member;
    enum mesh_state state;
    bool is_probe;   /* true if the connection only tests whether its process exists */
    bool is_suspect; /* its stream ended without BYE */
    bool was_ended;  /* the peer ended the stream, and no probe has reached it since */
    uint8_t port, peer_port; /* ports of the stream */
    /* Nonce of the candidate dialled last, whose slot may have another candidate by now. */
    uint64_t dialled_nonce;
    struct mesh_candidate candidates[MESH_CANDIDATES_MAX];
    uint32_t n_candidates, next;
    struct boot_stream stream;
    uint8_t hello[PROVE_HELLO_BYTES];
    uint64_t id;
    uint32_t attempt;
    int last_errno; /* of the last attempt, if no TCP connection came of it; otherwise 0 */
    bool has_lapsed;    /* after an announcement, none came for MESH_FORGET_NS */
    weft_ns suspect_ns; /* time of the last end of its stream; 0 if none ended */
    weft_ns step_ns;    /* deadline of the present attempt */
    weft_ns resume_ns;  /* earliest start of the next attempt */
    weft_ns backoff_ns;
    weft_ns heard_ns, said_ns; /* times of the last frame received and sent */
    weft_ns up_ns;             /* time at which the present stream came up */
    bool was_quick;            /* the present stream came up without a retransmission */
    uint32_t n_silenced; /* streams in a row that came up quickly and then fell silent */
    /* Last complete round of the neighbour; last one reported to it. */
    uint32_t has_round, told_round;
    uint64_t *links_told; /* Owned [n_members]: highest sequence that it has; 0 if none */
    bool *absent_told;    /* Owned [n_members] */
    struct mesh_known (*known)[2]; /* Owned [n_members] by round mod 2 */
};

/* A member's blob of one round, received from its start on. */
struct mesh_blob {
    uint32_t round; /* 0 if none */
    uint32_t each, received;
    bool whole;
    uint8_t *bytes; /* Owned [each] */
};

enum mesh_gone {
    MESH_HERE, /* has not left, as far as known */
    MESH_LEFT, /* sent BYE */
    MESH_DIED  /* its process ended without BYE */
};

struct mesh_member {
    bool is_known;       /* its record was received */
    bool is_reached;     /* control streams lead to it now */
    weft_ns since_ns;    /* time of the last change of is_reached or of the process */
    enum mesh_gone gone; /* as observed by this process as its neighbour */
    bool is_absent;      /* may_miss: no longer waited for, permanently */
    struct record_identity identity;
    uint64_t sequence;
    struct record_entry *entries; /* Owned [n_entries] */
    uint32_t n_entries;
    /* By round mod 2: the present round, and the one before or after it. */
    struct mesh_blob blobs[2];
    struct mesh_peer *peer; /* Owned; NULL if not a neighbour so far */
};

struct mesh_port {
    uint32_t ifindex; /* 0 for the announcer within the host */
    uint8_t number;   /* in device order; RECORD_PORT_NONE within the host */
    struct io_announcer *announcer; /* Owned; NULL while it cannot be opened */
};

struct mesh {
    struct record_self self;
    struct boot_door door;
    struct io_endpoint control;
    uint8_t announce_key[AUTH_KEY_BYTES];
    struct mesh_port ports[MESH_PORTS_MAX];
    uint32_t n_ports;
    weft_ns announced_ns, announce_at_ns;
    uint64_t n_strange;          /* rejected datagrams */
    struct mesh_member *members; /* Owned [n_members]; [config.rank] is this process */
    uint32_t n_peers, n_known;   /* absent members count as known */
    weft_ns known_ns;            /* time at which the last one became known */
    uint32_t whole_round;        /* last round of which every blob was received */
    bool graph_is_stale;
    uint64_t changes;
};

static inline struct mesh_member *mesh_self(struct boot *boot)
{
    return &boot->mesh->members[boot->config.rank];
}

/* mesh.c */
weft_status mesh_open(struct boot *boot, struct weft_error *error) WEFT_MUST_CHECK;
void mesh_gather(struct boot *boot);
weft_status mesh_progress(struct boot *boot) WEFT_MUST_CHECK;
weft_ns mesh_deadline(const struct boot *boot);
/* Returns true if the present round is not whole, and a round that needs all members follows it. */
bool mesh_needs_all(const struct boot *boot);
/* Fails because of a neighbour whose streams fall silent, again and again, if members are missing.
 * Otherwise returns WEFT_AGAIN. */
weft_status mesh_miss_silenced(struct boot *boot) WEFT_MUST_CHECK;
/* boot_awaits() of a member of a mesh. */
bool mesh_awaits(const struct boot *boot, uint32_t member);
void mesh_close(struct boot *boot);

/* failure.c */
/* Reports to every neighbour that `member` is at fault. */
void mesh_give_up(struct boot *boot, uint32_t member, const char *reason);
/* Reports that `member` is at fault to every neighbour, and fails with `status`. With may_miss it
 * only marks another member absent and returns WEFT_AGAIN. */
weft_status mesh_blame(struct boot *boot, weft_status status, uint32_t member,
                       const char *what) WEFT_MUST_CHECK;
/* may_miss: marks `member` absent; the neighbours are informed. */
void mesh_miss(struct boot *boot, uint32_t member);

/* mesh_hear.c */
void mesh_hear_open(struct boot *boot);
/* Receives announcements, and sends its own when due. */
void mesh_hear(struct boot *boot);
void mesh_hear_close(struct boot *boot);
/* Brings the next announcement forward, so that a new process learns of this one soon. */
void mesh_announce_soon(struct boot *boot);
bool mesh_candidate_is_fresh(const struct boot *boot,
                             const struct mesh_candidate *candidate);

/* mesh_stream.c */
/* Returns the neighbour `member`, and creates it if necessary. Returns NULL if there are too
 * many. */
struct mesh_peer *mesh_peer_of(struct boot *boot, uint32_t member);
void mesh_peer_free(struct boot *boot, struct mesh_peer *peer);
/* Changes peer->state, and adds the change to the event log. */
void mesh_peer_enter(struct boot *boot, struct mesh_peer *peer, enum mesh_state next);
/* Closes the stream; the next attempt begins after the backoff. */
void mesh_peer_retry(struct boot *boot, struct mesh_peer *peer);
/* Closes the stream or ends the attempt. `why` (or NULL) shows whether the peer ended the
 * stream. */
void mesh_peer_drop(struct boot *boot, struct mesh_peer *peer,
                    const struct weft_error *why);

/* mesh_peer.c */
/* Accepts a client's greeting, `frame`, and takes over its stream. On error the caller refuses the
 * client; an error in boot->error fails the boot. */
weft_status mesh_peer_accept(struct boot *boot, struct client *client,
                             const struct frame *frame,
                             struct weft_error *error) WEFT_MUST_CHECK;
/* Advances the neighbour as far as possible. An error fails the boot. */
weft_status mesh_peer_step(struct boot *boot, struct mesh_peer *peer) WEFT_MUST_CHECK;
/* Sends what the neighbour lacks, until its stream is full. */
void mesh_peer_pump(struct boot *boot, struct mesh_peer *peer);
/* Returns when a neighbour that ended its stream without BYE counts as dead if it is not reached
 * before; WEFT_NEVER if that is not due. */
weft_ns mesh_peer_verdict_ns(const struct boot *boot, const struct mesh_peer *peer);
/* Returns until when to wait for a neighbour that fell silent, or whose process still exists, and
 * that no other stream reaches; 0 if there is no such wait. */
weft_ns mesh_peer_awaited_ns(const struct boot *boot, const struct mesh_peer *peer);
/* Returns the number of streams in a row that came up quickly and on which nothing was received
 * any more, although small frames had passed in both directions; 0 if the present one is used. */
uint32_t mesh_peer_silenced(const struct mesh_peer *peer);
weft_ns mesh_peer_deadline(const struct boot *boot, const struct mesh_peer *peer);

/* mesh_flood.c */
/* Records `identity` as the process of `member`. Returns WEFT_AGAIN if a later process is already
 * recorded. Fails the boot if two hosts claim the number at the same time, or if a later process
 * claims this process's own number, or any number once a round is complete. With may_miss it marks
 * a member at fault absent instead. */
weft_status mesh_meet(struct boot *boot, uint32_t member,
                      const struct record_identity *identity) WEFT_MUST_CHECK;
/* Handles one message of a neighbour. On WEFT_ERR_PROTOCOL with boot->error empty the caller drops
 * the stream; any other error fails the boot. */
weft_status mesh_take(struct boot *boot, struct mesh_peer *peer,
                      const struct frame *frame,
                      struct weft_error *error) WEFT_MUST_CHECK;
/* Queues the next message that `peer` lacks. Returns false if there is none, or no room. */
bool mesh_tell_next(struct boot *boot, struct mesh_peer *peer);

/* mesh_links.c */
/* Updates this process's own record if its links changed. */
void mesh_links_update(struct boot *boot);
/* Recomputes which members are reached, if a record changed. */
void mesh_graph_update(struct boot *boot);

#endif
