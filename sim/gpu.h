/* The simulated GPU's clock: operations within its memory run one after another, each takes
 * a launch overhead and its bytes at a rate; what it does happens at its end. Copies that
 * leave it pass links, which GPUs share: each serves one copy after another at its own
 * width, a copy enters a link as soon as that is free and it is on the one before. Rates of
 * memory are chosen, not measured. */
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
    weft_ps free_at;       /* from when on it serves whoever comes next */
};

/* Caller-owned until done. */
struct sim_gpu_work {
    bool is_reduce; /* else a copy of `a` */
    void *out;
    const void *a;
    const void *b;
    size_t count; /* bytes of a copy, elements of a reduction */
    enum weft_dtype dtype;
    enum weft_redop redop;
    int divisor; /* of the result; at most 1: none */
    /* A copy that leaves the GPU's memory passes links[way[0]], links[way[1]] ... */
    struct sim_gpu_link *links; /* Not owned. */
    const uint32_t *way;        /* Not owned [n_way] */
    uint32_t n_way;             /* 0: it does not */
    weft_ps held_ps;            /* so long its stream held it back: launched meanwhile */
    struct sim_waker done;
    bool is_done;
    /* the GPU's: */
    weft_ps end;
    struct sim_gpu_work *next;
    struct sim_gpu *gpu;
    struct sim_event arrival; /* of a copy on its way */
};

struct sim_gpu *sim_gpu_create(struct sim_engine *engine,
                               const struct sim_gpu_config *config);
/* Work not done yet is forgotten. NULL is ignored. */
void sim_gpu_destroy(struct sim_gpu *gpu);
void sim_gpu_start(struct sim_gpu *gpu, struct sim_gpu_work *work);
/* Forgets all work: its owner died. */
void sim_gpu_reset(struct sim_gpu *gpu);

#endif
