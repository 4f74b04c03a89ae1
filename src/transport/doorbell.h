/* Two counters, each published by one of two processes and watched by the other, with a bell for
 * a process that sleeps. No wake-up is lost. A process that goes to sleep first sets its flag and
 * then reads the peer's counter; a process that moves its counter first publishes it and then
 * reads the peer's flag. All four accesses are sequentially consistent (C11, 7.17.3), which puts
 * a full fence between the two of each process, so at least one of them sees the other's store.
 * doorbell_test.c checks all interleavings on a machine with store buffers, and shows that both
 * fences are needed. Separate fences are not used, because the thread sanitizer does not follow
 * them. */
#ifndef WEFT_TRANSPORT_DOORBELL_H
#define WEFT_TRANSPORT_DOORBELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* In shared memory, each on its own cache line. */
struct doorbell_counter {
    _Alignas(64) _Atomic uint64_t value;
};
struct doorbell_sleeper {
    _Alignas(64) _Atomic uint32_t sleeps;
};

/* Stores `value`. Earlier stores are visible to a process that reads it with doorbell_read(). */
static inline void doorbell_publish(struct doorbell_counter *counter, uint64_t value)
{
    atomic_store_explicit(&counter->value, value, memory_order_seq_cst);
}

static inline uint64_t doorbell_read(struct doorbell_counter *counter)
{
    return atomic_load_explicit(&counter->value, memory_order_acquire);
}

/* Called after publishing. Returns true if the other process sleeps and this call has to ring
 * its bell; clears the sleep flag, so that only one call rings. */
static inline bool doorbell_must_ring(struct doorbell_sleeper *other)
{
    return atomic_load_explicit(&other->sleeps, memory_order_seq_cst) != 0 &&
           atomic_exchange_explicit(&other->sleeps, 0, memory_order_relaxed) != 0;
}

/* Called before sleeping until `counter` changes from `seen`. Returns false if it has changed
 * already; the caller must then not sleep. */
static inline bool doorbell_may_sleep(struct doorbell_sleeper *self,
                                      struct doorbell_counter *counter, uint64_t seen)
{
    atomic_store_explicit(&self->sleeps, 1, memory_order_seq_cst);
    return atomic_load_explicit(&counter->value, memory_order_seq_cst) == seen;
}

#endif
