/* Follows the RoCE frames of a run as a capture has them, and notes what IBA chapter 9 forbids:
 * an oracle that shares no code with what sends and receives them.
 *
 * Rules, for each stream of requests between two queue pairs:
 *   order      new requests have consecutive PSNs, FIRST and LAST where messages begin and end
 *   repeat     a PSN is sent again as it was, not after it was acknowledged, and only after a NAK
 *              or a timeout
 *   window     no more requests are unacknowledged than the device's window
 *   ack        an acknowledgement is of a PSN that arrived in order
 *   msn        its MSN counts the messages that end up to that PSN
 *   nak        a NAK names the first PSN that is missing, once for each gap
 *   icrc       a frame that leaves a port has the right ICRC */
#ifndef WEFT_RUN_WIRE_H
#define WEFT_RUN_WIRE_H

#include "base/text.h"
#include "io/world.h"

struct run_wire;

/* Returns true if the devices of `host` acknowledge and repeat by rules of their own, not by all of
 * IBA's. */
bool run_wire_is_peculiar(const struct world_host *host);

/* `may_be_dark`: carriers go away, and what is sent meanwhile is in no capture. `spec` outlives
 * it. */
struct run_wire *run_wire_create(const struct world_spec *spec, bool may_be_dark);
void run_wire_free(struct run_wire *wire);
void run_wire_take(struct run_wire *wire, const struct world_frame *frame);
/* The first violations, or "". */
const char *run_wire_broken(const struct run_wire *wire);

#endif
