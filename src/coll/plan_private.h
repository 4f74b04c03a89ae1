/* Shared by the makers of plans. */
#ifndef WEFT_COLL_PLAN_PRIVATE_H
#define WEFT_COLL_PLAN_PRIVATE_H

#include "coll/coll.h"

/* Slices: long enough that headers, immediates and clear-to-sends do not matter, short
 * enough that reductions hide behind the wire. */
#define COLL_SLICE_BYTES_MIN (16u * 1024)
#define COLL_SLICE_BYTES_MAX (512u * 1024)

/* Elements of the slices that `chunk_count` elements are cut into: about eight a chunk.
 * Never 0. */
uint64_t coll_slice_count(uint64_t chunk_count, size_t element_bytes);

/* What is under construction: the plan and the capacity of its steps. */
struct coll_maker {
    struct coll_plan *plan;
    uint32_t cap;
    const struct coll_job *job;
};

/* Appends `step` and returns its index; steps of no elements are left out on both ends
 * alike and answer COLL_NO_STEP. */
uint32_t coll_maker_add(struct coll_maker *maker, const struct coll_step *step);

/* One or two opposite rings. */
void coll_make_rings(struct coll_maker *maker, uint32_t n_rings);
/* Everyone sends everything to everyone. */
void coll_make_direct(struct coll_maker *maker);

#endif
