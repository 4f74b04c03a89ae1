/* The mesh between hosts, as data and pure functions: which ports face each other, and
 * the physical bound of a collective. Nothing here does I/O or keeps state. */
#ifndef WEFT_MESH_MESH_H
#define WEFT_MESH_MESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"
#include "base/status.h"
#include "io/addr.h"

/* An address of a port, as its owner announces it. */
struct mesh_address {
    uint32_t port;           /* the owner's port index */
    struct io_prefix prefix; /* at the interface's own prefix length */
};

/* A local address and a remote one on the same cable. */
struct mesh_facing {
    uint32_t local;  /* index into the local addresses */
    uint32_t remote; /* index into the remote addresses */
};

/* Finds the pairs that share a subnet: same family, equal under the *local interface's*
 * prefix and, when the remote prefix is known (not 0), under that too; never a global
 * /24. Addresses equal to each other (a host's own) and link-local IPv6 pairs are not
 * matched unless `match_link_local`. At most `cap` pairs are written, in (local, remote)
 * order; a pair of ports appears once (IPv4 before IPv6). Returns how many there are,
 * which may exceed `cap`. */
size_t mesh_find_facing(const struct mesh_address *local, size_t n_local,
                        const struct mesh_address *remote, size_t n_remote,
                        bool match_link_local, struct mesh_facing *out, size_t cap);

#define MESH_NO_ROOT UINT32_MAX

/* mtu_bytes of a link without packets: all of its rate is payload. */
#define MESH_RAW_MTU 1u

/* One direction of one cable (or of one rail of it). */
struct mesh_edge {
    uint32_t from, to;           /* nodes */
    uint32_t from_port, to_port; /* port indices of the host, or of the switch */
    uint32_t cable;              /* index of the cable; both directions share it */
    uint64_t rate_bps;           /* lesser of cable, ports and PCIe roots */
    weft_ps delay_ps;
    uint32_t mtu_bytes; /* lesser of both ends', or MESH_RAW_MTU */
    bool is_ipv6;
    /* Indices into mesh_graph.roots of the PCIe roots that the edge passes at its ends.
     * MESH_NO_ROOT or any index out of range if there is none. */
    uint32_t from_root, to_root;
};

/* A PCIe root: the link between a host and some of its ports, which share its rate in each
 * direction. Data that the host relays passes it in both directions. */
struct mesh_root {
    uint32_t host;
    uint64_t rate_bps;
};

/* Nodes are hosts, then switches. A switch forwards between its ports at their rates, has no
 * ranks and reduces nothing. */
struct mesh_graph {
    uint32_t n_hosts;
    /* hosts and switches; fewer than n_hosts if there are no switches */
    uint32_t n_nodes;
    struct mesh_edge *edges; /* Owned [n_edges], both directions of every cable */
    size_t n_edges;
    struct mesh_root *roots; /* Owned [n_roots] */
    uint32_t n_roots;
};

void mesh_graph_fini(struct mesh_graph *graph);

/* Returns the number of nodes, at least n_hosts. */
static inline uint32_t mesh_n_nodes(const struct mesh_graph *graph)
{
    return graph->n_nodes > graph->n_hosts ? graph->n_nodes : graph->n_hosts;
}

/* Returns the least number of hops, or UINT32_MAX if there is no path. A hop ends in a host:
 * two hosts on one switch are one hop apart. */
uint32_t mesh_distance(const struct mesh_graph *graph, uint32_t from, uint32_t to);

/* Writes the distances from one node to all others: out[mesh_n_nodes]. */
void mesh_distances(const struct mesh_graph *graph, uint32_t from, uint32_t *out);

/* Returns the largest RoCE path MTU (256 to 4096) that fits `ip_mtu_bytes` less
 * `overhead_bytes`; 0 if none does (iboe_get_mtu, include/rdma/ib_addr.h). */
uint32_t mesh_path_mtu(uint32_t ip_mtu_bytes, uint32_t overhead_bytes);

/* Returns the bytes that a packet occupies on the wire in addition to its payload: Ethernet
 * 14+4 and preamble and gap 20, IPv4 20 or IPv6 40, UDP 8, BTH 12, ICRC 4. A full IPv4 packet
 * at path MTU 4096 takes 4178 byte times. */
uint32_t mesh_packet_overhead(bool is_ipv6);

/* Returns the byte times on the wire, preambles and gaps included, of `payload_bytes` sent as
 * RC WRITEs of `message_bytes` at `path_mtu`: mesh_packet_overhead per packet, RETH 16 per
 * message, payload padded to whole words. */
uint64_t mesh_wire_bytes(uint64_t payload_bytes, uint64_t message_bytes,
                         uint32_t path_mtu, bool is_ipv6);

/* Returns a lower bound, in picoseconds, of the time of `collective` on `size_bytes`
 * (nccl-tests' size column) with one rank on each host of `ranks`: no plan can be faster. A
 * host can be listed several times; data within a host is free, and other hosts only relay.
 * Rounded down, so that it stays a bound. For all_reduce of S bytes on n hosts it is
 * max(2(n-1)S / sum of directed cable capacity, S / least directed cut), with capacity = rate
 * x payload share of full packets, PCIe roots and switches included; it is more where parts of
 * the mesh have less capacity between them. It depends on topology and job only. mesh/limit.c
 * and docs/mesh.md derive it for each collective. For broadcast and reduce it is the least
 * bound over all roots, because the root is not an argument. Returns 0 if two of the ranks are
 * not connected or there is only one rank, otherwise at least 1. */
weft_ps mesh_limit_ps(const struct mesh_graph *graph, const uint32_t *ranks,
                      uint32_t n_ranks, enum weft_collective collective,
                      uint64_t size_bytes);

/* Sets nccl-tests' factor from algorithm to bus bandwidth, as a fraction: 2(n-1)/n for
 * all_reduce, (n-1)/n for reduce_scatter, all_gather and all_to_all, 1 for others. */
void mesh_bus_factor(enum weft_collective collective, uint32_t n_ranks,
                     uint32_t *out_numerator, uint32_t *out_denominator);

#endif
