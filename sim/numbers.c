#include "sim/numbers.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

enum { WORD_BITS = 64 };

static bool is_taken(const struct sim_numbers *numbers, uint32_t number)
{
    uint32_t word = number / WORD_BITS;
    return word < numbers->n_words &&
           (numbers->bits[word] >> (number % WORD_BITS) & 1) != 0;
}

static void grow(struct sim_numbers *numbers, uint32_t word)
{
    uint32_t n = numbers->n_words == 0 ? 1 : numbers->n_words;
    while (n <= word) {
        n *= 2;
    }
    if (n > numbers->n_words) {
        numbers->bits = weft_realloc(numbers->bits, n * sizeof(*numbers->bits));
        memset(numbers->bits + numbers->n_words, 0,
               (n - numbers->n_words) * sizeof(*numbers->bits));
        numbers->n_words = n;
    }
}

uint32_t sim_number_take(struct sim_numbers *numbers, uint32_t from, uint32_t limit)
{
    uint32_t number = from;
    while (number < limit && is_taken(numbers, number)) {
        bool is_full =
            number % WORD_BITS == 0 && numbers->bits[number / WORD_BITS] == UINT64_MAX;
        number += is_full ? WORD_BITS : 1;
    }
    if (number >= limit) {
        return SIM_NO_NUMBER;
    }
    grow(numbers, number / WORD_BITS);
    numbers->bits[number / WORD_BITS] |= UINT64_C(1) << (number % WORD_BITS);
    numbers->n++;
    return number;
}

void sim_number_give(struct sim_numbers *numbers, uint32_t number)
{
    weft_check(is_taken(numbers, number));
    numbers->bits[number / WORD_BITS] &= ~(UINT64_C(1) << (number % WORD_BITS));
    numbers->n--;
}

void sim_numbers_fini(struct sim_numbers *numbers)
{
    free(numbers->bits);
    memset(numbers, 0, sizeof(*numbers));
}

uint32_t sim_round_up_pow2(uint32_t n)
{
    uint32_t pow2 = 1;

    while (pow2 < n && pow2 < 1u << 31) {
        pow2 *= 2;
    }
    return pow2;
}
