#include "base/rng.h"

#include <string.h>

#include "base/check.h"

static uint64_t rotate_left(uint64_t value, int n_bits)
{
    return (value << n_bits) | (value >> (64 - n_bits));
}

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Hashes with 64-bit FNV-1a, which is enough because splitmix64 spreads the result. */
static uint64_t hash_name(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (; *name != '\0'; name++) {
        hash = (hash ^ (uint8_t)*name) * 0x100000001b3u;
    }
    return hash;
}

void weft_rng_init(struct weft_rng *rng, uint64_t seed, const char *name)
{
    uint64_t mix = seed;

    /* Spread the seed before the name is mixed in, so that (seed, name) pairs with an equal
     * exclusive or still start different streams. */
    mix = splitmix64(&mix) ^ hash_name(name);
    for (int i = 0; i < 4; i++) {
        rng->state[i] = splitmix64(&mix);
    }
}

uint64_t weft_rng_next(struct weft_rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t weft_rng_below(struct weft_rng *rng, uint64_t bound)
{
    uint64_t reject_below, value;

    weft_check(bound > 0);
    /* Reject 2^64 mod bound values, so that the number of remaining values is a multiple of
     * bound. */
    reject_below = (UINT64_MAX - bound + 1) % bound;
    do {
        value = weft_rng_next(rng);
    } while (value < reject_below);
    return value % bound;
}

bool weft_rng_chance(struct weft_rng *rng, uint32_t share_ppb)
{
    if (share_ppb == 0) {
        return false;
    }
    if (share_ppb >= 1000000000u) {
        return true;
    }
    return weft_rng_below(rng, 1000000000u) < share_ppb;
}

void weft_rng_bytes(struct weft_rng *rng, void *out, size_t n_bytes)
{
    uint8_t *at = out;

    while (n_bytes > 0) {
        uint64_t value = weft_rng_next(rng);
        size_t n = n_bytes < 8 ? n_bytes : 8;

        for (size_t i = 0; i < n; i++) {
            at[i] = (uint8_t)(value >> (8 * i));
        }
        at += n;
        n_bytes -= n;
    }
}
