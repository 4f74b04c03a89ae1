/* The mesh as its members tell it: who shares a host, and which ports face each other. */
#ifndef WEFT_MESH_DISCOVER_H
#define WEFT_MESH_DISCOVER_H

#include "mesh/mesh.h"

#define MESH_HOST_ID_BYTES 16

/* A port as its owner announces it. */
struct mesh_member_port {
    const struct io_prefix
        *addresses; /* [n_addresses], at the interface's own prefixes */
    uint32_t n_addresses;
    uint64_t rate_bps;
    uint32_t mtu_bytes; /* of the netdev */
    bool is_active;
};

/* A process. Those of one host announce the same id and see the same ports. */
struct mesh_member {
    uint8_t host_id[MESH_HOST_ID_BYTES];  /* all 0: unknown, a host of its own */
    const struct mesh_member_port *ports; /* [n_ports] */
    uint32_t n_ports;
};

/* Makes the graph of the members' hosts, numbered by their first members, whose lists of
 * ports count; out_hosts [n_members] gets everyone's host. Active ports that face each
 * other (mesh_find_facing, without link-local addresses), directly or over others, are one
 * network: two ports are a cable, more are a switch, which becomes a node. Delays are not
 * known, and 0. What a cable can carry is the lesser of its ends. The same members in the
 * same order give the same graph everywhere. The caller frees it with mesh_graph_fini. */
void mesh_discover(const struct mesh_member *members, uint32_t n_members,
                   struct mesh_graph *out, uint32_t *out_hosts);

/* Copies delays, rates and PCIe roots from a description that is known (a scenario, a file)
 * to what was discovered, where the same ports of the same hosts are joined, by a cable or
 * over a switch; the rest stays. `known_hosts` [graph->n_hosts] says which host in `known`
 * each is, UINT32_MAX none; NULL: they are numbered alike. Ports are numbered alike. */
void mesh_adopt(struct mesh_graph *graph, const struct mesh_graph *known,
                const uint32_t *known_hosts);

#endif
