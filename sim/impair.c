#include <stddef.h>

#include "base/rng.h"
#include "sim/link.h"

enum {
    ETHERNET_OVERHEAD_BYTES = 14 + 4 + 20, /* header, FCS, preamble and gap */
    REORDER_FRAMES = 4, /* how many full-size frames can overtake a delayed one */
    FULL_FRAME_BYTES = 4178
};

/* Returns true if `frame` is the packet and the transmission that `state` selects. */
static bool is_matched(const struct sim_link *link, struct sim_match_state *state,
                       const struct sim_frame *frame)
{
    const struct sim_match *match = &state->match;
    const struct sim_port *at = match->is_inward ? link->to : link->from;
    uint32_t psn = 0;
    if (state->is_done || at == NULL ||
        sim_nic_ordinal(at->nic, frame, match->is_inward, &psn) != match->qp ||
        psn != match->psn) {
        return false;
    }
    state->is_done = state->seen == match->iteration;
    state->seen++;
    return state->is_done;
}

/* Returns a delay during which other frames can overtake. */
static weft_ps held_back(const struct sim_link *link)
{
    return REORDER_FRAMES * sim_rate_time(&link->rate, FULL_FRAME_BYTES);
}

static void apply_matches(const struct sim_link *link, const struct sim_frame *frame,
                          struct sim_fate *fate)
{
    for (uint32_t i = 0; i < link->from->n_matches; i++) {
        struct sim_match_state *state = &link->from->matches[i];
        const struct sim_match *match = &state->match;
        if (!is_matched(link, state, frame)) {
            continue;
        }
        switch (match->action) {
        case SIM_MATCH_DROP:
            fate->why = "match";
            break;
        case SIM_MATCH_CORRUPT:
            fate->is_corrupt = true;
            fate->is_unseen = match->is_unseen;
            break;
        case SIM_MATCH_DUPLICATE:
            fate->is_duplicate = true;
            break;
        case SIM_MATCH_REORDER:
            fate->extra += held_back(link);
            break;
        case SIM_MATCH_MARK:
            fate->is_marked = true;
            break;
        case SIM_MATCH_DELAY:
            fate->extra += match->delay_ps;
            break;
        }
    }
}

/* Draws in a fixed order, whatever the results. */
static void apply_chance(struct sim_link *link, struct sim_fate *fate)
{
    const struct sim_impairment *impairment = &link->impairment;
    bool is_lost = weft_rng_chance(&link->rng, impairment->loss_ppb);
    if (weft_rng_chance(&link->rng, impairment->corrupt_ppb)) {
        fate->is_corrupt = true;
        fate->is_unseen = impairment->corrupts_unseen;
    }
    if (weft_rng_chance(&link->rng, impairment->duplicate_ppb)) {
        fate->is_duplicate = true;
    }
    if (weft_rng_chance(&link->rng, impairment->reorder_ppb)) {
        fate->extra += held_back(link);
    }
    if (weft_rng_chance(&link->rng, impairment->ecn_ppb)) {
        fate->is_marked = true;
    }
    if (is_lost && fate->why == NULL) {
        fate->why = "loss";
    }
}

struct sim_fate sim_link_fate(struct sim_link *link, const struct sim_frame *frame)
{
    struct sim_fate fate = {.why = NULL};
    if (link->from->n_matches > 0) {
        apply_matches(link, frame, &fate);
    }
    if (link->is_impaired) {
        apply_chance(link, &fate);
    }
    uint32_t ip_bytes = frame->wire_bytes - ETHERNET_OVERHEAD_BYTES;
    if (fate.why == NULL && link->path_limit_bytes != 0 &&
        ip_bytes > link->path_limit_bytes) {
        fate.why = "path_limit";
    }
    return fate;
}

const char *sim_link_impair_packet(struct sim_link *link, const struct sim_packet *packet,
                                   bool *duplicate)
{
    if (link->is_impaired) {
        const struct sim_impairment *impairment = &link->impairment;
        bool lost = weft_rng_chance(&link->rng, impairment->loss_ppb);
        bool corrupt = weft_rng_chance(&link->rng, impairment->corrupt_ppb);
        *duplicate = weft_rng_chance(&link->rng, impairment->duplicate_ppb);
        if (lost || corrupt) {
            return lost ? "loss" : "corrupt"; /* the receiver's FCS check drops it */
        }
    }
    if (link->path_limit_bytes != 0 && packet->ip_bytes > link->path_limit_bytes) {
        return "path_limit";
    }
    return NULL;
}
