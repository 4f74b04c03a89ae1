/* The handler for allocation failures of this process. */
#ifndef WEFT_BASE_MEMORY_H
#define WEFT_BASE_MEMORY_H

#include <stddef.h>

/* Reports that `n_bytes` could not be allocated, and aborts. A program can define this function
 * itself to exit in another way, as the `weft` command does. Call it if the test bed itself lacks
 * memory, which is not a failure of a simulated machine. */
_Noreturn void weft_out_of_memory(size_t n_bytes);

#endif
