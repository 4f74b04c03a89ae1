#!/usr/bin/env python3
"""Judges a capture: is each NIC in it a go-back-N machine as the InfiniBand specification has it?

Every port is judged by itself, as a black box: by what reached it and what it sent. So it does
not matter what happened to a frame between two ports, and a frame that was lost on its way was
still sent. In the manner of Lumina's checker (SIGCOMM 2023), over pcapng of `weft run --pcap`.
--events takes the story of the same run: from it come the lives of queue pairs and the carrier
of ports, nothing that is judged.

One line a violation, with frame number and time. Exit status: 0 clean, 1 violations, 2 no capture.
"""

import argparse
import bisect
import sys
from collections import defaultdict

from capture import DATA, REQUEST, FullPackets, Malformed, pair_flows, read
from capture_requester import Requester
from capture_responder import Responder

NEVER = 1 << 63


class Options:
    """What a capture does not say. None: not judged, or the widest that is legal."""

    def __init__(self, timeout=None, window=1 << 23, ack_req=64, answer_ns=1_000_000,
                 may_fail=False, rdma_rxe=False, forwards=(), may_stand_still=False):
        self.timeout_ns = 4096 << timeout if timeout else None
        self.window, self.ack_req, self.answer_ns = window, ack_req, answer_ns
        self.may_fail, self.rdma_rxe = may_fail, rdma_rxe
        self.forwards = forwards  # hosts that pass on what others send
        # In real time a machine may leave a host without a processor: its answers are late, but none
        # is missing.
        self.may_stand_still = may_stand_still


class Story:
    """Lives of queue pairs and carrier of ports, from --events."""

    def __init__(self, lines=()):
        self.states = defaultdict(list)  # (port, QPN) -> [(ns, state)]
        self.devices = defaultdict(list)  # (host, QPN) -> keys of `states`
        self.named = set()  # ports that have queue pairs
        self.carrier = defaultdict(list)  # port -> [(ns, True for up)]
        self.foreign = set()  # (port, ns, QPN, PSN) of what had the wrong addresses for its host
        self.is_known = False
        for line in lines:
            self.is_known = True
            words = line.split(" ", 4)
            if len(words) < 4:
                continue
            at_ns, host, name, event = words[:4]
            if event in ("port_down", "port_up"):
                self.carrier[f"{host}:{name}"].append((int(at_ns), event == "port_up"))
            elif event == "state" and "/qp" in name:
                device, qpn = name.rsplit("/qp", 1)
                state = words[4].split()[1][len("to="):]
                key = f"{host}:{device}", int(qpn)
                if key not in self.states:
                    self.devices[host, int(qpn)].append(key)
                    self.named.add(key[0])
                self.states[key].append((int(at_ns), state))
            elif event == "drop" and words[4].startswith("why=address "):
                facts = dict(word.split("=") for word in words[4].split())
                self.foreign.add((f"{host}:{name}", int(at_ns), int(facts["qpn"]), int(facts["psn"])))

    def lives(self, port, qpn):
        """[(from ns, {state: ns when it was entered})]; one for ever without a story."""
        lives, key = [], (port, qpn)
        if port not in self.named:  # a device of several ports has the name of its first
            others = self.devices.get((port.split(":")[0], qpn), ())
            key = others[0] if len(others) == 1 else None
        for at_ns, state in self.states.get(key, ()):
            if state == "INIT" or not lives:
                lives.append((at_ns, {}))
            lives[-1][1].setdefault(state, at_ns)
        return lives or ([] if self.is_known else [(0, {"RTR": 0, "RTS": 0})])

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

    def complain(self, frame, text):
        self.judge.complain(frame, self.name, text)

    def send(self, frame):
        at_ns = frame.at_ns
        if self.is_dead:
            self.complain(frame, "sends after an error NAK ended the connection")
        elif at_ns > self.error_ns and not (frame.flags & DATA == 0 and frame.syndrome >= 0x61):
            self.complain(frame, "sends in ERR")
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

    def complain(self, frame, who, text):
        self.violations.append((frame.number, frame.at_ns, who, text))

    def endpoint(self, frame):
        """Whose frame it is at its port, or None if nobody has that queue pair then."""
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
            if frame.is_out is None or (frame.is_out and frame.comment.startswith(("dup", "inj"))):
                continue  # what the wire put in, no NIC sent
            if not frame.is_out and (frame.comment or not frame.icrc_ok):
                continue  # the port or the NIC throws it away
            if not frame.is_out and self.is_foreign(frame):
                continue
            self.judge_alone(frame)
            endpoint = self.endpoint(frame)
            if endpoint is None:
                if frame.is_out and frame.port.split(":")[0] not in self.options.forwards:
                    self.complain(frame, frame.port, "a queue pair that does not exist sends")
            elif frame.is_out:
                endpoint.send(frame)
            else:
                endpoint.receive(frame)
        last = self.frames[-1] if self.frames else None
        for lives in self.endpoints.values():
            for endpoint in lives:
                if endpoint is not None:
                    endpoint.finish(last)
        self.violations.sort(key=lambda violation: violation[0])
        return self.violations

    def is_foreign(self, frame):
        qpn = self.keys[frame.flow][2]
        return bool(self.story.foreign) and (frame.port, frame.at_ns, qpn,
                                             frame.psn) in self.story.foreign

    def judge_alone(self, frame):
        """What a frame must be whatever was before it."""
        if frame.is_out and not frame.icrc_ok:
            self.complain(frame, frame.port, "wrong ICRC")
        source, to = self.keys[frame.flow][:2]  # a NIC loops what it sends to itself
        if self.story.carrier and source != to and self.story.is_dark(frame.port, frame.at_ns):
            self.complain(frame, frame.port, "a frame at a port without carrier")
        n, pad = frame.n_payload, frame.pad
        if frame.flags and (n < 0 or (pad + n) & 3 or (not frame.flags & DATA and (n or pad))):
            self.complain(frame, frame.port, f"{n} bytes of payload and {pad} of padding")


def judge_file(path, options=None, events=None):
    """The violations [(frame number, ns, who, what)] of a capture, and how much was judged."""
    frames, keys = read(path)
    story = Story()
    if events is not None:
        with open(events, encoding="ascii") as lines:
            story = Story(lines)
    judge = Judge(frames, keys, options or Options(), story)
    violations = judge.run()
    n_pairs = len([1 for lives in judge.endpoints.values() for one in lives if one]) // 2
    return violations, f"{len(frames)} frames, {n_pairs} connections, {len(violations)} violations"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("capture")
    parser.add_argument("--events", help="the story of the same run")
    parser.add_argument("--timeout", type=int, help="ACK timeout code of the queue pairs, 1..31")
    parser.add_argument("--window", type=int, default=1 << 23, help="most unacknowledged PSNs")
    parser.add_argument("--ack-req", type=int, default=64, help="AckReq at least this often")
    parser.add_argument("--answer-us", type=int, default=1000, help="most time to an answer")
    parser.add_argument("--rdma-rxe", action="store_true",
                        help="accept what only Linux's soft-RoCE does")
    parser.add_argument("--may-fail", action="store_true", help="requests may stay unanswered")
    asked = parser.parse_args()
    options = Options(asked.timeout, asked.window, asked.ack_req, asked.answer_us * 1000,
                      asked.may_fail, asked.rdma_rxe)
    try:
        violations, summary = judge_file(asked.capture, options, asked.events)
    except (OSError, Malformed) as error:
        print(f"{asked.capture}: {error}", file=sys.stderr)
        return 2
    for number, at_ns, who, text in violations:
        print(f"frame {number} at {at_ns / 1e9:.9f}: {who}: {text}")
    print(summary)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
