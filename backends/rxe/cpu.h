/* One processor for a guest of one processor, while others have nothing to do.
 *
 * User Mode Linux takes turns with the processes in it, each of them a process of this machine: at
 * every system call one sleeps and the other wakes. On two processors that is an interrupt to one
 * that idles: 20 to 140 us in a virtual machine, where on one processor it is 11 us. Where none
 * idles it costs less, and who may go to any processor waits less for its turn. */
#ifndef WEFT_BACKENDS_RXE_CPU_H
#define WEFT_BACKENDS_RXE_CPU_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* Looks after a process and its children. Fields are for reading. */
struct rxe_cpu {
    pid_t pid;
    cpu_set_t allowed; /* where it may run */
    int cpu;           /* where it is kept, or -1 */
    int claim;         /* a descriptor, or -1: no other of its kind is kept there */
    const char *kind;  /* Not owned. */
    bool has_begun;
    weft_ns looked_ns;
    uint64_t idle_ticks; /* of `allowed`, then */
};

/* `pid`: a child of this process, which may run wherever this one may. `kind`: who is kept on
 * different processors. */
void rxe_cpu_begin(struct rxe_cpu *self, pid_t pid, const char *kind);
/* Looks how busy the machine was since the last time, if that is long enough ago, and keeps the
 * process where it is, or lets it go. `now_ns`: CLOCK_MONOTONIC. */
void rxe_cpu_look(struct rxe_cpu *self, weft_ns now_ns);
/* The process has ended, or is on its own. */
void rxe_cpu_end(struct rxe_cpu *self);

/* Ticks in which the processors of `allowed` had nothing to do, of /proc/stat's text: proc(5). */
uint64_t rxe_cpu_idle_ticks(const char *text, const cpu_set_t *allowed);
/* Whether it is to be kept, as it `is_kept` or not now: of all processors together, `idle_ns` were
 * idle while `elapsed_ns` passed. */
bool rxe_cpu_is_worth(bool is_kept, weft_ns idle_ns, weft_ns elapsed_ns);
/* Keeps it on a processor that no other of its kind is kept on, first on `here` if that is
 * allowed. False: there is none. */
bool rxe_cpu_keep(struct rxe_cpu *self, int here);
void rxe_cpu_free(struct rxe_cpu *self);

#endif
