#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/link.h"

/* The ideal switch that joins many ports. */
struct sim_network {
    /* Owned array of [n], sorted by MAC; the ports are not owned. */
    struct sim_port **ports;
    size_t n;
};

static int by_mac(const void *a, const void *b)
{
    uint64_t mac_a = (*(struct sim_port *const *)a)->mac;
    uint64_t mac_b = (*(struct sim_port *const *)b)->mac;
    return mac_a < mac_b ? -1 : mac_a > mac_b;
}

struct sim_network *sim_network_create(struct sim_port *const *ports, size_t n_ports)
{
    struct sim_network *network = weft_calloc(1, sizeof(*network));
    network->ports = weft_calloc(n_ports, sizeof(struct sim_port *));
    network->n = n_ports;
    for (size_t i = 0; i < n_ports; i++) {
        network->ports[i] = ports[i];
    }
    qsort(network->ports, n_ports, sizeof(struct sim_port *), by_mac);
    return network;
}

struct sim_port *sim_network_find(const struct sim_network *network, uint64_t mac)
{
    if (network == NULL) {
        return NULL;
    }
    size_t low = 0;
    size_t high = network->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (network->ports[middle]->mac < mac) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool is_found = low < network->n && network->ports[low]->mac == mac;
    return is_found ? network->ports[low] : NULL;
}

size_t sim_network_size(const struct sim_network *network)
{
    return network->n;
}

struct sim_port *sim_network_port(const struct sim_network *network, size_t index)
{
    return network->ports[index];
}

void sim_network_leave(struct sim_network *network, struct sim_port *port)
{
    size_t kept = 0;
    for (size_t i = 0; i < network->n; i++) {
        if (network->ports[i] != port) {
            network->ports[kept] = network->ports[i];
            kept++;
        }
    }
    network->n = kept;
    if (kept == 0) {
        free(network->ports);
        free(network);
    }
}
