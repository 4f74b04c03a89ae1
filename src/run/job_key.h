/* What tells the processes of a run from all others. */
#ifndef WEFT_RUN_JOB_KEY_H
#define WEFT_RUN_JOB_KEY_H

#include <stdint.h>

/* The job key (boot.h) and the secret of connections (conn.h), 32 bytes: of the seed, which is no
 * secret, and of `secret` (32 bytes) unless NULL. docs/wire.md, "Keys and proofs". */
void run_job_key(uint64_t seed, const uint8_t *secret, uint8_t out[32]);

#endif
