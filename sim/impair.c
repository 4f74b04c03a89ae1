#include <stddef.h>

#include "base/rng.h"
#include "sim/link.h"

enum {
    ETHERNET_OVERHEAD_BYTES = 14 + 4 + 20, /* header, FCS, preamble and gap */
    REORDER_FRAMES = 4, /* how many full frames may pass one held back */
    FULL_FRAME_BYTES = 4178
};

/* The fate that an explicit match gives the frame. */
static const char *apply_matches(struct sim_link *link, struct sim_frame *frame,
                                 weft_ps *extra, bool *duplicate)
{
    struct sim_port *port = link->from;
    uint32_t psn = 0;
    uint32_t ordinal = sim_nic_ordinal(port->nic, frame, &psn);
    const char *why = NULL;
    for (uint32_t i = 0; i < port->n_matches; i++) {
        struct sim_match_state *state = &port->matches[i];
        const struct sim_match *match = &state->match;
        if (state->is_done || match->qp != ordinal || match->psn != psn) {
            continue;
        }
        if (state->seen++ != match->iteration) {
            continue;
        }
        state->is_done = true;
        switch (match->action) {
        case SIM_MATCH_DROP:
            why = "match";
            break;
        case SIM_MATCH_CORRUPT:
            frame->flags |= SIM_FRAME_CORRUPT;
            break;
        case SIM_MATCH_DUPLICATE:
            *duplicate = true;
            break;
        case SIM_MATCH_DELAY:
            *extra += match->delay_ps;
            break;
        }
    }
    return why;
}

/* The fate that chance gives it. The draws come in a fixed order. */
static const char *apply_chance(struct sim_link *link, struct sim_frame *frame,
                                weft_ps *extra, bool *duplicate)
{
    const struct sim_impairment *impairment = &link->impairment;
    bool lost = weft_rng_chance(&link->rng, impairment->loss_ppb);
    if (weft_rng_chance(&link->rng, impairment->corrupt_ppb)) {
        frame->flags |= SIM_FRAME_CORRUPT;
    }
    if (weft_rng_chance(&link->rng, impairment->duplicate_ppb)) {
        *duplicate = true;
    }
    if (weft_rng_chance(&link->rng, impairment->reorder_ppb)) {
        *extra += REORDER_FRAMES * sim_rate_time(&link->rate, FULL_FRAME_BYTES);
    }
    if (weft_rng_chance(&link->rng, impairment->ecn_ppb)) {
        frame->flags |= SIM_FRAME_ECN_CE;
    }
    return lost ? "loss" : NULL;
}

const char *sim_link_impair_frame(struct sim_link *link, struct sim_frame *frame,
                                  weft_ps *extra, bool *duplicate)
{
    const char *why = NULL;
    if (link->from->n_matches > 0) {
        why = apply_matches(link, frame, extra, duplicate);
    }
    if (link->is_impaired) {
        const char *by_chance = apply_chance(link, frame, extra, duplicate);
        why = why == NULL ? by_chance : why;
    }
    uint32_t ip_bytes =
        frame->wire_bytes - ETHERNET_OVERHEAD_BYTES - (uint32_t)frame->path->tag_bytes;
    if (why == NULL && link->path_limit_bytes != 0 && ip_bytes > link->path_limit_bytes) {
        why = "path_limit";
    }
    return why;
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
            return lost ? "loss" : "corrupt"; /* the receiver's FCS check */
        }
    }
    if (link->path_limit_bytes != 0 && packet->ip_bytes > link->path_limit_bytes) {
        return "path_limit";
    }
    return NULL;
}
