/* Seeded random numbers (xoshiro256**, Blackman and Vigna 2018, seeded by splitmix64). Each user
 * has its own stream, selected by name, so that a new user does not change the numbers of
 * others. */
#ifndef WEFT_BASE_RNG_H
#define WEFT_BASE_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weft_rng {
    uint64_t state[4];
};

/* Starts the stream `name` (e.g. "loss:titanic:p0") of `seed`. */
void weft_rng_init(struct weft_rng *rng, uint64_t seed, const char *name);
uint64_t weft_rng_next(struct weft_rng *rng);
/* Returns a uniform number in [0, bound); bound > 0. */
uint64_t weft_rng_below(struct weft_rng *rng, uint64_t bound);
/* Returns true with probability share_ppb / 10^9. Draws no number if that is 0 or 1. */
bool weft_rng_chance(struct weft_rng *rng, uint32_t share_ppb);
void weft_rng_bytes(struct weft_rng *rng, void *out, size_t n_bytes);

#endif
