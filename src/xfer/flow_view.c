/* Describes the state of a flow in text, for reports about jobs that hang. */
#include <string.h>

#include "base/text.h"
#include "io/addr.h"
#include "xfer/flow_private.h"

static const char *lane_state(const struct flow_lane *lane)
{
    static const char *const names[] = {
        [FLOW_LANE_IDLE] = "not needed yet",
        [FLOW_LANE_CONNECTING] = "being connected",
        [FLOW_LANE_UP] = "up",
        [FLOW_LANE_STOPPING] = "stopping",
        [FLOW_LANE_DOWN] = "down",
    };

    return names[lane->state];
}

static void describe_rails(const struct conn *conn, struct weft_text *out)
{
    for (uint32_t i = 0; i < conn->n_rails; i++) {
        char local[IO_IP_TEXT_BYTES], remote[IO_IP_TEXT_BYTES];
        struct io_ip ips[2]; /* an address and its GID have the same bytes */

        memcpy(ips[0].bytes, conn->rails[i].local_gid.raw, sizeof(ips[0].bytes));
        memcpy(ips[1].bytes, conn->rails[i].remote_gid.raw, sizeof(ips[1].bytes));
        weft_text_add(out, "%s%s %s -> %s", i == 0 ? ": " : ", ",
                      conn->rails[i].port->name,
                      io_ip_format(&ips[0], local, sizeof(local)),
                      io_ip_format(&ips[1], remote, sizeof(remote)));
    }
}

void flow_describe(const struct flow *flow, const char *indent, struct weft_text *out)
{
    const struct weft_error *trouble = flow_trouble(flow);
    char text[300];

    for (uint32_t i = 0; i < flow->config.n_lanes; i++) {
        const struct flow_lane *lane = &flow->lanes[i];
        uint32_t n = 0;

        for (const struct flow_piece *piece = lane->pieces; piece != NULL;
             piece = piece->next) {
            n++;
        }
        weft_text_add(out, "%slane %u %s, epoch %u, %u pieces under way", indent, i,
                      lane_state(lane), lane->epoch, n);
        for (uint32_t j = 0; j < lane->n_via; j++) {
            weft_text_add(out, "%s%u", j == 0 ? ", via " : " ", lane->via[j]);
        }
        if (lane->state == FLOW_LANE_UP) {
            describe_rails(lane->conn, out);
            if (xfer_dropped(lane->xfer) != 0) {
                weft_text_add(out, ", without rails %#x", xfer_dropped(lane->xfer));
            }
            if (lane->next != NULL) {
                weft_text_add(out, ", its replacement is at %s",
                              conn_state_name(lane->next->state));
            }
        }
        weft_text_add(out, "\n");
    }
    if (trouble != NULL) {
        weft_error_format(trouble, text, sizeof(text));
        weft_text_add(out, "%sdata cannot move: %s\n", indent, text);
    }
}

const struct weft_error *flow_why(const struct flow *flow)
{
    const struct weft_error *why = flow_trouble(flow);

    for (uint32_t i = 0; why == NULL && i < flow->config.n_lanes; i++) {
        const struct flow_lane *lane = &flow->lanes[i];

        if (lane->state != FLOW_LANE_UP) {
            why = lane->why != NULL ? lane->why : lane->no_way;
        }
    }
    return why;
}

static void describe_send(const struct flow *flow, const struct flow_request *request,
                          struct weft_text *out)
{
    const char *why = "for the peer to post a receive with this tag";

    if (request->is_done) {
        why = "for nothing: it is done";
    } else if (request->as.send.n_moving > 0) {
        why = "for completions of what was written";
    } else if (request->as.send.needs_notice && !request->as.send.is_noticed &&
               request->as.send.n_acked > 0) {
        why = "for the receiver's word that it is there";
    } else if (!flow_any_up(flow)) {
        why = "for a way to the peer";
    }
    weft_text_add(out, "%llu B are acknowledged; waits %s",
                  (unsigned long long)request->as.send.n_acked, why);
}

static void describe_recv(const struct flow *flow, const struct flow_request *request,
                          struct weft_text *out)
{
    uint32_t n_asked = 0;
    uint64_t n_bytes = 0;
    const char *why = "for room to ask the sender for it";

    for (uint32_t i = 0; i < request->as.recv.n; i++) {
        n_asked += request->as.recv.buffers[i].n_posted > 0;
        n_bytes += request->as.recv.buffers[i].n_bytes;
    }
    if (request->is_done) {
        why = "for nothing: it is done";
    } else if (!flow_any_up(flow)) {
        why = "for a way to the peer";
    } else if (n_asked > 0) {
        why = "for the peer to send";
    }
    weft_text_add(out, "%u of %u buffers missing, %llu B came; waits %s",
                  request->as.recv.n_missing, request->as.recv.n,
                  (unsigned long long)n_bytes, why);
}

void flow_request_describe(const struct flow *flow, const struct flow_request *request,
                           struct weft_text *out)
{
    switch (request->kind) {
    case FLOW_SEND:
        weft_text_add(out, "number %u, ", request->number);
        describe_send(flow, request, out);
        break;
    case FLOW_RECV:
        weft_text_add(out, "number %u, ", request->number);
        describe_recv(flow, request, out);
        break;
    case FLOW_FLUSH:
        weft_text_add(out, "waits for reads to come back");
        break;
    case FLOW_FREE:
        weft_text_add(out, "over");
        break;
    }
}
