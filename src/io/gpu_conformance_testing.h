/* The contract of io/gpu.h as tests for any GPU: host memory, simulated and real GPUs. Tests of
 * features that a GPU does not have (streams, a second process) are skipped, and that is
 * printed. */
#ifndef WEFT_IO_GPU_CONFORMANCE_TESTING_H
#define WEFT_IO_GPU_CONFORMANCE_TESTING_H

#include <check.h>

#include "io/gpu.h"

struct gpu_bed {
    /* Opens the GPU, and that of a second process whose calls can be made here (NULL if it is in
     * another process, or there is none). Returns false if there is no GPU, with the reason in
     * `why`. */
    bool (*open)(struct io_gpu **out, struct io_gpu **out_peer, const char **why);
    void (*close)(void);
    /* Lets time pass; NULL if it passes by itself. */
    void (*step)(void);
};

/* Returns the test case; `bed` must outlive the suite. */
TCase *gpu_conformance(const struct gpu_bed *bed);

#endif
