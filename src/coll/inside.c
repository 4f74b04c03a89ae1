/* Lanes within hosts. */
#include "coll/inside.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"

#define BITS_PER_BYTE_US 8000000u /* bit/s of one byte per microsecond */
/* Rate of a GPU's copy within its own memory. */
#define MEMORY_BPS UINT64_C(1600000000000)
/* Time to wake a rank by a packet on the loopback interface. */
#define BELL_PS INT64_C(5000000)
/* Rate of a NIC that loops back what ranks of one host send each other. */
#define LOOP_BPS UINT64_C(100000000000)

void coll_inside_fini(struct coll_inside *inside)
{
    free(inside->ranks);
    free(inside->hops);
    free(inside->bytes_per_us);
    free(inside->first);
    free(inside->links);
    free(inside->rings);
    free(inside->trees);
    mesh_graph_fini(&inside->graph);
    *inside = (struct coll_inside){0};
}

__extension__ typedef unsigned __int128 wide;

struct furnishing {
    struct mesh_overlay *overlay;
    const struct coll_inside *inside;
    uint32_t first_resource; /* of the host's links */
};

/* Returns the rate of bytes that pass both, one after the other. */
static uint64_t serial(uint64_t a_bps, uint64_t b_bps)
{
    return (uint64_t)((wide)a_bps * b_bps / ((wide)a_bps + b_bps));
}

/* Makes the lane use the links from one node of `ways` to another. Returns the rate of the
 * narrowest. */
static uint64_t use_way(struct furnishing *furnishing, struct mesh_lane *lane,
                        uint32_t from, uint32_t to)
{
    const struct world_ways *ways = &furnishing->inside->ways;
    struct mesh_overlay *overlay = furnishing->overlay;
    uint32_t at = from * 2 * furnishing->inside->n + to;
    uint64_t rate = UINT64_MAX;

    for (uint32_t i = ways->n_links == 0 ? 0 : ways->first[at];
         ways->n_links > 0 && i < ways->first[at + 1]; i++) {
        uint64_t link = ways->bytes_per_us[ways->links[i]] * BITS_PER_BYTE_US;

        overlay->uses =
            weft_realloc(overlay->uses, (overlay->n_uses + 1) * sizeof(*overlay->uses));
        overlay->uses[overlay->n_uses++] =
            (struct mesh_use){furnishing->first_resource + ways->links[i], MESH_WHOLE};
        lane->n_uses++;
        rate = link < rate ? link : rate;
    }
    return rate == UINT64_MAX ? MEMORY_BPS : rate;
}

/* Returns the lane between two ranks. P2P: one copy over the links and, unless messages are
 * direct, one within the memory of the rank that has the steps. SHM: one copy into memory near
 * the receiver and one out of it. */
static struct mesh_lane lane_of(struct furnishing *furnishing, uint32_t from, uint32_t to)
{
    const struct coll_inside *inside = furnishing->inside;
    const struct coll_inside_hop *hop = &inside->hops[from * inside->n + to];
    uint32_t n = inside->n;
    uint64_t in, out = MEMORY_BPS;
    struct mesh_lane lane = {.from = inside->ranks[from],
                             .to = inside->ranks[to],
                             .delay_ps = BELL_PS,
                             .copier = UINT32_MAX,
                             .first_use = (uint32_t)furnishing->overlay->n_uses};

    if (hop->kind == WEFT_TRANSPORT_P2P) {
        in = use_way(furnishing, &lane, from, to);
        lane.direct_bps = hop->is_direct ? in : 0;
        lane.copier = hop->reads ? lane.from : lane.to;
    } else if (hop->kind == WEFT_TRANSPORT_SHM) {
        in = use_way(furnishing, &lane, from, n + to);
        out = use_way(furnishing, &lane, n + to, to);
    } else {
        in = LOOP_BPS;
    }
    lane.rate_bps = in < out || lane.direct_bps > 0 ? in : out;
    lane.slice_bps = serial(in, out);
    return lane;
}

static int compare_lanes(const void *a, const void *b)
{
    const struct mesh_lane *x = a;
    const struct mesh_lane *y = b;

    if (x->from != y->from) {
        return x->from < y->from ? -1 : 1;
    }
    return (x->to > y->to) - (x->to < y->to);
}

static bool is_furnished(const struct coll_inside *insides, uint32_t n_insides,
                         uint32_t rank)
{
    for (uint32_t i = 0; i < n_insides; i++) {
        for (uint32_t k = 0; k < insides[i].n && insides[i].n > 1; k++) {
            if (insides[i].ranks[k] == rank) {
                return true;
            }
        }
    }
    return false;
}

static void index_lanes(struct mesh_overlay *overlay)
{
    uint32_t at = 0;

    if (overlay->n_lanes > 0) {
        qsort(overlay->lanes, overlay->n_lanes, sizeof(*overlay->lanes), compare_lanes);
    }
    for (uint32_t r = 0; r < overlay->n_ranks; r++) {
        overlay->first[r] = at;
        while (at < overlay->n_lanes && overlay->lanes[at].from == r) {
            at++;
        }
    }
    overlay->first[overlay->n_ranks] = at;
}

static void add_links(struct mesh_overlay *overlay, const struct coll_inside *inside)
{
    uint32_t n = inside->ways.n_links;

    overlay->resource_bps =
        weft_realloc(overlay->resource_bps, ((size_t)overlay->n_resources + n + 1) *
                                                sizeof(*overlay->resource_bps));
    for (uint32_t i = 0; i < n; i++) {
        overlay->resource_bps[overlay->n_resources + i] =
            inside->ways.bytes_per_us[i] * BITS_PER_BYTE_US;
    }
    overlay->n_resources += n;
}

static void add_host(struct mesh_overlay *overlay, const struct coll_inside *inside)
{
    struct furnishing furnishing = {overlay, inside, overlay->n_resources};
    size_t n = overlay->n_lanes + (size_t)inside->n * inside->n;

    overlay->lanes = weft_realloc(overlay->lanes, (n + 1) * sizeof(*overlay->lanes));
    for (uint32_t i = 0; i < inside->n; i++) {
        for (uint32_t k = 0; k < inside->n; k++) {
            if (i != k) {
                overlay->lanes[overlay->n_lanes++] = lane_of(&furnishing, i, k);
            }
        }
    }
    add_links(overlay, inside);
}

void coll_inside_furnish(const struct coll_inside *insides, uint32_t n_insides,
                         struct mesh_overlay *overlay)
{
    size_t n = 0;

    overlay->first_inside = overlay->n_resources;
    for (size_t i = 0; i < overlay->n_lanes; i++) {
        const struct mesh_lane *lane = &overlay->lanes[i];

        if (lane->n_hops > 0 || !is_furnished(insides, n_insides, lane->from)) {
            overlay->lanes[n++] = *lane;
        }
    }
    overlay->n_lanes = n;
    for (uint32_t i = 0; i < n_insides; i++) {
        if (insides[i].n > 1) {
            add_host(overlay, &insides[i]);
        }
    }
    index_lanes(overlay);
}
