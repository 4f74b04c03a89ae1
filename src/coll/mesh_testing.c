#include "coll/mesh_testing.h"

#include <stdlib.h>

#include "base/check.h"

void coll_graph_of_cables(uint32_t n_ranks, const struct coll_cable *cables,
                          uint32_t n_cables, uint64_t rate_bps, weft_ps delay_ps,
                          struct mesh_graph *out)
{
    *out = (struct mesh_graph){.n_hosts = n_ranks, .n_edges = 2 * (size_t)n_cables};
    out->edges = weft_calloc(out->n_edges + 1, sizeof(*out->edges));
    for (uint32_t i = 0; i < 2 * n_cables; i++) {
        const struct coll_cable *cable = &cables[i / 2];

        out->edges[i] = (struct mesh_edge){.from = i % 2 == 0 ? cable->a : cable->b,
                                           .to = i % 2 == 0 ? cable->b : cable->a,
                                           .from_port = i / 2,
                                           .to_port = i / 2,
                                           .cable = i / 2,
                                           .from_root = UINT32_MAX,
                                           .to_root = UINT32_MAX,
                                           .rate_bps = rate_bps,
                                           .delay_ps = delay_ps,
                                           .mtu_bytes = 9000};
    }
}

void coll_mesh_of_cables(uint32_t n_ranks, const struct coll_cable *cables,
                         uint32_t n_cables, uint64_t rate_bps, weft_ps delay_ps,
                         struct coll_mesh *out)
{
    uint32_t *hosts = weft_calloc(n_ranks, sizeof(*hosts));
    struct mesh_graph graph;
    struct mesh_overlay overlay;

    for (uint32_t r = 0; r < n_ranks; r++) {
        hosts[r] = r;
    }
    coll_graph_of_cables(n_ranks, cables, n_cables, rate_bps, delay_ps, &graph);
    mesh_overlay_make(&graph, hosts, n_ranks, &overlay);
    /* Only a few roots get their own trees. */
    coll_mesh_make(&overlay, hosts, n_ranks < 3 ? n_ranks : 3, NULL, 0, out);
    mesh_graph_fini(&graph);
    free(hosts);
}

void coll_mesh_full(uint32_t n_ranks, uint64_t rate_bps, weft_ps delay_ps,
                    struct coll_mesh *out)
{
    struct coll_cable *cables =
        weft_calloc((size_t)n_ranks * n_ranks + 1, sizeof(*cables));
    uint32_t n_cables = 0;

    for (uint32_t a = 0; a < n_ranks; a++) {
        for (uint32_t b = a + 1; b < n_ranks; b++) {
            cables[n_cables++] = (struct coll_cable){a, b};
        }
    }
    coll_mesh_of_cables(n_ranks, cables, n_cables, rate_bps, delay_ps, out);
    free(cables);
}

void coll_mesh_ring(uint32_t n_ranks, uint64_t rate_bps, weft_ps delay_ps,
                    struct coll_mesh *out)
{
    struct coll_cable *cables = weft_calloc(n_ranks, sizeof(*cables));

    for (uint32_t r = 0; r < n_ranks; r++) {
        cables[r] = (struct coll_cable){r, (r + 1) % n_ranks};
    }
    coll_mesh_of_cables(n_ranks, cables, n_ranks > 2 ? n_ranks : n_ranks - 1, rate_bps,
                        delay_ps, out);
    free(cables);
}
