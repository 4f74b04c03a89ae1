#include "backends/linux/aliases.h"

#include <errno.h>
#include <stddef.h>

const struct linux_alias *linux_alias_of_seen(const struct linux_aliases *aliases,
                                              const struct io_ip *seen)
{
    for (uint32_t i = 0; i < aliases->n_items; i++) {
        if (io_ip_equal(&aliases->items[i].seen, seen)) {
            return &aliases->items[i];
        }
    }
    return NULL;
}

const struct linux_alias *linux_alias_of_real(const struct linux_aliases *aliases,
                                              const struct io_ip *real)
{
    for (uint32_t i = 0; i < aliases->n_items; i++) {
        if (io_ip_equal(&aliases->items[i].real, real)) {
            return &aliases->items[i];
        }
    }
    return NULL;
}

const struct linux_alias_netdev *
linux_alias_netdev_of(const struct linux_aliases *aliases, uint32_t ifindex)
{
    for (uint32_t i = 0; i < aliases->n_netdevs; i++) {
        if (aliases->netdevs[i].ifindex == ifindex) {
            return &aliases->netdevs[i];
        }
    }
    return NULL;
}

/* Returns the host's netdev that has the address `ip`, or (with `covers`) a subnet that contains
 * it; NULL if there is none. */
static const struct io_netdev *find_netdev(const struct linux_aliases *aliases,
                                           const struct io_ip *ip, bool covers,
                                           struct io_ip *out_own)
{
    for (uint32_t i = 0; i < aliases->info->n_netdevs; i++) {
        const struct io_netdev *netdev = &aliases->info->netdevs[i];
        for (uint32_t j = 0; j < netdev->n_addresses; j++) {
            const struct io_prefix *own = &netdev->addresses[j];
            if (io_ip_equal(&own->ip, ip) ||
                (covers && io_ip_same_subnet(&own->ip, ip, own->prefix_len))) {
                *out_own = own->ip;
                return netdev;
            }
        }
    }
    return NULL;
}

int linux_alias_local(const struct linux_aliases *aliases, struct io_endpoint *at)
{
    struct io_ip own;
    if (aliases == NULL || io_ip_is_zero(&at->ip)) {
        return 0;
    }
    const struct linux_alias *alias = linux_alias_of_seen(aliases, &at->ip);
    if (alias == NULL || find_netdev(aliases, &at->ip, false, &own) == NULL) {
        return EADDRNOTAVAIL;
    }
    at->ip = alias->real;
    at->ifindex = 0;
    return 0;
}

void linux_alias_show(const struct linux_aliases *aliases, struct io_endpoint *at)
{
    const struct linux_alias *alias =
        aliases == NULL ? NULL : linux_alias_of_real(aliases, &at->ip);
    if (alias != NULL) {
        at->ip = alias->seen;
    }
}

int linux_alias_route(const struct linux_aliases *aliases, struct io_endpoint *from,
                      struct io_endpoint *to)
{
    struct io_ip own, seen = to->ip;
    if (aliases == NULL) {
        return 0;
    }
    const struct linux_alias *alias = linux_alias_of_seen(aliases, &seen);
    const struct io_netdev *netdev = find_netdev(aliases, &seen, false, &own);
    bool is_own = netdev != NULL;
    if (!is_own) {
        netdev = find_netdev(aliases, &seen, true, &own);
    }
    if (netdev == NULL) {
        return ENETUNREACH;
    }
    if (io_ip_is_zero(&from->ip)) {
        from->ip = own;
    }
    const struct linux_alias_netdev *on = linux_alias_netdev_of(aliases, netdev->ifindex);
    if (alias == NULL || on == NULL || (!is_own && alias->link != on->link)) {
        return EHOSTUNREACH;
    }
    to->ip = alias->real;
    to->ifindex = 0;
    return linux_alias_local(aliases, from);
}
