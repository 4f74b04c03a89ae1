/* Frames as they cross the interfaces of a fabric: packet(7), a socket per port. */
#ifndef WEFT_BACKENDS_LAB_CAPTURE_H
#define WEFT_BACKENDS_LAB_CAPTURE_H

#include "backends/lab/fabric.h"

struct lab_capture;

/* How long frames may lie in the kernel before they are fetched: it has room for far more than
 * what crosses a veth in that time, and fetching each as it comes would slow everybody down. */
#define LAB_CAPTURE_NS 5000000

/* Every frame of every port from now on goes to `tap`, with times of CLOCK_MONOTONIC. An errno;
 * `*out` is NULL then. */
int lab_capture_start(const struct lab_fabric *fabric,
                      void (*tap)(void *context, const struct world_frame *frame),
                      void *context, struct lab_capture **out);
/* Takes what came since from the kernel, and hands out, in the order of time, what is old enough
 * that nothing older can come. NULL is ignored. */
void lab_capture_fetch(struct lab_capture *capture);
/* Frames that the kernel had no room for. */
uint64_t lab_capture_lost(struct lab_capture *capture);
/* The last frames are handed out, and the capture is gone. NULL is ignored. */
void lab_capture_end(struct lab_capture *capture);

#endif
