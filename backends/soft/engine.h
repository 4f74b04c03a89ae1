/* The simulated NIC engine in real time: its clock is the machine's, a thread of its own runs
 * what is due and what comes in, and its user's calls take turns with it under one lock. So
 * connections live on while the user sleeps.
 *
 * Lock order: the engine's, then the loop's. The user is the one thread of its linux_loop. */
#ifndef WEFT_BACKENDS_SOFT_ENGINE_H
#define WEFT_BACKENDS_SOFT_ENGINE_H

#include <pthread.h>

#include "backends/linux/loop.h"
#include "base/trace.h"
#include "sim/engine.h"

struct soft_engine;
struct soft_batch;

/* A descriptor on which frames come and go. */
struct soft_wire {
    int fd;
    /* It is readable. Under the lock: takes some of what has come, and gives it to the port. */
    void (*receive)(struct soft_wire *wire);
};

/* How what happens under the lock reaches the user: `run` is called on the user's thread, and
 * the lock is not held unless the user's own call is the cause. */
struct soft_wake {
    struct soft_engine *engine;
    struct linux_posting posting;
    void (*run)(void *context);
    void *context;  /* Not owned */
    bool is_posted; /* under the lock */
};

struct soft_engine {
    struct sim_engine *sim;  /* Owned; under the lock, as all that is built on it */
    struct linux_loop *loop; /* Not owned; the user's */
    weft_ns origin_ns;       /* what the simulated time 0 is of the machine's clock */
    pthread_mutex_t lock;
    pthread_t thread;
    bool has_thread;
    int event_fd; /* wakes the thread */
    int epoll_fd; /* of all wires */
    /* Under the lock. */
    bool stops;
    bool is_users;            /* the user holds it */
    weft_ps sleeps_until;     /* the thread does; 0: it is about to look anyway */
    struct soft_batch *batch; /* Owned; what is about to leave */
    /* The story: lines wait here for the user's thread, whose `told` they go to. */
    struct weft_trace trace;
    struct weft_trace *told; /* Not owned; or NULL */
    struct weft_text *lines; /* Owned */
};

/* WEFT_ERR_SYSTEM: out of descriptors. No thread yet. `told` may be NULL. */
weft_status soft_engine_create(struct linux_loop *loop, uint64_t seed,
                               struct weft_trace *told, struct weft_log *log,
                               struct soft_engine **out, struct weft_error *error);
/* Ends the thread; what is built on the engine is still there, and nothing runs any more. */
void soft_engine_stop(struct soft_engine *engine);
void soft_engine_destroy(struct soft_engine *engine);

/* An errno. */
int soft_engine_add_wire(struct soft_engine *engine, struct soft_wire *wire);
/* Builds are done: events run from now on. */
weft_status soft_engine_start(struct soft_engine *engine, struct weft_error *error);

/* The user's turn. `soft_enter` takes what has come and brings the clock up to date; `soft_leave`
 * sends what the call caused. `soft_enter_only` leaves what has come where it is: for calls by the
 * hundred that hardly cause anything. `soft_look` is for calls that cause nothing. */
void soft_enter(struct soft_engine *engine);
void soft_enter_only(struct soft_engine *engine);
void soft_leave(struct soft_engine *engine);
void soft_look(struct soft_engine *engine);
void soft_looked(struct soft_engine *engine);

void soft_wake_init(struct soft_wake *wake, struct soft_engine *engine,
                    void (*run)(void *context), void *context);
/* From any thread, under the lock; sim_waker.wake both. The first runs it at once if the user
 * itself is the cause, the second always later, in the loop. */
void soft_wake_fire(void *wake);
void soft_wake_post(void *wake);
/* On the user's thread, without the lock: it does not run any more. */
void soft_wake_fini(struct soft_wake *wake);

/* ---- batch.c: frames on their way out ---- */

struct soft_batch *soft_batch_create(void);
void soft_batch_destroy(struct soft_batch *batch);
/* Where the next frame is written: at least SOFT_SLOT_BYTES. Flushes if there is no room. */
#define SOFT_SLOT_BYTES 4480u
uint8_t *soft_batch_slot(struct soft_batch *batch);

struct soft_target {
    int fd;
    /* Of `name`; the whole is compared, so what is unused is 0. */
    uint32_t n_name;
    uint8_t name[32];      /* struct sockaddr */
    uint8_t traffic_class; /* 0: the socket's */
    uint8_t hop_limit;     /* 0: the socket's */
    bool is_ipv6;
    bool may_segment; /* several frames may leave as one (UDP_SEGMENT) */
};
/* The slot's bytes from `bytes` on, `n` of them, go to `target`. */
void soft_batch_put(struct soft_batch *batch, const struct soft_target *target,
                    const uint8_t *bytes, uint32_t n);
void soft_batch_flush(struct soft_batch *batch);
/* Frames that the kernel did not take: lost, as on any wire. */
uint64_t soft_batch_n_lost(const struct soft_batch *batch);

#endif
