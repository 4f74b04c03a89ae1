/* Predicted times, from the mesh alone: the time that the busiest lane or GPU needs for the
 * bytes, plus the hops that the first or last slice makes alone (docs/collectives.md). */
#include "base/check.h"
#include "coll/plan_draft.h"
#include "xfer/wire.h"

/* Time that software and NICs add to every message beyond the wire. Chosen: of the order that
 * verbs on current NICs take from post to completion. */
#define MESSAGE_PS INT64_C(1000000)
/* Time by which a message delays the next on its lane. Chosen: 3 million messages/s. */
#define GAP_PS INT64_C(300000)
/* Time by which a message delays its sender's post to the next peer. Chosen: 10 million
 * messages/s. */
#define POST_PS INT64_C(100000)
/* Reductions compete with the NIC for memory. Chosen: 200 GB/s. */
#define REDUCE_PS_PER_BYTE 5
/* Messages in flight between two ranks. */
#define WINDOW 8
/* Relays forward pieces of this size. */
#define RELAY_BYTES (128u * 1024)
/* Fraction that a pattern with relays loses. Chosen: an eighth, because data crosses a relay's
 * memory twice and its sender waits for a notice. */
#define RELAY_LOSS 8
#define PS_PER_S INT64_C(1000000000000)

_Static_assert(COLL_RELAYS_MAX == FLOW_VIA_MAX, "relays of one lane");

__extension__ typedef unsigned __int128 wide;

/* The demand of one algorithm on the mesh. */
struct demand {
    const struct coll_shape *shape;
    /* the data; `shape` has the shares of it that lanes and ranks carry */
    uint64_t bytes;
    uint32_t n_hops;     /* hops that follow each other */
    uint64_t flow_bytes; /* data of one flow; no message is longer */
    uint64_t reduced;    /* bytes that a rank reduces */
    bool is_ring;        /* hops of one flow overlap those of all others */
    bool is_one_lane;    /* all hops use the busiest lane, whose time is counted */
    bool is_mixed;       /* messages arrive in another order than they are reduced in */
    uint32_t n_peers;    /* peers that a rank sends to at once */
};

static uint64_t share_of(uint64_t bytes, uint64_t numerator, uint64_t denominator)
{
    return (uint64_t)((wide)bytes * numerator / denominator);
}

/* Returns `ps`, or a quarter of the greatest number, so that a few of them can be added. */
static weft_ps clip(wide ps)
{
    return ps > (wide)INT64_MAX / 4 ? INT64_MAX / 4 : (weft_ps)ps;
}

static weft_ps wire_ps(const struct coll_mesh *mesh, uint64_t bytes, uint64_t slice,
                       uint64_t rate_bps)
{
    uint32_t mtu = mesh->overlay.path_mtu == 0 ? 1024 : mesh->overlay.path_mtu;
    uint64_t on_wire =
        mesh_wire_bytes(bytes, slice == 0 ? 1 : slice, mtu, mesh->overlay.is_ipv6);

    return clip((wide)on_wire * 8 * PS_PER_S / (rate_bps == 0 ? 1 : rate_bps));
}

/* Returns the time of the busiest lane or link. */
static weft_ps load_ps(const struct coll_mesh *mesh, const struct coll_load *load,
                       uint64_t bytes, uint64_t slice)
{
    return load->is_inside ? clip((wide)bytes * 8 * PS_PER_S / load->rate_bps)
                           : wire_ps(mesh, bytes, slice, load->rate_bps);
}

static weft_ps later(weft_ps a, weft_ps b)
{
    return a > b ? a : b;
}

static const struct coll_copies *copies_of(const struct coll_shape *shape, uint64_t slice)
{
    return slice < TRANSPORT_DIRECT_BYTES ? &shape->stepped : &shape->direct;
}

/* Returns the time of a hop within a host: a copy into the steps, a wake-up and a copy out of
 * them; or a wake-up and one copy. */
static weft_ps inside_ps(const struct coll_shape *shape, uint64_t slice)
{
    uint64_t rate_bps = copies_of(shape, slice)->rate_bps;

    return rate_bps == 0 ? 0
                         : clip((wide)slice * 8 * PS_PER_S / rate_bps +
                                (wide)shape->bell_ps + 2 * POST_PS);
}

static weft_ps hop_ps(const struct coll_mesh *mesh, const struct coll_shape *shape,
                      uint64_t slice)
{
    weft_ps slice_ps = load_ps(mesh, &shape->load, slice, slice);
    uint64_t piece = slice < RELAY_BYTES ? slice : RELAY_BYTES;
    weft_ps inside = inside_ps(shape, slice);

    if (inside > 0 && !shape->crosses) {
        return inside;
    }
    return later(
        inside, clip((wide)slice_ps + (wide)shape->delay_ps + MESSAGE_PS +
                     (wide)shape->n_relays *
                         (wide)(load_ps(mesh, &shape->load, piece, piece) + MESSAGE_PS)));
}

static weft_ps times(weft_ps n, weft_ps ps)
{
    return clip((wide)n * (wide)ps);
}

static weft_ps in_slices(uint64_t bytes, uint64_t slice)
{
    return (weft_ps)(slice == 0 ? 0 : (bytes + slice - 1) / slice);
}

/* Returns the gap between two messages of a pair. Within a host it is the launch of the copy
 * out of the steps; the launch of a direct copy is hidden behind the copy before. */
static weft_ps gap_ps(const struct coll_shape *shape, uint64_t slice)
{
    if (!shape->load.is_inside) {
        return GAP_PS;
    }
    return slice < TRANSPORT_DIRECT_BYTES ? POST_PS : 0;
}

/* Returns the time that links and a GPU take for `n` messages from each of several peers: the
 * first message to be reduced can be the last of its peer's that the links carry. If n is 0,
 * the lesser time is hidden. */
static weft_ps in_stages(weft_ps links, weft_ps gpu, weft_ps n)
{
    return later(links, gpu) + (n > 0 ? (links < gpu ? links : gpu) / n : 0);
}

static weft_ps time_of(const struct coll_mesh *mesh, const struct demand *demand,
                       uint64_t slice)
{
    const struct coll_shape *shape = demand->shape;
    uint64_t on_lane = share_of(demand->bytes, shape->load.share, 65536), on_gpu;
    weft_ps hop, busy, messages, of_pair, reduced, launches, on_gpu_ps;

    if (!shape->exists) {
        return INT64_MAX;
    }
    slice = slice < demand->flow_bytes ? slice : demand->flow_bytes;
    of_pair = in_slices(share_of(demand->bytes, shape->pair, 65536), slice);
    /* Many pairs share a link within a host, each at its own pace. */
    messages = shape->load.is_inside ? of_pair : in_slices(on_lane, slice);
    hop = hop_ps(mesh, shape, slice);
    reduced = demand->reduced > 0 ? REDUCE_PS_PER_BYTE * (weft_ps)slice : 0;
    busy = load_ps(mesh, &shape->load, on_lane, slice);
    busy = clip((wide)busy + (wide)times(messages, gap_ps(shape, slice)));
    busy += shape->n_relays > 0 ? busy / RELAY_LOSS : 0;
    /* The clear-to-send for the first message of a window must return before the last one has
     * left. */
    busy = later(busy, times(of_pair - (of_pair > 0),
                             hop + shape->delay_ps + shape->bell_ps + 2 * MESSAGE_PS) /
                           WINDOW);
    /* Copies within a GPU's memory alternate with its reductions, and so do their launches. */
    on_gpu =
        demand->reduced + share_of(demand->bytes, copies_of(shape, slice)->within, 65536);
    launches = shape->load.is_inside ? times(in_slices(on_gpu, slice), POST_PS) : 0;
    on_gpu_ps = times(REDUCE_PS_PER_BYTE, clip(on_gpu)) + launches;
    busy = clip((wide)in_stages(busy, on_gpu_ps,
                                demand->is_mixed && shape->load.is_inside ? of_pair : 0));
    hop += reduced;
    if (demand->is_ring) {
        busy = later(busy, times(demand->n_hops, hop)) + hop;
    } else {
        /* The lane's time includes a slice's own: that of every hop if data is not cut into
         * slices. */
        uint32_t n_whole = slice == demand->flow_bytes ? demand->n_hops : 1;
        uint32_t n_counted = demand->is_one_lane ? n_whole : 0;

        busy += times(demand->n_hops, hop) -
                times(n_counted, load_ps(mesh, &shape->load, slice, slice));
    }
    return busy + (weft_ps)demand->n_peers * POST_PS;
}

/* ---- requirements of each algorithm ---- */

static void along_ring(struct demand *demand, const struct coll_mesh *mesh, uint64_t size,
                       uint32_t n_phases, bool all)
{
    uint64_t n = mesh->n_ranks, parts = all ? mesh->rings.n_rings : 1;

    demand->shape = &mesh->ring[all];
    demand->bytes = share_of(size, n_phases * (n - 1), n);
    demand->n_hops = n_phases * (mesh->n_ranks - 1);
    demand->flow_bytes = size / n / (parts == 0 ? 1 : parts);
    demand->reduced = share_of(size, n - 1, n);
    demand->is_ring = true;
    demand->n_peers = (uint32_t)parts;
}

static void along_shape(struct demand *demand, const struct coll_shape *shape,
                        uint64_t bytes, uint32_t n_phases, uint64_t flow_bytes)
{
    demand->shape = shape;
    demand->bytes = bytes;
    demand->n_hops = n_phases * shape->n_hops;
    demand->flow_bytes = flow_bytes;
    demand->reduced = share_of(bytes, shape->fan, 65536);
    demand->n_peers = n_phases;
}

static void ask_all_reduce(struct demand *demand, const struct coll_mesh *mesh,
                           enum weft_algorithm algorithm, uint64_t size)
{
    uint64_t n = mesh->n_ranks;

    switch (algorithm) {
    case WEFT_ALGORITHM_RING:
    case WEFT_ALGORITHM_RINGS:
        along_ring(demand, mesh, size, 2, algorithm == WEFT_ALGORITHM_RINGS);
        return;
    case WEFT_ALGORITHM_TREE:
    case WEFT_ALGORITHM_TREES:
        along_shape(demand, &mesh->tree[algorithm == WEFT_ALGORITHM_TREES], size, 2,
                    algorithm == WEFT_ALGORITHM_TREES && mesh->trees.n_trees > 0
                        ? size / mesh->trees.n_trees
                        : size);
        return;
    case WEFT_ALGORITHM_CHAIN:
        along_shape(demand, &mesh->path, size, 2, size);
        return;
    case WEFT_ALGORITHM_EXCHANGE:
        along_shape(demand, &mesh->pairs, 2 * size / n, 2, size / n);
        demand->reduced = size;
        demand->n_peers = 2 * (mesh->n_ranks - 1);
        demand->is_one_lane = true;
        demand->is_mixed = n > 2;
        return;
    case WEFT_ALGORITHM_DOUBLING:
        along_shape(demand, &mesh->butterfly, size, 1, size);
        demand->n_peers = mesh->butterfly.n_hops;
        return;
    case WEFT_ALGORITHM_HALVING:
        along_shape(demand, &mesh->circulant, 2 * size, 2, size / n);
        demand->n_peers = 2 * (mesh->n_ranks - 1);
        return;
    case WEFT_ALGORITHM_DIRECT:
    case WEFT_ALGORITHM_AUTO:
    case WEFT_ALGORITHM_FORWARD:
        break;
    }
    along_shape(demand, &mesh->pairs, size, 1, size);
    demand->n_peers = mesh->n_ranks - 1;
    demand->is_one_lane = true;
    demand->is_mixed = n > 2;
}

static void ask_blocks(struct demand *demand, const struct coll_mesh *mesh,
                       enum weft_algorithm algorithm, uint64_t size, bool reduces)
{
    uint64_t n = mesh->n_ranks;
    const struct coll_shape *trees = reduces ? mesh->scatter : mesh->gather;
    bool all = algorithm == WEFT_ALGORITHM_RINGS || algorithm == WEFT_ALGORITHM_TREES;

    if (algorithm == WEFT_ALGORITHM_RING || algorithm == WEFT_ALGORITHM_RINGS) {
        along_ring(demand, mesh, size, 1, all);
    } else if (algorithm == WEFT_ALGORITHM_TREE || algorithm == WEFT_ALGORITHM_TREES) {
        uint64_t parts = all && mesh->trees.n_trees > 0 ? mesh->trees.n_trees : 1;

        along_shape(demand, &trees[all], size, 1, size / n / parts);
        demand->n_peers = mesh->n_ranks * (uint32_t)parts;
    } else if (algorithm == WEFT_ALGORITHM_DIRECT) {
        along_shape(demand, &mesh->pairs, size / n, 1, size / n);
        demand->n_peers = mesh->n_ranks - 1;
        demand->is_one_lane = !mesh->pairs.load.is_inside; /* copies end together */
        demand->is_mixed = reduces && n > 2;
    } else {
        along_shape(demand, &mesh->circulant, size, 1, size / n);
        demand->n_peers = mesh->n_ranks - 1;
    }
    demand->reduced = reduces ? demand->reduced : 0;
}

static void ask_rooted(struct demand *demand, const struct coll_mesh *mesh,
                       const struct coll_job *job, enum weft_algorithm algorithm,
                       uint64_t size)
{
    const struct coll_rooted *rooted = coll_mesh_rooted(mesh, job->root);
    bool is_out = job->kind == WEFT_BROADCAST, all = algorithm == WEFT_ALGORITHM_TREES;
    const struct mesh_packing *packing = rooted == NULL ? &mesh->trees
                                         : is_out       ? &rooted->out
                                                        : &rooted->in;
    const struct coll_shape *shapes = rooted == NULL ? mesh->tree
                                      : is_out       ? rooted->broadcasts
                                                     : rooted->reduces;

    if (algorithm == WEFT_ALGORITHM_CHAIN) {
        along_shape(demand,
                    rooted == NULL ? &mesh->ring[0]
                    : is_out       ? &rooted->chain_out
                                   : &rooted->chain_in,
                    size, 1, size);
    } else if (algorithm == WEFT_ALGORITHM_TREE || algorithm == WEFT_ALGORITHM_TREES) {
        along_shape(demand, &shapes[all], size, 1,
                    all && packing->n_trees > 0 ? size / packing->n_trees : size);
        demand->n_hops *= rooted == NULL ? 2 : 1; /* rooted at another rank */
    } else if (algorithm == WEFT_ALGORITHM_DIRECT) {
        along_shape(demand, &mesh->pairs, size, 1, size);
        demand->n_peers = mesh->n_ranks - 1;
    } else {
        along_shape(demand, &mesh->butterfly, size, 1, size);
        demand->n_peers = mesh->butterfly.n_hops;
    }
    demand->reduced = is_out ? 0 : demand->reduced;
}

static void ask_barrier(struct demand *demand, const struct coll_mesh *mesh,
                        enum weft_algorithm algorithm)
{
    if (algorithm == WEFT_ALGORITHM_TREE) {
        along_shape(demand, &mesh->tree[0], 0, 2, 0);
    } else if (algorithm == WEFT_ALGORITHM_DOUBLING) {
        along_shape(demand, &mesh->circulant, 0, 1, 0);
        demand->n_peers = mesh->circulant.n_hops;
    } else {
        along_shape(demand, &mesh->pairs, 0, 1, 0);
        demand->n_peers = mesh->n_ranks - 1;
    }
}

static void ask(struct demand *demand, const struct coll_mesh *mesh,
                const struct coll_job *job, enum weft_algorithm algorithm)
{
    uint64_t size = job->count * weft_dtype_bytes(job->dtype);

    *demand = (struct demand){0};
    switch (job->kind) {
    case WEFT_ALL_REDUCE:
        ask_all_reduce(demand, mesh, algorithm, size);
        return;
    case WEFT_REDUCE_SCATTER:
    case WEFT_ALL_GATHER:
        ask_blocks(demand, mesh, algorithm, size, job->kind == WEFT_REDUCE_SCATTER);
        return;
    case WEFT_BROADCAST:
    case WEFT_REDUCE:
        ask_rooted(demand, mesh, job, algorithm, size);
        return;
    case WEFT_ALL_TO_ALL:
        along_shape(demand,
                    algorithm == WEFT_ALGORITHM_FORWARD ? &mesh->forward : &mesh->pairs,
                    size / mesh->n_ranks, 1,
                    algorithm == WEFT_ALGORITHM_FORWARD ? size : size / mesh->n_ranks);
        demand->reduced = 0;
        return;
    case WEFT_SEND_RECV:
        along_shape(demand, &mesh->next, size, 1, size);
        demand->reduced = 0;
        return;
    case WEFT_BARRIER:
        ask_barrier(demand, mesh, algorithm);
        return;
    }
}

weft_ps coll_cost_ps(const struct coll_job *job, const struct coll_mesh *mesh,
                     enum weft_algorithm algorithm, uint64_t slice_bytes)
{
    struct demand demand;

    weft_check(algorithm != WEFT_ALGORITHM_AUTO);
    if (mesh->n_ranks < 2) {
        return 0;
    }
    if (!weft_collective_has(job->kind, algorithm)) {
        return INT64_MAX;
    }
    ask(&demand, mesh, job, algorithm);
    return time_of(mesh, &demand, slice_bytes);
}

/* Finds the best slice for one algorithm; on ties the longest. */
static void try_slices(const struct coll_job *job, const struct coll_mesh *mesh,
                       enum weft_algorithm algorithm, struct coll_choice *best)
{
    for (uint64_t slice = COLL_SLICE_BYTES_MAX; slice >= COLL_SLICE_BYTES_MIN;
         slice /= 2) {
        weft_ps ps = coll_cost_ps(job, mesh, algorithm, slice);

        if (ps < best->time_ps) {
            *best = (struct coll_choice){algorithm, slice, ps};
        }
    }
}

uint32_t coll_relays(const struct coll_job *job, const struct coll_mesh *mesh,
                     enum weft_algorithm algorithm)
{
    struct demand demand;

    weft_check(algorithm != WEFT_ALGORITHM_AUTO);
    if (mesh->n_ranks < 2 || !weft_collective_has(job->kind, algorithm)) {
        return 0;
    }
    ask(&demand, mesh, job, algorithm);
    return demand.shape == NULL || demand.shape->n_cables == 0
               ? 0
               : demand.shape->n_cables - 1;
}

void coll_farthest(const struct coll_job *job, const struct coll_mesh *mesh,
                   enum weft_algorithm algorithm, uint32_t out_ranks[2])
{
    struct demand demand;

    ask(&demand, mesh, job, algorithm);
    out_ranks[0] = demand.shape->far[0];
    out_ranks[1] = demand.shape->far[1];
}

/* Returns true if connections and relays suffice for the algorithm. */
static bool is_possible(const struct coll_job *job, const struct coll_mesh *mesh,
                        enum weft_algorithm algorithm)
{
    struct demand demand;

    if (!weft_collective_has(job->kind, algorithm)) {
        return false;
    }
    ask(&demand, mesh, job, algorithm);
    return coll_relays(job, mesh, algorithm) <= COLL_RELAYS_MAX &&
           (demand.shape != &mesh->pairs || mesh->pairs.n_relayed <= COLL_RELAYED_MAX);
}

/* Finds the best of all algorithms but FORWARD: of those that are possible, or of all. */
static void try_all(const struct coll_job *job, const struct coll_mesh *mesh,
                    bool is_any_allowed, struct coll_choice *best)
{
    if (is_any_allowed || is_possible(job, mesh, WEFT_ALGORITHM_DIRECT)) {
        try_slices(job, mesh, WEFT_ALGORITHM_DIRECT, best);
    }
    for (int i = WEFT_ALGORITHM_RING; i < WEFT_ALGORITHM_FORWARD; i++) {
        enum weft_algorithm algorithm = (enum weft_algorithm)i;

        if (is_any_allowed || is_possible(job, mesh, algorithm)) {
            try_slices(job, mesh, algorithm, best);
        }
    }
}

void coll_choose(const struct coll_job *job, const struct coll_mesh *mesh,
                 struct coll_choice *out)
{
    *out = (struct coll_choice){.algorithm = WEFT_ALGORITHM_DIRECT,
                                .slice_bytes = COLL_SLICE_BYTES_MAX,
                                .time_ps = INT64_MAX};
    if (job->algorithm != WEFT_ALGORITHM_AUTO) {
        out->algorithm = job->algorithm;
        try_slices(job, mesh, job->algorithm, out);
        return;
    }
    try_all(job, mesh, false, out);
    if (out->time_ps == INT64_MAX && is_possible(job, mesh, WEFT_ALGORITHM_FORWARD)) {
        try_slices(job, mesh, WEFT_ALGORITHM_FORWARD, out);
    }
    if (out->time_ps == INT64_MAX) {
        try_all(job, mesh, true, out);
    }
}
