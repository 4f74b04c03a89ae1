/* Meshes of equal cables for tests of packings. */
#ifndef WEFT_MESH_PACKING_TESTING_H
#define WEFT_MESH_PACKING_TESTING_H

#include "mesh/packing.h"

/* 2^20 Mbit/s: a packing whose busiest lane has this rate and carries x parts has load x. */
#define PACKING_RATE (UINT64_C(1000000) << 20)

enum { PACKING_EDGES_MAX = 2400, PACKING_RANKS_MAX = 320 };

struct packing_mesh {
    struct mesh_graph graph;
    struct mesh_edge edges[PACKING_EDGES_MAX];
    struct mesh_root roots[4];
    uint32_t ranks[PACKING_RANKS_MAX];
    uint32_t n_ranks;
    struct mesh_overlay overlay;
    struct mesh_packing packing;
};

/* Makes hosts with one rank each, and switches, without cables. */
void packing_mesh_make(struct packing_mesh *mesh, uint32_t n_hosts, uint32_t n_switches);
/* Adds both directions of a cable, each of `rate` and with 1 us of delay. */
void packing_mesh_cable(struct packing_mesh *mesh, uint32_t a, uint32_t b, uint64_t rate);
/* Three hosts, three cables of PACKING_RATE. */
void packing_mesh_triangle(struct packing_mesh *mesh);
void packing_mesh_open(struct packing_mesh *mesh);

#endif
