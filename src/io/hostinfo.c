#include "io/hostinfo.h"

#include <stdlib.h>

const struct io_netdev *io_hostinfo_netdev(const struct io_hostinfo *info,
                                           uint32_t ifindex)
{
    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        if (info->netdevs[i].ifindex == ifindex) {
            return &info->netdevs[i];
        }
    }
    return NULL;
}

uint32_t io_hostinfo_top(const struct io_hostinfo *info, uint32_t ifindex)
{
    const struct io_netdev *netdev = io_hostinfo_netdev(info, ifindex);

    return netdev != NULL && netdev->master != 0 ? netdev->master : ifindex;
}

void io_hostinfo_fini(struct io_hostinfo *info)
{
    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        free(info->netdevs[i].addresses);
    }
    free(info->netdevs);
    info->netdevs = NULL;
    info->n_netdevs = 0;
}
