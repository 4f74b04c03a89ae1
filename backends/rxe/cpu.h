/* One processor for a guest of one processor. */
#ifndef WEFT_BACKENDS_RXE_CPU_H
#define WEFT_BACKENDS_RXE_CPU_H

/* User Mode Linux takes turns with the processes in it, each of them a process of this machine: at
 * every system call one sleeps and the other wakes. On two processors that is an interrupt to one
 * that idles, 20 to 140 us in a virtual machine, where on one it is 11 us.
 *
 * Keeps this process, and those that it starts, on one processor of those it may use that no other
 * of this `kind` has: the one it is on, if it can. Returns the processor, or -1: all are taken, or
 * there is but one; nothing has changed. `*out_fd` (or -1) stands for the claim: it ends when the
 * last copy of the descriptor is closed. It survives execve(2). */
int rxe_cpu_take(const char *kind, int *out_fd);

#endif
