/* Reads pcap files (little-endian) as test data (sim/testdata). */
#ifndef WEFT_SIM_CAPTURE_TESTING_H
#define WEFT_SIM_CAPTURE_TESTING_H

#include <stddef.h>
#include <stdint.h>

struct capture {
    uint8_t bytes[1 << 19];
    size_t n, at;
};

/* Reads the file at `path`, relative to the root of the repository. Fails the test if it
 * cannot be read or does not fit. */
void capture_open(struct capture *capture, const char *path);
/* Returns the next frame, a part of `capture`, or NULL at its end. */
const uint8_t *capture_next(struct capture *capture, size_t *n_bytes);

#endif
