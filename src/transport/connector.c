#include "base/check.h"
#include "base/text.h"
#include "transport/inside_private.h"
#include "transport/transport.h"

void transport_net(struct transport_connector *connector, struct flow *flow)
{
    *connector = (struct transport_connector){
        .kind = WEFT_TRANSPORT_NET,
        .is_sender = flow_is_sender(flow),
        .peer = flow_peer(flow),
        .flow = flow,
    };
}

static weft_status post(struct inside_link *link, uint8_t *data, size_t n_bytes,
                        union transport_request *out)
{
    weft_status status = steps_post(&link->steps, data, n_bytes, &out->steps);

    inside_link_ring(link);
    if (link->steps.config.ipc != NULL) { /* may be the first use of CUDA IPC */
        inside_ipc_say(link->inside, inside_place(link->inside, link->peer));
    }
    return status;
}

weft_status transport_register(struct transport_connector *connector, void *addr,
                               size_t length, struct xfer_memory *out,
                               struct weft_error *error)
{
    if (connector->flow == NULL) {
        return WEFT_OK; /* no registration is needed inside a host */
    }
    return flow_register(connector->flow, addr, length, out, error);
}

weft_status transport_register_dmabuf(struct transport_connector *connector, void *addr,
                                      size_t length, int fd, uint64_t offset,
                                      struct xfer_memory *out, struct weft_error *error)
{
    if (connector->flow == NULL) {
        return WEFT_OK; /* no registration is needed inside a host */
    }
    return flow_register_dmabuf(connector->flow, addr, length, fd, offset, out, error);
}

weft_status transport_register_progress(struct transport_connector *connector,
                                        struct xfer_memory *memory,
                                        struct weft_error *error)
{
    if (connector->flow == NULL) {
        return WEFT_OK;
    }
    return flow_register_progress(connector->flow, memory, error);
}

void transport_deregister(struct transport_connector *connector,
                          struct xfer_memory *memory)
{
    if (connector->flow == NULL) {
        return;
    }
    flow_deregister(connector->flow, memory);
}

/* Makes the peer close the allocation at `addr` if it has opened it through CUDA IPC. Returns
 * true if no peer has it open. */
static bool take_back(struct inside_link *link, const void *addr)
{
    struct ipc_peer *peer = link->steps.config.ipc;
    uint64_t buffer_id;

    if (peer == NULL) {
        return true;
    }
    buffer_id = ipc_peer_invalidate(peer, addr);
    inside_ipc_say(link->inside, inside_place(link->inside, link->peer));
    return ipc_peer_is_closed(peer, buffer_id);
}

weft_status transport_invalidate(struct transport_connector *connector, const void *addr,
                                 size_t length)
{
    if (connector->flow == NULL) {
        return take_back(connector->inside, addr) ? WEFT_OK : WEFT_AGAIN;
    }
    flow_invalidate(connector->flow, addr, length);
    return WEFT_OK;
}

weft_status transport_isend(struct transport_connector *connector, const void *data,
                            size_t n_bytes, const struct xfer_memory *memory,
                            union transport_request *out)
{
    if (connector->flow == NULL) {
        return post(connector->inside, (uint8_t *)(uintptr_t)data, n_bytes, out);
    }
    return flow_isend(connector->flow, data, n_bytes, 0, memory, &out->net);
}

weft_status transport_irecv(struct transport_connector *connector, void *data,
                            size_t n_bytes, const struct xfer_memory *memory,
                            union transport_request *out)
{
    const uint32_t tag = 0;

    if (connector->flow == NULL) {
        return post(connector->inside, data, n_bytes, out);
    }
    return flow_irecv(connector->flow, 1, &data, &n_bytes, &tag, &memory, &out->net);
}

weft_status transport_test(struct transport_connector *connector,
                           union transport_request request, size_t *out_bytes)
{
    if (connector->flow == NULL) {
        return steps_test(&connector->inside->steps, request.steps, out_bytes);
    }
    return flow_test(connector->flow, request.net, out_bytes);
}

bool transport_needs_flush(const struct transport_connector *connector)
{
    return connector->flow != NULL;
}

weft_status transport_iflush(struct transport_connector *connector, const void *data,
                             size_t n_bytes, const struct xfer_memory *memory,
                             union transport_request *out)
{
    /* Inside a host a GPU copies, which needs no flush. */
    weft_check(connector->flow != NULL);
    return flow_iflush(connector->flow, data, n_bytes, memory, &out->net);
}

uint64_t transport_looks(struct transport_connector *connector)
{
    if (connector->flow == NULL) {
        steps_progress(&connector->inside->steps);
        inside_link_ring(connector->inside);
        return connector->inside->steps.n_looks;
    }
    return flow_n_looks(connector->flow);
}

const struct weft_error *transport_error(const struct transport_connector *connector)
{
    if (connector->flow == NULL) {
        return &connector->inside->steps.error;
    }
    return flow_error(connector->flow);
}
