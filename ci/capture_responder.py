"""Half of ci/capture_check.py: what a queue pair answers, to what reached it."""

from collections import deque

from capture import ATOMIC, FIRST, IMM, LAST, MASK, NAMES, READ, SEND, WRITE
from capture_requester import ahead

READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY = 0x0d, 0x0e, 0x0f, 0x10
REMEMBERED = 256  # READs and atomics that may be asked for again


class Run:
    """Responses that are due to one READ request."""

    def __init__(self, psn, n_psn, length, is_repeat=False, is_rest=False):
        self.base, self.next, self.end = psn, psn, psn + n_psn & MASK
        self.left, self.is_repeat = length, is_repeat
        self.is_rest = is_rest  # not from its first response on


class Responder:
    def __init__(self, endpoint):
        self.endpoint, self.options, self.mtu = endpoint, endpoint.options, endpoint.mtu
        self.complain = endpoint.complain
        self.epsn = None  # expected next
        self.acked = None  # one past what was acknowledged
        self.msn = self.base_msn = 0
        self.messages = deque()  # (PSN, MSN after it, refusable) of what `acked` does not cover
        self.gap = None  # the PSN that is missing, since when, and whether that was told
        self.gap_ns, self.gap_told = 0, False
        self.late_nak = None  # (PSN, since when) of a gap that closed before its NAK was sent
        self.owed = None  # (PSN, since when) of the oldest AckReq without an answer
        self.reads = deque(maxlen=REMEMBERED)  # (PSN, PSNs, address, length)
        self.runs = []
        self.atomics = {}  # PSN -> answers that are due
        self.copies = {}  # PSN that may be refused -> how often it came again

    # ---- what reaches it ----

    def receive(self, frame):
        if self.epsn is None:
            first = self.endpoint.judge.first_psn_of(self.endpoint.back, frame.at_ns)
            self.epsn = self.acked = frame.psn if first is None else first
        self.judge_owed(frame)
        if frame.psn == self.epsn:
            self.take(frame)
        elif ahead(frame.psn, self.epsn) > 0:
            if self.gap is None:
                self.gap, self.gap_ns, self.gap_told = self.epsn, frame.at_ns, False
        else:
            self.take_duplicate(frame)

    def take(self, frame):
        psn, flags, n_psn = frame.psn, frame.flags, 1
        if self.gap is not None:
            if not self.gap_told:
                self.late_nak = (self.gap, self.gap_ns)
                if frame.at_ns - self.gap_ns > self.options.answer_ns:
                    self.complain(frame, f"the gap at psn {self.gap} drew no NAK in "
                                  f"{frame.at_ns - self.gap_ns} ns")
            self.gap = None
        if flags & READ:
            n_psn = max(1, -(-frame.length // self.mtu))
            self.reads.append((psn, n_psn, frame.va, frame.length))
            self.runs.append(Run(psn, n_psn, frame.length))
        elif flags & ATOMIC:
            self.atomics[psn] = 1
        elif frame.ack_req and self.owed is None:
            self.owed = (psn, frame.at_ns)
        if flags & (LAST | READ | ATOMIC):
            self.msn = self.msn + 1 & MASK
        # A SEND needs a receive WR at its first packet, a WRITE with immediate at its last.
        may_rnr = flags & SEND and flags & FIRST or flags & WRITE and flags & IMM
        if may_rnr or flags & (LAST | READ | ATOMIC):
            self.messages.append((psn, self.msn, bool(may_rnr)))
        self.epsn = psn + n_psn & MASK

    def take_duplicate(self, frame):
        psn = frame.psn
        if frame.flags & READ:
            for first, n_psn, va, length in self.reads:
                skipped = psn - first & MASK
                if skipped < n_psn and frame.va == va + skipped * self.mtu and \
                        frame.length <= length - skipped * self.mtu:
                    self.runs = [run for run in self.runs
                                 if not run.base - first & MASK < n_psn]
                    count = max(1, -(-frame.length // self.mtu))
                    self.runs.append(Run(psn, count, frame.length, True, skipped > 0))
                    break
            return
        if frame.flags & ATOMIC:
            if psn in self.atomics:
                self.atomics[psn] += 1
            return
        if any(p == psn and may_rnr for p, _, may_rnr in self.messages):
            self.copies[psn] = self.copies.get(psn, 0) + 1
        if frame.ack_req and self.owed is None and self.gap is None:
            self.owed = (self.epsn - 1 & MASK, frame.at_ns)

    def judge_owed(self, frame, is_last=False):
        if self.owed is None or frame.at_ns - self.owed[1] <= self.options.answer_ns:
            return
        if self.options.may_stand_still and not is_last:
            return
        if not self.endpoint.was_dark(self.owed[1], frame.at_ns):
            self.complain(frame, f"psn {self.owed[0]} asked for an answer "
                          f"{frame.at_ns - self.owed[1]} ns ago")
        self.owed = None

    # ---- what it sends ----

    def send(self, frame):
        psn = frame.psn
        if self.epsn is None:
            self.complain(frame, f"{NAMES[frame.opcode]} psn {psn} to a peer that asked nothing")
            return
        self.judge_owed(frame)
        if frame.flags & READ:
            self.send_read(frame)
        elif frame.flags & ATOMIC:
            self.send_atomic(frame)
        elif frame.syndrome < 0x20:
            self.send_ack(frame)
        else:
            self.send_nak(frame)

    def cover(self, psn):
        """Everything through `psn` is answered."""
        if ahead(psn + 1, self.acked) > 0:
            self.acked = psn + 1 & MASK
        if self.owed is not None and ahead(psn, self.owed[0]) >= 0:
            self.owed = None
        while self.messages and ahead(self.messages[0][0], psn) <= 0:
            self.base_msn = self.messages.popleft()[1]

    def judge_msn(self, frame):
        """Between the messages that its PSN covers and all that were executed."""
        least, most = self.base_msn, self.msn
        if frame.msn - least & MASK > most - least & MASK:
            self.complain(frame, f"MSN {frame.msn} where {least} to {most} messages are done")

    def send_ack(self, frame):
        psn = frame.psn
        if ahead(psn, self.epsn) >= 0:
            self.complain(frame, f"ACK of psn {psn}, but {self.epsn} has not arrived")
            return
        if ahead(psn + 1, self.acked) < 0:
            self.complain(frame, f"ACK of psn {psn} after one of {self.acked - 1 & MASK}")
        if any(not run.is_repeat and ahead(psn, run.next) >= 0 for run in self.runs):
            self.complain(frame, f"ACK of psn {psn} ahead of the responses of a READ")
        self.cover(psn)
        self.judge_msn(frame)

    def send_nak(self, frame):
        psn, code = frame.psn, frame.syndrome
        if code == 0x60:
            self.judge_sequence_nak(frame)
            self.cover(psn - 1 & MASK)
        elif code >> 5 == 1:
            self.refuse_for_now(frame)
        elif 0x61 <= code <= 0x63:
            if ahead(psn, self.epsn) > 0 or ahead(psn, self.acked) < 0:
                self.complain(frame, f"NAK {code:#x} of psn {psn}, which is not being executed")
            self.endpoint.is_dead = True
        else:
            self.complain(frame, f"syndrome {code:#x} is reserved")

    def judge_sequence_nak(self, frame):
        psn = frame.psn
        if self.gap == psn and not self.gap_told:
            self.gap_told = True
            if frame.at_ns - self.gap_ns > self.options.answer_ns and not self.options.may_stand_still:
                self.complain(frame, f"the NAK of psn {psn} took {frame.at_ns - self.gap_ns} ns")
        elif self.late_nak is not None and self.late_nak[0] == psn:
            self.late_nak = None
        elif self.gap == psn:
            self.complain(frame, f"a second NAK for the gap at psn {psn}")
        elif self.gap is None:
            self.complain(frame, f"a NAK of psn {psn} without a gap, {self.epsn} is expected")
        else:
            self.complain(frame, f"a NAK of psn {psn} for the gap at {self.gap}")

    def refuse_for_now(self, frame):
        """RNR: what seemed to be executed from this PSN on was not."""
        psn = frame.psn
        if psn == self.gap and self.copies.get(psn, 0) > 0:
            self.copies[psn] -= 1  # it had come twice, and each is refused
            return
        if not any(p == psn and may_rnr for p, _, may_rnr in self.messages):
            self.complain(frame, f"RNR NAK of psn {psn}, which needs no receive or was executed")
            return
        while self.messages and ahead(self.messages[-1][0], psn) >= 0:
            self.messages.pop()
        self.msn = self.messages[-1][1] if self.messages else self.base_msn
        self.runs = [run for run in self.runs if ahead(run.base, psn) < 0]
        for refused in [p for p in self.atomics if ahead(p, psn) >= 0]:
            del self.atomics[refused]
        self.epsn = psn
        self.cover(psn - 1 & MASK)
        self.owed = None
        self.gap, self.gap_ns, self.gap_told = psn, frame.at_ns, True

    def send_read(self, frame):
        psn = frame.psn
        run = next((run for run in self.runs if run.next == psn), None)
        if run is None:
            self.complain(frame, f"{NAMES[frame.opcode]} psn {psn} that no READ waits for")
            return
        is_first, is_last = psn == run.base, psn + 1 & MASK == run.end
        if run.is_rest and self.options.rdma_rxe:
            is_first = False
        opcode = {(True, True): READ_ONLY, (True, False): READ_FIRST, (False, True): READ_LAST,
                  (False, False): READ_MIDDLE}[is_first, is_last]
        size = min(run.left, self.mtu)
        if frame.opcode != opcode or frame.n_payload != size:
            self.complain(frame, f"{NAMES[frame.opcode]} of {frame.n_payload} bytes where "
                          f"{NAMES[opcode]} of {size} is due")
        if any(not other.is_repeat and ahead(psn, other.next) > 0 for other in self.runs):
            self.complain(frame, f"response psn {psn} ahead of those of an earlier READ")
        run.next, run.left = psn + 1 & MASK, run.left - size
        if is_last:
            self.runs.remove(run)
        self.cover(psn)
        if opcode != READ_MIDDLE:
            self.judge_msn(frame)

    def send_atomic(self, frame):
        if self.atomics.get(frame.psn, 0) == 0:
            self.complain(frame, f"ATOMIC_ACK psn {frame.psn} that no atomic waits for")
            return
        self.atomics[frame.psn] -= 1
        self.cover(frame.psn)
        self.judge_msn(frame)

    def finish(self, last):
        limit_ns = self.options.answer_ns
        end_ns = min(last.at_ns, self.endpoint.error_ns)
        if self.owed is not None and end_ns - self.owed[1] > limit_ns:
            self.judge_owed(last, is_last=True)
        if self.gap is not None and not self.gap_told and end_ns - self.gap_ns > limit_ns:
            self.complain(last, f"the gap at psn {self.gap} never drew a NAK")
