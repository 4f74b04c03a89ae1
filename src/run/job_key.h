/* Derives the key that authenticates the processes of a run. */
#ifndef WEFT_RUN_JOB_KEY_H
#define WEFT_RUN_JOB_KEY_H

#include <stdint.h>

/* Writes the job key (boot.h), which is also the secret of connections (conn.h). It depends on the
 * seed, which is not secret, and on `secret` (32 bytes) unless that is NULL (docs/wire.md, "Keys
 * and proofs"). */
void run_job_key(uint64_t seed, const uint8_t *secret, uint8_t out[32]);

#endif
