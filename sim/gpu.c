#include "sim/gpu.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/memory.h"

const struct sim_gpu_config sim_gpu_default = {.launch_ps = 100000,
                                               .bytes_per_us = 200000};

struct sim_gpu {
    struct sim_engine *engine;
    struct sim_gpu_config config;
    struct sim_gpu_work *first; /* Not owned; in the order of starting */
    struct sim_gpu_work *last;
    struct sim_event end;           /* end of `first` */
    struct sim_gpu_work *under_way; /* Not owned; copies that pass links */
};

static void perform(const struct sim_gpu *gpu, const struct sim_gpu_work *work)
{
    const struct sim_phantom *phantom = sim_engine_phantom(gpu->engine);
    if (sim_is_phantom(phantom, work->out) || sim_is_phantom(phantom, work->a) ||
        sim_is_phantom(phantom, work->b)) {
        return;
    }
    if (work->is_reduce) {
        weft_reduce(work->dtype, work->redop, work->out, work->a, work->b, work->count);
        if (work->divisor > 1) {
            weft_reduce_divide(work->dtype, work->out, work->count, work->divisor);
        }
    } else {
        memmove(work->out, work->a, work->count);
    }
}

static void finish(const struct sim_gpu *gpu, struct sim_gpu_work *work)
{
    if (work->count > 0) {
        perform(gpu, work);
    }
    work->is_done = true;
    sim_wake(&work->done);
}

static void on_end(struct sim_event *event)
{
    struct sim_gpu *gpu = weft_container_of(event, struct sim_gpu, end);
    struct sim_gpu_work *work = gpu->first;
    gpu->first = work->next;
    if (gpu->first == NULL) {
        gpu->last = NULL;
    } else {
        sim_schedule(gpu->engine, &gpu->end, gpu->first->end);
    }
    finish(gpu, work);
}

static void on_arrival(struct sim_event *event)
{
    struct sim_gpu_work *work = weft_container_of(event, struct sim_gpu_work, arrival);
    struct sim_gpu_work **at = &work->gpu->under_way;
    while (*at != work) {
        at = &(*at)->next;
    }
    *at = work->next;
    finish(work->gpu, work);
}

struct sim_gpu *sim_gpu_create(struct sim_engine *engine,
                               const struct sim_gpu_config *config)
{
    weft_check(config->bytes_per_us > 0);
    struct sim_gpu *gpu = weft_calloc(1, sizeof *gpu);
    gpu->engine = engine;
    gpu->config = *config;
    sim_event_init(&gpu->end, on_end);
    return gpu;
}

void sim_gpu_reset(struct sim_gpu *gpu)
{
    sim_cancel(gpu->engine, &gpu->end);
    gpu->first = NULL;
    gpu->last = NULL;
    for (struct sim_gpu_work *at = gpu->under_way; at != NULL; at = at->next) {
        sim_cancel(gpu->engine, &at->arrival);
    }
    gpu->under_way = NULL;
}

void sim_gpu_destroy(struct sim_gpu *gpu)
{
    if (gpu == NULL) {
        return;
    }
    sim_gpu_reset(gpu);
    free(gpu);
}

/* Rounds up. Buffers are far below 2^43 bytes, so the product fits. */
static weft_ps duration_ps(size_t n_bytes, uint64_t bytes_per_us)
{
    return (weft_ps)(((uint64_t)n_bytes * 1000000u + bytes_per_us - 1) / bytes_per_us);
}

/* Reserves the links of a copy, and returns its end. A busy link delays the copy at that
 * link and behind it, but does not occupy the links before. */
static weft_ps pass(const struct sim_gpu_work *work, weft_ps start)
{
    weft_ps end = start;
    for (uint32_t i = 0; i < work->n_way; i++) {
        struct sim_gpu_link *link = &work->links[work->way[i]];
        start = link->free_at > start ? link->free_at : start;
        link->free_at = start + duration_ps(work->count, link->bytes_per_us);
        end = link->free_at > end ? link->free_at : end;
    }
    return end;
}

static void set_out(struct sim_gpu *gpu, struct sim_gpu_work *work)
{
    weft_ps launch = gpu->config.launch_ps;
    weft_check(!work->is_reduce);
    launch -= work->held_ps < launch ? work->held_ps : launch;
    work->end = pass(work, sim_now(gpu->engine) + launch);
    work->next = gpu->under_way;
    gpu->under_way = work;
    sim_event_init(&work->arrival, on_arrival);
    sim_schedule(gpu->engine, &work->arrival, work->end);
}

void sim_gpu_start(struct sim_gpu *gpu, struct sim_gpu_work *work)
{
    size_t n_bytes =
        work->is_reduce ? work->count * weft_dtype_bytes(work->dtype) : work->count;
    weft_ps start = gpu->last != NULL ? gpu->last->end : sim_now(gpu->engine);
    work->is_done = false;
    work->next = NULL;
    work->gpu = gpu;
    if (work->n_way > 0) {
        set_out(gpu, work);
        return;
    }
    work->end =
        start + gpu->config.launch_ps + duration_ps(n_bytes, gpu->config.bytes_per_us);
    if (gpu->last == NULL) {
        gpu->first = work;
        sim_schedule(gpu->engine, &gpu->end, work->end);
    } else {
        gpu->last->next = work;
    }
    gpu->last = work;
}
