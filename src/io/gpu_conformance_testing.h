/* The contract of io/gpu.h as tests for any GPU: host memory, GPUs that are not there, and real
 * ones. What a GPU does not have (streams, a second process) is not asked of it, and is said. */
#ifndef WEFT_IO_GPU_CONFORMANCE_TESTING_H
#define WEFT_IO_GPU_CONFORMANCE_TESTING_H

#include <check.h>

#include "io/gpu.h"

struct gpu_bed {
    /* Opens the GPU, and that of a second process whose calls can be made here (NULL: it is in
     * another process, or there is none). False: there is no GPU; `why` says which. */
    bool (*open)(struct io_gpu **out, struct io_gpu **out_peer, const char **why);
    void (*close)(void);
    /* Lets time pass; NULL: it does by itself. */
    void (*step)(void);
};

/* `bed` outlives the suite. */
TCase *gpu_conformance(const struct gpu_bed *bed);

#endif
