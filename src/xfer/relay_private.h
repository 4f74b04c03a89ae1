/* Declares one lane that a relay forwards, which relay.c and relay_lane.c share. */
#ifndef WEFT_XFER_RELAY_PRIVATE_H
#define WEFT_XFER_RELAY_PRIVATE_H

#include "rdma/timers.h"
#include "xfer/relay.h"
#include "xfer/suspects.h"
#include "xfer/wire.h"

enum relay_lane_state {
    RELAY_LANE_WAITING, /* waits for a port to the next member, all of which are down */
    RELAY_LANE_CONNECTING, /* waits until the connection out is up; `in` has no answer */
    RELAY_LANE_ANSWERED,   /* waits until the connection in is up */
    RELAY_LANE_UP,         /* forwards messages */
    RELAY_LANE_CLOSING     /* waits until both connections are closed or failed */
};

enum relay_slot_state {
    RELAY_SLOT_FREE,   /* waits for a clear-to-send */
    RELAY_SLOT_POSTED, /* waits for the sender's message */
    RELAY_SLOT_FULL,   /* waits for a free request of `to` */
    RELAY_SLOT_SENDING /* waits for the completion of the send */
};

/* One buffer of a lane. */
struct relay_slot {
    enum relay_slot_state state;
    struct xfer_cts grant;       /* the next member's clear-to-send for this message */
    size_t n_bytes;              /* size of the message; valid when FULL or SENDING */
    struct xfer_request *moving; /* the receive (POSTED) or the send (SENDING) */
};

/* One lane that the relay forwards. */
struct relay_lane {
    struct relay_lane *next;
    const struct relay_config *config; /* Not owned; the relay's */
    struct suspects *suspects;         /* Not owned; the relay's */
    enum relay_lane_state state;
    struct flow_purpose purpose;
    uint32_t member;        /* the next member */
    struct conn *in, *out;  /* Owned; `out` is NULL until the lane connects */
    struct xfer *from, *to; /* Owned; messages arrive by `from` and leave by `to` */
    uint64_t memory;        /* bytes reserved for buffers */
    uint8_t *buffers;       /* Owned: n_slots x fragment_bytes */
    struct xfer_memory in_memory, out_memory;
    bool is_registered;
    struct relay_slot slots[XFER_SLOTS];
    uint32_t n_slots;
    struct xfer_cursor seen; /* position behind the last grant that has a buffer */
    uint32_t notice;         /* last notice that was forwarded, if has_notice */
    bool has_notice;
    weft_ns wait_ns;              /* deadline of WAITING */
    weft_ns beat_ns;              /* time of the next xfer_beat() */
    uint64_t n_messages, n_bytes; /* forwarded since the relay last added them up */
    struct weft_error error;      /* the failure as it is sent to both neighbours */
    struct weft_error cause;      /* the failure as this relay detected it */
    uint32_t lost;                /* member at the other end of what failed */
};

/* Connects to the next member, or waits while every port that leads to it is down. */
void relay_lane_start(struct relay_lane *lane);
/* Handles a port that went down or came up. Connects a lane that waits. Starts the connection out
 * again if the next member has not authenticated this end yet. */
void relay_lane_restart(struct relay_lane *lane);
/* Handles a port that went down, or whose device is lost (`is_lost`). For each connection that uses
 * the port, ends the lane with `why` if the device is lost, if the connection has another rail, or
 * if the lane is not up and the port is still down. Otherwise probes the queue pairs of `to` at
 * once if the lane is up. */
void relay_lane_port_down(struct relay_lane *lane, uint32_t device, uint8_t port,
                          bool is_lost, const struct weft_error *why);
/* Ends the lane with lane->error, which is sent to both neighbours. */
void relay_lane_fail(struct relay_lane *lane);
/* Ends a lane that is not up. The phase of the ABORT, such as "relay.memory.3", names the reason
 * and a member: the one that refuses or the one that is unknown. `text` explains the reason. */
void relay_lane_refuse(struct relay_lane *lane, weft_status status, const char *reason,
                       uint32_t member, const char *text);
/* Closes the lane in order. */
void relay_lane_close(struct relay_lane *lane);
/* Does what is possible now. Returns true once the lane is closed and can be destroyed. */
bool relay_lane_progress(struct relay_lane *lane);
void relay_lane_destroy(struct relay_lane *lane);

#endif
