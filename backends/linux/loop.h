/* The event loop on real time: sleeps in the kernel until a descriptor is ready, a deadline is
 * due or another thread has something for us. Never spins.
 *
 * All functions but linux_loop_post and linux_loop_ring are called from the loop's one thread. */
#ifndef WEFT_BACKENDS_LINUX_LOOP_H
#define WEFT_BACKENDS_LINUX_LOOP_H

#include "base/error.h"
#include "io/loop.h"

struct linux_loop;

/* A descriptor that the loop looks after. */
struct linux_watch;

/* A note from another thread; embedded in what it is about. */
struct linux_posting {
    struct linux_posting *next;
    void (*run)(void *context); /* called on the loop's thread, inside linux_loop_step */
    void *context;              /* Not owned. */
};

/* What can be looked at in memory, such as completion queues: a descriptor tells of it only after
 * a system call that asks for that. Embedded in its owner. */
struct linux_source {
    struct linux_source *next;
    /* Wakes the tasks that there is something for. True: there was. No system call. */
    bool (*look)(void *context);
    /* The loop is about to sleep: sees to it that a descriptor will tell. True: do not sleep,
     * there is something already. */
    bool (*arm)(void *context);
    void *context; /* Not owned. */
};

/* A loop for `n_hosts` hosts (1 but in tests). WEFT_ERR_SYSTEM: out of descriptors. */
weft_status linux_loop_create(uint32_t n_hosts, struct linux_loop **out,
                              struct weft_error *error);
/* Postings not yet run are dropped. Watches are gone before. NULL is ignored. */
void linux_loop_destroy(struct linux_loop *loop);

struct io_loop *linux_loop_io(struct linux_loop *loop);
/* CLOCK_MONOTONIC: the same origin for all processes of a machine, clock_gettime(2). */
weft_ns linux_loop_now(const struct linux_loop *loop);

/* As world_ops.step: lets time pass until a task is ready (WEFT_OK) or `until` is reached
 * (WEFT_AGAIN). Signals do not end it. */
weft_status linux_loop_step(struct linux_loop *loop, weft_ns until);

/* Calls `ready` on every edge of `fd`: readable, writable, hung up (EPOLLET of epoll(7)), so
 * whoever looks must read or write until EAGAIN. Does not own `fd`, which must stay open until
 * unwatched. A positive errno, or 0. */
int linux_loop_watch(struct linux_loop *loop, int fd, void (*ready)(void *context),
                     void *context, struct linux_watch **out);
/* Calls `ready` again soon if the descriptor is ready now: for a new owner. */
void linux_loop_rearm(struct linux_watch *watch);
/* `ready` is not called any more. NULL is ignored. */
void linux_loop_unwatch(struct linux_watch *watch);

/* Looks at `source` at every step; it stays the caller's, at a stable address, until removed. */
void linux_loop_add(struct linux_loop *loop, struct linux_source *source);
/* No-op if it was not added. */
void linux_loop_remove(struct linux_loop *loop, struct linux_source *source);

/* From any thread: has `posting` run soon, in the order of posting. It stays the poster's, at
 * a stable address, until it runs. */
void linux_loop_post(struct linux_loop *loop, struct linux_posting *posting);
/* From the loop's thread: a posting that did not run yet does not any more. No-op for one that
 * was not posted. Not from inside a posting's `run`. */
void linux_loop_withdraw(struct linux_loop *loop, struct linux_posting *posting);
/* The loop's one bell, for threads that may not wait for each other: `run` is called soon on the
 * loop's thread, once for all rings before it. Hung before the first ring. */
void linux_loop_hang_bell(struct linux_loop *loop, void (*run)(void *context),
                          void *context);
/* From any thread, as long as the loop lives; takes no lock. */
void linux_loop_ring(struct linux_loop *loop);

#endif
