#include "xfer/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "xfer/relay_private.h"

#define MEMORY_MAX (UINT64_C(256) << 20)
#define LANES_MAX 1024

struct relay {
    struct rdma *rdma;
    struct relay_config config;
    struct io_task *task;     /* Not owned. */
    struct relay_lane *lanes; /* Owned, the newest first */
    bool is_closing;
    struct relay_trouble {
        struct weft_error why; /* status WEFT_OK: none */
        uint32_t member, from, to;
    } trouble;
    struct relay_counters counters;
};

weft_status relay_open(struct rdma *rdma, const struct relay_config *config,
                       struct io_task *task, struct relay **out, struct weft_error *error)
{
    struct relay *relay;

    *out = NULL;
    if (config->handle_of == NULL) {
        return weft_fail(error, WEFT_ERR_INPUT, "relay", "no way to find members");
    }
    relay = weft_calloc(1, sizeof(*relay));
    relay->rdma = rdma;
    relay->config = *config;
    relay->task = task;
    if (relay->config.memory_max == 0) {
        relay->config.memory_max = MEMORY_MAX;
    }
    if (relay->config.lanes_max == 0) {
        relay->config.lanes_max = LANES_MAX;
    }
    *out = relay;
    return WEFT_OK;
}

/* ---- admission ---- */

/* "relay.memory.3": which member refuses, and why. */
static void refuse(struct relay *relay, struct relay_lane *lane, weft_status status,
                   const char *reason, uint32_t member)
{
    char phase[24];

    weft_format(phase, sizeof(phase), "relay.%s.%u", reason, member);
    weft_fail(&lane->error, status, phase, "from rank %u to %u: %s", lane->purpose.from,
              lane->purpose.to, reason);
    relay->counters.refused++;
    relay_lane_fail(lane);
}

/* The way of a lane that fails is free for its next epoch at once. */
static void replace(struct relay *relay, const struct relay_lane *lane)
{
    for (struct relay_lane *old = relay->lanes; old != NULL; old = old->next) {
        if (old != lane && old->state < RELAY_LANE_CLOSING &&
            old->purpose.from == lane->purpose.from &&
            old->purpose.to == lane->purpose.to &&
            old->purpose.lane == lane->purpose.lane &&
            old->purpose.epoch < lane->purpose.epoch) {
            weft_fail(&old->error, WEFT_ERR_CLOSED, "epoch", "the sender connects again");
            relay_lane_fail(old);
        }
    }
}

static void admit(struct relay *relay, struct relay_lane *lane, uint32_t self)
{
    const struct flow_purpose *purpose = &lane->purpose;
    uint32_t member = purpose->n_hops > 0 ? purpose->hops[0] : purpose->to;
    const uint8_t *handle = relay->config.handle_of(relay->config.context, member);
    uint64_t memory = (uint64_t)lane->n_slots * purpose->fragment_bytes;

    replace(relay, lane);
    if (relay->config.names_all && purpose->n_hops == 0) {
        refuse(relay, lane, WEFT_ERR_ROUTE, "host", self);
    } else if (relay->counters.lanes > relay->config.lanes_max) {
        refuse(relay, lane, WEFT_ERR_LIMIT, "lanes", self);
    } else if (memory > relay->config.memory_max - relay->counters.memory) {
        refuse(relay, lane, WEFT_ERR_LIMIT, "memory", self);
    } else if (handle == NULL) {
        refuse(relay, lane, WEFT_ERR_ROUTE, "host", member);
    } else {
        lane->member = member;
        lane->memory = memory;
        relay->counters.memory += memory;
        if (relay->counters.memory > relay->counters.memory_peak) {
            relay->counters.memory_peak = relay->counters.memory;
        }
        relay_lane_start(lane, relay->rdma, &relay->config, handle);
    }
}

bool relay_accept(struct relay *relay, struct conn *conn)
{
    struct flow_purpose purpose;
    struct relay_lane *lane;

    if (!flow_purpose_decode(conn->peer.purpose, &purpose) ||
        purpose.kind != FLOW_FORWARD) {
        return false;
    }
    lane = weft_calloc(1, sizeof(*lane));
    lane->in = conn;
    lane->purpose = purpose;
    lane->n_slots =
        purpose.relay_buffers < XFER_SLOTS ? purpose.relay_buffers : XFER_SLOTS;
    lane->next = relay->lanes;
    relay->lanes = lane;
    relay->counters.lanes++;
    if (relay->counters.lanes > relay->counters.lanes_peak) {
        relay->counters.lanes_peak = relay->counters.lanes;
    }
    if (relay->is_closing) {
        refuse(relay, lane, WEFT_ERR_CLOSED, "closing", relay->config.member);
    } else {
        admit(relay, lane, relay->config.member);
    }
    io_task_wake(&conn->task);
    return true;
}

bool relay_owns(const struct relay *relay, const struct conn *conn)
{
    for (const struct relay_lane *lane = relay->lanes; lane != NULL; lane = lane->next) {
        if (lane->in == conn || lane->out == conn) {
            return true;
        }
    }
    return false;
}

/* ---- what happened here ---- */

static void note_trouble(struct relay *relay, const struct relay_lane *lane)
{
    struct relay_trouble *trouble = &relay->trouble;
    bool is_news =
        strcmp(lane->cause.phase, "peer") == 0 || strcmp(lane->cause.phase, "epoch") == 0;

    if (lane->cause.status == WEFT_OK || is_news || trouble->why.status != WEFT_OK) {
        return;
    }
    *trouble = (struct relay_trouble){.why = lane->cause,
                                      .member = lane->lost,
                                      .from = lane->purpose.from,
                                      .to = lane->purpose.to};
    weft_error_int(&trouble->why, "from", trouble->from);
    weft_error_int(&trouble->why, "to", trouble->to);
}

static void forget_trouble(struct relay *relay, const struct relay_lane *lane)
{
    if (relay->trouble.from == lane->purpose.from &&
        relay->trouble.to == lane->purpose.to) {
        weft_error_clear(&relay->trouble.why);
    }
}

const struct weft_error *relay_trouble(const struct relay *relay, uint32_t *member)
{
    *member = relay->trouble.member;
    return relay->trouble.why.status == WEFT_OK ? NULL : &relay->trouble.why;
}

/* ---- every look ---- */

/* False: the lane is gone. */
static bool look(struct relay *relay, struct relay_lane *lane)
{
    bool was_up = lane->state == RELAY_LANE_UP;
    bool was_alive = lane->state < RELAY_LANE_CLOSING;
    bool is_gone = relay_lane_progress(lane);

    if (!was_up && lane->state == RELAY_LANE_UP) {
        forget_trouble(relay, lane);
    }
    if (was_alive && lane->state >= RELAY_LANE_CLOSING) {
        note_trouble(relay, lane);
    }
    if (was_alive && lane->state >= RELAY_LANE_CLOSING && lane->error.status != WEFT_OK) {
        relay->counters.failed++;
    }
    relay->counters.messages += lane->n_messages;
    relay->counters.bytes += lane->n_bytes;
    lane->n_messages = 0;
    lane->n_bytes = 0;
    return !is_gone;
}

static void look_at(struct relay *relay, const struct conn *only)
{
    struct relay_lane **at = &relay->lanes;

    while (*at != NULL) {
        struct relay_lane *lane = *at;

        if (only != NULL && lane->in != only && lane->out != only) {
            at = &lane->next;
        } else if (look(relay, lane)) {
            at = &lane->next;
        } else {
            *at = lane->next;
            relay->counters.memory -= lane->memory;
            relay->counters.lanes--;
            relay_lane_destroy(lane);
        }
    }
}

void relay_progress(struct relay *relay)
{
    look_at(relay, NULL);
}

void relay_conn_progress(struct relay *relay, const struct conn *conn)
{
    look_at(relay, conn);
}

void relay_close(struct relay *relay)
{
    relay->is_closing = true;
    for (struct relay_lane *lane = relay->lanes; lane != NULL; lane = lane->next) {
        relay_lane_close(lane);
    }
}

bool relay_is_closed(const struct relay *relay)
{
    return relay->is_closing && relay->lanes == NULL;
}

void relay_destroy(struct relay *relay)
{
    if (relay == NULL) {
        return;
    }
    while (relay->lanes != NULL) {
        struct relay_lane *lane = relay->lanes;

        relay->lanes = lane->next;
        relay_lane_destroy(lane);
    }
    free(relay);
}

void relay_counters(const struct relay *relay, struct relay_counters *out)
{
    *out = relay->counters;
}
