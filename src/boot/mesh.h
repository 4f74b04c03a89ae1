/* The mesh as a way to boot: neighbours find each other, hold one authenticated stream a pair,
 * and flood what each member says of itself. docs/boot.md tells how. Private to boot/:
 *
 *   mesh.c       a gather from its start to its end, limits, who is missing
 *   mesh_hear.c  announcements: who is next to this process, and by which ports
 *   mesh_peer.c  one neighbour: dialling, accepting, what a stream says and hears
 *   mesh_flood.c records and pieces: what is taken in and passed on
 *   mesh_links.c the graph that the records make */
#ifndef WEFT_BOOT_MESH_H
#define WEFT_BOOT_MESH_H

#include "boot/private.h"
#include "boot/record.h"

#define MESH_CANDIDATES_MAX 16 /* ways to one neighbour: cables times address families */
#define MESH_PEERS_MAX 64      /* neighbours with a stream */
#define MESH_PORTS_MAX 32
#define MESH_HEARD_MAX 64 /* announcements looked at per port in one go */

#define MESH_ABSENT "the others go on without it"

#define MESH_SECOND ((weft_ns)1000000000)
#define MESH_DIAL_NS (2 * MESH_SECOND)   /* TCP, proofs and greeting of one attempt */
#define MESH_ALIVE_NS MESH_SECOND        /* the longest silence on a stream */
#define MESH_SILENT_NS (4 * MESH_SECOND) /* a longer one is its end */
#define MESH_FORGET_NS (4 * MESH_SECOND) /* an announcement counts so long */
#define MESH_DIED_NS (3 * MESH_SECOND)   /* gone without a word for so long: dead */
/* How long a neighbour that fell silent is awaited, if nobody else can hand it the round. A cable
 * may be away for 5 s (TIMER_OUTAGE_NS), of which at least 3 s have passed when silence is noticed.
 * Then come an announcement and two questions for the neighbour's address, 1 s each. */
#define MESH_AWAIT_NS (5 * MESH_SECOND)
#define MESH_SOON_NS (MESH_SECOND / 20)  /* least time between two announcements */
#define MESH_EAGER_NS (MESH_SECOND / 10) /* in the first MESH_EAGER_FOR_NS */
#define MESH_EAGER_FOR_NS (2 * MESH_SECOND)
#define MESH_WAITING_NS                                                                  \
    (MESH_SECOND / 2) /* while somebody is missing; then each second */

/* A way to a neighbour: an address on a link where its announcement came from. */
struct mesh_candidate {
    struct io_endpoint at; /* of its control port; ifindex: the netdev, 0: this host */
    uint8_t port, peer_port;
    uint64_t nonce;   /* of the process that said so; 0: a file says so */
    weft_ns heard_ns; /* last; WEFT_NEVER: of a file */
};

enum mesh_state {
    MESH_IDLE,
    MESH_TCP,
    MESH_CHALLENGE,
    MESH_GREET, /* our greeting is out, the neighbour's is awaited */
    MESH_UP
};

/* What a neighbour has of a member's blob, as far as is known here. */
struct mesh_known {
    uint32_t round, n_bytes;
    bool whole;
};

struct mesh_peer {
    uint32_t member;
    enum mesh_state state;
    bool is_probe;           /* dialled only to see whether its process is there */
    bool is_suspect;         /* its stream ended without BYE */
    bool was_ended;          /* by the other end, not by silence */
    uint8_t port, peer_port; /* that the stream runs over */
    uint8_t dialled;         /* the candidate */
    struct mesh_candidate candidates[MESH_CANDIDATES_MAX];
    uint32_t n_candidates, next;
    struct boot_stream stream;
    uint8_t hello[PROVE_HELLO_BYTES];
    uint64_t id;
    uint32_t attempt;
    weft_ns suspect_ns; /* since when */
    weft_ns step_ns;    /* when the present attempt is given up */
    weft_ns resume_ns;  /* when the next may start */
    weft_ns backoff_ns;
    weft_ns heard_ns, said_ns;      /* last frame in, last frame out */
    uint32_t has_round, told_round; /* whole there; and here, as it was told */
    uint64_t *links_told; /* Owned [n_members]: highest sequence it has; 0: none */
    bool *absent_told;    /* Owned [n_members] */
    struct mesh_known (*known)[2]; /* Owned [n_members] by round mod 2 */
};

/* A member's blob of one round, from its start on. */
struct mesh_blob {
    uint32_t round; /* 0: none yet */
    uint32_t each, received;
    bool whole;
    uint8_t *bytes; /* Owned [each] */
};

enum mesh_gone { MESH_HERE, MESH_LEFT, MESH_DIED };

struct mesh_member {
    bool is_known;       /* its record came */
    bool is_reached;     /* streams lead there now */
    weft_ns since_ns;    /* the last change of is_reached, or of the process */
    enum mesh_gone gone; /* seen by this process, as its neighbour */
    bool is_absent;      /* may_miss: nobody waits for it any more, for good */
    struct record_identity identity;
    uint64_t sequence;
    struct record_entry *entries; /* Owned [n_entries] */
    uint32_t n_entries;
    struct mesh_blob blobs[2]; /* by round mod 2: the present round and one beside it */
    struct mesh_peer *peer;    /* Owned; NULL: not a neighbour so far */
};

struct mesh_port {
    uint32_t ifindex; /* 0: within the host */
    uint8_t number;   /* in device order; RECORD_PORT_NONE within the host */
    struct io_announcer *announcer; /* Owned; NULL: cannot now */
};

struct mesh {
    struct record_self self;
    struct boot_door door;
    struct io_endpoint control;
    uint8_t announce_key[AUTH_KEY_BYTES];
    struct mesh_port ports[MESH_PORTS_MAX];
    uint32_t n_ports;
    weft_ns announced_ns, announce_at_ns;
    uint64_t n_strange;          /* datagrams of others */
    struct mesh_member *members; /* Owned [n_members]; [config.rank] is this process */
    uint32_t n_peers, n_known;   /* absent ones count as known */
    weft_ns known_ns;            /* when the last became known */
    uint32_t whole_round;        /* the last round of which every blob is here */
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
/* Tells every neighbour that `member` is at fault. */
void mesh_give_up(struct boot *boot, uint32_t member, const char *reason);
/* The same, and fails here. With may_miss nobody fails: AGAIN, and `member` is absent. */
weft_status mesh_blame(struct boot *boot, weft_status status, uint32_t member,
                       const char *what) WEFT_MUST_CHECK;
/* may_miss: `member` is not waited for any more; the others are told. */
void mesh_miss(struct boot *boot, uint32_t member);
void mesh_close(struct boot *boot);

/* mesh_hear.c */
void mesh_hear_open(struct boot *boot);
/* Takes in what was announced, and announces when it is time. */
void mesh_hear(struct boot *boot);
void mesh_hear_close(struct boot *boot);
/* A new process at the other end is told at once. */
void mesh_announce_soon(struct boot *boot);

/* mesh_peer.c */
/* The neighbour `member`; made if there is none. NULL: there are too many. */
struct mesh_peer *mesh_peer_of(struct boot *boot, uint32_t member);
void mesh_peer_free(struct boot *boot, struct mesh_peer *peer);
/* A client that is at the door greets. */
weft_status mesh_peer_accept(struct boot *boot, struct client *client,
                             const struct frame *frame,
                             struct weft_error *error) WEFT_MUST_CHECK;
/* As far as it goes now. An error is boot's, and everybody's. */
weft_status mesh_peer_step(struct boot *boot, struct mesh_peer *peer) WEFT_MUST_CHECK;
/* Sends what the neighbour lacks, as far as its stream takes it. */
void mesh_peer_pump(struct boot *boot, struct mesh_peer *peer);
/* The stream is over; `why` (may be NULL) tells whether the other end ended it. */
void mesh_peer_drop(struct boot *boot, struct mesh_peer *peer,
                    const struct weft_error *why);
/* When a neighbour that ended its stream without BYE, and is not heard of again, is dead. */
weft_ns mesh_peer_verdict_ns(const struct boot *boot, const struct mesh_peer *peer);
/* Until when a neighbour that fell silent, and that no other stream leads to, is awaited; 0: it is
 * not. */
weft_ns mesh_peer_awaited_ns(const struct boot *boot, const struct mesh_peer *peer);
weft_ns mesh_peer_deadline(const struct boot *boot, const struct mesh_peer *peer);
bool mesh_candidate_is_fresh(const struct boot *boot,
                             const struct mesh_candidate *candidate);

/* mesh_flood.c */
/* `member` is said to be the process `identity`. WEFT_OK: so it is, from now on. AGAIN: it was
 * once. An error is boot's: two claim to be one. */
weft_status mesh_meet(struct boot *boot, uint32_t member,
                      const struct record_identity *identity) WEFT_MUST_CHECK;
/* One message of a neighbour. WEFT_ERR_PROTOCOL with boot->error empty: its stream ends; any
 * other error is boot's. */
weft_status mesh_take(struct boot *boot, struct mesh_peer *peer,
                      const struct frame *frame,
                      struct weft_error *error) WEFT_MUST_CHECK;
/* Queues the next thing that `peer` lacks. False: nothing, or no room. */
bool mesh_tell_next(struct boot *boot, struct mesh_peer *peer);

/* mesh_links.c */
/* Writes this process's own record anew, if something in it changed. */
void mesh_links_update(struct boot *boot);
/* Who is reached, if a record changed. */
void mesh_graph_update(struct boot *boot);

#endif
