/* Checks the captured RoCE frames of a run against IBA chapter 9: an oracle that shares no code
 * with the sender or receiver.
 *
 * Rules, for each stream of requests between two queue pairs:
 *   order      new requests have consecutive PSNs, FIRST and LAST where messages begin and end
 *   repeat     a PSN is sent again unchanged, not after it was acknowledged, and only after a NAK
 *              or a timeout
 *   window     no more requests are unacknowledged than the device's window allows
 *   ack        an acknowledgement is for a PSN that arrived in order
 *   msn        its MSN counts the messages that end up to that PSN
 *   nak        a NAK names the first missing PSN, once per gap
 *   icrc       a frame that leaves a port has the right ICRC */
#ifndef WEFT_RUN_WIRE_H
#define WEFT_RUN_WIRE_H

#include "base/text.h"
#include "io/world.h"

struct run_wire;

/* Returns true if the devices of `host` acknowledge and retransmit by rules that differ from
 * IBA's. */
bool run_wire_is_peculiar(const struct world_host *host);

/* Creates a checker. `may_be_dark`: carriers can be lost, and frames sent without carrier are not
 * captured. `spec` must outlive the result, which the caller frees with run_wire_free(). */
struct run_wire *run_wire_create(const struct world_spec *spec, bool may_be_dark);
void run_wire_free(struct run_wire *wire);
void run_wire_take(struct run_wire *wire, const struct world_frame *frame);
/* Returns the first violations, or "". */
const char *run_wire_broken(const struct run_wire *wire);

#endif
