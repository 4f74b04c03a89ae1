/* Tasks, their deadlines and who is ready: how a backend tells the one event loop
 * which machine to look at, so that idle ones are never visited.
 *
 * A machine (listener, connector, rendezvous, executor ...) embeds a struct io_task
 * and hands its address to the operations it waits for. The backend wakes the task
 * when a stream turns readable or writable, an io_op or GPU operation ends, an armed
 * CQ gets a completion, or an async event comes. Waking is idempotent and means only
 * "look again". */
#ifndef WEFT_IO_LOOP_H
#define WEFT_IO_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/status.h"

struct io_loop;

struct io_task {
    struct io_loop *loop;      /* Not owned; outlives the task. */
    struct io_task *next;      /* in the host's ready list */
    struct weft_heap_node due; /* in the loop's deadline heap */
    uint32_t host;             /* index in the world; hosts run in this order */
    int kind;                  /* the owner's tag; host/ dispatches on it */
    bool queued;               /* in a ready list */
};

struct io_ready {
    struct io_task *first; /* Not owned. */
    struct io_task *last;
};

struct io_loop {
    struct weft_heap deadlines;
    struct io_ready *ready; /* Owned [n_hosts]. */
    uint64_t *is_ready;     /* Owned bitmap [n_hosts]: running, with a non-empty list. */
    uint64_t *is_paused;    /* Owned bitmap [n_hosts]. */
    uint32_t n_hosts;
    uint32_t n_ready;  /* bits set in is_ready */
    uint64_t n_pauses; /* calls of io_loop_pause: who looks for the dead looks again */
};

/* Aborts when out of memory. */
void io_loop_init(struct io_loop *loop, uint32_t n_hosts);
void io_loop_fini(struct io_loop *loop);

/* Starts `task` for a machine of `host`: neither queued nor with a deadline. */
void io_task_init(struct io_task *task, struct io_loop *loop, uint32_t host, int kind);
/* Forgets it: out of the ready list and the heap. Waking it later is a bug of the
 * backend's: close what could wake it first. */
void io_task_fini(struct io_task *task);
/* Queues `task` unless it is queued. NULL is ignored. */
void io_task_wake(struct io_task *task);
/* Sets when the task is to be woken if nothing else does; WEFT_NEVER removes it. */
void io_task_deadline(struct io_task *task, weft_ns at);
/* Sets the deadline to `at` if it is later, or if there is none. */
void io_task_wake_by(struct io_task *task, weft_ns at);

/* Holds back the tasks of `host` (it is stopped, or dead) until it is let go: they
 * still get queued, but io_loop_pop does not give them. For backends only. */
void io_loop_pause(struct io_loop *loop, uint32_t host, bool paused);

/* Wakes every task whose deadline is at or before `now`; their deadlines are removed. */
void io_loop_expire(struct io_loop *loop, weft_ns now);
/* The least deadline, or WEFT_NEVER. */
weft_ns io_loop_next_deadline(const struct io_loop *loop);
/* Takes the next ready task: the lowest host first, within a host the order of waking.
 * NULL if none is ready. */
struct io_task *io_loop_pop(struct io_loop *loop);

#endif
