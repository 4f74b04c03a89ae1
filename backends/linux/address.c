#include "backends/linux/address.h"

#include <string.h>

socklen_t linux_to_sockaddr(const struct io_endpoint *from, int family,
                            union linux_address *out)
{
    memset(out, 0, sizeof *out);
    if (family == AF_INET) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons(from->port);
        if (!io_ip_is_zero(&from->ip)) {
            memcpy(&out->v4.sin_addr, &from->ip.bytes[12], 4);
        }
        return sizeof out->v4;
    }
    out->v6.sin6_family = AF_INET6;
    out->v6.sin6_port = htons(from->port);
    if (!io_ip_is_zero(&from->ip)) {
        memcpy(&out->v6.sin6_addr, from->ip.bytes, 16);
    }
    if (io_ip_is_link_local(&from->ip)) {
        out->v6.sin6_scope_id = from->ifindex;
    }
    return sizeof out->v6;
}

struct io_endpoint linux_from_sockaddr(const union linux_address *from)
{
    struct io_endpoint out = {.port = 0};
    if (from->any.sa_family == AF_INET) {
        uint8_t bytes[4];
        memcpy(bytes, &from->v4.sin_addr, 4);
        out.port = ntohs(from->v4.sin_port);
        if (from->v4.sin_addr.s_addr != htonl(INADDR_ANY)) {
            out.ip = io_ip_v4(bytes[0], bytes[1], bytes[2], bytes[3]);
        }
    } else if (from->any.sa_family == AF_INET6) {
        memcpy(out.ip.bytes, &from->v6.sin6_addr, 16);
        out.port = ntohs(from->v6.sin6_port);
        out.ifindex = from->v6.sin6_scope_id;
    }
    return out;
}
