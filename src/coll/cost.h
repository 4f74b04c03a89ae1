/* What plans may know of the mesh, and what they will cost on it: rates, delays and headers,
 * never a measurement. docs/collectives.md derives the formulas. */
#ifndef WEFT_COLL_COST_H
#define WEFT_COLL_COST_H

#include "coll/coll.h"
#include "coll/inside.h"
#include "mesh/packing.h"

/* The busiest lane of a pattern of messages: it carries `share`/65536 of the data. */
struct coll_load {
    uint64_t share;
    uint64_t rate_bps;
    bool is_inside; /* a link within a host: no packets */
};

/* A pattern of messages laid over the mesh. */
struct coll_shape {
    struct coll_load load;
    weft_ps delay_ps;  /* of its longest hop */
    uint32_t n_relays; /* between the ends of its longest hop */
    uint32_t
        n_cables;    /* between the ends of the hop that is longest in cables; 0: none */
    uint32_t n_hops; /* one after another */
    uint64_t fan;    /* bytes that its busiest rank reduces, in 1/65536 of the data */
    /* Of hops within hosts whose inside is known: */
    struct coll_copies {
        uint64_t within; /* bytes that a GPU copies within its memory, likewise */
        /* At which a slice gets through the slowest; 0: there are none. */
        uint64_t rate_bps;
    } stepped, direct; /* short messages; those of TRANSPORT_DIRECT_BYTES and more */
    uint64_t pair;     /* what goes from one rank to another, likewise */
    weft_ps bell_ps;
    bool crosses; /* some hop is between hosts */
    bool exists;
};

/* Packings out of and towards a root. */
struct coll_rooted {
    uint32_t root;
    struct mesh_packing out, in;                 /* Owned */
    struct coll_shape broadcasts[2], reduces[2]; /* [0]: the first tree alone; [1]: all */
    struct coll_shape chain_out, chain_in;
};

struct coll_mesh {
    uint32_t n_ranks;
    struct mesh_overlay overlay;      /* Owned */
    struct mesh_packing rings, trees; /* Owned */
    uint32_t n_channels;              /* that plans may use inside hosts; at least 1 */
    struct coll_rooted *rooted;       /* Owned [n_rooted] */
    uint32_t n_rooted;
    /* [0]: the first structure alone; [1]: all of the packing */
    struct coll_shape ring[2];    /* each lane of a ring carries the ring's share */
    struct coll_shape tree[2];    /* each edge carries it up and down */
    struct coll_shape scatter[2]; /* n blocks, each up the tree hung from its owner */
    struct coll_shape gather[2];  /* and down */
    struct coll_shape path;       /* the first ring without its last hop, both ways */
    struct coll_shape pairs;      /* everything from everyone to everyone */
    struct coll_shape circulant;  /* n blocks by distances 1, 2, 4 ... */
    struct coll_shape butterfly;  /* everything to the partner of every round */
    struct coll_shape next;       /* everything from rank i to rank i + 1 */
};

/* Lays rings and trees over `overlay`, which is taken over; trees of broadcast and reduce
 * for each of `roots`. Other roots use the trees of all_reduce. `insides`: of the hosts with
 * several ranks, or none: then data within hosts is free. */
void coll_mesh_make(struct mesh_overlay *overlay, const uint32_t *roots, uint32_t n_roots,
                    const struct coll_inside *insides, uint32_t n_insides,
                    struct coll_mesh *out);
/* The same with packings made elsewhere, which are taken over. */
void coll_mesh_of_packings(struct mesh_overlay *overlay, struct mesh_packing *rings,
                           struct mesh_packing *trees, struct coll_mesh *out);
void coll_mesh_fini(struct coll_mesh *mesh);
/* NULL: nothing was packed for this root. */
const struct coll_rooted *coll_mesh_rooted(const struct coll_mesh *mesh, uint32_t root);

struct coll_choice {
    enum coll_algorithm algorithm; /* never AUTO */
    uint64_t slice_bytes;          /* largest message */
    weft_ps time_ps;
};
/* The modelled time of one job by `algorithm` with messages of `slice_bytes`; INT64_MAX:
 * the mesh does not join all ranks, or the kind has no such algorithm. */
weft_ps coll_cost_ps(const struct coll_job *job, const struct coll_mesh *mesh,
                     enum coll_algorithm algorithm, uint64_t slice_bytes);
/* Relays that a connection may need, at most (FLOW_VIA_MAX of xfer/wire.h), and that the longest
 * hop of a job's algorithm, not AUTO, needs while all cables are up. */
#define COLL_RELAYS_MAX 13
uint32_t coll_relays(const struct coll_job *job, const struct coll_mesh *mesh,
                     enum coll_algorithm algorithm);
/* The cheapest of the job's algorithm, or when that is AUTO of all that need no more than
 * COLL_RELAYS_MAX relays, if there are any; the first in the order of enum coll_algorithm with
 * DIRECT before all others wins ties. */
void coll_choose(const struct coll_job *job, const struct coll_mesh *mesh,
                 struct coll_choice *out);

#endif
