"""Judges the answers of a queue pair to what reached it: half of ci/capture_check.py."""

from collections import deque

from capture import ATOMIC, FIRST, IMM, LAST, MASK, NAMES, READ, RETH, SEND, WRITE
from capture_requester import ahead

READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY = 0x0d, 0x0e, 0x0f, 0x10
REMEMBERED = 256  # READs and atomics that may be asked for again
# IBA vol. 1, table 46: credit codes; 31 is "no credit count".
CREDITS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
           2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768)
INVALID, ACCESS, OPERATIONAL = 0x61, 0x62, 0x63


class Run:
    """Responses that are due to one READ request."""

    def __init__(self, psn, n_psn, length, at_ns, is_repeat=False, is_rest=False):
        self.since_ns = at_ns  # when it was asked, or answered last
        self.base, self.next, self.end = psn, psn, psn + n_psn & MASK
        self.left, self.is_repeat = length, is_repeat
        self.is_rest = is_rest  # not from its first response on


class Responder:
    def __init__(self, endpoint):
        self.endpoint, self.options, self.mtu = endpoint, endpoint.options, endpoint.mtu
        self.complain = endpoint.complain
        self.epsn = None  # expected next
        self.acked = None  # one past what was acknowledged
        self.is_sure = True  # the first PSN and MSN are known
        self.msn = self.base_msn = 0
        self.limit = None  # MSN up to which SENDs were allowed
        self.wrong = None  # (PSN, syndrome, why) of a request that is to be refused
        self.naks = set()  # (PSN, syndrome) of those that were sent
        self.message, self.left = None if self.options.late else 0, None  # kind, and bytes of its RETH to come
        self.messages = deque()  # (PSN, MSN after it, refusable, state before) not yet `acked`
        self.gap = None  # the PSN that is missing, since when, and whether a NAK said so
        self.gap_ns, self.gap_told = 0, False
        self.late_naks = set()  # PSNs of gaps that closed before their NAKs were sent
        self.owed = None  # (PSN, since when) of the oldest AckReq without an answer
        self.reads = deque(maxlen=REMEMBERED)  # (PSN, PSNs, address, length)
        self.runs = []
        self.atomics = {}  # PSN -> answers that are due
        self.resources = deque(maxlen=REMEMBERED)  # PSNs of READs and atomics in order
        self.asked = {}  # PSN of an atomic -> its AtomicETH
        self.values = {}  # PSN of an atomic -> the value of its first answer
        self.atomic_ns = {}  # PSN of one that waits for an answer -> since when
        self.copies = {}  # PSN that may be refused -> how often it came again

    # ---- what reaches it ----

    def receive(self, frame):
        if self.epsn is None:
            first = self.endpoint.judge.first_psn_of(self.endpoint.back, frame.at_ns)
            self.epsn = self.acked = frame.psn if first is None else first
            self.is_sure = first is not None and not self.options.late
        self.judge_owed(frame)
        self.judge_answers(frame)
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
                self.late_naks.add(self.gap)
                if frame.at_ns - self.gap_ns > self.options.answer_ns and \
                        not self.endpoint.was_dark(self.gap_ns, frame.at_ns):
                    self.complain(frame, "nak.due", f"a NAK of psn {self.gap}",
                                  f"none in {frame.at_ns - self.gap_ns} ns")
            self.gap = None
        before = self.message, self.left
        self.judge_request(frame)
        if flags & READ:
            n_psn = max(1, -(-frame.length // self.mtu))
            self.reads.append((psn, n_psn, frame.va, frame.length))
            self.runs.append(Run(psn, n_psn, frame.length, frame.at_ns))
        elif flags & ATOMIC:
            self.atomics[psn], self.asked[psn] = 1, frame.extra
            self.atomic_ns[psn] = frame.at_ns
            self.values.pop(psn, None)
        elif frame.ack_req and self.owed is None:
            self.owed = (psn, frame.at_ns)
        if flags & (READ | ATOMIC):
            self.resources.append(psn)
        if flags & (LAST | READ | ATOMIC):
            self.msn = self.msn + 1 & MASK
        # A SEND needs a receive WR at its first packet, a WRITE with immediate at its last.
        may_rnr = flags & SEND and flags & FIRST or flags & WRITE and flags & IMM
        if may_rnr or flags & (LAST | READ | ATOMIC):
            self.messages.append((psn, self.msn, bool(may_rnr), before))
        self.epsn = psn + n_psn & MASK

    def judge_request(self, frame):
        """Remembers a request that is not to be executed: what the NIC must see before it does."""
        flags, size, name = frame.flags, frame.n_payload, NAMES[frame.opcode]
        if self.wrong is not None:
            return
        if flags & (READ | ATOMIC):
            if self.message:
                self.refuse(frame, INVALID, f"{name} within another message")
            self.judge_range(frame, frame.length if flags & READ else 8)
            return
        kind, is_last = flags & (SEND | WRITE), flags & LAST
        if self.message not in (None, 0 if flags & FIRST else kind) and (self.is_sure or flags & FIRST):
            self.refuse(frame, INVALID, f"{name} out of sequence")
        if size > self.mtu or (size != self.mtu and not is_last) or \
                (size == 0 and is_last and not flags & FIRST):
            self.refuse(frame, INVALID, f"{name} of {size} bytes, path MTU {self.mtu}")
        if flags & RETH:
            self.left = frame.length
            self.judge_range(frame, frame.length)
        if kind == WRITE and self.left is not None:
            self.left -= size
            if self.left < 0 or (is_last and self.left != 0):
                self.refuse(frame, INVALID, f"{name} that the RETH does not fit")
        self.message = 0 if is_last else kind

    def refuse(self, frame, syndrome, why):
        if self.wrong is None:
            self.wrong = frame.psn, syndrome, why

    def judge_range(self, frame, n):
        region = self.options.regions.get((self.endpoint.port, frame.key))
        if region is not None and n > 0 and not (
                region[0] <= frame.va and frame.va + n <= region[0] + region[1]):
            self.refuse(frame, ACCESS, f"{NAMES[frame.opcode]} of {n} bytes at {frame.va:#x} in a region "
                        f"of {region[1]} at {region[0]:#x}")

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
                    self.runs.append(Run(psn, count, frame.length, frame.at_ns, True, skipped > 0))
                    break
            return
        if frame.flags & ATOMIC:
            if psn in self.atomics and self.asked[psn] == frame.extra:
                self.atomics[psn] += 1
                self.atomic_ns.setdefault(psn, frame.at_ns)
            return
        if any(p == psn and may_rnr for p, _, may_rnr, _ in self.messages):
            self.copies[psn] = self.copies.get(psn, 0) + 1
        if frame.ack_req and self.owed is None and self.gap is None:
            self.owed = (self.epsn - 1 & MASK, frame.at_ns)

    def judge_owed(self, frame, is_last=False):
        if self.owed is None or frame.at_ns - self.owed[1] <= self.options.answer_ns:
            return
        if self.options.may_stand_still and not is_last:
            return
        if not self.endpoint.was_dark(self.owed[1], frame.at_ns):
            self.complain(frame, "ack.due", f"an answer to psn {self.owed[0]}",
                          f"none in {frame.at_ns - self.owed[1]} ns")
        self.owed = None

    def judge_answers(self, frame, is_last=False):
        """READs and atomics whose answers do not come, or stop coming. The responder remembers as
        many as may be outstanding; what is older may be forgotten."""
        if not self.runs and not self.atomic_ns:
            return
        if self.wrong is not None or (self.options.may_stand_still and not is_last):
            return
        limit, depth = self.options.answer_ns, self.options.rd_atomic
        known = set(list(self.resources)[-depth:]) if depth else ()
        for run in [run for run in self.runs if frame.at_ns - run.since_ns > limit]:
            first = next((psn for psn, n, *_ in self.reads if run.base - psn & MASK < n), None)
            if not run.is_repeat or first in known:
                self.stalled(frame, run.next, run.since_ns)
            self.runs.remove(run)
        for psn in [psn for psn, since_ns in self.atomic_ns.items() if frame.at_ns - since_ns > limit]:
            if psn not in self.values or psn in known:
                self.stalled(frame, psn, self.atomic_ns[psn])
            del self.atomic_ns[psn]

    def stalled(self, frame, psn, since_ns):
        if not self.endpoint.was_dark(since_ns, frame.at_ns):
            self.complain(frame, "read.due", f"the answer of psn {psn}",
                          f"none in {frame.at_ns - since_ns} ns")

    # ---- what it sends ----

    def send(self, frame):
        psn = frame.psn
        if self.epsn is None:
            if self.options.late:
                return
            self.complain(frame, "ack.unasked", "silence: the peer asked nothing",
                          f"{NAMES[frame.opcode]} psn {psn}")
            return
        self.judge_owed(frame)
        if not self.is_sure and self.options.late and ahead(psn + 1, self.acked) <= 0:
            return  # about what was asked before the capture
        if frame.flags & READ:
            self.send_read(frame)
        elif frame.flags & ATOMIC:
            self.send_atomic(frame)
        elif frame.syndrome < 0x20:
            self.send_ack(frame)
        else:
            self.send_nak(frame)

    def cover(self, frame, psn):
        """Everything through `psn` is answered."""
        if self.wrong is not None and ahead(psn, self.wrong[0]) >= 0:
            bad, syndrome, why = self.wrong
            clause = "nak.access" if syndrome == ACCESS else "nak.invalid"
            self.complain(frame, clause, f"NAK {syndrome:#x} of psn {bad}: {why}",
                          f"{NAMES[frame.opcode]} of psn {psn}")
            self.wrong = None
        if ahead(psn + 1, self.acked) > 0:
            self.acked = psn + 1 & MASK
        if self.owed is not None and ahead(psn, self.owed[0]) >= 0:
            self.owed = None
        while self.messages and ahead(self.messages[0][0], psn) <= 0:
            self.base_msn = self.messages.popleft()[1]

    def judge_msn(self, frame):
        """Between the messages that its PSN covers and all that were executed."""
        if not self.is_sure:
            self.calibrate(frame)
        if self.options.unseen and ahead(frame.psn, self.acked) < -1:
            return  # perhaps late
        least, most = self.base_msn, self.msn
        if frame.msn - least & MASK > most - least & MASK:
            self.complain(frame, "ack.msn", f"{least} to {most}", frame.msn)
        if frame.syndrome < 0x1f:  # 31: no credit count
            limit = frame.msn + CREDITS[frame.syndrome] & MASK
            if self.limit is not None and ahead(limit, self.limit) < 0:
                self.complain(frame, "ack.credit", f"credit through MSN {self.limit}", limit)
            self.limit = limit

    def calibrate(self, frame):
        """Counts from the first MSN that is seen, as the capture does not have the beginning."""
        shift = frame.msn - self.base_msn & MASK
        self.base_msn, self.msn = frame.msn, self.msn + shift & MASK
        self.messages = deque((psn, msn + shift & MASK, *rest) for psn, msn, *rest in self.messages)
        self.is_sure = True

    def send_ack(self, frame):
        psn = frame.psn
        if ahead(psn, self.epsn) >= 0:
            self.complain(frame, "ack.arrived", f"less than psn {self.epsn}, which has not arrived", psn)
            return
        if ahead(psn + 1, self.acked) < 0:
            self.complain(frame, "ack.order", f"psn {self.acked - 1 & MASK} or later", psn)
        overtaken = [run.next for run in self.runs if not run.is_repeat and ahead(psn, run.next) >= 0]
        if overtaken:
            self.complain(frame, "ack.read", f"the response of psn {overtaken[0]} first", f"ACK of {psn}")
        self.cover(frame, psn)
        self.judge_msn(frame)

    def send_nak(self, frame):
        psn, code = frame.psn, frame.syndrome
        if self.options.unseen and (psn, code) in self.naks:
            return  # perhaps late, or repeated
        self.naks.add((psn, code))
        if code == 0x60:
            is_late = ahead(psn, self.acked) < 0
            self.judge_sequence_nak(frame)
            self.cover(frame, psn - 1 & MASK)
            if not is_late:
                self.judge_msn(frame)
        elif code >> 5 == 1:
            self.refuse_for_now(frame)
        elif INVALID <= code <= OPERATIONAL:
            if ahead(psn, self.epsn) > 0 or ahead(psn, self.acked) < 0:
                self.complain(frame, "nak.fatal", f"a psn from {self.acked} to {self.epsn}", psn)
            self.endpoint.is_dead = True

    def judge_sequence_nak(self, frame):
        psn = frame.psn
        if not self.is_sure and self.gap is None and ahead(psn, self.epsn) < 0:
            self.epsn = self.acked = self.gap = psn  # what was lost was the first of all
            self.gap_ns, self.gap_told = frame.at_ns, True
            self.messages.clear()
            self.runs.clear()
            self.atomics.clear()
            self.message, self.wrong, self.owed = 0, None, None
            return
        if ahead(psn, self.epsn) < 0 and psn not in self.late_naks and self.was_refused_before(psn):
            self.rewind(frame, (None, None))
        elif self.gap == psn and not self.gap_told:
            self.gap_told = True
            if frame.at_ns - self.gap_ns > self.options.answer_ns and not self.options.may_stand_still:
                self.complain(frame, "nak.due", f"a NAK of psn {psn} in {self.options.answer_ns} ns",
                              f"one in {frame.at_ns - self.gap_ns}")
        elif psn in self.late_naks:
            self.late_naks.remove(psn)
            if ahead(psn, self.acked) < 0:
                self.complain(frame, "ack.order", f"nothing of psn {self.acked - 1 & MASK} or before, "
                              "which is acknowledged", f"a NAK of psn {psn}")
        elif self.gap == psn:
            self.complain(frame, "nak.once", f"no second NAK for the gap at psn {psn}", "one")
        elif self.gap is None:
            self.complain(frame, "nak.gap", f"no NAK: psn {self.epsn} is expected, and none after it came",
                          f"a NAK of psn {psn}")
        else:
            self.complain(frame, "nak.gap", f"a NAK of psn {self.gap}", f"one of psn {psn}")

    def refuse_for_now(self, frame):
        """RNR: what seemed to be executed from this PSN on was not."""
        psn = frame.psn
        if psn == self.gap and self.copies.get(psn, 0) > 0:
            self.copies[psn] -= 1  # it had come twice, and each is refused
            return
        before = next((before for p, _, may_rnr, before in self.messages if p == psn and may_rnr), None)
        if before is None:
            self.complain(frame, "nak.rnr", "a request that needs a receive and was not executed",
                          f"RNR NAK of psn {psn}")
            return
        self.rewind(frame, before)
        self.cover(frame, psn - 1 & MASK)
        self.judge_msn(frame)

    def rewind(self, frame, before):
        """Nothing from the PSN of `frame` on was executed; `before` is the message there."""
        psn = frame.psn
        while self.messages and ahead(self.messages[-1][0], psn) >= 0:
            self.messages.pop()
        self.msn = self.messages[-1][1] if self.messages else self.base_msn
        self.runs = [run for run in self.runs if ahead(run.base, psn) < 0]
        while self.resources and ahead(self.resources[-1], psn) >= 0:
            self.resources.pop()
        for refused in [p for p in self.atomics if ahead(p, psn) >= 0]:
            for table in (self.atomics, self.asked, self.values, self.atomic_ns):
                table.pop(refused, None)
        self.message, self.left = before
        if self.wrong is not None and ahead(self.wrong[0], psn) >= 0:
            self.wrong = None
        self.epsn = psn
        self.owed = None
        self.gap, self.gap_ns, self.gap_told = psn, frame.at_ns, True

    def was_refused_before(self, psn):
        """True if a request before `psn` came twice and is not acknowledged: an RNR NAK of the first
        time may have given way to what was to be said about the second."""
        if self.options.unseen:  # so was the RNR NAK, perhaps
            return True
        return ahead(psn, self.acked) >= 0 and any(
            may_rnr and ahead(first, psn) < 0 and self.copies.get(first, 0) > 0
            for first, _, may_rnr, _ in self.messages)

    def send_read(self, frame):
        psn = frame.psn
        run = next((run for run in self.runs if run.next == psn), None)
        if run is None and self.options.unseen:  # what was dropped before the tap
            run = next((run for run in self.runs if psn - run.base & MASK < run.end - run.base & MASK), None)
            if run is not None and ahead(psn, run.next) > 0:
                run.left -= (psn - run.next & MASK) * self.mtu
            elif run is not None or any(psn - first & MASK < n for first, n, *_ in self.reads):
                return  # late or repeated
        if run is None:
            self.complain(frame, "read.asked", "a response that a READ waits for",
                          f"{NAMES[frame.opcode]} psn {psn}")
            return
        is_first, is_last = psn == run.base, psn + 1 & MASK == run.end
        if run.is_rest and self.options.rdma_rxe:
            is_first = False
        opcode = {(True, True): READ_ONLY, (True, False): READ_FIRST, (False, True): READ_LAST,
                  (False, False): READ_MIDDLE}[is_first, is_last]
        size = min(run.left, self.mtu)
        if frame.opcode != opcode or frame.n_payload != size:
            self.complain(frame, "read.answer", f"{NAMES[opcode]} of {size} bytes for psn {psn}",
                          f"{NAMES[frame.opcode]} of {frame.n_payload}")
        overtaken = [other.next for other in self.runs
                     if not other.is_repeat and ahead(psn, other.next) > 0]
        if overtaken:
            self.complain(frame, "ack.read", f"the response of psn {overtaken[0]} first",
                          f"{NAMES[frame.opcode]} of {psn}")
        run.next, run.left, run.since_ns = psn + 1 & MASK, run.left - size, frame.at_ns
        if is_last:
            self.runs.remove(run)
        self.cover(frame, psn)
        if opcode != READ_MIDDLE:
            self.judge_msn(frame)

    def send_atomic(self, frame):
        psn = frame.psn
        if self.atomics.get(psn, 0) == 0:
            if self.options.unseen and psn in self.values:
                return  # late or repeated
            self.complain(frame, "atomic.asked", "an answer that an atomic waits for",
                          f"ATOMIC_ACK psn {psn}")
            return
        self.atomics[psn] -= 1
        self.atomic_ns.pop(psn, None)  # one answer may do for two requests
        value = self.values.setdefault(psn, frame.extra)
        if value != frame.extra:
            self.complain(frame, "atomic.replay", f"the first answer's {value.hex()} for psn {psn}",
                          frame.extra.hex())
        overtaken = [run.next for run in self.runs if not run.is_repeat and ahead(psn, run.next) > 0]
        if overtaken:
            self.complain(frame, "ack.read", f"the response of psn {overtaken[0]} first",
                          f"ATOMIC_ACK of {psn}")
        self.cover(frame, psn)
        self.judge_msn(frame)

    def finish(self, last):
        limit_ns = self.options.answer_ns
        end_ns = min(last.at_ns, self.endpoint.error_ns)
        if self.owed is not None and end_ns - self.owed[1] > limit_ns:
            self.judge_owed(last, is_last=True)
        if self.endpoint.error_ns >= last.at_ns:
            self.judge_answers(last, is_last=True)
        if self.gap is not None and not self.gap_told and end_ns - self.gap_ns > limit_ns:
            self.complain(last, "nak.due", f"a NAK of psn {self.gap}", "none")
