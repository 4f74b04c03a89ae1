"""Half of ci/capture_check.py: what a queue pair asks, and whether it may go back for it."""

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


class Requester:
    """PSNs are `high` (never sent yet), `next` (the one whose turn it is) and `una` (the oldest
    that is not acknowledged)."""

    def __init__(self, endpoint):
        self.endpoint, self.options, self.mtu = endpoint, endpoint.options, endpoint.mtu
        self.complain = endpoint.complain
        self.high = self.next = self.una = None
        self.sent = {}  # PSN -> (opcode, bytes, PSNs, address after) of its first transmission
        self.reads = deque()  # [first PSN, one past the last, the next to be answered], oldest first
        self.licences = {}  # PSN to which it may go back -> why
        self.since_ack_req = 0
        self.rnr_until_ns = 0
        self.timer_ns = 0  # when the ACK timer started, at the earliest
        self.n_timeouts = 0  # since something moved
        self.message = 0  # SEND or WRITE within whose message the next packet is; None: not known
        self.left = 0  # bytes of a WRITE's RETH to come
        self.last_new = None

    # ---- what it sends ----

    def send(self, frame):
        psn = frame.psn
        if self.high is None:
            self.high = self.next = self.una = psn
            self.endpoint.judge.note_first(self.endpoint, psn)
        if frame.at_ns < self.rnr_until_ns:
            self.complain(frame, f"{NAMES[frame.opcode]} psn {psn}, "
                          f"{self.rnr_until_ns - frame.at_ns} ns before the RNR time is over")
            self.rnr_until_ns = 0
        is_after_dark = self.endpoint.was_dark(self.endpoint.last_sent_ns, frame.at_ns)
        if is_after_dark:
            self.since_ack_req = 0  # what it sent in the dark nobody saw
        if psn != self.next:
            self.jump(frame, is_after_dark)
        if psn == self.una:
            self.timer_ns = frame.at_ns
        is_new = psn == self.high
        n_psn = self.judge_new(frame) if is_new else self.judge_repeat(frame)
        self.next = psn + n_psn & MASK
        if is_new:
            self.high = self.next
            if (self.high - self.una & MASK) > self.options.window + n_psn - 1:
                self.complain(frame, f"{self.high - self.una & MASK} unacknowledged PSNs, "
                              f"the window is {self.options.window}")
        self.judge_ack_req(frame)

    def jump(self, frame, is_after_dark):
        """Another PSN than the one whose turn it is: why?"""
        psn, at_ns = frame.psn, frame.at_ns
        if psn in self.licences:
            self.licences.clear()
            return
        if psn == self.una:
            if ahead(psn, self.next) > 0:
                return  # the rest of what was sent again has arrived after all
            waited, least = at_ns - self.timer_ns, self.options.timeout_ns
            self.n_timeouts += 1
            if least is not None and waited < least:
                self.complain(frame, f"goes back to psn {psn} for no reason, {waited} ns after "
                              f"the timer of {least} ns was started")
            return
        if is_after_dark:
            if ahead(psn, self.high) > 0:
                self.high, self.message = psn, None
            return
        if ahead(psn, self.high) > 0:
            self.complain(frame, f"psn {psn}, but {self.high} was never sent")
            self.high = psn
        else:
            self.complain(frame, f"psn {psn} where {self.next} is next (oldest unacknowledged "
                          f"{self.una}, never sent {self.high})")

    def judge_new(self, frame):
        """A PSN for the first time: legality of its opcode in the stream. Returns how many PSNs it
        takes."""
        flags, size, n_psn = frame.flags, frame.n_payload, 1
        if flags & (READ | ATOMIC):
            if self.message:
                self.complain(frame, f"{NAMES[frame.opcode]} within another message")
                self.message = 0
            if flags & READ:
                n_psn = max(1, -(-frame.length // self.mtu))
            self.reads.append([frame.psn, frame.psn + n_psn & MASK, frame.psn])
        else:
            self.judge_data(frame, flags, size)
        self.sent[frame.psn] = (frame.opcode, size, n_psn, frame.va + frame.length)
        self.last_new = frame
        return n_psn

    def judge_data(self, frame, flags, size):
        kind = flags & (SEND | WRITE)
        if self.message is None and not flags & FIRST:
            return
        if (self.message or 0) != (0 if flags & FIRST else kind):
            self.complain(frame, f"{NAMES[frame.opcode]} out of sequence")
            self.left = size
        is_last = flags & LAST
        if not is_last and size != self.mtu:
            self.complain(frame, f"{NAMES[frame.opcode]} of {size} bytes, path MTU {self.mtu}")
        elif is_last and (size > self.mtu or (size == 0 and not flags & FIRST)):
            self.complain(frame, f"{NAMES[frame.opcode]} of {size} bytes, path MTU {self.mtu}")
        if flags & RETH:
            self.left = frame.length
        if kind == WRITE:
            self.left -= size
            if self.left < 0 or (is_last and self.left != 0):
                self.complain(frame, f"{abs(self.left)} bytes {'more' if self.left < 0 else 'less'} "
                              "than the RETH announced")
                self.left = 0
        self.message = 0 if is_last else kind

    def judge_repeat(self, frame):
        """A PSN again: the same packet, or the rest of a READ."""
        psn = frame.psn
        known = self.sent.get(psn)
        if known is not None and known[0] == frame.opcode and known[1] == frame.n_payload:
            if known[3] != frame.va + frame.length:
                self.complain(frame, f"psn {psn} again with another RETH")
            return known[2]
        for first, end, _ in self.reads:
            if frame.flags & READ and psn - first & MASK < end - first & MASK:
                if self.sent[first][3] == frame.va + frame.length:
                    return end - psn & MASK
        if known is None and self.endpoint.was_dark(0, frame.at_ns):
            self.sent[psn] = (frame.opcode, frame.n_payload, 1, frame.va + frame.length)
            return 1
        before = f"{NAMES[known[0]]} of {known[1]} bytes" if known else "nothing"
        self.complain(frame, f"psn {psn} again as {NAMES[frame.opcode]} of {frame.n_payload} bytes; "
                      f"it was {before}")
        return 1

    def judge_ack_req(self, frame):
        if frame.ack_req:
            self.since_ack_req = 0
            return
        self.since_ack_req += 1
        if frame.flags & LAST and frame.flags & DATA:
            self.complain(frame, f"{NAMES[frame.opcode]} without AckReq")
        elif self.since_ack_req >= self.options.ack_req:
            self.complain(frame, f"{self.since_ack_req} packets without AckReq")
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
        self.complain(self.last_new or last, f"{n} PSNs from {self.una} on were never acknowledged")
