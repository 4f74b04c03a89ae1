/* Bytes on their way into memory. PCIe can reorder the pieces of a WRITE if the device
 * does not promise otherwise (ibv_query_qp_data_in_order(3)), or if the region permits it
 * (IBV_ACCESS_RELAXED_ORDERING, ibv_reg_mr(3)). Writes to a GPU become visible there
 * later than their completion on the CPU. Promised is:
 * - a receive completion follows everything that its QP wrote to host memory before;
 * - a READ or atomic through the NIC sees, and flushes, everything written through it,
 * and so does a send from that memory;
 * - of two writes to one address the later one lands later. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/access.h"
#include "sim/landing.h"
#include "sim/nic_objects.h"

enum { LINE_BYTES = 64, PIECES_MAX = 8 };

/* A piece on its way into memory. The pieces of a NIC do not overlap, so the order in
 * which they land does not matter. A piece is in a treap by address (Seidel and Aragon,
 * "Randomized Search Trees", 1996), in the heap of deadlines, in the list of its side,
 * and in its QP's list if the QP's completions must wait for it. */
struct sim_piece {
    struct sim_piece *lower, *higher; /* subtrees */
    uint64_t priority;                /* not lower than that of either subtree */
    struct weft_heap_node due;
    /* the pointer to this piece, and the next piece */
    struct sim_piece **of_side, *next_of_side;
    struct sim_piece **of_qp, *next_of_qp; /* of_qp is NULL if it is in no QP's list */
    uint8_t *to;
    uint32_t n_bytes;
    uint8_t bytes[];
};

/* Returns the n-th number of a fixed pseudo-random sequence (splitmix64, Steele, Lea and
 * Flood, 2014). */
static uint64_t priority_of(uint64_t n)
{
    uint64_t z = n * 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

/* Splits `tree` into the pieces that begin below `key` and the others. */
static void split(struct sim_nic *nic, struct sim_piece *tree, const uint8_t *key,
                  struct sim_piece **lower, struct sim_piece **higher)
{
    while (tree != NULL) {
        nic->n_piece_visits++;
        if ((uintptr_t)tree->to < (uintptr_t)key) {
            *lower = tree;
            lower = &tree->higher;
            tree = tree->higher;
        } else {
            *higher = tree;
            higher = &tree->lower;
            tree = tree->lower;
        }
    }
    *lower = NULL;
    *higher = NULL;
}

static void tree_add(struct sim_nic *nic, struct sim_piece *piece)
{
    struct sim_piece **at = &nic->pieces;
    while (*at != NULL && (*at)->priority >= piece->priority) {
        nic->n_piece_visits++;
        at = (uintptr_t)piece->to < (uintptr_t)(*at)->to ? &(*at)->lower : &(*at)->higher;
    }
    split(nic, *at, piece->to, &piece->lower, &piece->higher);
    *at = piece;
}

static void tree_remove(struct sim_nic *nic, struct sim_piece *piece)
{
    struct sim_piece **at = &nic->pieces;
    struct sim_piece *lower = piece->lower;
    struct sim_piece *higher = piece->higher;
    while (*at != piece) {
        nic->n_piece_visits++;
        at = (uintptr_t)piece->to < (uintptr_t)(*at)->to ? &(*at)->lower : &(*at)->higher;
    }
    while (lower != NULL && higher != NULL) {
        nic->n_piece_visits++;
        if (lower->priority >= higher->priority) {
            *at = lower;
            at = &lower->higher;
            lower = lower->higher;
        } else {
            *at = higher;
            at = &higher->lower;
            higher = higher->lower;
        }
    }
    *at = lower != NULL ? lower : higher;
}

/* Returns the piece with the lowest address that ends above `from`, or NULL. */
static struct sim_piece *tree_find(struct sim_nic *nic, const uint8_t *from)
{
    struct sim_piece *found = NULL;
    for (struct sim_piece *at = nic->pieces; at != NULL;) {
        nic->n_piece_visits++;
        bool is_above = (uintptr_t)at->to + at->n_bytes > (uintptr_t)from;
        found = is_above ? at : found;
        at = is_above ? at->lower : at->higher;
    }
    return found;
}

static void put(struct sim_nic *nic, struct sim_piece *piece)
{
    tree_remove(nic, piece);
    weft_heap_remove(&nic->pieces_due, &piece->due);
    *piece->of_side = piece->next_of_side;
    if (piece->next_of_side != NULL) {
        piece->next_of_side->of_side = piece->of_side;
    }
    if (piece->of_qp != NULL) {
        *piece->of_qp = piece->next_of_qp;
    }
    if (piece->next_of_qp != NULL) {
        piece->next_of_qp->of_qp = piece->of_qp;
    }
    sim_move(nic->phantom, piece->to, piece->bytes, piece->n_bytes);
    free(piece);
}

static struct sim_piece *first_due(const struct sim_nic *nic)
{
    struct weft_heap_node *node = weft_heap_peek(&nic->pieces_due);
    return node == NULL ? NULL : weft_container_of(node, struct sim_piece, due);
}

static void arm(struct sim_nic *nic)
{
    const struct sim_piece *first = first_due(nic);
    sim_cancel(nic->engine, &nic->landing);
    if (first != NULL) {
        sim_schedule(nic->engine, &nic->landing, first->due.key);
    }
}

void sim_landing_due(struct sim_event *event)
{
    struct sim_nic *nic = weft_container_of(event, struct sim_nic, landing);
    weft_ps now = sim_now(nic->engine);
    struct sim_piece *piece = NULL;
    while ((piece = first_due(nic)) != NULL && piece->due.key <= now) {
        put(nic, piece);
    }
    arm(nic);
}

void sim_land_range(struct sim_nic *nic, const void *from, uint64_t n_bytes)
{
    struct sim_piece *piece = NULL;
    while ((piece = tree_find(nic, from)) != NULL &&
           (uintptr_t)piece->to < (uintptr_t)from + n_bytes) {
        put(nic, piece);
    }
}

void sim_land_list(struct sim_nic *nic, const struct ibv_sge *sges, uint32_t n_sge,
                   uint64_t offset, const uint8_t *bytes, size_t n_bytes)
{
    struct ibv_sge scratch[SIM_SGES_MAX];
    sges = sim_sges_placed(nic, sges, n_sge, scratch);
    for (uint32_t i = 0; i < n_sge && nic->pieces != NULL; i++) {
        sim_land_range(nic, (const void *)(uintptr_t)sges[i].addr, sges[i].length);
    }
    sim_sges_scatter(nic->phantom, sges, n_sge, offset, bytes, n_bytes);
}

void sim_land_qp(struct sim_qp *qp)
{
    while (qp->pieces != NULL) {
        put(qp->nic, qp->pieces);
    }
}

void sim_land_without(struct sim_qp *qp)
{
    while (qp->pieces != NULL) {
        struct sim_piece *piece = qp->pieces;
        qp->pieces = piece->next_of_qp;
        piece->of_qp = NULL;
        piece->next_of_qp = NULL;
    }
}

static void land_side(struct sim_nic *nic, bool is_gpu)
{
    while (nic->pieces_of_side[is_gpu] != NULL) {
        put(nic, nic->pieces_of_side[is_gpu]);
    }
}

void sim_land_sources(struct sim_nic *nic, const struct ibv_sge *sges, uint32_t n_sge)
{
    for (uint32_t i = 0; i < n_sge; i++) {
        const struct sim_mr *mr = sim_mr_find(nic, sges[i].lkey);
        if (mr != NULL) {
            land_side(nic, mr->sees_late);
        }
    }
}

void sim_land_all(struct sim_nic *nic)
{
    land_side(nic, false);
    land_side(nic, true);
    sim_cancel(nic->engine, &nic->landing);
}

void sim_nic_fence_gpu(struct sim_nic *nic)
{
    sim_land_all(nic);
}

static bool is_in_order(const struct sim_mr *mr)
{
    return mr->nic->profile->writes_in_order && !mr->is_relaxed;
}

static void take_off(struct sim_qp *qp, uint8_t *to, const uint8_t *bytes,
                     uint32_t n_bytes, const struct sim_mr *mr)
{
    struct sim_nic *nic = qp->nic;
    const struct sim_profile *profile = nic->profile;
    struct sim_piece *piece = weft_alloc(sizeof(*piece) + n_bytes);
    weft_ps delay = mr->sees_late ? profile->gpu_visibility_ps : 0;
    if (!is_in_order(mr) && profile->write_spread_ps > 0) {
        delay += (weft_ps)weft_rng_below(&nic->landing_rng,
                                         (uint64_t)profile->write_spread_ps);
    }
    struct sim_piece **side = &nic->pieces_of_side[mr->sees_late];
    struct sim_piece **of_qp = mr->sees_late ? NULL : &qp->pieces;
    *piece = (struct sim_piece){.priority = priority_of(++nic->n_pieces_ever),
                                .due = WEFT_HEAP_NODE_INIT,
                                .of_side = side,
                                .next_of_side = *side,
                                .of_qp = of_qp,
                                .next_of_qp = of_qp == NULL ? NULL : *of_qp,
                                .to = to,
                                .n_bytes = n_bytes};
    memcpy(piece->bytes, bytes, n_bytes);
    if (*side != NULL) {
        (*side)->of_side = &piece->next_of_side;
    }
    *side = piece;
    if (piece->next_of_qp != NULL) {
        piece->next_of_qp->of_qp = &piece->next_of_qp;
    }
    if (of_qp != NULL) {
        *of_qp = piece;
    }
    tree_add(nic, piece);
    weft_heap_set(&nic->pieces_due, &piece->due, sim_now(nic->engine) + delay);
}

void sim_land(struct sim_qp *qp, uint32_t rkey, uint64_t va, const uint8_t *bytes,
              uint32_t n_bytes)
{
    struct sim_nic *nic = qp->nic;
    const struct sim_mr *mr = sim_mr_find(nic, rkey);
    uint8_t *to = (uint8_t *)(uintptr_t)(va + mr->shift);
    sim_land_range(nic, to, n_bytes);
    if ((is_in_order(mr) && !mr->sees_late) || sim_is_phantom(nic->phantom, to)) {
        sim_move(nic->phantom, to, bytes, n_bytes);
        return;
    }
    uint32_t piece = (n_bytes / PIECES_MAX + LINE_BYTES) & ~(uint32_t)(LINE_BYTES - 1);
    for (uint32_t at = 0; at < n_bytes; at += piece) {
        uint32_t n = n_bytes - at < piece ? n_bytes - at : piece;
        take_off(qp, to + at, bytes + at, n, mr);
    }
    arm(nic);
}
