#define _GNU_SOURCE
#include "backends/linux/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "base/text.h"

/* Returns the interface with this name; appends a new one if there is none. */
static struct io_interface *named(struct io_interface *items, uint32_t *n,
                                  const char *name)
{
    for (uint32_t i = 0; i < *n; i++) {
        if (strcmp(items[i].name, name) == 0) {
            return &items[i];
        }
    }
    items[*n] = (struct io_interface){.name = ""};
    weft_format(items[*n].name, sizeof(items->name), "%s", name);
    return &items[(*n)++];
}

/* Adds an entry of getifaddrs(3): an interface, or one of its addresses. */
static void add(struct io_interface *interface, const struct ifaddrs *entry)
{
    int family = entry->ifa_addr != NULL ? entry->ifa_addr->sa_family : AF_UNSPEC;

    interface->is_running = (entry->ifa_flags & IFF_RUNNING) != 0;
    if (family == AF_INET) {
        interface->has_v4 = true;
    } else if (family == AF_INET6) {
        struct sockaddr_in6 address;

        memcpy(&address, entry->ifa_addr, sizeof(address));
        interface->has_v6 =
            interface->has_v6 || !IN6_IS_ADDR_LOOPBACK(&address.sin6_addr);
    }
}

struct io_interface *linux_interfaces(uint32_t *out_n)
{
    struct io_interface *items = NULL;
    struct ifaddrs *all = NULL;

    *out_n = 0;
    if (getifaddrs(&all) != 0) {
        return NULL;
    }
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        items = weft_realloc(items, (*out_n + 1) * sizeof(*items));
        add(named(items, out_n, at->ifa_name), at);
    }
    freeifaddrs(all);
    return items;
}
