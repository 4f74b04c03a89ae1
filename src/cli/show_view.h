/* What `weft show` shows, gathered once for people and for JSON. Private to cli/show*.c. */
#ifndef WEFT_CLI_SHOW_VIEW_H
#define WEFT_CLI_SHOW_VIEW_H

#include <jansson.h>

#include "base/text.h"
#include "mesh/mesh.h"
#include "run/insides.h"
#include "scenario/scenario.h"

/* More ranks than these are summed up: for people, and in JSON too. */
#define SHOW_RANKS_MAX 16
#define SHOW_PAIRS_MAX 64
/* Up to so many ranks people see what NCCL asks for pairs, and not only for rings. */
#define SHOW_NCCL_PAIRS_MAX 4
/* Up to so many ranks all distances are looked at. */
#define SHOW_HOPS_MAX 1024

struct view {
    const struct scenario *scenario;
    struct scenario_world *world; /* Owned */
    struct mesh_graph graph;      /* Owned */
    struct run_insides insides;   /* Owned */
    uint32_t *hosts;              /* Owned [n_ranks]: the host of each rank */
};

const char *show_host_of(const struct view *view, uint32_t rank);
/* Each appends text for people and gives a new reference for the document. */
json_t *show_pairs(const struct view *view, struct weft_text *out);
json_t *show_hops(const struct view *view, struct weft_text *out);
json_t *show_cables(const struct view *view);
/* Which NIC NCCL would ask for which connection; null with many ranks, or on one host. */
json_t *show_nccl(const struct view *view, bool merges_nics, struct weft_text *out);
/* What the policy would choose for every pair of ranks, and why; null with many ranks. */
json_t *show_policy(const struct view *view, const char *policy, struct weft_text *out);
/* Adds "rings" and "trees" to the document; rank orders go into `out_best`, [n_ranks], if
 * there is a ring over cables alone (else false). */
bool show_packings(const struct view *view, json_t *document, struct weft_text *out,
                   uint32_t *out_best);

#endif
