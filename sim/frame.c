/* Frames, and packets of host stacks. */
#include "sim/frame.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sim/link.h"
#include "sim/memory.h"
#include "sim/pool.h"

void sim_packet_free(struct sim_packet *packet)
{
    if (packet != NULL) {
        free(packet->payload);
        free(packet);
    }
}

const char *sim_frame_kind_name(enum sim_frame_kind kind)
{
    switch (kind) {
    case SIM_FRAME_ROCE:
        return "roce";
    case SIM_FRAME_NEIGH:
        return "neighbour";
    case SIM_FRAME_TCP:
        return "tcp";
    case SIM_FRAME_UDP:
        return "udp";
    case SIM_FRAME_PAUSE:
        return "pause";
    }
    return "?";
}

struct sim_packet *sim_packet_copy(const struct sim_packet *packet)
{
    struct sim_packet *copy = weft_alloc(sizeof(*copy));
    *copy = *packet;
    copy->payload = NULL;
    if (packet->n_payload > 0) {
        copy->payload = weft_alloc(packet->n_payload);
        memcpy(copy->payload, packet->payload, packet->n_payload);
    }
    return copy;
}

void sim_frame_own(struct sim_engine *engine, struct sim_frame *frame)
{
    if ((frame->flags & SIM_FRAME_OWNED) != 0 || frame->n_payload == 0 ||
        sim_is_phantom(sim_engine_phantom(engine), frame->payload)) {
        return;
    }
    uint8_t *block = sim_pool_get(sim_engine_pool(engine));
    memcpy(block, frame->payload, frame->n_payload);
    frame->payload = block;
    frame->flags |= SIM_FRAME_OWNED;
}

uint32_t sim_frame_hash(const struct sim_frame *frame)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (uint32_t i = 0; i < frame->n_payload; i++) {
        hash = (hash ^ frame->payload[i]) * 16777619u;
    }
    return hash;
}
