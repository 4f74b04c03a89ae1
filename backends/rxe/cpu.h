/* Keeps a single-processor guest on one processor while other processors are idle.
 *
 * User Mode Linux alternates with the processes in it, each of which is a process of this
 * machine: at every system call one sleeps and the other wakes. On two processors this is an
 * interrupt to an idle one, which takes 20 to 140 us in a virtual machine; on a single processor
 * it takes 11 us. If no processor is idle, it costs less, and processes that may run anywhere
 * wait less for their turn. */
#ifndef WEFT_BACKENDS_RXE_CPU_H
#define WEFT_BACKENDS_RXE_CPU_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* A process and its children, and where they may run. Fields are read-only for users. */
struct rxe_cpu {
    pid_t pid;
    cpu_set_t allowed; /* processors that it may use */
    int cpu;           /* processor on which it is kept; -1 if none */
    /* Descriptor that reserves `cpu` among guests of this kind; -1 if none. */
    int claim;
    const char *kind; /* Not owned. */
    bool has_begun;
    weft_ns looked_ns;
    uint64_t idle_ticks; /* of `allowed`, at looked_ns */
};

/* Starts to manage `pid`, a child of this process that may run wherever this process may.
 * Processes of the same `kind` are kept on different processors. */
void rxe_cpu_begin(struct rxe_cpu *self, pid_t pid, const char *kind);
/* Measures the idle time since the last call, if that is long enough ago, and keeps the process
 * on a processor or releases it. `now_ns`: CLOCK_MONOTONIC. */
void rxe_cpu_look(struct rxe_cpu *self, weft_ns now_ns);
/* Ends the management, because the process has ended or must be left alone. */
void rxe_cpu_end(struct rxe_cpu *self);

/* Returns the idle ticks of the processors in `allowed`, from the text of /proc/stat: proc(5). */
uint64_t rxe_cpu_idle_ticks(const char *text, const cpu_set_t *allowed);
/* Returns true if the process should be kept on one processor. `is_kept`: it is now. `idle_ns` is
 * the idle time, summed over all processors, while `elapsed_ns` passed. */
bool rxe_cpu_is_worth(bool is_kept, weft_ns idle_ns, weft_ns elapsed_ns);
/* Keeps the process on a processor that no other of its kind uses, preferably `here`. Returns
 * false if there is none, or if the affinity cannot be set. */
bool rxe_cpu_keep(struct rxe_cpu *self, int here);
void rxe_cpu_free(struct rxe_cpu *self);

#endif
