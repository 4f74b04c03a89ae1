/* Numbers of objects, allocated as drivers do: the lowest free number from a given one on
 * (Linux ida_alloc_range). */
#ifndef WEFT_SIM_NUMBERS_H
#define WEFT_SIM_NUMBERS_H

#include <stdint.h>

#define SIM_NO_NUMBER UINT32_MAX

/* No number is taken if zeroed. */
struct sim_numbers {
    uint64_t *bits; /* Owned [n_words] */
    uint32_t n_words;
    uint32_t n; /* numbers taken */
};

/* Takes the lowest free number in [from, limit), or returns SIM_NO_NUMBER. */
uint32_t sim_number_take(struct sim_numbers *numbers, uint32_t from, uint32_t limit);
void sim_number_give(struct sim_numbers *numbers, uint32_t number);
void sim_numbers_fini(struct sim_numbers *numbers);

/* Returns the least power of two that is not less than `n`; at most 2^31. */
uint32_t sim_round_up_pow2(uint32_t n);

#endif
