/* The simulated NIC engine in real time. Its clock is the machine's. A thread of its own handles
 * events that are due and packets that arrive, and alternates with calls of its user under one
 * lock, so connections stay alive while the user sleeps.
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

/* A descriptor for sending and receiving frames. */
struct soft_wire {
    int fd;
    /* Called under the lock when `fd` is readable: receives some frames and passes them to the
     * port. Returns true if none are left. */
    bool (*receive)(struct soft_wire *wire);
};

/* Notifies the user of an event that occurred under the lock. `run` is called on the user's
 * thread, without the lock unless a call of the user caused the event. */
struct soft_wake {
    struct soft_engine *engine;
    struct linux_posting posting;
    void (*run)(void *context);
    void *context;  /* Not owned */
    bool is_posted; /* guarded by the lock */
};

struct soft_engine {
    /* Owned; guarded by the lock, with all that is built on it. */
    struct sim_engine *sim;
    struct linux_loop *loop; /* Not owned; the user's loop */
    weft_ns origin_ns;       /* the machine's time at simulated time 0 */
    pthread_mutex_t lock;
    pthread_t thread;
    bool has_thread;
    int event_fd; /* wakes the thread */
    int epoll_fd; /* contains all wires */
    /* The following are guarded by the lock. */
    bool stops;
    bool is_users;            /* the user holds the lock */
    weft_ps sleeps_until;     /* of the thread; 0: it will run without sleeping */
    struct soft_batch *batch; /* Owned; frames to be sent */
    /* Lines of the event log wait here until the user's thread passes them to `event_log`. */
    struct weft_trace trace;
    struct weft_trace *event_log; /* Not owned; NULL if no log is written */
    struct weft_text *lines;      /* Owned */
};

/* Creates an engine without thread. `event_log` can be NULL. Fails with WEFT_ERR_SYSTEM if
 * descriptors run out. */
weft_status soft_engine_create(struct linux_loop *loop, uint64_t seed,
                               struct weft_trace *event_log, struct soft_engine **out,
                               struct weft_error *error);
/* Ends the thread. Objects built on the engine still exist, but no event is handled any more. */
void soft_engine_stop(struct soft_engine *engine);
void soft_engine_destroy(struct soft_engine *engine);

/* Adds a wire, which is not owned. Returns an errno. */
int soft_engine_add_wire(struct soft_engine *engine, struct soft_wire *wire);
/* Starts the thread once everything is built; events are handled from now on. */
weft_status soft_engine_start(struct soft_engine *engine, struct weft_error *error);

/* Bracket a call of the user with the lock. soft_enter() receives pending packets and updates the
 * clock; soft_leave() sends what the call caused. soft_enter_only() does not receive, for
 * frequent calls that cause little; soft_look() does not update the clock either, for calls to
 * which the time does not matter. soft_looked() is for calls that cause nothing. */
void soft_enter(struct soft_engine *engine);
void soft_enter_only(struct soft_engine *engine);
void soft_leave(struct soft_engine *engine);
void soft_look(struct soft_engine *engine);
void soft_looked(struct soft_engine *engine);

void soft_wake_init(struct soft_wake *wake, struct soft_engine *engine,
                    void (*run)(void *context), void *context);
/* Notify the user; usable as sim_waker.wake. Must be called under the lock, from any thread.
 * soft_wake_fire() calls `run` at once if a call of the user is the cause; soft_wake_post()
 * always calls it later, in the loop. */
void soft_wake_fire(void *wake);
void soft_wake_post(void *wake);
/* Cancels a notification that has not run. Must be called on the user's thread. */
void soft_wake_fini(struct soft_wake *wake);

/* ---- batch.c: outgoing frames ---- */

struct soft_batch *soft_batch_create(void);
void soft_batch_destroy(struct soft_batch *batch);
/* Returns room for the next frame, at least SOFT_SLOT_BYTES. Flushes the batch if it is full. */
#define SOFT_SLOT_BYTES 4480u
uint8_t *soft_batch_slot(struct soft_batch *batch);

struct soft_target {
    int fd;
    /* size of `name`, whose unused bytes must be 0, because targets are compared with memcmp(). */
    uint32_t n_name;
    uint8_t name[32];      /* struct sockaddr */
    uint8_t traffic_class; /* 0: the socket's default */
    uint8_t hop_limit;     /* 0: the socket's default */
    bool is_ipv6;
    bool may_segment; /* several frames may be sent as one (UDP_SEGMENT) */
    uint64_t
        *n_refused; /* Not owned; counts frames that the kernel refuses; may be NULL */
};
/* Queues `n` bytes of the current slot, starting at `bytes`, for `target`. */
void soft_batch_put(struct soft_batch *batch, const struct soft_target *target,
                    const uint8_t *bytes, uint32_t n);
/* Sends all frames. Those that the kernel refuses are lost, as on any wire. */
void soft_batch_flush(struct soft_batch *batch);

#endif
