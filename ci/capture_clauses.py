"""Clauses that a capture is judged by, each with its source.

`view` is what a capture must hold for the clause to be judged:

    frame     the frame itself: any capture
    stream    what one end sent; frames may be missing anywhere (a tap in the middle)
    received  everything that reached the port; what it sent may be missing, repeated, late or bent
              (netem works before the tap of packet(7) sees a frame)
    port      everything that reached the port and everything that it sent
    all       the same, of every port
    story     the events of the run (`weft run --events`) as well
"""

from collections import namedtuple

Clause = namedtuple("Clause", "view rule source")
Violation = namedtuple("Violation", "number at_ns who clause expected seen")

VIEWS = ("frame", "stream", "received", "port", "all")  # each includes those before it

CLAUSES = {
    # ---- the frame itself ----
    "frame.length": Clause(
        "frame", "IP and UDP lengths agree with each other and with the frame", "RFC 791, 768, 8200"),
    "frame.ip-checksum": Clause("frame", "the IPv4 header checksum is right", "RFC 791"),
    "frame.udp-checksum": Clause(
        "frame", "the UDP checksum is zero, right, or left to the interface (the pseudo header's sum)",
        "A17.3.1; RFC 768"),
    "frame.icrc": Clause("frame", "the ICRC is right", "A17.3.3; IBA 7.8.1"),
    "frame.bth": Clause("frame", "TVer and the reserved bits of the BTH are zero", "IBA 9.2"),
    "frame.opcode": Clause("frame", "the opcode is one of RC, or a CNP", "IBA 9.2.1, table 38; A17.9 (CNP)"),
    "frame.payload": Clause(
        "frame", "headers fit; payload and pad are a multiple of 4 bytes, at most 4096; none where "
        "the opcode has none", "IBA 9.2, 9.3"),
    "frame.syndrome": Clause("frame", "the AETH syndrome is not reserved, and ACK in responses", "IBA 9.7.5.2"),
    # ---- ports and queue pairs ----
    "port.carrier": Clause("story", "no frame at a port without carrier", "IEEE 802.3"),
    "wire.unsent": Clause(
        "all", "what reaches a port was sent by another, as often", "the capture of every port"),
    "qp.unknown": Clause("story", "the sender's queue pair exists", "IBA 10.3.1"),
    "qp.destination": Clause("story", "the destination queue pair exists or did", "IBA 9.6"),
    "qp.error": Clause("story", "nothing but a fatal NAK leaves a queue pair in ERR", "IBA 10.3.1"),
    "qp.fatal": Clause(
        "port", "nothing is sent after a NAK 0x61, 0x62 or 0x63, sent or received", "IBA 9.9.3"),
    # ---- requests, for the first time ----
    "request.psn": Clause("port", "a new request has the next PSN, modulo 2^24", "IBA 9.7.1, 9.7.3"),
    "request.sequence": Clause(
        "stream", "FIRST, MIDDLE and LAST come in order and of one kind", "IBA 9.7.4.1.2"),
    "request.mtu": Clause(
        "stream", "every packet but the last is one path MTU long, the last 1 byte to one path MTU",
        "IBA 9.7.4.1.6"),
    "request.length": Clause(
        "stream", "the packets of a WRITE have as many bytes as its RETH says", "IBA 9.4.3, 9.7.4.1.6"),
    "request.ack-req": Clause(
        "port", "AckReq on the last packet of a message, and at least every --ack-req packets",
        "IBA 9.7.3; how often is the device's choice"),
    "request.window": Clause(
        "port", "at most --window PSNs are unacknowledged, never 2^23", "IBA 9.7.1; the number is "
        "the device's choice"),
    "request.depth": Clause(
        "port", "at most --rd-atomic READs and atomics are unanswered",
        "IBA 9.4.4, 9.4.5; max_rd_atomic of ibv_modify_qp(3)"),
    # ---- requests, again ----
    "again.reason": Clause(
        "port", "going back needs a NAK, an RNR NAK, a missing response or the ACK timer",
        "IBA 9.7.2, 9.7.6"),
    "again.place": Clause(
        "port", "it resumes at the PSN that the NAK names, or at the oldest unacknowledged one",
        "IBA 9.7.2, 9.7.6"),
    "again.late": Clause(
        "port", "a sequence NAK of the oldest unacknowledged PSN is followed within --answer-us",
        "IBA 9.7.6"),
    "again.bounded": Clause(
        "port", "at most --retries timeouts without progress", "IBA 9.9.2; retry_cnt of ibv_modify_qp(3)"),
    "again.same": Clause(
        "port", "a PSN that is sent again has the same opcode, RETH or AtomicETH and payload; or "
        "asks for the rest of a READ", "IBA 9.7.3, 9.4.4"),
    "again.rnr": Clause("port", "nothing is sent before an RNR NAK's time is over", "IBA 9.7.5.2.8"),
    "request.done": Clause(
        "port", "at the end every request was acknowledged, or its timer ran out", "IBA 9.7.2, 9.7.6"),
    # ---- acknowledgements ----
    "ack.unasked": Clause("received", "no answer to a peer that asked nothing", "IBA 9.7.5"),
    "ack.arrived": Clause("received", "an ACK covers only what has arrived", "IBA 9.7.5"),
    "ack.order": Clause(
        "port", "the PSN of an ACK never goes back, and no NAK names what is acknowledged",
        "IBA 9.7.5"),
    "ack.due": Clause(
        "port", "a request with AckReq is answered within --answer-us, a duplicate too",
        "IBA 9.7.5"),
    "ack.read": Clause(
        "port", "an ACK or response does not overtake responses to an earlier READ", "IBA 9.7.5"),
    "ack.msn": Clause(
        "received", "the MSN counts executed messages: all that the PSN covers, none that has not "
        "arrived, a duplicate never", "IBA 9.7.7.1"),
    "ack.credit": Clause(
        "port", "the limit that MSN and credit count give never goes back", "IBA 9.7.7.2"),
    # ---- NAKs ----
    "nak.due": Clause("port", "a gap draws a sequence NAK within --answer-us", "IBA 9.7.5"),
    "nak.once": Clause("port", "a gap draws one sequence NAK", "IBA 9.7.5"),
    "nak.gap": Clause(
        "received", "a sequence NAK names the expected PSN, and a later one has arrived", "IBA 9.7.5"),
    "nak.rnr": Clause(
        "received", "an RNR NAK names a request that needs a receive and was not executed",
        "IBA 9.7.5.2"),
    "nak.fatal": Clause(
        "received", "a fatal NAK names the request that is being executed", "IBA 9.7.5.2"),
    "nak.invalid": Clause(
        "received", "a request out of sequence, of a wrong length or of more bytes than its RETH "
        "says is not acknowledged", "IBA 9.7.4.1, 9.9.3"),
    "nak.access": Clause(
        "received", "a range outside of the memory region of its R_Key is not acknowledged (--region)",
        "IBA 9.7.4.1.5"),
    # ---- READs and atomics ----
    "read.asked": Clause("received", "a READ response answers a READ that waits for it", "IBA 9.7.5"),
    "read.answer": Clause(
        "received", "READ responses cover the range: FIRST, MIDDLE, LAST or ONLY, full packets but "
        "the last", "IBA 9.4.4, 9.7.5"),
    "read.due": Clause(
        "port", "a READ or atomic is answered, a remembered duplicate too, and without a pause of "
        "--answer-us", "IBA 9.7.5"),
    "atomic.asked": Clause(
        "received", "an atomic acknowledgement answers an atomic that waits for it", "IBA 9.7.5"),
    "atomic.replay": Clause(
        "received", "a duplicate atomic is answered with the first answer's value", "IBA 9.4.5"),
}
