/* Tasks, their deadlines and the ready lists of the event loop, which visits only machines that a
 * backend has woken.
 *
 * A machine (listener, connector, rendezvous, executor ...) embeds a struct io_task and passes its
 * address to the operations that it waits for. The backend wakes the task when a stream becomes
 * readable or writable, an io_op or GPU operation ends, an armed CQ gets a completion, or an async
 * event occurs. Waking is idempotent and can be spurious: the machine must check its state
 * again. */
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
    uint32_t host; /* io_env.host: index of the process; lower ones run first */
    int kind;      /* tag of the owner; host/ dispatches on it */
    bool queued;   /* true while in a ready list */
};

struct io_ready {
    struct io_task *first; /* Not owned. */
    struct io_task *last;
};

struct io_loop {
    struct weft_heap deadlines;
    struct io_ready *ready; /* Owned [n_hosts]. */
    /* Owned bitmap [n_hosts]; set if not paused and the list is not empty */
    uint64_t *is_ready;
    uint64_t *is_paused; /* Owned bitmap [n_hosts]. */
    uint32_t n_hosts;
    uint32_t n_ready; /* bits set in is_ready */
    /* Calls of io_loop_pause(); when it changes, host/loop.c checks again which processes have
     * ended. */
    uint64_t n_pauses;
};

/* Initialises a loop for processes 0..n_hosts-1 (io_env.host). Aborts when out of memory. */
void io_loop_init(struct io_loop *loop, uint32_t n_hosts);
void io_loop_fini(struct io_loop *loop);

/* Initialises `task` for a machine of `host`, not queued and without a deadline. `kind` is the
 * owner's tag. */
void io_task_init(struct io_task *task, struct io_loop *loop, uint32_t host, int kind);
/* Removes `task` from the ready list and the deadline heap. It must not be woken later, so close
 * the objects that can wake it first. */
void io_task_fini(struct io_task *task);
/* Adds `task` to the ready list of its host unless it is in there. NULL is ignored. */
void io_task_wake(struct io_task *task);
/* Sets the time at which the task is woken if it is not woken before; WEFT_NEVER removes the
 * deadline. */
void io_task_deadline(struct io_task *task, weft_ns at);
/* Brings the deadline forward to `at`, if it is later or if there is none. */
void io_task_wake_by(struct io_task *task, weft_ns at);

/* Holds back the tasks of `host` (which is stopped or dead), or releases them: they are still
 * queued, but io_loop_pop does not return them. For backends only. */
void io_loop_pause(struct io_loop *loop, uint32_t host, bool paused);
bool io_loop_is_paused(const struct io_loop *loop, uint32_t host);

/* Wakes every task whose deadline is at or before `now`, and removes these deadlines. */
void io_loop_expire(struct io_loop *loop, weft_ns now);
/* Returns the earliest deadline, or WEFT_NEVER. */
weft_ns io_loop_next_deadline(const struct io_loop *loop);
/* Takes the next ready task: the lowest host first, within a host in the order of waking. Returns
 * NULL if none is ready. */
struct io_task *io_loop_pop(struct io_loop *loop);

#endif
