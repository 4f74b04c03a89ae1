/* The clock of this machine. */
#ifndef WEFT_BACKENDS_LINUX_CLOCK_H
#define WEFT_BACKENDS_LINUX_CLOCK_H

#include <time.h>

#include "base/status.h"

/* Returns the time of CLOCK_MONOTONIC in ns (clock_gettime(2)). */
static inline weft_ns linux_clock_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (weft_ns)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
