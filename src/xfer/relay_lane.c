/* A lane through a relay: clear-to-sends come back from the receiver, and each that finds a free
 * buffer is repeated to the sender with that buffer in it; so nothing enters that has no place to
 * go, and no lane waits for another. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "xfer/relay_private.h"

#define BEAT_NS INT64_C(1000000000) /* as flows beat */

static struct io_env *env_of(const struct relay_lane *lane)
{
    return lane->in->rdma->env;
}

static void enter(struct relay_lane *lane, enum relay_lane_state next)
{
    weft_check(next == lane->state + 1 || next == RELAY_LANE_CLOSING);
    lane->state = next;
}

/* ---- starting ---- */

void relay_lane_start(struct relay_lane *lane, struct rdma *rdma,
                      const struct relay_config *config, const uint8_t *handle)
{
    struct conn_config onwards = config->conn;
    struct flow_purpose purpose = lane->purpose;

    purpose.kind =
        purpose.n_hops > (config->names_all ? 1 : 0) ? FLOW_FORWARD : FLOW_DELIVER;
    if (purpose.n_hops > 0) {
        purpose.n_hops--;
        memmove(purpose.hops, purpose.hops + 1, purpose.n_hops * sizeof(*purpose.hops));
    }
    flow_purpose_encode(&purpose, onwards.purpose);
    onwards.wants_answer = true;
    /* The sender waits for as long as its set-up may last; a member that was there and listens
     * no more is gone. */
    if (purpose.epoch > 1) {
        onwards.patience_ns = 0;
    }
    if (onwards.patience_ns > onwards.total_ns) {
        onwards.patience_ns = onwards.total_ns;
    }
    if (conn_connect(rdma, &onwards, handle, config->task_kind, &lane->out,
                     &lane->error) != WEFT_OK) {
        lane->cause = lane->error;
        lane->lost = lane->member;
        relay_lane_fail(lane);
    }
}

/* ---- ending ---- */

static void end(struct relay_lane *lane)
{
    xfer_close(lane->from);
    xfer_close(lane->to);
    lane->from = NULL;
    lane->to = NULL;
    enter(lane, RELAY_LANE_CLOSING);
    conn_close(lane->in);
    if (lane->out != NULL) {
        conn_close(lane->out);
    }
}

void relay_lane_fail(struct relay_lane *lane)
{
    weft_check(lane->error.status < 0);
    if (lane->state == RELAY_LANE_CLOSING) {
        return;
    }
    conn_refuse(lane->in, &lane->error);
    if (lane->out != NULL) {
        conn_refuse(lane->out, &lane->error);
    }
    end(lane);
}

void relay_lane_close(struct relay_lane *lane)
{
    if (lane->state != RELAY_LANE_CLOSING) {
        end(lane);
    }
}

/* In the word that the sender is told. */
static const char *reason_of(const struct relay_lane *lane, const struct weft_error *why)
{
    /* The end of a stream without a word is the end of a process. */
    bool is_dead = why->sys_errno == ECONNREFUSED ||
                   (strcmp(why->phase, "stream") == 0 &&
                    (why->sys_errno == 0 || why->sys_errno == ECONNRESET ||
                     why->sys_errno == EPIPE));
    /* Onwards, over a lower path MTU, or when a port is back. */
    bool again = conn_path_is_judged(why) ||
                 (lane->state == RELAY_LANE_CONNECTING && why == &lane->out->error &&
                  conn_waits_for_port(lane->out, why));

    if (is_dead) {
        return "dead";
    }
    return again ? "again" : "lost";
}

/* A connection ended: in order, or with what the other end is to be told. What another relay
 * told passes unchanged; else the member is named that this relay lost. */
static void lost(struct relay_lane *lane, const struct weft_error *why, uint32_t member)
{
    const struct weft_value *phase = weft_error_value(why, "peer_phase");
    char text[24];

    if (strcmp(why->phase, "peer") == 0 && phase == NULL) {
        relay_lane_close(lane);
        return;
    }
    if (phase != NULL && strncmp(phase->text, "relay.", 6) == 0) {
        weft_format(text, sizeof(text), "%s", phase->text);
    } else {
        weft_format(text, sizeof(text), "relay.%s.%u", reason_of(lane, why), member);
    }
    lane->cause = *why;
    lane->lost = member;
    lane->error = *why;
    weft_format(lane->error.phase, sizeof(lane->error.phase), "%s", text);
    relay_lane_fail(lane);
}

static bool free_buffers(struct relay_lane *lane)
{
    struct io_gpu *gpu = env_of(lane)->gpu;
    struct rdma_mr_cache *mrs = lane->in->rdma->mrs;

    for (uint32_t d = 0; d < XFER_DEVICES_MAX; d++) {
        if (lane->in_memory.mrs[d].entry != NULL) {
            rdma_mr_put(mrs, &lane->in_memory.mrs[d]);
        }
        if (lane->out_memory.mrs[d].entry != NULL) {
            rdma_mr_put(mrs, &lane->out_memory.mrs[d]);
        }
    }
    if (lane->buffers != NULL) {
        rdma_mr_invalidate(mrs, lane->buffers, lane->memory);
        gpu->ops->free(gpu, lane->buffers);
        lane->buffers = NULL;
    }
    return true;
}

static bool is_over(struct relay_lane *lane)
{
    bool in = conn_progress(lane->in) != WEFT_AGAIN;
    bool out = lane->out == NULL || conn_progress(lane->out) != WEFT_AGAIN;

    return in && out;
}

void relay_lane_destroy(struct relay_lane *lane)
{
    xfer_close(lane->from);
    xfer_close(lane->to);
    free_buffers(lane);
    conn_destroy(lane->in);
    conn_destroy(lane->out);
    free(lane);
}

/* ---- coming up ---- */

static weft_status open_buffers(struct relay_lane *lane)
{
    struct io_gpu *gpu = env_of(lane)->gpu;
    void *memory = NULL;
    int result = gpu->ops->alloc(gpu, IO_MEMORY_HOST, (size_t)lane->memory, &memory);
    weft_status status;

    if (result != 0) {
        return weft_fail_errno(&lane->error, result, "relay", "%llu bytes of host memory",
                               (unsigned long long)lane->memory);
    }
    lane->buffers = memory;
    status = xfer_register(lane->from, memory, (size_t)lane->memory, &lane->in_memory,
                           &lane->error);
    if (status == WEFT_OK) {
        status = xfer_register(lane->to, memory, (size_t)lane->memory, &lane->out_memory,
                               &lane->error);
    }
    return status;
}

static weft_status finish_buffers(struct relay_lane *lane)
{
    weft_status in = xfer_register_progress(lane->from, &lane->in_memory, &lane->error);
    weft_status out =
        in < 0 ? in : xfer_register_progress(lane->to, &lane->out_memory, &lane->error);

    lane->is_registered = in == WEFT_OK && out == WEFT_OK;
    return out < 0 ? out : WEFT_OK;
}

/* Both ends are there. */
static weft_status come_up(struct relay_lane *lane)
{
    weft_status status = xfer_open(lane->in, &lane->from, &lane->error);

    if (status == WEFT_OK) {
        status = xfer_open(lane->out, &lane->to, &lane->error);
    }
    if (status == WEFT_OK) {
        status = open_buffers(lane);
    }
    if (status == WEFT_OK) {
        enter(lane, RELAY_LANE_UP);
    }
    return status;
}

/* ---- forwarding ---- */

static uint8_t *buffer_of(const struct relay_lane *lane, const struct relay_slot *slot)
{
    return lane->buffers + (size_t)(slot - lane->slots) * lane->purpose.fragment_bytes;
}

static struct relay_slot *free_slot(struct relay_lane *lane)
{
    for (uint32_t i = 0; i < lane->n_slots; i++) {
        if (lane->slots[i].state == RELAY_SLOT_FREE) {
            return &lane->slots[i];
        }
    }
    return NULL;
}

/* Repeats the receiver's clear-to-sends, in order, each with a buffer of this relay's. */
static weft_status repeat_grants(struct relay_lane *lane)
{
    struct relay_slot *slot;

    while ((slot = free_slot(lane)) != NULL) {
        struct xfer_cursor before = lane->seen;
        const struct xfer_cts *grant = xfer_next_grant(lane->to, &lane->seen);
        const struct xfer_memory *memory = &lane->in_memory;
        void *data = buffer_of(lane, slot);
        weft_status status;
        size_t size;

        if (grant == NULL) {
            return WEFT_OK;
        }
        if (grant->size > lane->purpose.fragment_bytes) {
            return weft_fail(&lane->error, WEFT_ERR_PROTOCOL, "relay",
                             "a clear-to-send of %llu bytes, buffers have %u",
                             (unsigned long long)grant->size,
                             lane->purpose.fragment_bytes);
        }
        size = (size_t)grant->size;
        slot->grant = *grant;
        status = xfer_irecv_hinted(lane->from, 1, &data, &size, &grant->tag, &memory,
                                   &grant->hint, &slot->moving);
        if (status == WEFT_AGAIN) {
            lane->seen = before;
            return WEFT_OK;
        }
        if (status != WEFT_OK) {
            return status;
        }
        slot->state = RELAY_SLOT_POSTED;
    }
    return WEFT_OK;
}

/* One step of one buffer; AGAIN: it waits. */
static weft_status move(struct relay_lane *lane, struct relay_slot *slot)
{
    weft_status status = WEFT_AGAIN;

    switch (slot->state) {
    case RELAY_SLOT_POSTED:
        status = xfer_test(lane->from, slot->moving, &slot->n_bytes);
        slot->state = status == WEFT_OK ? RELAY_SLOT_FULL : slot->state;
        break;
    case RELAY_SLOT_FULL:
        status = xfer_isend_to(lane->to, &slot->grant, buffer_of(lane, slot),
                               slot->n_bytes, &lane->out_memory, &slot->moving);
        slot->state = status == WEFT_OK ? RELAY_SLOT_SENDING : slot->state;
        break;
    case RELAY_SLOT_SENDING:
        status = xfer_test(lane->to, slot->moving, NULL);
        if (status == WEFT_OK) {
            lane->n_messages++;
            lane->n_bytes += slot->n_bytes;
            slot->state = RELAY_SLOT_FREE;
            return WEFT_AGAIN;
        }
        break;
    case RELAY_SLOT_FREE:
        break;
    }
    return status;
}

static weft_status pass_notice(struct relay_lane *lane)
{
    uint32_t number;

    if (!xfer_notice(lane->to, &number) || (lane->has_notice && number == lane->notice)) {
        return WEFT_OK;
    }
    lane->has_notice = true;
    lane->notice = number;
    return xfer_notify(lane->from, number);
}

static weft_status forward(struct relay_lane *lane)
{
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < lane->n_slots && status == WEFT_OK; i++) {
        while (status == WEFT_OK) {
            status = move(lane, &lane->slots[i]);
        }
        status = status == WEFT_AGAIN ? WEFT_OK : status;
    }
    if (status == WEFT_OK) {
        status = repeat_grants(lane);
    }
    return status == WEFT_OK ? pass_notice(lane) : status;
}

/* ---- every look ---- */

static weft_status progress_transfers(struct relay_lane *lane)
{
    weft_status status = xfer_progress(lane->from);

    if (status < 0) {
        lost(lane, xfer_error(lane->from), lane->purpose.from);
        return status;
    }
    status = xfer_progress(lane->to);
    if (status < 0) {
        lost(lane, xfer_error(lane->to), lane->member);
        return status;
    }
    if (!lane->is_registered) {
        status = finish_buffers(lane);
    }
    if (status == WEFT_OK && lane->is_registered) {
        status = forward(lane);
    }
    if (status < 0) {
        struct weft_error why = lane->error;

        if (why.status == WEFT_OK) {
            why = xfer_error(lane->from)->status != WEFT_OK ? *xfer_error(lane->from)
                                                            : *xfer_error(lane->to);
        }
        lost(lane, &why, lane->member);
    }
    return status;
}

/* What the next member said of its end may be lost with the way to it. */
static void beat(struct relay_lane *lane)
{
    weft_ns now = io_now(env_of(lane));

    if (now >= lane->beat_ns) {
        lane->beat_ns = now + BEAT_NS;
        if (xfer_beat(lane->to) != WEFT_OK) {
            io_task_wake(&lane->out->task); /* it fails when it is looked at */
        }
    }
    io_task_deadline(&lane->out->task, lane->beat_ns);
}

bool relay_lane_progress(struct relay_lane *lane)
{
    if (lane->state == RELAY_LANE_CLOSING) {
        return is_over(lane);
    }
    if (conn_progress(lane->in) < 0) {
        lost(lane, &lane->in->error, lane->purpose.from);
        return false;
    }
    if (conn_progress(lane->out) < 0) {
        lost(lane, &lane->out->error, lane->member);
        return false;
    }
    if (lane->state == RELAY_LANE_CONNECTING && lane->out->state == CONN_UP) {
        if (lane->in->peer.wants_answer) {
            conn_answer(lane->in, lane->out->answer);
        }
        enter(lane, RELAY_LANE_ANSWERED);
    }
    if (lane->state == RELAY_LANE_ANSWERED && lane->in->state == CONN_UP) {
        weft_status status = come_up(lane);

        if (status < 0) {
            struct weft_error why = lane->error;

            lost(lane, &why, lane->member);
            return false;
        }
    }
    if (lane->state == RELAY_LANE_UP && progress_transfers(lane) == WEFT_OK) {
        beat(lane);
    }
    return false;
}
