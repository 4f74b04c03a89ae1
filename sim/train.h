/* Packet trains: many packets as one event.
 *
 * While nothing can interfere, the queue pairs that a port serves send the middle packets of
 * their SENDs and WRITEs in turn, up to the next one that asks for an acknowledgement. Those of
 * one queue pair go as one frame record: the last of them, with `n_before` others before it on
 * the wire. That record arrives when its last packet does; what the others do to the receiver
 * is then done at once. The port's clock, statistics and counters and the requesters' sequence
 * numbers move on by the whole train when it starts.
 *
 *     s0    s1    s2    s3          the port: packet i starts at s0 + i * spacing
 *     |-A---|-B---|-A---|-B---|
 *          f0    f1    f2    f3     in flight for `flight`
 *                |-A---|-B---|-A---|-B---|
 *               a0    a1    a2    a3      the receivers: one event at a2, one at a3
 *
 * A run with trains is the run without them: the same story, memory, counters and times. To
 * this end whoever would see or change what a train has a part in first calls one of
 * - sim_train_cut: packets that have not started go back to their requesters, and the port may
 *   send something else after the current one;
 * - sim_train_settle: also, packets that have arrived are executed and those on the wire
 *   become frames of their own.
 * What happened before and what after is decided by the ranks of the events that each packet
 * would have had (sim/engine.h).
 *
 * A train starts only if all of this holds; otherwise each packet goes its own way:
 * - every ready QP of the port is in the middle of a request and has no reply to send; the
 *   host's stack sends nothing;
 * - packets are of one size, go out for the first time, from one piece of memory, within the
 *   window;
 * - a cable joins two NICs, without switch, shared PCIe root, impairment, match, jitter, path
 *   limit, or tap; its delay and the receiver's overhead are not both 0;
 * - the story has no packets in it, and payloads are not hashed.
 * Before the first packet of a QP arrives, the receiver must have the message in progress,
 * expect that packet and be allowed to write all of the train's bytes; else it is settled.
 *
 * The bytes of a train land when it ends or is settled: a host that reads them before it was
 * told anything may find them later than without trains. */
#ifndef WEFT_SIM_TRAIN_H
#define WEFT_SIM_TRAIN_H

#include "sim/link.h"

struct sim_qp;

/* Where trains are allowed. Sends `frame`, which the port just pulled from its NIC, and packets
 * after it, if they can go as a train; else does nothing and returns false. */
bool sim_train_send(struct sim_port *port, const struct sim_frame *frame);
/* Behind the frame that the port is sending goes a train, if there is one: it needs no event
 * to start. */
void sim_train_follow(struct sim_port *port);

/* What `port` is sending ends with the packet that is under way. */
void sim_train_cut_now(struct sim_port *port);
/* Neither direction of the cable at `port` has a train any more. */
void sim_train_settle_now(struct sim_port *port);
/* The same of one direction. */
void sim_train_settle_link(struct sim_link *link);
/* `qp` of `port` is acknowledged through `psn`: maybe more than was sent of a train, or all. */
void sim_train_acked(struct sim_port *port, const struct sim_qp *qp, uint32_t psn);
/* A frame arrived, and there are trains whose receivers were not asked yet: settles all if one
 * will not simply be executed. */
void sim_train_ask(struct sim_link *link);
/* What ends with `frame` arrived: executes the packets before it. */
void sim_train_arrives(struct sim_link *link, const struct sim_frame *frame);

static inline void sim_train_cut(struct sim_port *port)
{
    if (port->in_train) {
        sim_train_cut_now(port);
    }
}

static inline void sim_train_settle(struct sim_port *port)
{
    const struct sim_port *peer = port->out.to;
    if (port->out.n_trains > 0 || (peer != NULL && peer->out.n_trains > 0)) {
        sim_train_settle_now(port);
    }
}

/* For trains only (sim/rc_train.c). Requester: how many packets may go next in a train; that
 * many lie behind one another in memory, behind the `n_built` that were just built. */
uint32_t rc_train_limit(const struct sim_qp *qp, uint32_t n_built);
/* What each of them occupies of the wire. */
uint32_t rc_train_wire_bytes(const struct sim_qp *qp);
/* Puts `n` packets behind the one that was just built; `frame` becomes the last of them. */
void rc_train_extend(struct sim_qp *qp, struct sim_frame *frame, uint32_t n);
/* Takes the last `n` packets back. */
void rc_train_take_back(struct sim_qp *qp, uint32_t n);
/* Responder: true if the packets that `frame` stands for will simply be executed. */
bool rc_train_fits(const struct sim_nic *nic, const struct sim_port *port,
                   const struct sim_frame *frame);
/* Executes the first `n` of the packets before `frame`, which fit. */
void rc_train_execute(struct sim_nic *nic, const struct sim_frame *frame, uint32_t n);

#endif
