/* Divides a UDP frame that the kernel has yet to segment (UDP_SEGMENT) into the frames that it
 * stands for. A veth pair passes such a frame on whole, and a packet(7) socket sees it so. */
#ifndef WEFT_BACKENDS_LAB_SEGMENTS_H
#define WEFT_BACKENDS_LAB_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest Ethernet, IP and UDP headers together */
#define LAB_SEGMENT_HEADERS_MAX (14 + 60 + 8)

struct lab_segments {
    const uint8_t *frame;
    size_t n_headers; /* Ethernet, IP and UDP */
    size_t n_bytes;
    size_t at;    /* first byte of the payload that was not taken */
    size_t bytes; /* of the payload of each frame but the last */
};

/* Returns false if the frame is no whole UDP datagram over Ethernet and IP. The frame must outlive
 * `out`. */
bool lab_segments_init(struct lab_segments *out, const uint8_t *frame, size_t n_bytes,
                       size_t segment_bytes);
/* Writes the next frame to `out`, which has room for its headers and a segment. The lengths and
 * checksums are its own, the IPv4 id is that of the whole. Returns its size; 0 after the last. */
size_t lab_segments_next(struct lab_segments *segments, uint8_t *out);

#endif
