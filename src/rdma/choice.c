#include "rdma/choice.h"

#include "base/text.h"

char *rdma_reason_add(struct rdma_reason *out, uint32_t *n, const char *what,
                      const char *source)
{
    struct rdma_reason *reason = &out[(*n)++];

    *reason = (struct rdma_reason){.what = what, .source = source};
    return reason->text;
}

const char *rdma_gid_text(const struct rdma_port_facts *port, uint32_t gid,
                          char out[RDMA_GID_TEXT_BYTES])
{
    char text[IO_IP_TEXT_BYTES];
    struct io_ip ip;

    if (gid >= port->n_gids) {
        return "nothing";
    }
    ip = rdma_gid_ip(&port->gids[gid].gid);
    weft_format(out, RDMA_GID_TEXT_BYTES, "%s/%u", io_ip_format(&ip, text, sizeof(text)),
                (unsigned)port->gids[gid].prefix_len);
    return out;
}
