#include "mesh/packing_testing.h"

#include <check.h>
#include <string.h>

void packing_mesh_make(struct packing_mesh *mesh, uint32_t n_hosts, uint32_t n_switches)
{
    memset(mesh, 0, sizeof(*mesh));
    mesh->graph = (struct mesh_graph){.n_hosts = n_hosts,
                                      .n_nodes = n_hosts + n_switches,
                                      .edges = mesh->edges,
                                      .roots = mesh->roots};
    mesh->n_ranks = n_hosts;
    for (uint32_t i = 0; i < n_hosts; i++) {
        mesh->ranks[i] = i;
    }
}

void packing_mesh_cable(struct packing_mesh *mesh, uint32_t a, uint32_t b, uint64_t rate)
{
    for (int way = 0; way < 2; way++) {
        ck_assert_uint_lt(mesh->graph.n_edges, PACKING_EDGES_MAX);
        mesh->edges[mesh->graph.n_edges++] = (struct mesh_edge){.from = way ? b : a,
                                                                .to = way ? a : b,
                                                                .rate_bps = rate,
                                                                .delay_ps = 1000000,
                                                                .mtu_bytes = 9000,
                                                                .from_root = MESH_NO_ROOT,
                                                                .to_root = MESH_NO_ROOT};
    }
}

void packing_mesh_triangle(struct packing_mesh *mesh)
{
    packing_mesh_make(mesh, 3, 0);
    packing_mesh_cable(mesh, 0, 1, PACKING_RATE);
    packing_mesh_cable(mesh, 1, 2, PACKING_RATE);
    packing_mesh_cable(mesh, 2, 0, PACKING_RATE);
}

void packing_mesh_open(struct packing_mesh *mesh)
{
    mesh_overlay_make(&mesh->graph, mesh->ranks, mesh->n_ranks, &mesh->overlay);
}
