/* The cost model: the mesh as plans see it, and the predicted times of plans, from rates,
 * delays and headers, never from measurements. docs/collectives.md derives the formulas. */
#ifndef WEFT_COLL_COST_H
#define WEFT_COLL_COST_H

#include "coll/coll.h"
#include "coll/inside.h"
#include "mesh/packing.h"

/* The busiest lane of a message pattern; it carries `share`/65536 of the data. */
struct coll_load {
    uint64_t share;
    uint64_t rate_bps;
    bool is_inside; /* link within a host, without packets */
};

/* A message pattern laid over the mesh. Amounts are in 1/65536 of the data. */
struct coll_shape {
    struct coll_load load;
    weft_ps delay_ps;  /* of the longest hop */
    uint32_t n_relays; /* relays of the hop with the most */
    uint32_t n_cables; /* cables of the hop with the most; 0 if there are none */
    uint32_t far[2];   /* ranks at the ends of that hop; 0 if there is none */
    uint32_t n_hops;   /* hops that follow each other */
    /* of `pairs`: pairs whose data the busiest rank's host relays */
    uint32_t n_relayed;
    uint64_t fan; /* amount that the busiest rank reduces */
    /* Copies of hops within hosts whose inside is known. */
    struct coll_copies {
        uint64_t within; /* amount that the busiest GPU copies within its memory */
        /* Rate of the slowest of these hops for one slice; 0 if there are none. */
        uint64_t rate_bps;
    } stepped, direct; /* short messages; those of at least TRANSPORT_DIRECT_BYTES */
    uint64_t pair;     /* largest amount from one rank to another */
    weft_ps bell_ps;   /* longest time to wake a rank of the same host */
    bool crosses;      /* some hop is between hosts */
    bool exists;       /* false if the mesh does not join all ranks */
};

/* Packings out of one root and towards it. */
struct coll_rooted {
    uint32_t root;
    struct mesh_packing out, in; /* Owned */
    /* [0] uses the first tree only, [1] all trees */
    struct coll_shape broadcasts[2], reduces[2];
    struct coll_shape chain_out, chain_in;
};

struct coll_mesh {
    uint32_t n_ranks;
    struct mesh_overlay overlay;      /* Owned */
    struct mesh_packing rings, trees; /* Owned */
    /* channels that plans may use within hosts; at least 1 */
    uint32_t n_channels;
    struct coll_rooted *rooted; /* Owned [n_rooted] */
    uint32_t n_rooted;
    /* [0] uses the first ring or tree only, [1] all of the packing */
    struct coll_shape ring[2];    /* each lane of a ring carries the ring's share */
    struct coll_shape tree[2];    /* each edge carries the tree's share up and down */
    struct coll_shape scatter[2]; /* n blocks, each up the tree rooted at its owner */
    struct coll_shape gather[2];  /* n blocks, each down the tree rooted at its owner */
    /* first ring without its last hop, in both directions */
    struct coll_shape path;
    struct coll_shape pairs;     /* all data from every rank to every other */
    struct coll_shape forward;   /* the same, from neighbour to neighbour */
    struct coll_shape circulant; /* n blocks by distances 1, 2, 4 ... */
    struct coll_shape butterfly; /* all data to the partner of every round */
    struct coll_shape next;      /* all data from rank i to rank i + 1 */
};

/* Packs rings and trees into `overlay`, and trees of broadcast and reduce for each of `roots`;
 * jobs with other roots use the trees of all_reduce. `insides` describes the hosts with
 * several ranks; with none, data within hosts is free. Takes ownership of `overlay`. The
 * caller frees `out` with coll_mesh_fini. */
void coll_mesh_make(struct mesh_overlay *overlay, const uint32_t *roots, uint32_t n_roots,
                    const struct coll_inside *insides, uint32_t n_insides,
                    struct coll_mesh *out);
void coll_mesh_fini(struct coll_mesh *mesh);
/* Returns NULL if nothing was packed for this root. */
const struct coll_rooted *coll_mesh_rooted(const struct coll_mesh *mesh, uint32_t root);

struct coll_choice {
    enum weft_algorithm algorithm; /* never AUTO */
    uint64_t slice_bytes;          /* size of the largest message */
    weft_ps time_ps;
};
/* Returns the predicted time of one job by `algorithm` with messages of `slice_bytes`;
 * INT64_MAX if the mesh does not join all ranks or the kind has no such algorithm. */
weft_ps coll_cost_ps(const struct coll_job *job, const struct coll_mesh *mesh,
                     enum weft_algorithm algorithm, uint64_t slice_bytes);
/* Maximum number of relays of a connection (FLOW_VIA_MAX of xfer/wire.h). */
#define COLL_RELAYS_MAX 13
/* Maximum number of pairs of ranks that AUTO lets one host with ranks relay. A relay gives that
 * many lanes all the buffers that they request (xfer/relay.h). */
#define COLL_RELAYED_MAX 128
/* Returns the number of relays of the longest hop of `algorithm` (not AUTO) while all cables
 * are up. */
uint32_t coll_relays(const struct coll_job *job, const struct coll_mesh *mesh,
                     enum weft_algorithm algorithm);
/* Finds the ranks at the ends of that hop; the first ranks of their hosts. */
void coll_farthest(const struct coll_job *job, const struct coll_mesh *mesh,
                   enum weft_algorithm algorithm, uint32_t out_ranks[2]);
/* Chooses the cheapest algorithm and slice for the job. If job->algorithm is not AUTO, chooses
 * only the slice. AUTO excludes algorithms that need more than COLL_RELAYS_MAX relays in a row
 * or let a host relay more than COLL_RELAYED_MAX pairs, unless all do. It excludes FORWARD if
 * another is left. On ties the order is DIRECT, then that of enum weft_algorithm. `out` has
 * time_ps INT64_MAX if no algorithm is possible. */
void coll_choose(const struct coll_job *job, const struct coll_mesh *mesh,
                 struct coll_choice *out);

#endif
