/* Captures frames as they cross the interfaces of a fabric: packet(7), one socket per port. Its
 * calls take no virtual time (base/observe.h). */
#ifndef WEFT_BACKENDS_LAB_CAPTURE_H
#define WEFT_BACKENDS_LAB_CAPTURE_H

#include "backends/lab/fabric.h"

struct lab_capture;

/* Interval between fetches. The kernel's buffer holds far more than crosses a veth in that time,
 * and fetching each frame as it comes would slow down all hosts. */
#define LAB_CAPTURE_NS 5000000

/* Starts passing every frame of every port to `tap`, with times of CLOCK_MONOTONIC. Returns an
 * errno, and NULL in `*out`, on failure. */
int lab_capture_start(const struct lab_fabric *fabric,
                      void (*tap)(void *context, const struct world_frame *frame),
                      void *context, struct lab_capture **out);
/* Reads frames from the kernel, and passes those to the tap that are old enough that no earlier
 * one can follow, in order of time. Ignores NULL. */
void lab_capture_fetch(struct lab_capture *capture);
/* Returns true if hosts must send each UDP frame on its own, because the capture cannot divide one
 * that the kernel has yet to segment: before Linux 6.2 a packet(7) socket cannot be asked for the
 * size of its frames. Returns false without a capture. Makes no call. */
bool lab_capture_needs_frames(const struct lab_capture *capture);
/* Returns the number of frames that the kernel dropped because its buffer was full. */
uint64_t lab_capture_lost(struct lab_capture *capture);
/* Passes the remaining frames to the tap and frees the capture. Ignores NULL. */
void lab_capture_end(struct lab_capture *capture);

#endif
