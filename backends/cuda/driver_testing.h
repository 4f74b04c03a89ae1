/* A fake CUDA driver: executes its calls on host memory, immediately, and counts them. The test
 * chooses its facts and failures. */
#ifndef WEFT_BACKENDS_CUDA_DRIVER_TESTING_H
#define WEFT_BACKENDS_CUDA_DRIVER_TESTING_H

#include "backends/cuda/library.h"

struct driver_testing {
    int attributes[160]; /* by CUDA_ATTR_* */
    int n_allocated, n_host_allocated, n_contexts_pushed, n_events, n_streams, n_flushed;
    int n_contexts_retained;
    int n_running;  /* copies whose stream was not waited for */
    int fails_with; /* CUresult of the next call that can fail; then reset to 0 */
    int n_pass;     /* number of calls that can fail, but pass before it */
    int push_fails_with;
};

extern struct driver_testing driver_now;

/* Returns a new driver with the facts of a GPU with its own memory. */
struct cuda_driver driver_testing(void);

#endif
