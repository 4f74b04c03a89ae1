#include "mesh/mesh.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "mesh/index.h"

/* ---- facing addresses ---- */

static bool face(const struct mesh_address *local, const struct mesh_address *remote,
                 bool match_link_local)
{
    const struct io_prefix *a = &local->prefix;
    const struct io_prefix *b = &remote->prefix;
    /* Without a prefix there is no subnet to share. */
    if (a->prefix_len == 0 || io_ip_equal(&a->ip, &b->ip)) {
        return false;
    }
    /* fe80::/64 is on every cable, so that sharing it proves nothing. */
    bool both_link_local = io_ip_is_link_local(&a->ip) && io_ip_is_link_local(&b->ip);
    if (both_link_local && !io_ip_is_v4(&a->ip) && !match_link_local) {
        return false;
    }
    return io_ip_same_subnet(&a->ip, &b->ip, a->prefix_len) &&
           (b->prefix_len == 0 || io_ip_same_subnet(&a->ip, &b->ip, b->prefix_len));
}

size_t mesh_find_facing(const struct mesh_address *local, size_t n_local,
                        const struct mesh_address *remote, size_t n_remote,
                        bool match_link_local, struct mesh_facing *out, size_t cap)
{
    size_t n_pairs = n_local * n_remote;
    /* true for the pairs of addresses that face each other */
    bool *faces = weft_calloc(n_pairs > 0 ? n_pairs : 1, sizeof(*faces));
    for (size_t i = 0; i < n_pairs; i++) {
        faces[i] = face(&local[i / n_remote], &remote[i % n_remote], match_link_local);
    }
    size_t n = 0;
    for (size_t i = 0; i < n_pairs; i++) {
        if (!faces[i]) {
            continue;
        }
        const struct mesh_address *l = &local[i / n_remote];
        const struct mesh_address *r = &remote[i % n_remote];
        bool is_v4 = io_ip_is_v4(&l->prefix.ip);
        bool is_best = true;
        for (size_t k = 0; k < n_pairs && is_best; k++) {
            const struct mesh_address *other = &local[k / n_remote];
            if (k == i || !faces[k] || other->port != l->port ||
                remote[k % n_remote].port != r->port) {
                continue;
            }
            bool other_v4 = io_ip_is_v4(&other->prefix.ip);
            is_best = other_v4 != is_v4 ? is_v4 : i < k;
        }
        if (!is_best) {
            continue;
        }
        if (n < cap) {
            out[n] = (struct mesh_facing){.local = (uint32_t)(i / n_remote),
                                          .remote = (uint32_t)(i % n_remote)};
        }
        n++;
    }
    free(faces);
    return n;
}

/* ---- the graph ---- */

void mesh_graph_fini(struct mesh_graph *graph)
{
    free(graph->edges);
    free(graph->roots);
    memset(graph, 0, sizeof(*graph));
}

void mesh_distances(const struct mesh_graph *graph, uint32_t from, uint32_t *out)
{
    struct mesh_index index;
    mesh_index_init(&index, graph);
    mesh_index_distances(&index, from, out);
    mesh_index_fini(&index);
}

uint32_t mesh_distance(const struct mesh_graph *graph, uint32_t from, uint32_t to)
{
    weft_check(to < mesh_n_nodes(graph));
    uint32_t *hops = weft_alloc(mesh_n_nodes(graph) * sizeof(*hops));
    mesh_distances(graph, from, hops);
    uint32_t answer = hops[to];
    free(hops);
    return answer;
}

/* ---- bytes ---- */

uint32_t mesh_path_mtu(uint32_t ip_mtu_bytes, uint32_t overhead_bytes)
{
    for (uint32_t mtu = 4096; mtu >= 256; mtu /= 2) {
        if (ip_mtu_bytes >= overhead_bytes && ip_mtu_bytes - overhead_bytes >= mtu) {
            return mtu;
        }
    }
    return 0;
}

/* Preamble and start of frame 8, Ethernet header 14, FCS 4, least gap 12 (IEEE 802.3); IP; UDP
 * 8, BTH 12, ICRC 4 (InfiniBand specification volume 1, annexes A16 and A17). */
uint32_t mesh_packet_overhead(bool is_ipv6)
{
    return 8 + 14 + 4 + 12 + (is_ipv6 ? 40u : 20u) + 8 + 12 + 4;
}

static uint64_t packets_of(uint64_t message_bytes, uint32_t path_mtu)
{
    /* an empty message is one packet too */
    return message_bytes == 0 ? 1 : (message_bytes - 1) / path_mtu + 1;
}

uint64_t mesh_wire_bytes(uint64_t payload_bytes, uint64_t message_bytes,
                         uint32_t path_mtu, bool is_ipv6)
{
    weft_check(message_bytes > 0 && path_mtu > 0);
    const uint64_t reth_bytes = 16;
    uint64_t n_full = payload_bytes / message_bytes;
    uint64_t rest = payload_bytes % message_bytes;
    uint64_t n_messages = n_full;
    uint64_t n_packets = n_full * packets_of(message_bytes, path_mtu);
    if (rest > 0 || payload_bytes == 0) {
        n_messages++;
        n_packets += packets_of(rest, path_mtu);
    }
    /* Payload is padded to whole words; only the last packet of a message can need padding. */
    uint64_t pad = n_full * ((4 - message_bytes % 4) % 4) + (4 - rest % 4) % 4;
    return payload_bytes + pad + n_packets * mesh_packet_overhead(is_ipv6) +
           n_messages * reth_bytes;
}

void mesh_bus_factor(enum weft_collective collective, uint32_t n_ranks,
                     uint32_t *out_numerator, uint32_t *out_denominator)
{
    weft_check(n_ranks > 0);
    *out_numerator = 1;
    *out_denominator = 1;
    switch (collective) {
    case WEFT_ALL_REDUCE:
        *out_numerator = 2 * (n_ranks - 1);
        *out_denominator = n_ranks;
        break;
    case WEFT_REDUCE_SCATTER:
    case WEFT_ALL_GATHER:
    case WEFT_ALL_TO_ALL:
        *out_numerator = n_ranks - 1;
        *out_denominator = n_ranks;
        break;
    case WEFT_BROADCAST:
    case WEFT_REDUCE:
    case WEFT_SEND_RECV:
    case WEFT_BARRIER:
        break;
    }
}
