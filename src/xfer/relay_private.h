/* One lane that passes a relay. */
#ifndef WEFT_XFER_RELAY_PRIVATE_H
#define WEFT_XFER_RELAY_PRIVATE_H

#include "rdma/timers.h"
#include "xfer/relay.h"
#include "xfer/suspects.h"
#include "xfer/wire.h"

enum relay_lane_state {
    RELAY_LANE_WAITING,    /* every port that leads to the next member is down */
    RELAY_LANE_CONNECTING, /* the way onwards is set up; the sender waits for its answer */
    RELAY_LANE_ANSWERED,   /* the sender's end is being finished */
    RELAY_LANE_UP,
    RELAY_LANE_CLOSING /* both ends; what is in the buffers is dropped */
};

enum relay_slot_state {
    RELAY_SLOT_FREE,
    RELAY_SLOT_POSTED, /* the sender may write into it */
    RELAY_SLOT_FULL,   /* waits for a place in the queues onwards */
    RELAY_SLOT_SENDING
};

struct relay_slot { /* one buffer */
    enum relay_slot_state state;
    struct xfer_cts grant; /* from onwards, that this buffer serves */
    size_t n_bytes;        /* FULL */
    struct xfer_request *moving;
};

struct relay_lane {
    struct relay_lane *next;
    const struct relay_config *config; /* Not owned; the relay's */
    struct suspects *suspects;         /* Not owned; the relay's */
    enum relay_lane_state state;
    struct flow_purpose purpose;
    uint32_t member;        /* the next one */
    struct conn *in, *out;  /* Owned */
    struct xfer *from, *to; /* Owned; messages come in `from` and go out `to` */
    uint64_t memory;        /* admitted */
    uint8_t *buffers;       /* Owned: n_slots x fragment_bytes */
    struct xfer_memory in_memory, out_memory;
    bool is_registered;
    struct relay_slot slots[XFER_SLOTS];
    uint32_t n_slots;
    struct xfer_cursor seen; /* grants that have a buffer */
    uint32_t notice;         /* passed on last */
    bool has_notice;
    weft_ns wait_ns; /* limit of WAITING, absolute */
    weft_ns beat_ns;
    uint64_t n_messages, n_bytes; /* since last counted */
    struct weft_error error;      /* why it failed, as the neighbours are told */
    struct weft_error cause;      /* ... and as it was met here */
    uint32_t lost;                /* the member that it happened with */
};

/* Connects onwards, or waits while every port that leads to the next member is down. */
void relay_lane_start(struct relay_lane *lane);
/* A port went down or came up: connects a lane that waits, and dials again where the next member
 * has not authenticated this end yet. */
void relay_lane_restart(struct relay_lane *lane);
/* A port went down, or its device is gone (`is_lost`), as `why` says: ends the lane if a connection
 * of it uses the port and has another, or none of a device that is gone. */
void relay_lane_port_down(struct relay_lane *lane, uint32_t device, uint8_t port,
                          bool is_lost, const struct weft_error *why);
/* Ends it with lane->error, telling both ends. */
void relay_lane_fail(struct relay_lane *lane);
/* Ends it before it came up: "relay.memory.3" says which member refuses, and why. */
void relay_lane_refuse(struct relay_lane *lane, weft_status status, const char *reason,
                       uint32_t member);
/* Ends it in order. */
void relay_lane_close(struct relay_lane *lane);
/* True: it is over, with nothing left but to destroy it. */
bool relay_lane_progress(struct relay_lane *lane);
void relay_lane_destroy(struct relay_lane *lane);

#endif
