"""Judges the requests of a queue pair: half of ci/capture_check.py."""

from collections import deque

from capture import ATOMIC, DATA, FIRST, LAST, MASK, NAMES, READ, RETH, SEND, WRITE

# IBA vol. 1, table 45: RNR NAK timer codes in milliseconds.
RNR_MS = (655.36, .01, .02, .03, .04, .06, .08, .12, .16, .24, .32, .48, .64, .96, 1.28, 1.92, 2.56,
          3.84, 5.12, 7.68, 10.24, 15.36, 20.48, 30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76,
          327.68, 491.52)
RNR_NS = [round(ms * 1_000_000) for ms in RNR_MS]


def ahead(a, b):
    """a - b on the circle of PSNs: negative if `a` is before `b`."""
    return (a - b + 0x800000 & MASK) - 0x800000


def target_of(frame):
    """R_Key and end of the range: the same for a READ and for the rest of it."""
    return frame.key, frame.va + frame.length


class Requester:
    """PSNs are `high` (never sent yet), `next` (the one whose turn it is) and `una` (the oldest
    that is not acknowledged)."""

    def __init__(self, endpoint):
        self.endpoint, self.options, self.mtu = endpoint, endpoint.options, endpoint.mtu
        self.complain = endpoint.complain
        self.high = self.next = self.una = None
        self.is_sure = True  # nothing was sent before what was seen first
        self.sent = {}  # PSN -> (opcode, bytes, PSNs, target, extra, CRC) of its first time
        self.reads = deque()  # [first PSN, one past the last, the next to be answered], oldest first
        self.licences = {}  # PSN to which it may go back -> why
        self.since_ack_req = 0
        self.rnr_until_ns = 0
        self.timer_ns = 0  # when the ACK timer started, at the earliest
        self.n_timeouts = 0  # since something moved
        # SEND or WRITE that the next packet continues; None: not known
        self.message = None if self.options.late else 0
        self.left = 0  # bytes of a WRITE's RETH to come; None: not known
        self.nak = None  # (PSN, ns) of a sequence NAK that is to be followed
        self.went_back_to = None  # PSN of the last one that was followed
        self.sent_ns = self.endpoint.begin_ns  # when the last request was seen
        self.last_new = None

    # ---- what it sends ----

    def send(self, frame):
        psn = frame.psn
        if self.high is None:
            self.high = self.next = self.una = psn
            self.is_sure = not self.endpoint.was_dark(self.endpoint.begin_ns, frame.at_ns)
            if self.is_sure:
                self.endpoint.judge.note_first(self.endpoint, psn)
        if frame.at_ns < self.rnr_until_ns:
            self.complain(frame, "again.rnr", f"nothing before {self.rnr_until_ns} ns",
                          f"{NAMES[frame.opcode]} psn {psn} {self.rnr_until_ns - frame.at_ns} ns earlier")
            self.rnr_until_ns = 0
        is_after_dark = self.endpoint.was_dark(self.sent_ns, frame.at_ns)
        self.sent_ns = frame.at_ns
        if is_after_dark:
            self.since_ack_req = 0  # what it sent without carrier was not captured
        if psn != self.next:
            self.jump(frame, is_after_dark)
        elif self.nak is not None:
            self.judge_followed(frame)
        if psn == self.una:
            self.timer_ns = frame.at_ns
        is_new = psn == self.high
        n_psn = self.judge_new(frame) if is_new else self.judge_repeat(frame)
        self.next = psn + n_psn & MASK
        if is_new:
            self.high = self.next
            if (self.high - self.una & MASK) > self.options.window + n_psn - 1:
                self.complain(frame, "request.window", f"at most {self.options.window} PSNs "
                              "unacknowledged", f"{self.high - self.una & MASK} of them")
        self.judge_ack_req(frame)

    def judge_followed(self, frame):
        """Goes on where it was, although a NAK says that the peer throws that away."""
        psn, since_ns = self.nak
        if frame.at_ns - since_ns <= self.options.answer_ns or self.options.may_stand_still:
            return
        self.nak = None
        self.complain(frame, "again.late", f"psn {psn}, of which a NAK came "
                      f"{frame.at_ns - since_ns} ns ago", f"psn {frame.psn}")

    def jump(self, frame, is_after_dark):
        """Another PSN than the one whose turn it is: why?"""
        psn, at_ns = frame.psn, frame.at_ns
        self.nak = None
        if psn in self.licences:
            self.licences.clear()
            self.went_back_to = psn
            return
        if psn == self.una:
            if ahead(psn, self.next) > 0:
                return  # the rest of what was sent again has arrived after all
            waited, least = at_ns - self.timer_ns, self.options.timeout_ns
            self.n_timeouts += 1
            if self.options.retries is not None and self.n_timeouts > self.options.retries:
                self.complain(frame, "again.bounded", f"at most {self.options.retries} timeouts",
                              f"psn {psn} again after {self.n_timeouts}")
            if least is not None and waited < least:
                self.complain(frame, "again.reason", f"psn {self.next}, or the ACK timer of {least} ns",
                              f"psn {psn} again {waited} ns after the timer was started")
            return
        if not self.is_sure and ahead(psn, self.una) < 0:
            self.una = psn  # what it sent in the dark
            return
        is_ahead = ahead(psn, self.high) > 0
        if not is_after_dark:
            self.complain(frame, "request.psn" if is_ahead else "again.place",
                          f"psn {self.next} (oldest unacknowledged {self.una}, never sent {self.high})",
                          f"psn {psn}")
        if is_ahead:
            self.high, self.message, self.left = psn, None, None

    def judge_new(self, frame):
        """A PSN for the first time: legality of its opcode in the stream. Returns how many PSNs it
        takes."""
        flags, size, n_psn = frame.flags, frame.n_payload, 1
        if flags & (READ | ATOMIC):
            if self.message:
                self.complain(frame, "request.sequence", "the rest of a message", NAMES[frame.opcode])
            self.message = 0
            if flags & READ:
                n_psn = max(1, -(-frame.length // self.mtu))
            self.reads.append([frame.psn, frame.psn + n_psn & MASK, frame.psn])
            if self.options.rd_atomic and len(self.reads) > self.options.rd_atomic:
                self.complain(frame, "request.depth", f"at most {self.options.rd_atomic} READs and "
                              "atomics unanswered", len(self.reads))
        else:
            self.judge_data(frame, flags, size)
        self.sent[frame.psn] = (frame.opcode, size, n_psn, target_of(frame), frame.extra,
                                frame.crc)
        self.last_new = frame
        return n_psn

    def judge_data(self, frame, flags, size):
        kind = flags & (SEND | WRITE)
        name = NAMES[frame.opcode]
        if self.message is None:  # what was before was not seen
            self.message, self.left = 0 if flags & FIRST else kind, None
        if self.message != (0 if flags & FIRST else kind):
            self.complain(frame, "request.sequence", {0: "a first packet", SEND: "the rest of a SEND",
                          WRITE: "the rest of a WRITE"}[self.message], name)
            self.left = None
        is_last = flags & LAST
        if not is_last and size != self.mtu:
            self.complain(frame, "request.mtu", f"{self.mtu} bytes", f"{name} of {size}")
        elif is_last and (size > self.mtu or (size == 0 and not flags & FIRST)):
            self.complain(frame, "request.mtu", f"{0 if flags & FIRST else 1} to {self.mtu} bytes",
                          f"{name} of {size}")
        if flags & RETH:
            self.left = frame.length
        if kind == WRITE and self.left is not None:
            self.left -= size
            if self.left < 0 or (is_last and self.left != 0):
                self.complain(frame, "request.length", f"{self.left + size} bytes for the RETH",
                              f"{name} of {size}")
                self.left = None
        self.message = 0 if is_last else kind

    def judge_repeat(self, frame):
        """A PSN again: the same packet, or the rest of a READ."""
        psn = frame.psn
        known = self.sent.get(psn)
        if known is not None and known[0] == frame.opcode and known[1] == frame.n_payload:
            if known[3] != target_of(frame) or known[4] != frame.extra:
                self.complain(frame, "again.same", "the RETH or AtomicETH of the first time",
                              f"psn {psn} with another")
            elif known[5] != frame.crc:
                self.complain(frame, "again.same", "the payload of the first time",
                              f"psn {psn} with another")
            return known[2]
        for first, end, _ in self.reads:
            if frame.flags & READ and psn - first & MASK < end - first & MASK:
                if self.sent[first][3] == target_of(frame):
                    return end - psn & MASK
        if known is None and self.endpoint.was_dark(0, frame.at_ns):
            return self.learn(frame)
        before = f"{NAMES[known[0]]} of {known[1]} bytes" if known else "nothing of that PSN"
        self.complain(frame, "again.same", before,
                      f"{NAMES[frame.opcode]} of {frame.n_payload} bytes as psn {psn}")
        return 1

    def learn(self, frame):
        """Sent in the dark the first time. Returns how many PSNs it takes."""
        psn, n_psn = frame.psn, 1
        if frame.flags & (READ | ATOMIC):
            if frame.flags & READ:
                n_psn = max(1, -(-frame.length // self.mtu))
            later = sum(ahead(read[0], psn) > 0 for read in self.reads)
            self.reads.insert(len(self.reads) - later, [psn, psn + n_psn & MASK, psn])
        self.sent[psn] = (frame.opcode, frame.n_payload, n_psn, target_of(frame), frame.extra,
                          frame.crc)
        return n_psn

    def judge_ack_req(self, frame):
        if frame.ack_req:
            self.since_ack_req = 0
            return
        self.since_ack_req += 1
        if frame.flags & LAST and frame.flags & DATA:
            self.complain(frame, "request.ack-req", "AckReq on the last packet",
                          f"{NAMES[frame.opcode]} without it")
        elif self.since_ack_req >= self.options.ack_req:
            self.complain(frame, "request.ack-req", f"AckReq on every {self.options.ack_req}th packet",
                          f"{self.since_ack_req} without it")
            self.since_ack_req = 0

    # ---- what it hears ----

    def receive(self, frame):
        psn = frame.psn
        if self.high is None or ahead(psn, self.una) < 0 or ahead(psn, self.high) >= 0:
            return  # about what is done, or was never asked
        before = self.una
        if frame.flags & (READ | ATOMIC):
            self.take_response(psn)
        elif frame.syndrome < 0x20:
            self.acknowledge(psn)
        else:
            self.take_nak(frame)
        if self.una != before:
            self.timer_ns = frame.at_ns
            self.n_timeouts = 0
            if self.nak is not None and self.nak[0] != self.una:
                self.nak = None
            self.went_back_to = None
            # It may not have gone back yet, and then goes back to what is still missing.
            for old in [old for old in self.licences if ahead(old, self.una) < 0]:
                self.licences[self.una] = self.licences.pop(old)

    def acknowledge(self, psn):
        """All through `psn`, unless a READ among it is not answered: then that may be repeated."""
        if self.reads and ahead(psn, self.reads[0][0]) >= 0:
            self.una = self.reads[0][2]
            self.licences[self.una] = "implied NAK"
            return False
        if ahead(psn, self.una) >= 0:
            self.una = psn + 1 & MASK
        return True

    def take_response(self, psn):
        read = self.reads[0] if self.reads else None
        if read is not None and ahead(self.una, read[0]) < 0 and ahead(psn, read[0]) >= 0:
            self.una = read[0]
        if read is None or psn != self.una:
            self.licences[self.una] = "implied NAK"
            return
        self.una = read[2] = psn + 1 & MASK
        if self.una == read[1]:
            self.reads.popleft()

    def take_nak(self, frame):
        if frame.psn != self.una and not self.acknowledge(frame.psn - 1 & MASK):
            if self.options.rdma_rxe and frame.syndrome == 0x60:
                self.licences[frame.psn] = "NAK"  # whatever was not answered before it
            return
        if frame.syndrome >> 5 == 1:
            if frame.at_ns >= self.rnr_until_ns:
                self.rnr_until_ns = frame.at_ns + RNR_NS[frame.syndrome & 31]
                self.timer_ns = self.rnr_until_ns
                self.licences[frame.psn] = "RNR"
        elif frame.syndrome == 0x60:
            self.licences[frame.psn] = "NAK"
            is_news = self.una == frame.psn and self.went_back_to != frame.psn
            if is_news and self.nak is None and not self.options.rdma_rxe and \
                    frame.at_ns >= self.rnr_until_ns and ahead(self.next, frame.psn) > 0:
                self.nak = (frame.psn, frame.at_ns)
        else:
            self.endpoint.is_dead = True

    def finish(self, last):
        """At the end of the capture: everything was answered, or there is a reason."""
        endpoint = self.endpoint
        if self.high is None or self.una == self.high or self.options.may_fail:
            return
        if self.n_timeouts > 0 or endpoint.was_dark(self.timer_ns, 1 << 63):
            return
        n = self.high - self.una & MASK
        self.complain(self.last_new or last, "request.done", "an acknowledgement of every request",
                      f"none of the {n} PSNs from {self.una} on")
