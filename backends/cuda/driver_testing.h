/* A CUDA driver that is not there: its calls on memory of the host, done at once, and what they
 * were asked for. Facts and failures are the test's to choose. */
#ifndef WEFT_BACKENDS_CUDA_DRIVER_TESTING_H
#define WEFT_BACKENDS_CUDA_DRIVER_TESTING_H

#include "backends/cuda/library.h"

struct driver_testing {
    int attributes[160]; /* by number */
    int n_allocated, n_host_allocated, n_contexts_pushed, n_events, n_streams, n_flushed;
    int fails_with; /* a CUresult of the next call that can fail; then 0 */
};

extern struct driver_testing driver_now;

/* Afresh, with the facts of a GPU with memory of its own. */
struct cuda_driver driver_testing(void);

#endif
