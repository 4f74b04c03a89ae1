/* The end of a guest, as its listener records it. */
#ifndef WEFT_BACKENDS_RXE_GUEST_END_H
#define WEFT_BACKENDS_RXE_GUEST_END_H

#include <stdbool.h>
#include <stdint.h>

struct rxe_guest_end {
    bool is_whole;    /* the command ended by itself, and its output is whole */
    uint64_t n_lines; /* lines of its stdout that were copied */
    const char
        *results; /* all that the command kept by rxe_guest_keep(); "" if nothing */
};

#endif
