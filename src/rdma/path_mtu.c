#include "rdma/path_mtu.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define LEAST_MTU 256u

static struct rdma_path *find(const struct rdma *rdma, const struct rdma_port *port,
                              const uint8_t peer[16])
{
    for (uint32_t i = 0; i < rdma->n_paths; i++) {
        struct rdma_path *path = &rdma->paths[i];

        if (path->device == port->device_index && path->port == port->port &&
            memcmp(path->peer, peer, sizeof(path->peer)) == 0) {
            return path;
        }
    }
    return NULL;
}

static struct rdma_path *find_or_add(struct rdma *rdma, const struct rdma_port *port,
                                     const uint8_t peer[16])
{
    struct rdma_path *path = find(rdma, port, peer);

    if (path == NULL) {
        rdma->paths =
            weft_realloc(rdma->paths, (rdma->n_paths + 1) * sizeof(*rdma->paths));
        path = &rdma->paths[rdma->n_paths++];
        *path = (struct rdma_path){.device = port->device_index, .port = port->port};
        memcpy(path->peer, peer, sizeof(path->peer));
    }
    return path;
}

uint32_t rdma_path_vanished(const struct rdma *rdma, const struct rdma_port *port,
                            const uint8_t peer[16])
{
    const struct rdma_path *path = find(rdma, port, peer);

    return path == NULL ? 0 : path->vanished;
}

uint32_t rdma_path_mtu(const struct rdma *rdma, const struct rdma_port *port,
                       const uint8_t peer[16], uint32_t mtu)
{
    uint32_t vanished = rdma_path_vanished(rdma, port, peer);

    return vanished != 0 && vanished <= mtu ? vanished / 2 : mtu;
}

enum rdma_path_verdict rdma_path_lost(struct rdma *rdma, const struct rdma_port *port,
                                      const uint8_t peer[16], uint32_t mtu,
                                      weft_ns began_ns, uint32_t *out_next)
{
    struct rdma_path *path = find_or_add(rdma, port, peer);
    bool is_known = path->vanished != 0 && mtu >= path->vanished;

    if (!is_known && path->suspected != mtu) {
        path->suspected = mtu;
        path->suspected_ns = io_now(rdma->env);
        return RDMA_PATH_AGAIN;
    }
    if (!is_known && began_ns < path->suspected_ns + RDMA_PATH_PAUSE_NS) {
        return RDMA_PATH_AGAIN; /* may have the same cause as the first loss */
    }
    if (mtu <= LEAST_MTU || path->proven >= mtu) {
        return RDMA_PATH_OTHER;
    }
    if (!is_known) {
        path->vanished = mtu;
    }
    *out_next = path->vanished / 2;
    return RDMA_PATH_LOWERED;
}

void rdma_path_prove(struct rdma *rdma, const struct rdma_port *port,
                     const uint8_t peer[16], uint32_t mtu)
{
    struct rdma_path *path = find_or_add(rdma, port, peer);

    path->proven = mtu > path->proven ? mtu : path->proven;
    if (path->suspected <= mtu) {
        path->suspected = 0;
    }
    if (path->vanished <= mtu) {
        path->vanished = 0;
    }
}
