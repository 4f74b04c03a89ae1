/* The event loop in real time. Sleeps in the kernel until a descriptor is ready, a deadline is
 * due or another thread has posted something. Never spins.
 *
 * All functions except linux_loop_post() and linux_loop_ring() must be called from the loop's one
 * thread. */
#ifndef WEFT_BACKENDS_LINUX_LOOP_H
#define WEFT_BACKENDS_LINUX_LOOP_H

#include "base/error.h"
#include "io/loop.h"

struct linux_loop;

/* A descriptor that the loop watches. */
struct linux_watch;

/* A function to be called on the loop's thread, posted by another thread. Embedded in its
 * owner. */
struct linux_posting {
    struct linux_posting *next;
    /* Called on the loop's thread, inside linux_loop_step(). */
    void (*run)(void *context);
    void *context; /* Not owned. */
};

/* State in memory that is polled, such as completion queues, because its descriptor reports it
 * only after a system call that arms it. Embedded in its owner. */
struct linux_source {
    struct linux_source *next;
    /* Wakes the tasks whose state has changed, without a system call. Returns true if there are
     * any. */
    bool (*look)(void *context);
    /* Arms the descriptor before the loop sleeps. Returns true if the loop must not sleep,
     * because the state has already changed. */
    bool (*arm)(void *context);
    void *context; /* Not owned. */
};

/* Creates a loop for `n_hosts` hosts (1 except in tests). Fails with WEFT_ERR_SYSTEM if
 * descriptors run out. */
weft_status linux_loop_create(uint32_t n_hosts, struct linux_loop **out,
                              struct weft_error *error);
/* Frees the loop. All watches must have been removed. Postings that have not run are dropped.
 * Ignores NULL. */
void linux_loop_destroy(struct linux_loop *loop);

struct io_loop *linux_loop_io(struct linux_loop *loop);
/* Returns CLOCK_MONOTONIC, which has the same origin for all processes of a machine
 * (clock_gettime(2)). */
weft_ns linux_loop_now(const struct linux_loop *loop);

/* Implements world_ops.step: lets time pass until a task is ready (WEFT_OK) or `until` is reached
 * (WEFT_AGAIN). Signals do not end it. */
weft_status linux_loop_step(struct linux_loop *loop, weft_ns until);

/* Calls `ready` on every edge of `fd`: readable, writable, hung up (EPOLLET of epoll(7)). The
 * callee must therefore read or write until EAGAIN. Does not own `fd`, which must stay open until
 * unwatched. Returns 0 or a positive errno. */
int linux_loop_watch(struct linux_loop *loop, int fd, void (*ready)(void *context),
                     void *context, struct linux_watch **out);
/* Calls `ready` again soon if the descriptor is ready now; for a new owner of the descriptor. */
void linux_loop_rearm(struct linux_watch *watch);
/* Stops calling `ready`, and frees the watch. Ignores NULL. */
void linux_loop_unwatch(struct linux_watch *watch);

/* Polls `source` at every step. It stays the caller's, at a stable address, until removed. */
void linux_loop_add(struct linux_loop *loop, struct linux_source *source);
/* Does nothing if the source was not added. */
void linux_loop_remove(struct linux_loop *loop, struct linux_source *source);

/* Runs `posting` soon on the loop's thread, in the order of posting. It stays the poster's, at a
 * stable address, until it runs. Any thread can call this. */
void linux_loop_post(struct linux_loop *loop, struct linux_posting *posting);
/* Cancels a posting that has not run. Does nothing if it was not posted. Must not be called from
 * inside a posting's `run`. */
void linux_loop_withdraw(struct linux_loop *loop, struct linux_posting *posting);
/* Sets the function of the loop's bell, for threads that must not block on each other. `run` is
 * called soon on the loop's thread, once for all rings before it. Must be called before the first
 * ring. */
void linux_loop_hang_bell(struct linux_loop *loop, void (*run)(void *context),
                          void *context);
/* Rings the bell. Any thread can call this while the loop exists; takes no lock. */
void linux_loop_ring(struct linux_loop *loop);

#endif
