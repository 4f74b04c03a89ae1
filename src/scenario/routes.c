/* Reads `routes:` of a node. */
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "scenario/arena.h"
#include "scenario/topology.h"

#define ROUTES_MAX 64u

static bool any_covers(const struct io_prefix *addresses, uint32_t n,
                       const struct io_ip *ip)
{
    for (uint32_t i = 0; i < n; i++) {
        if (io_ip_same_subnet(&addresses[i].ip, ip, addresses[i].prefix_len) &&
            !io_ip_equal(&addresses[i].ip, ip)) {
            return true;
        }
    }
    return false;
}

/* Returns true if the gateway is in a subnet of the host. The kernel rejects others with
 * "Nexthop has invalid gateway". */
static bool is_neighbour(const struct world_host *host, const struct io_ip *ip)
{
    bool found = false;
    for (uint32_t i = 0; i < host->n_ports; i++) {
        found =
            found || any_covers(host->ports[i].addresses, host->ports[i].n_addresses, ip);
    }
    for (uint32_t i = 0; i < host->n_bonds; i++) {
        found =
            found || any_covers(host->bonds[i].addresses, host->bonds[i].n_addresses, ip);
    }
    return found;
}

static bool parse(const char *text, struct world_route *out)
{
    static const char word[] = " via ";
    const char *at = strstr(text, word);
    char to[IO_IP_TEXT_BYTES];
    if (at == NULL || (size_t)(at - text) >= sizeof(to)) {
        return false;
    }
    weft_format(to, sizeof(to), "%.*s", (int)(at - text), text);
    if (!io_prefix_parse(to, &out->to) || !io_ip_parse(at + strlen(word), &out->via) ||
        io_ip_is_v4(&out->to.ip) != io_ip_is_v4(&out->via)) {
        return false;
    }
    struct io_prefix network = subnet_network(&out->to);
    return io_ip_equal(&network.ip, &out->to.ip);
}

void routes_read(struct topology *topology, uint32_t index)
{
    struct loader *loader = topology->loader;
    struct world_host *host = &loader->scenario->hosts[index];
    const struct tree_node *list = topology->hosts[index].routes;
    if (list == NULL || !read_list(loader, list, "routes", 0, ROUTES_MAX)) {
        return;
    }
    struct world_route *routes = arena_calloc(loader->arena, list->n, sizeof(routes[0]));
    host->routes = routes;
    for (uint32_t i = 0; i < list->n; i++) {
        struct world_route *route = &routes[host->n_routes];
        const char *text;
        if (!read_text(loader, list->items[i], "routes", &text)) {
            continue;
        }
        if (!parse(text, route)) {
            complain_type(loader, list->items[i], "routes",
                          "a route such as 10.0.3.0/24 via 10.0.1.2");
        } else if (!is_neighbour(host, &route->via)) {
            complain(loader, list->items[i]->mark,
                     "routes: no port of '%s' is in one subnet with the gateway of '%s'",
                     host->name, text);
        } else {
            host->n_routes++;
        }
    }
}
