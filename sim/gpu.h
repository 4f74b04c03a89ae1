/* The simulated GPU's clock: operations run one after another, each takes a launch
 * overhead and its bytes at a rate; what it does happens at its end. Rates are chosen,
 * not measured. */
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

/* Caller-owned until done. */
struct sim_gpu_work {
    bool is_reduce; /* else a copy of `a` */
    void *out;
    const void *a;
    const void *b;
    size_t count; /* bytes of a copy, elements of a reduction */
    enum weft_dtype dtype;
    enum weft_redop redop;
    int divisor;           /* of the result; at most 1: none */
    uint64_t bytes_per_us; /* of this work; 0: the GPU's own */
    struct sim_waker done;
    bool is_done;
    weft_ps end;               /* the GPU's */
    struct sim_gpu_work *next; /* the GPU's */
};

struct sim_gpu;

struct sim_gpu *sim_gpu_create(struct sim_engine *engine,
                               const struct sim_gpu_config *config);
/* Work not done yet is forgotten. NULL is ignored. */
void sim_gpu_destroy(struct sim_gpu *gpu);
void sim_gpu_start(struct sim_gpu *gpu, struct sim_gpu_work *work);
/* Forgets all work: its owner died. */
void sim_gpu_reset(struct sim_gpu *gpu);

#endif
