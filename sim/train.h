/* Packet trains: many packets as one event.
 *
 * While nothing can interfere, the queue pairs that a port serves send the middle packets
 * of their SENDs and WRITEs in turn, up to the next one that requests an acknowledgement.
 * Those of one queue pair travel as one frame record: the last of them, with `n_before`
 * others before it on the wire. The record arrives when its last packet does; the effect
 * of the others on the receiver is then applied at once. The port's clock, statistics and
 * counters and the requesters' sequence numbers advance by the whole train when it starts.
 *
 *     s0    s1    s2    s3          the port: packet i starts at s0 + i * spacing
 *     |-A---|-B---|-A---|-B---|
 *          f0    f1    f2    f3     in flight for `flight`
 *                |-A---|-B---|-A---|-B---|
 *               a0    a1    a2    a3      the receivers: one event at a2, one at a3
 *
 * A run with trains has the same event log, memory, counters and times as the run without
 * them. To ensure that, code that reads or changes state in which a train has a part
 * first calls one of
 * - sim_train_cut: packets that have not started go back to their requesters, and the
 *   port can send something else after the current one;
 * - sim_train_settle: in addition, packets that have arrived are executed, and those on
 *   the wire become separate frames.
 * The ranks of the events that each packet would have had (sim/engine.h) decide which of
 * them are past.
 *
 * A train starts only if all of this holds; otherwise each packet is sent separately:
 * - every ready QP of the port is in the middle of a request and has no reply to send,
 *   and the host stack sends nothing;
 * - the packets have one size, are sent for the first time, from one piece of memory, and
 *   within the window;
 * - a cable joins two NICs, without switch, shared PCIe root, impairment, match, jitter,
 *   path limit, or tap; its delay and the receiver's overhead are not both 0;
 * - the event log does not include packets, and payloads are not hashed.
 * Before the first packet of a QP arrives, the receiver must have the message in
 * progress, expect that packet, and be allowed to write all of the train's bytes;
 * otherwise the train is settled.
 *
 * The bytes of a train land when it ends or is settled. A host that reads them before
 * their completion may therefore find them later than without trains. */
#ifndef WEFT_SIM_TRAIN_H
#define WEFT_SIM_TRAIN_H

#include "sim/link.h"

struct sim_qp;

/* Sends `frame`, which the port has just taken from its NIC, and packets behind it as a
 * train, if that is possible. Otherwise does nothing and returns false. Only if trains
 * are allowed. */
bool sim_train_send(struct sim_port *port, const struct sim_frame *frame);
/* Starts a train, if one is possible, behind the frame that the port is sending. It needs
 * no event to start. */
void sim_train_follow(struct sim_port *port);

/* Ends the train that `port` is sending with the packet in progress. */
void sim_train_cut_now(struct sim_port *port);
/* Replaces the trains of both directions of the cable at `port` by single frames. */
void sim_train_settle_now(struct sim_port *port);
/* Does so for one direction. */
void sim_train_settle_link(struct sim_link *link);
/* Cuts the train if `qp` of `port` is acknowledged through `psn`, and that may be as much
 * as was sent of the train, or more. */
void sim_train_acked(struct sim_port *port, const struct sim_qp *qp, uint32_t psn);
/* Asks the receivers of trains that were not asked before, because a frame arrived.
 * Settles all if one does not simply execute its train. */
void sim_train_ask(struct sim_link *link);
/* Executes the packets before `frame`, which ends a train and has arrived. */
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

/* For trains only (sim/rc_train.c), called through sim_nic_ops. Requester: returns how
 * many packets can follow in a train. Their bytes lie contiguously in memory behind those
 * of the `n_built` packets just built. */
uint32_t rc_train_limit(const struct sim_qp *qp, uint32_t n_built);
/* Adds `n` packets behind the one just built; `frame` becomes the last of them. */
void rc_train_extend(struct sim_qp *qp, struct sim_frame *frame, uint32_t n);
/* Takes back the last `n` packets. */
void rc_train_take_back(struct sim_qp *qp, uint32_t n);
/* Responder: returns true if the packets that `frame` stands for will all be executed. */
bool rc_train_fits(const struct sim_nic *nic, const struct sim_port *port,
                   const struct sim_frame *frame);
/* Executes the first `n` of the packets before `frame`, which must fit. */
void rc_train_execute(struct sim_nic *nic, const struct sim_frame *frame, uint32_t n);

#endif
