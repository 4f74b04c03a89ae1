/* Reads the secret that the processes of a run share (--secret, WEFT_SECRET). */
#ifndef WEFT_CLI_SECRET_H
#define WEFT_CLI_SECRET_H

#include <stdbool.h>
#include <stdint.h>

#define CLI_SECRET_BYTES 32

/* Reads a secret from `value`: 64 hexadecimal digits, as in NCCL_MESH_SECRET, or the name of a file
 * that contains them. Returns false after a message on stderr, which never shows a secret. */
bool cli_secret_read(const char *value, uint8_t out[CLI_SECRET_BYTES]);

#endif
