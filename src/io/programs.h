/* Programs that are not ours, in the hosts of a world. */
#ifndef WEFT_IO_PROGRAMS_H
#define WEFT_IO_PROGRAMS_H

#include "io/world.h"

/* From one step of programs to the next, by the world's clock. */
#define WORLD_PROGRAM_STEP_NS INT64_C(1000000000)

struct world_program {
    uint32_t host;
    uint32_t
        step; /* those of one step start together, each step a second after the one before */
    char *const *argv; /* ends with NULL; the first is looked for in PATH */
};

/* All of it outlives the run. The time of a fault counts from when the last program starts. Once
 * one has failed, those that wait are not started, and those that run have `patience_ns` to end
 * before they are terminated. The code is that of the first that failed, as shells have it: its
 * exit status, 128 + N after signal N, 126 or 127 if it could not be started; else 0. What a fault
 * kills has not failed. */
struct world_programs {
    const struct world_program *items; /* [n] */
    uint32_t n;
    bool is_tagged; /* each line of their output begins with "HOST: " */
    weft_ns patience_ns;
    void (*tap)(void *context, const struct world_frame *frame); /* or NULL */
    void *tap_context;
};

#endif
