#include "sim/tcp_ring.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

static void ring_grow(struct tcp_ring *ring, uint32_t n_wanted)
{
    uint32_t cap = ring->cap == 0 ? 1024 : ring->cap;
    while (cap < n_wanted) {
        cap *= 2;
    }
    if (cap == ring->cap) {
        return;
    }
    uint8_t *bytes = weft_alloc(cap);
    if (ring->n > 0) {
        tcp_ring_copy(ring, 0, bytes, ring->n);
    }
    free(ring->bytes);
    ring->bytes = bytes;
    ring->cap = cap;
    ring->head = 0;
}

uint32_t tcp_ring_put(struct tcp_ring *ring, const uint8_t *bytes, uint32_t n_bytes)
{
    uint32_t space = TCP_WINDOW_BYTES - ring->n;
    uint32_t n = n_bytes < space ? n_bytes : space;
    if (n == 0) {
        return 0;
    }
    ring_grow(ring, ring->n + n);
    uint32_t at = (ring->head + ring->n) & (ring->cap - 1);
    uint32_t first = ring->cap - at < n ? ring->cap - at : n;
    memcpy(ring->bytes + at, bytes, first);
    memcpy(ring->bytes, bytes + first, n - first);
    ring->n += n;
    return n;
}

void tcp_ring_copy(const struct tcp_ring *ring, uint32_t from, uint8_t *out,
                   uint32_t n_bytes)
{
    weft_check(from + n_bytes <= ring->n);
    uint32_t at = (ring->head + from) & (ring->cap - 1);
    uint32_t first = ring->cap - at < n_bytes ? ring->cap - at : n_bytes;
    memcpy(out, ring->bytes + at, first);
    memcpy(out + first, ring->bytes, n_bytes - first);
}

void tcp_ring_drop(struct tcp_ring *ring, uint32_t n_bytes)
{
    weft_check(n_bytes <= ring->n);
    ring->head = (ring->head + n_bytes) & (ring->cap - 1);
    ring->n -= n_bytes;
}

void tcp_ring_fini(struct tcp_ring *ring)
{
    free(ring->bytes);
    *ring = (struct tcp_ring){0};
}
