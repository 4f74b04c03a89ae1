/* Builds the mesh graph from what members announce: which of them share a host, and which
 * ports face each other. */
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

/* One process. Processes of one host announce the same id and see the same ports. */
struct mesh_member {
    /* all zeros if unknown; the member then counts as a host of its own */
    uint8_t host_id[MESH_HOST_ID_BYTES];
    const struct mesh_member_port *ports; /* [n_ports] */
    uint32_t n_ports;
};

/* Makes the graph of the members' hosts. Hosts are numbered by their first members, whose port
 * lists are used; out_hosts [n_members] receives the host of each member. Active ports that
 * face each other (mesh_find_facing without link-local addresses), directly or through other
 * ports, form one network: two ports are a cable, more are a switch, which becomes a node. The
 * rate and MTU of a cable are the lesser of its ends'; delays are unknown and 0. The same
 * members in the same order give the same graph on every process. The caller frees `out` with
 * mesh_graph_fini. */
void mesh_discover(const struct mesh_member *members, uint32_t n_members,
                   struct mesh_graph *out, uint32_t *out_hosts);

/* Replaces the roots of `graph` by those of `known`, a complete description (a scenario, a
 * file), and copies delay, rate and roots of each edge that joins the same ports of the same
 * hosts in both, by a cable or through a switch. Other edges stay as they are. `known_hosts`
 * [graph->n_hosts] maps each host to its number in `known`, or to UINT32_MAX; if NULL, the
 * numbers are the same. Port numbers are the same in both. */
void mesh_adopt(struct mesh_graph *graph, const struct mesh_graph *known,
                const uint32_t *known_hosts);

#endif
