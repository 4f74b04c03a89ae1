/* Marks system calls that only observe a job, such as writes of the event log. In virtual time of a
 * guest they take no time, so that the times of a job do not depend on who observes it
 * (docs/virtual-time.md). Elsewhere nothing changes. */
#ifndef WEFT_BASE_OBSERVE_H
#define WEFT_BASE_OBSERVE_H

/* Calls of the calling thread between begin and end take no virtual time. Pairs can be nested. A
 * child process or a program that is executed begins without. The library's own, which are weak, do
 * nothing; the program `weft` replaces them. */
void weft_observe_begin(void);
void weft_observe_end(void);

#endif
