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
    struct suspects suspects;
    struct relay_trouble {
        struct weft_error why; /* status is WEFT_OK if there is none */
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
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_RELAY,
                         "no way to find members");
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

/* ---- failures of lanes ---- */

/* Returns true if a neighbour ended the lane, which can be a consequence of an earlier failure at
 * this relay. */
static bool is_consequence(const struct relay_lane *lane)
{
    const struct weft_error *why = &lane->cause;
    enum weft_phase there = weft_error_peer_phase(why);
    bool is_stream = why->phase == WEFT_PHASE_TCP || why->phase == WEFT_PHASE_STREAM;

    if (there != WEFT_PHASE_NONE) {
        return lane->lost != lane->member ||
               (there != WEFT_PHASE_CONNECT_QPS && there != WEFT_PHASE_RTR &&
                there != WEFT_PHASE_PROBE);
    }
    return why->phase == WEFT_PHASE_PEER || why->phase == WEFT_PHASE_EPOCH ||
           (is_stream && why->sys_errno != ETIMEDOUT);
}

/* Returns true if the recorded failure is that of a port which is up again, and the lane's failure
 * is not a consequence of it. The connection out, if any, must have been started after a port last
 * went down. */
static bool is_over(const struct relay *relay, const struct relay_lane *lane)
{
    const struct relay_trouble *trouble = &relay->trouble;
    const struct conn *out = lane->out;

    return !is_consequence(lane) &&
           (out == NULL || out->started_ns > relay->suspects.flapped_ns) &&
           suspects_is_back(relay->rdma, lane->member == trouble->member ? out : NULL,
                            &trouble->why);
}

/* Returns true if the cause of the lane's end is at the next member or beyond it. */
static bool is_hearsay(const struct relay_lane *lane)
{
    return lane->cause.phase == WEFT_PHASE_PEER ||
           lane->cause.phase == WEFT_PHASE_EPOCH ||
           (lane->lost == lane->member && lane->member != lane->purpose.to &&
            flow_failed_beyond(&lane->cause));
}

static void note_trouble(struct relay *relay, const struct relay_lane *lane)
{
    struct relay_trouble *trouble = &relay->trouble;
    bool is_news = is_hearsay(lane);

    if (lane->cause.status == WEFT_OK) {
        return;
    }
    if (is_over(relay, lane)) {
        weft_error_clear(&trouble->why);
    }
    if (is_news || trouble->why.status != WEFT_OK) {
        return;
    }
    *trouble = (struct relay_trouble){.why = lane->cause,
                                      .member = lane->lost,
                                      .from = lane->purpose.from,
                                      .to = lane->purpose.to};
    weft_error_int(&trouble->why, WEFT_VALUE_FROM, trouble->from);
    weft_error_int(&trouble->why, WEFT_VALUE_TO, trouble->to);
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

/* ---- admission ---- */

static void refuse(struct relay *relay, struct relay_lane *lane, weft_status status,
                   const char *reason, uint32_t member, const char *text)
{
    relay->counters.refused++;
    relay_lane_refuse(lane, status, reason, member, text);
}

/* Returns true if `old` is an earlier epoch of `lane`. */
static bool is_earlier(const struct relay_lane *old, const struct relay_lane *lane)
{
    return old != lane && old->purpose.from == lane->purpose.from &&
           old->purpose.to == lane->purpose.to &&
           old->purpose.lane == lane->purpose.lane &&
           old->purpose.epoch < lane->purpose.epoch;
}

/* Ends the earlier epochs of a lane, because the sender connects again before this relay has
 * detected that they failed. */
static void replace(struct relay *relay, const struct relay_lane *lane)
{
    for (struct relay_lane *old = relay->lanes; old != NULL; old = old->next) {
        if (old->state < RELAY_LANE_CLOSING && is_earlier(old, lane)) {
            weft_fail(&old->error, WEFT_ERR_CLOSED, WEFT_PHASE_EPOCH,
                      "the sender connects again");
            relay_lane_fail(old);
        }
    }
}

static void start(struct relay *relay, struct relay_lane *lane)
{
    relay_lane_start(lane);
    if (lane->state == RELAY_LANE_WAITING) {
        note_trouble(relay, lane);
    }
}

/* Returns the newest earlier epoch of a lane that has buffers, or NULL. It ends, and what it holds
 * until it has ended does not count against its successor. */
static const struct relay_lane *predecessor(const struct relay *relay,
                                            const struct relay_lane *lane)
{
    const struct relay_lane *old = relay->lanes;

    while (old != NULL && (!is_earlier(old, lane) || old->memory == 0)) {
        old = old->next;
    }
    return old;
}

/* Returns the number of buffers of a lane if the others hold `held` bytes. Half of the memory is
 * given as it is requested. A lane that exceeds that half has at least one buffer, with which it
 * forwards too, so that the other half is enough for many lanes. */
static uint32_t slots_of(const struct relay *relay, const struct relay_lane *lane,
                         uint64_t held)
{
    uint64_t half = relay->config.memory_max / 2;
    uint64_t n = held < half ? (half - held) / lane->purpose.fragment_bytes : 0;

    n = n == 0 ? 1 : n;
    return n < lane->n_slots ? (uint32_t)n : lane->n_slots;
}

static void admit(struct relay *relay, struct relay_lane *lane, uint32_t self)
{
    const struct flow_purpose *purpose = &lane->purpose;
    uint32_t member = purpose->n_hops > 0 ? purpose->hops[0] : purpose->to;
    const uint8_t *handle = relay->config.handle_of(relay->config.context, member);
    const struct relay_lane *old = predecessor(relay, lane);
    uint32_t n_lanes = relay->counters.lanes - (old != NULL);
    uint64_t held = relay->counters.memory - (old != NULL ? old->memory : 0);
    uint64_t memory;
    char text[96];

    lane->n_slots = slots_of(relay, lane, held);
    memory = (uint64_t)lane->n_slots * purpose->fragment_bytes;
    replace(relay, lane);
    if (relay->config.names_all && purpose->n_hops == 0) {
        refuse(relay, lane, WEFT_ERR_ROUTE, "host", self, "the route ends at the relay");
    } else if (n_lanes > relay->config.lanes_max) {
        weft_format(text, sizeof(text), "it forwards %u of at most %u lanes", n_lanes - 1,
                    relay->config.lanes_max);
        refuse(relay, lane, WEFT_ERR_LIMIT, "lanes", self, text);
    } else if (held + memory > relay->config.memory_max) {
        weft_format(text, sizeof(text),
                    "its lanes (%u) hold %llu of %llu KiB, this needs %llu", n_lanes - 1,
                    (unsigned long long)held >> 10,
                    (unsigned long long)relay->config.memory_max >> 10,
                    (unsigned long long)memory >> 10);
        refuse(relay, lane, WEFT_ERR_LIMIT, "memory", self, text);
    } else if (handle == NULL) {
        weft_format(text, sizeof(text), "it does not know member %u", member);
        refuse(relay, lane, WEFT_ERR_ROUTE, "host", member, text);
    } else {
        lane->member = member;
        lane->memory = memory;
        relay->counters.memory += memory;
        if (relay->counters.memory > relay->counters.memory_peak) {
            relay->counters.memory_peak = relay->counters.memory;
        }
        start(relay, lane);
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
    lane->config = &relay->config;
    lane->suspects = &relay->suspects;
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
        refuse(relay, lane, WEFT_ERR_CLOSED, "closing", relay->config.member,
               "it is closing");
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

/* ---- progress ---- */

/* Advances a lane and updates the counters. Returns false if the lane can be destroyed. */
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

/* ---- ports ---- */

static void ports_down(struct relay *relay, uint32_t device, uint8_t port, bool is_lost,
                       const struct weft_error *why)
{
    for (struct relay_lane *lane = relay->lanes; lane != NULL; lane = lane->next) {
        bool was_alive = lane->state < RELAY_LANE_CLOSING;

        relay_lane_port_down(lane, device, port, is_lost, why);
        if (was_alive && lane->state == RELAY_LANE_CLOSING) {
            relay->counters.failed++;
            note_trouble(relay, lane);
            io_task_wake(&lane->in->task);
        }
    }
}

static void port_event(struct relay *relay, uint32_t device, uint8_t port, bool is_up)
{
    struct suspects *suspects = &relay->suspects;
    struct weft_error why = {0};

    for (uint32_t i = suspects->n; is_up && i-- > 0;) {
        if (suspects->list[i].device == device && suspects->list[i].port == port) {
            suspects_acquit(suspects, i);
        }
    }
    if (!is_up) {
        suspects->flapped_ns = io_now(relay->rdma->env);
        suspects_add(suspects, device, port, true);
        weft_fail(&why, WEFT_ERR_CLOSED, WEFT_PHASE_PORT, "device %u port %u went down",
                  device, port);
        ports_down(relay, device, port, false, &why);
    }
    for (struct relay_lane *lane = relay->lanes; lane != NULL; lane = lane->next) {
        relay_lane_restart(lane);
        if (lane->state == RELAY_LANE_WAITING) {
            note_trouble(relay, lane);
        }
    }
}

static void device_lost(struct relay *relay, uint32_t device)
{
    const struct rdma *rdma = relay->rdma;
    struct weft_error why = {0};

    weft_fail_errno(&why, EIO, WEFT_PHASE_DEVICE, "%s is gone",
                    rdma->env->devices[device]->name);
    for (uint32_t i = 0; i < rdma->n_ports; i++) {
        if (rdma->ports[i].device_index == device) {
            ports_down(relay, device, rdma->ports[i].port, true, &why);
        }
    }
}

void relay_device_event(struct relay *relay, uint32_t device,
                        const struct io_async_event *event)
{
    if (relay->is_closing) {
        return;
    }
    if (event->type == IBV_EVENT_DEVICE_FATAL) {
        device_lost(relay, device);
    } else if (event->type == IBV_EVENT_PORT_ACTIVE ||
               event->type == IBV_EVENT_PORT_ERR) {
        port_event(relay, device, event->port, event->type == IBV_EVENT_PORT_ACTIVE);
    }
}

/* ---- the end ---- */

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
