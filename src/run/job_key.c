#include <string.h>

#include "base/rng.h"
#include "conn/auth.h"
#include "run/job_key.h"

void run_job_key(uint64_t seed, const uint8_t *secret, uint8_t out[AUTH_KEY_BYTES])
{
    static const char info[] = "weft-v1 run";
    uint8_t of_seed[AUTH_KEY_BYTES];
    struct weft_rng rng;

    weft_rng_init(&rng, seed, "job-key");
    weft_rng_bytes(&rng, of_seed, sizeof(of_seed));
    if (secret == NULL) {
        memcpy(out, of_seed, sizeof(of_seed));
        return;
    }
    auth_hkdf(of_seed, sizeof(of_seed), secret, AUTH_KEY_BYTES, info, sizeof(info) - 1,
              out);
}
