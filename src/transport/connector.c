#include "base/check.h"
#include "base/text.h"
#include "transport/transport.h"

const char *transport_kind_name(enum transport_kind kind)
{
    static const char *const names[] = {
        [TRANSPORT_P2P] = "p2p",
        [TRANSPORT_SHM] = "shm",
        [TRANSPORT_NET] = "net",
        [TRANSPORT_COLLNET] = "collnet",
    };

    return (size_t)kind < WEFT_LENGTH(names) ? names[kind] : "?";
}

void transport_net(struct transport_connector *connector, struct flow *flow)
{
    *connector = (struct transport_connector){
        .kind = TRANSPORT_NET,
        .is_sender = flow_is_sender(flow),
        .peer = flow_peer(flow),
        .flow = flow,
    };
}

weft_status transport_register(struct transport_connector *connector, void *addr,
                               size_t length, struct xfer_memory *out,
                               struct weft_error *error)
{
    return flow_register(connector->flow, addr, length, out, error);
}

weft_status transport_register_progress(struct transport_connector *connector,
                                        struct xfer_memory *memory,
                                        struct weft_error *error)
{
    return flow_register_progress(connector->flow, memory, error);
}

void transport_deregister(struct transport_connector *connector,
                          struct xfer_memory *memory)
{
    flow_deregister(connector->flow, memory);
}

void transport_invalidate(struct transport_connector *connector, const void *addr,
                          size_t length)
{
    flow_invalidate(connector->flow, addr, length);
}

weft_status transport_isend(struct transport_connector *connector, const void *data,
                            size_t n_bytes, const struct xfer_memory *memory,
                            union transport_request *out)
{
    return flow_isend(connector->flow, data, n_bytes, 0, memory, &out->net);
}

weft_status transport_irecv(struct transport_connector *connector, void *data,
                            size_t n_bytes, const struct xfer_memory *memory,
                            union transport_request *out)
{
    const uint32_t tag = 0;

    return flow_irecv(connector->flow, 1, &data, &n_bytes, &tag, &memory, &out->net);
}

weft_status transport_test(struct transport_connector *connector,
                           union transport_request request, size_t *out_bytes)
{
    return flow_test(connector->flow, request.net, out_bytes);
}

weft_status transport_iflush(struct transport_connector *connector, const void *data,
                             size_t n_bytes, const struct xfer_memory *memory,
                             union transport_request *out)
{
    return flow_iflush(connector->flow, data, n_bytes, memory, &out->net);
}

uint64_t transport_looks(struct transport_connector *connector)
{
    return flow_n_looks(connector->flow);
}

const struct weft_error *transport_error(const struct transport_connector *connector)
{
    return flow_error(connector->flow);
}
