"""Judges a capture: is each NIC in it a go-back-N machine as the InfiniBand specification has it?

Every port is judged by itself, as a black box: by what reached it and what it sent. So it does
not matter what happened to a frame between two ports, and a frame that was lost on its way was
still sent. In the manner of Lumina's checker (SIGCOMM 2023). `ci/wire-check` is the command;
ci/capture_clauses.py has the clauses.
"""

import bisect
from collections import Counter, defaultdict, namedtuple

from capture import DATA, REQUEST, FullPackets, pair_flows, read
from capture_clauses import CLAUSES, VIEWS, Violation
from capture_requester import Requester
from capture_responder import Responder

NEVER = 1 << 63


class Options:
    """What a capture does not say. None: not judged, or the widest that is legal."""

    def __init__(self, timeout=None, window=1 << 23, ack_req=64, answer_ns=1_000_000,
                 may_fail=False, rdma_rxe=False, forwards=(), may_stand_still=False, rd_atomic=None,
                 retries=None, regions=None, late=False, unseen=False, local=()):
        self.timeout_ns = 4096 << timeout if timeout else None
        self.window, self.ack_req, self.answer_ns = window, ack_req, answer_ns
        self.may_fail, self.rdma_rxe = may_fail, rdma_rxe
        self.forwards = forwards  # hosts that pass on what others send
        # In real time a machine may leave a host without a processor: its answers are late, but none
        # is missing.
        self.may_stand_still = may_stand_still
        self.rd_atomic, self.retries = rd_atomic, retries
        self.regions = regions or {}  # (port, R_Key) -> (address, bytes)
        self.late = late  # the capture began after the connections
        self.unseen = unseen  # what a port sent may be missing there, repeated, late or bent
        self.local = local  # addresses whose frames were sent, where the file does not say


class Story:
    """Lives of queue pairs and carrier of ports, from --events."""

    def __init__(self, lines=()):
        self.states = defaultdict(list)  # (port, QPN) -> [(ns, state)]
        self.devices = defaultdict(list)  # (host, QPN) -> keys of `states`
        self.named = set()  # ports that have queue pairs
        self.is_whole = False  # the events have the beginning of queue pairs
        self.qpns = set()  # numbers of all queue pairs
        self.carrier = defaultdict(list)  # port -> [(ns, True for up)]
        self.foreign = set()  # (port, ns, QPN, PSN) of what had the wrong addresses for its host
        for line in lines:
            words = line.split(" ", 4)
            if len(words) < 4:
                continue
            at_ns, host, name, event = words[:4]
            if event in ("port_down", "port_up"):
                self.carrier[f"{host}:{name}"].append((int(at_ns), event == "port_up"))
            elif event == "state" and "/qp" in name:
                device, qpn = name.rsplit("/qp", 1)
                before, state = (word.split("=")[1] for word in words[4].split()[:2])
                self.is_whole |= before == "RESET"
                self.qpns.add(int(qpn))
                key = f"{host}:{device}", int(qpn)
                if key not in self.states:
                    self.devices[host, int(qpn)].append(key)
                    self.named.add(key[0])
                if not self.states[key] and before != "RESET":  # it existed before the first event
                    self.states[key] += [(0, "RTR"), (0, "RTS")]
                self.states[key].append((int(at_ns), state))
            elif event == "drop" and words[4].startswith("why=address "):
                facts = dict(word.split("=") for word in words[4].split())
                self.foreign.add((f"{host}:{name}", int(at_ns), int(facts["qpn"]), int(facts["psn"])))

    def lives(self, port, qpn):
        """[(from ns, {state: ns when it was entered})]; one for ever if no states are known."""
        lives, key = [], (port, qpn)
        if port not in self.named:  # a device of several ports has the name of its first
            others = self.devices.get((port.split(":")[0], qpn), ())
            key = others[0] if len(others) == 1 else None
        for at_ns, state in self.states.get(key, ()):
            if state == "INIT" or not lives:
                lives.append((at_ns, {}))
            lives[-1][1].setdefault(state, at_ns)
        return lives or ([] if self.is_whole else [(0, {"RTR": 0, "RTS": 0})])

    def was_dark(self, port, since_ns, until_ns):
        """True if `port` was without carrier at any time in between."""
        changes = self.carrier.get(port)
        if not changes:
            return False
        return any(not is_up and at_ns <= until_ns and
                   next((t for t, up in changes[i + 1:] if up), NEVER) >= since_ns
                   for i, (at_ns, is_up) in enumerate(changes))

    def is_dark(self, port, at_ns):
        """True if `port` has no carrier strictly before and after `at_ns`."""
        changes = self.carrier.get(port)
        if not changes:
            return False
        before = [is_up for t, is_up in changes if t < at_ns]
        return bool(before) and not before[-1] and all(t != at_ns for t, _ in changes)


class Endpoint:
    """One life of a queue pair, as it is seen at its port."""

    def __init__(self, judge, port, flow, back, life, end_ns):
        self.judge, self.port, self.flow, self.back = judge, port, flow, back
        self.options, self.story = judge.options, judge.story
        self.name = f"{port} qp {judge.keys[back][2] if back is not None else '?'}"
        begin, states = life if life is not None else (0, {})
        self.begin_ns = begin
        self.receives_ns = states.get("RTR", NEVER)
        self.error_ns = min(states.get("ERR", NEVER), states.get("RESET", NEVER))
        self.mtu = judge.full_packets.path_mtu((flow, back), begin, end_ns)
        self.is_dead = False  # an error NAK was sent or received
        self.last_sent_ns = 0
        self.requester, self.responder = Requester(self), Responder(self)

    def complain(self, frame, clause, expected, seen):
        self.judge.complain(frame, self.name, clause, expected, seen)

    def send(self, frame):
        at_ns = frame.at_ns
        if self.is_dead:
            self.complain(frame, "qp.fatal", "silence after a fatal NAK", f"psn {frame.psn}")
        elif at_ns > self.error_ns and not (frame.flags & DATA == 0 and frame.syndrome >= 0x61):
            self.complain(frame, "qp.error", f"silence since {self.error_ns} ns", f"psn {frame.psn}")
        elif frame.flags & REQUEST:
            self.requester.send(frame)
        elif frame.flags:
            self.responder.send(frame)
        self.last_sent_ns = at_ns

    def receive(self, frame):
        if self.is_dead or not self.receives_ns <= frame.at_ns <= self.error_ns:
            return
        if frame.flags & REQUEST:
            self.responder.receive(frame)
        elif frame.flags:
            self.requester.receive(frame)

    def finish(self, last):
        if not self.is_dead:
            self.requester.finish(last)
            self.responder.finish(last)

    def was_dark(self, since_ns, until_ns):
        return self.story.was_dark(self.port, since_ns, until_ns)


class Judge:
    def __init__(self, frames, keys, options, story):
        self.frames, self.keys, self.options, self.story = frames, keys, options, story
        self.partner = pair_flows(frames, keys)
        self.full_packets = FullPackets(frames)
        self.endpoints = {}  # (port, flow it sends or None, flow it receives) -> [Endpoint]
        self.lives = {}  # the same -> [start of each life], and their states
        self.first_psn = {}  # flow -> [(ns, first PSN of each life of its sender)]
        self.violations = []
        self.view = self.best_view()

    def best_view(self):
        """The last of VIEWS that the capture allows."""
        if any(frame.is_out is None for frame in self.frames):
            return VIEWS.index("stream")
        if self.options.unseen:
            return VIEWS.index("received")
        senders = {self.keys[frame.flow][0] for frame in self.frames if frame.is_out}
        is_all = senders >= {key[0] for key in self.keys}
        return VIEWS.index("all" if is_all else "port")

    def complain(self, frame, who, clause, expected, seen):
        view = CLAUSES[clause].view
        if view == "story" or VIEWS.index(view) <= self.view:
            self.violations.append(Violation(frame.number, frame.at_ns, who, clause, str(expected),
                                             str(seen)))

    def endpoint(self, frame):
        """Whose frame it is at its port, or None if no port has that queue pair then."""
        if frame.is_out:
            flow, back = frame.flow, self.partner.get(frame.flow)
        else:
            flow, back = self.partner.get(frame.flow), frame.flow
        key = (frame.port, flow, back)
        if key not in self.lives:
            lives = ([(0, {"RTR": 0, "RTS": 0})] if back is None
                     else self.story.lives(frame.port, self.keys[back][2]))
            self.lives[key] = ([begin for begin, _ in lives], lives)
            self.endpoints[key] = [None] * len(lives)
        starts, lives = self.lives[key]
        index = bisect.bisect_right(starts, frame.at_ns) - 1
        if index < 0:
            return None
        found = self.endpoints[key][index]
        if found is None:
            end_ns = starts[index + 1] if index + 1 < len(starts) else NEVER
            found = Endpoint(self, frame.port, flow, back, lives[index], end_ns)
            self.endpoints[key][index] = found
        return found

    def note_first(self, endpoint, psn):
        self.first_psn.setdefault(endpoint.flow, []).append((endpoint.begin_ns, psn))

    def first_psn_of(self, flow, at_ns):
        """The first PSN that the sender of `flow` used in its life at `at_ns`."""
        known = [psn for begin_ns, psn in self.first_psn.get(flow, ()) if begin_ns <= at_ns]
        return known[-1] if known else None

    def run(self):
        for frame in self.frames:
            if frame.is_out is None:  # a tap somewhere between the ends
                self.judge_alone(frame)
                self.endpoint(frame).send(frame)
                continue
            if frame.is_out and frame.comment.startswith(("dup", "inj")):
                continue  # what the wire put in, no NIC sent
            if not frame.is_out and (frame.comment or not frame.icrc_ok):
                continue  # the port or the NIC throws it away
            if not frame.is_out and self.is_foreign(frame):
                continue
            if frame.is_out and self.options.unseen and not frame.icrc_ok:
                continue
            self.judge_alone(frame)
            endpoint = self.endpoint(frame)
            if endpoint is None:
                if frame.is_out and frame.port.split(":")[0] not in self.options.forwards:
                    self.complain(frame, frame.port, "qp.unknown", "a queue pair of the peer's",
                                  f"none, and psn {frame.psn} to {self.keys[frame.flow][2]}")
            elif frame.is_out:
                endpoint.send(frame)
            else:
                endpoint.receive(frame)
        last = self.frames[-1] if self.frames else None
        for lives in self.endpoints.values():
            for endpoint in lives:
                if endpoint is not None:
                    endpoint.finish(last)
        self.judge_wire()
        self.violations.sort(key=lambda violation: violation[0])
        return self.violations

    def is_foreign(self, frame):
        qpn = self.keys[frame.flow][2]
        return bool(self.story.foreign) and (frame.port, frame.at_ns, qpn,
                                             frame.psn) in self.story.foreign

    def judge_alone(self, frame):
        """What a frame must be whatever was before it."""
        if frame.is_out is not False:
            for clause, expected, seen in frame.faults:
                self.complain(frame, frame.port, clause, expected, seen)
        source, to, qpn, _ = self.keys[frame.flow]  # a NIC loops what it sends to itself
        if self.story.carrier and source != to and self.story.is_dark(frame.port, frame.at_ns):
            self.complain(frame, frame.port, "port.carrier", "no frame without carrier",
                          f"psn {frame.psn}")
        if self.story.is_whole and frame.is_out and qpn > 1 and qpn not in self.story.qpns:
            self.complain(frame, frame.port, "qp.destination", "a queue pair that a port has or had",
                          qpn)

    def judge_wire(self):
        """What reached a port was sent, once for each time. A frame by its flow, opcode and PSN:
        what bits a bad cable changes is not judged."""
        sent = Counter((frame.flow, frame.opcode, frame.psn) for frame in self.frames if frame.is_out)
        for frame in self.frames:
            if not frame.is_out and frame.icrc_ok and not frame.comment:
                key = frame.flow, frame.opcode, frame.psn
                sent[key] -= 1
                if sent[key] == -1:
                    self.complain(frame, frame.port, "wire.unsent", "a frame that another port sent",
                                  f"psn {frame.psn}, which none did as often")


Verdict = namedtuple("Verdict", "violations n_frames n_connections view")


def judge_capture(path, options=None, events=None):
    """The Verdict on a capture."""
    options = options or Options()
    frames, keys = read(path, options.local)
    story = Story()
    if events is not None:
        with open(events, encoding="ascii") as lines:
            story = Story(lines)
    judge = Judge(frames, keys, options, story)
    violations = judge.run()
    n_pairs = len([1 for lives in judge.endpoints.values() for one in lives if one]) // 2
    return Verdict(violations, len(frames), n_pairs, VIEWS[judge.view])


def judge_file(path, options=None, events=None):
    """The violations of a capture, and how much was judged."""
    verdict = judge_capture(path, options, events)
    return verdict.violations, (f"{verdict.n_frames} frames, {verdict.n_connections} connections, "
                                f"{len(verdict.violations)} violations")
