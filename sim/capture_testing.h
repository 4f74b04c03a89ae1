/* Captures as test data: pcap files in little endian (sim/testdata). */
#ifndef WEFT_SIM_CAPTURE_TESTING_H
#define WEFT_SIM_CAPTURE_TESTING_H

#include <stddef.h>
#include <stdint.h>

struct capture {
    uint8_t bytes[1 << 19];
    size_t n, at;
};

/* Reads the file, whose path is from the root of the repository; fails the test if it cannot
 * or if there is more than fits. */
void capture_open(struct capture *capture, const char *path);
/* The next frame, which is part of the capture, or NULL at its end. */
const uint8_t *capture_next(struct capture *capture, size_t *n_bytes);

#endif
