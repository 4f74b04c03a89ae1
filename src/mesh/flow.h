/* Least directed cut between two hosts, by maximum flow. Private to mesh/. */
#ifndef WEFT_MESH_FLOW_H
#define WEFT_MESH_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mesh_arc {
    uint32_t from, to;
    uint64_t capacity;
};

/* Marks in `out_source_side` [n_hosts] the hosts on the side of `source` of a least cut
 * towards `sink`, and returns its capacity. source != sink. Edmonds-Karp: O(hosts x arcs^2) in
 * the worst case, a few passes on typical meshes. */
uint64_t mesh_least_cut(uint32_t n_hosts, const struct mesh_arc *arcs, size_t n_arcs,
                        uint32_t source, uint32_t sink, bool *out_source_side);

#endif
