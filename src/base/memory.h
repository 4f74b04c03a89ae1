/* What happens when this process is out of memory. */
#ifndef WEFT_BASE_MEMORY_H
#define WEFT_BASE_MEMORY_H

#include <stddef.h>

/* Ends the process because `n_bytes` could not be allocated. Prints that and aborts; a program may
 * define this function itself, as the `weft` command does, to end in its own way. Call it where the
 * test bed itself lacks memory: that is no failure of a simulated machine. */
_Noreturn void weft_out_of_memory(size_t n_bytes);

#endif
