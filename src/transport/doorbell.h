/* Two processes, a counter of each that the other watches, and a bell for whoever sleeps. No
 * wake-up is lost: who goes to sleep says so and then looks; who moves its counter does that and
 * then looks whether the other sleeps. All four accesses are sequentially consistent (C11,
 * 7.17.3), which puts a full fence between the two of each, so at least one of them sees the
 * other. doorbell_test.c goes through all interleavings on a machine with store buffers, and
 * shows that neither fence can go. Fences of their own the thread sanitizer would not follow. */
#ifndef WEFT_TRANSPORT_DOORBELL_H
#define WEFT_TRANSPORT_DOORBELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* In shared memory, each on a cache line of its own. */
struct doorbell_counter {
    _Alignas(64) _Atomic uint64_t value;
};
struct doorbell_sleeper {
    _Alignas(64) _Atomic uint32_t sleeps;
};

/* What was written before is seen by who reads `value`. */
static inline void doorbell_publish(struct doorbell_counter *counter, uint64_t value)
{
    atomic_store_explicit(&counter->value, value, memory_order_seq_cst);
}

static inline uint64_t doorbell_read(struct doorbell_counter *counter)
{
    return atomic_load_explicit(&counter->value, memory_order_acquire);
}

/* After publishing. True: the other sleeps, and this call is the one that has to ring. */
static inline bool doorbell_must_ring(struct doorbell_sleeper *other)
{
    return atomic_load_explicit(&other->sleeps, memory_order_seq_cst) != 0 &&
           atomic_exchange_explicit(&other->sleeps, 0, memory_order_relaxed) != 0;
}

/* Before sleeping until `counter` is not `seen` any more. False: it is not; do not sleep. */
static inline bool doorbell_may_sleep(struct doorbell_sleeper *self,
                                      struct doorbell_counter *counter, uint64_t seen)
{
    atomic_store_explicit(&self->sleeps, 1, memory_order_seq_cst);
    return atomic_load_explicit(&counter->value, memory_order_seq_cst) == seen;
}

#endif
