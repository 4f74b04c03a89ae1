/* The byte queues of a TCP stream. */
#ifndef WEFT_SIM_TCP_RING_H
#define WEFT_SIM_TCP_RING_H

#include <stdint.h>

#define TCP_WINDOW_BYTES 65536u

/* A byte queue that grows up to TCP_WINDOW_BYTES. */
struct tcp_ring {
    uint8_t *bytes; /* Owned [cap] */
    uint32_t cap;   /* a power of two */
    uint32_t head;
    uint32_t n;
};

/* Appends what fits. Returns the number of bytes appended. */
uint32_t tcp_ring_put(struct tcp_ring *ring, const uint8_t *bytes, uint32_t n_bytes);
/* Copies bytes without removing them; `from` < ring->n. */
void tcp_ring_copy(const struct tcp_ring *ring, uint32_t from, uint8_t *out,
                   uint32_t n_bytes);
void tcp_ring_drop(struct tcp_ring *ring, uint32_t n_bytes);
void tcp_ring_fini(struct tcp_ring *ring);

#endif
