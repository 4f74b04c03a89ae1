/* The scenario that `weft show` prints, as text and as JSON. Private to cli/show*.c. */
#ifndef WEFT_CLI_SHOW_VIEW_H
#define WEFT_CLI_SHOW_VIEW_H

#include <jansson.h>

#include "base/text.h"
#include "mesh/mesh.h"
#include "run/insides.h"
#include "scenario/scenario.h"

/* SHOW_RANKS_MAX: maximum number of ranks whose pairs, rings and trees the text shows one by one.
 * SHOW_PAIRS_MAX: maximum number of ranks for pairs in JSON and for the ring in text. */
#define SHOW_RANKS_MAX 16
#define SHOW_PAIRS_MAX 64
/* Maximum number of ranks for which text shows NCCL's choices for pairs in addition to rings. */
#define SHOW_NCCL_PAIRS_MAX 4
/* Maximum number of ranks for which the distances from every rank are computed. */
#define SHOW_HOPS_MAX 1024

struct view {
    const struct scenario *scenario;
    struct scenario_world *world; /* Owned */
    struct mesh_graph graph;      /* Owned */
    struct run_insides insides;   /* Owned */
    uint32_t *hosts;              /* Owned [n_ranks]; host of each rank */
};

const char *show_host_of(const struct view *view, uint32_t rank);
/* Append text and return a new reference for the document. */
json_t *show_pairs(const struct view *view, struct weft_text *out);
json_t *show_hops(const struct view *view, struct weft_text *out);
json_t *show_cables(const struct view *view);
/* Shows the NICs that NCCL would select for each connection. Returns null with more than
 * SHOW_RANKS_MAX ranks. */
json_t *show_nccl(const struct view *view, bool merges_nics, struct weft_text *out);
/* Shows the policy's choice for each pair of ranks and the reasons. Returns null with more than
 * SHOW_RANKS_MAX ranks. */
json_t *show_policy(const struct view *view, const char *policy, struct weft_text *out);
/* Adds "rings" and "trees" to the document. If a ring over cables alone exists, writes its ranks in
 * order to `out_best` [n_ranks] and returns true. */
bool show_packings(const struct view *view, json_t *document, struct weft_text *out,
                   uint32_t *out_best);

#endif
