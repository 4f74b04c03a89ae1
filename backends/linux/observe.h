/* Observers in the virtual time of a guest (base/observe.h). */
#ifndef WEFT_LINUX_OBSERVE_H
#define WEFT_LINUX_OBSERVE_H

/* See weft_observe_begin(). */
void linux_observe_begin(void);
void linux_observe_end(void);

#endif
