/* Times and executes operations of a simulated GPU. Operations within its memory run one
 * after another; each takes a launch overhead plus its bytes at the memory's rate, and
 * takes effect at its end. Copies that leave the memory pass links, which GPUs share. A
 * link serves one copy after another at its own rate; a copy enters a link when that is
 * free and the copy has entered the one before. Memory rates are chosen, not measured. */
#ifndef WEFT_SIM_GPU_H
#define WEFT_SIM_GPU_H

#include <stddef.h>

#include "base/reduce.h"
#include "sim/engine.h"

struct sim_gpu_config {
    weft_ps launch_ps;
    uint64_t bytes_per_us; /* of output written; > 0 */
};
extern const struct sim_gpu_config sim_gpu_default; /* 100 ns, 200 GB/s */

struct sim_gpu;

/* One direction of a link. */
struct sim_gpu_link {
    uint64_t bytes_per_us; /* > 0 */
    weft_ps free_at;       /* when the link is free for the next copy */
};

/* One operation. The caller owns it and keeps it until it is done. */
struct sim_gpu_work {
    bool is_reduce; /* false: a copy of `a` */
    void *out;
    const void *a;
    const void *b;
    size_t count; /* bytes of a copy, or elements of a reduction */
    enum weft_dtype dtype;
    enum weft_redop redop;
    int divisor; /* divides the result; none if at most 1 */
    /* Route of a copy that leaves the GPU's memory: links[way[0]], links[way[1]] ... */
    struct sim_gpu_link *links; /* Not owned. */
    const uint32_t *way;        /* Not owned [n_way] */
    uint32_t n_way;             /* 0 if the copy stays in the memory */
    /* time that its stream delayed it; shortens the launch, which overlaps with that */
    weft_ps held_ps;
    struct sim_waker done;
    bool is_done;
    /* private to the GPU: */
    weft_ps end;
    struct sim_gpu_work *next;
    struct sim_gpu *gpu;
    struct sim_event arrival; /* end of a copy that passes links */
};

struct sim_gpu *sim_gpu_create(struct sim_engine *engine,
                               const struct sim_gpu_config *config);
/* Drops unfinished work without waking its owner. NULL is ignored. */
void sim_gpu_destroy(struct sim_gpu *gpu);
void sim_gpu_start(struct sim_gpu *gpu, struct sim_gpu_work *work);
/* Drops all unfinished work, because its owner died. */
void sim_gpu_reset(struct sim_gpu *gpu);

#endif
