#!/usr/bin/env python3
"""Changes one frame of a good capture, and asks ci/capture_check.py whether it notices.

    ci/wire_mutations.py --captures 20 --each 5 [--seed N] [-v]
    ci/wire_mutations.py --captures 1000 --each 0       only judges the runs, whole and unchanged

Draws random runs (sim/wire_random_test.c), and in each of them changes one frame at a time: as a
NIC would that is wrong there, so the ICRC is right again and the peer gets the changed frame, too.
Prints for each kind of change how many were made and noticed. One that is not noticed must be
legal for a reason that EXCUSES names; another is a gap in the checker, and the exit status is 1.
"""

import argparse
import itertools
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import capture
from capture_check import Judge, Options, Story

ACK = 0x11
RETH_BITS, AETH_BITS, ATOMIC = capture.RETH, capture.AETH, capture.ATOMIC


class Recording:
    """A capture as a list of packets that can be changed one by one: its first `n_frames` (None: all)."""

    def __init__(self, path, options, events=None, n_frames=2500):
        self.options = options
        self.lines = Path(events).read_text(encoding="ascii").splitlines() if events else []
        self.packets, self.frames, self.flows = [], [], {}
        for number, at_ns, port, is_out, octets, comment, _ in itertools.islice(
                capture.packets(Path(path).read_bytes()), n_frames):
            frame = capture.Frame(number, at_ns, port, is_out, comment)
            if capture.decode(frame, octets, self.flows):
                self.packets.append(octets)
                self.frames.append(frame)

    def judge(self, changes):
        """Violations after `changes`: index -> packets that take its place, each (octets, ns, comment)."""
        frames, flows = [], dict(self.flows)
        for index, frame in enumerate(self.frames):
            if index not in changes:
                frames.append(frame)
                continue
            for octets, at_ns, comment in changes[index]:
                new = capture.Frame(frame.number, at_ns, frame.port, frame.is_out, comment)
                if capture.decode(new, bytes(octets), flows):
                    frames.append(new)
        frames.sort(key=lambda frame: frame.at_ns)
        return Judge(frames, list(flows), self.options, Story(self.lines)).run()

    def packet(self, index):
        return bytearray(self.packets[index]), self.frames[index].at_ns, self.frames[index].comment

    def copies(self, index):
        """Indices of what a NIC sent and of where it arrived."""
        sent = self.frames[index]
        found = [index]
        for other in range(index + 1, min(index + 600, len(self.frames))):
            frame = self.frames[other]
            if not frame.is_out and not frame.comment and frame.flow == sent.flow and \
                    frame.psn == sent.psn and self.packets[other][-4:] == self.packets[index][-4:]:
                found.append(other)
                break
        return found


def bth_of(octets):
    return capture.locate(octets)[1]


def mend(octets):
    """Makes the ICRC right again; IP and UDP lengths stay."""
    ip, bth, _, _, _, end = capture.locate(octets)
    octets[end - 4:end] = capture.icrc_of(bytes(octets[:end]), ip, bth).to_bytes(4, "little")
    return octets


def sum_ip(octets):
    ip = capture.locate(octets)[0]
    if octets[ip] >> 4 == 4:
        octets[ip + 10:ip + 12] = b"\0\0"
        octets[ip + 10:ip + 12] = (0xffff - capture.sum_of(bytes(octets[ip:ip + 20]))).to_bytes(2, "big")
    return octets


def add_to(octets, at, n, amount):
    value = int.from_bytes(octets[at:at + n], "big") + amount
    octets[at:at + n] = (value % (1 << 8 * n)).to_bytes(n, "big")


def resize(octets, n):
    """Takes `n` bytes (a multiple of 4) from the end of the payload, or puts them there."""
    ip, bth, _, _, _, end = capture.locate(octets)
    is_v1 = octets[ip] >> 4 == 6 and octets[ip + 6] == 0x1b
    octets[end - 4:end - 4] = bytes(max(n, 0))
    if n < 0:
        del octets[end - 4 + n:end - 4]
    if octets[ip] >> 4 == 4:
        add_to(octets, ip + 2, 2, n)
    else:
        add_to(octets, ip + 4, 2, n)
    if not is_v1:
        add_to(octets, bth - 4, 2, n)
    return mend(sum_ip(octets))


# ---- kinds of changes: each alters the octets of a frame, or returns False if it cannot ----

def change_psn(octets, frame, rng):
    add_to(octets, bth_of(octets) + 9, 3, rng.choice([-2, -1, 1, 2, 7, 1000, 1 << 22]))


def change_opcode(octets, frame, rng):
    same = [code for code in capture.OPCODES if code != frame.opcode and
            capture.HEADERS[code] == capture.HEADERS[frame.opcode]]
    if not same:
        return False
    octets[bth_of(octets)] = rng.choice(same)
    return True


def change_ack_req(octets, frame, rng):
    if not frame.flags & capture.REQUEST:
        return False
    octets[bth_of(octets) + 8] ^= 0x80
    return True


def change_destination(octets, frame, rng):
    add_to(octets, bth_of(octets) + 5, 3, rng.choice([1, -1, 9]))


def change_bth_reserved(octets, frame, rng):
    at, bit = rng.choice([(1, 1), (1, 8), (8, 1), (8, 64)])
    octets[bth_of(octets) + at] ^= bit


def change_pad(octets, frame, rng):
    octets[bth_of(octets) + 1] ^= rng.choice([0x10, 0x20, 0x30])


def change_msn(octets, frame, rng):
    if not frame.flags & AETH_BITS:
        return False
    add_to(octets, bth_of(octets) + 13, 3, rng.choice([-1, 1, 2, 50, -300]))
    return True


def change_syndrome(octets, frame, rng):
    if not frame.flags & AETH_BITS:
        return False
    kinds = [code for code in (0x1f, 0x60, 0x61, 0x62, 0x63, 0x21, 0x7f)
             if code != frame.syndrome and (code != 0x21 or frame.syndrome >> 5 != 1)]
    octets[bth_of(octets) + 12] = rng.choice(kinds)
    return True


def change_dma_length(octets, frame, rng):
    if not frame.flags & RETH_BITS:
        return False
    add_to(octets, bth_of(octets) + 24, 4, rng.choice([-4, 4, 4096, 1 << 20]))
    return True


def change_address(octets, frame, rng):
    if not frame.flags & (RETH_BITS | capture.ATOMIC_ETH):
        return False
    add_to(octets, bth_of(octets) + 12, 8, rng.choice([-8, 8, 4096]))
    return True


def change_key(octets, frame, rng):
    if not frame.flags & (RETH_BITS | capture.ATOMIC_ETH):
        return False
    octets[bth_of(octets) + 23] ^= rng.randrange(1, 256)
    return True


def change_atomic_value(octets, frame, rng):
    if not frame.flags & capture.ORIG:
        return False
    octets[bth_of(octets) + rng.randrange(16, 24)] ^= rng.randrange(1, 256)
    return True


def change_operand(octets, frame, rng):
    if not frame.flags & capture.ATOMIC_ETH:
        return False
    octets[bth_of(octets) + rng.randrange(24, 40)] ^= rng.randrange(1, 256)
    return True


def change_payload(octets, frame, rng):
    if frame.n_payload < 1:
        return False
    at = bth_of(octets) + capture.HEADERS[frame.opcode] + rng.randrange(frame.n_payload)
    octets[at] ^= rng.randrange(1, 256)
    return True


def shorten(octets, frame, rng):
    if frame.n_payload < 8:
        return False
    resize(octets, -4)
    return True


def lengthen(octets, frame, rng):
    resize(octets, 4)


def break_icrc(octets, frame, rng):
    octets[capture.locate(octets)[5] - rng.randrange(1, 5)] ^= rng.randrange(1, 256)


def break_ip_sum(octets, frame, rng):
    ip = capture.locate(octets)[0]
    if octets[ip] >> 4 != 4:
        return False
    octets[ip + 10] ^= rng.randrange(1, 256)
    return True


def break_udp_sum(octets, frame, rng):
    ip, bth = capture.locate(octets)[:2]
    if octets[ip + 6] == 0x1b and octets[ip] >> 4 == 6:
        return False
    octets[bth - 2:bth] = rng.randrange(1, 0xffff).to_bytes(2, "big")
    return True


def break_udp_length(octets, frame, rng):
    ip, bth = capture.locate(octets)[:2]
    if octets[ip + 6] == 0x1b and octets[ip] >> 4 == 6:
        return False
    add_to(octets, bth - 4, 2, rng.choice([-4, 4, 100]))
    return True


KINDS = {kind.__name__.replace("_", " "): kind for kind in (
    change_psn, change_opcode, change_ack_req, change_destination, change_bth_reserved, change_pad,
    change_msn, change_syndrome, change_dma_length, change_address, change_key, change_atomic_value,
    change_operand, change_payload, shorten, lengthen, break_icrc, break_ip_sum, break_udp_sum,
    break_udp_length)}
UNMENDED = {"break icrc"}


def altered(recording, index, kind, rng):
    octets, at_ns, comment = recording.packet(index)
    if KINDS[kind](octets, recording.frames[index], rng) is False:
        return None
    if kind not in UNMENDED:
        mend(octets)
    changes = {index: [(octets, at_ns, comment)]}
    for other in recording.copies(index)[1:]:
        changes[other] = [(octets, *recording.packet(other)[1:])]
    return changes


def dropped(recording, index):
    return {copy: [] for copy in recording.copies(index)}


def repeated(recording, index):
    changes = {}
    for copy in recording.copies(index):
        octets, at_ns, comment = recording.packet(copy)
        changes[copy] = [(octets, at_ns, comment), (octets, at_ns + 1, comment)]
    return changes


def swapped(recording, index):
    """With the next that the same queue pair sends."""
    frame = recording.frames[index]
    later = next((i for i in range(index + 1, min(index + 40, len(recording.frames)))
                  if recording.frames[i].is_out and recording.frames[i].flow == frame.flow
                  and not recording.frames[i].comment), None)
    if later is None or recording.packets[later] == recording.packets[index]:
        return None
    one, other = recording.copies(index), recording.copies(later)
    changes = {}
    for a, b in zip(one, other):
        first, second = recording.packet(a), recording.packet(b)
        changes[a], changes[b] = [(second[0], *first[1:])], [(first[0], *second[1:])]
    return changes


MOVES = {"drop": dropped, "repeat": repeated, "swap": swapped}


def draw(recording, kind, rng):
    """(index, changes) of a change of `kind`, or None."""
    for _ in range(200):
        index = rng.randrange(len(recording.frames))
        frame = recording.frames[index]
        if not frame.is_out or frame.comment or not frame.flags:
            continue
        changes = MOVES[kind](recording, index) if kind in MOVES else altered(recording, index, kind, rng)
        if changes is not None:
            return index, changes
    return None


# ---- why a change may go unnoticed ----

def is_answer(frame):
    return not frame.flags & capture.REQUEST


def is_plain_ack(frame):
    return frame.opcode == ACK and frame.syndrome < 0x20


def sends_again(recording, index):
    """True if what the queue pair sends next is no later PSN, or nothing: it goes back there, and
    may have gone back before this frame, too."""
    frame = recording.frames[index]
    later = next((f for f in recording.frames[index + 1:] if f.is_out and f.flow == frame.flow
                  and not f.comment.startswith("dup") and is_answer(f) == is_answer(frame)), None)
    return later is None or (later.psn - frame.psn & capture.MASK) >= 1 << 23 or later.psn == frame.psn


def excuse(recording, kind, index):
    """Why the change is legal, or None."""
    frame = recording.frames[index]
    once = sum(f.is_out and f.flow == frame.flow and f.psn == frame.psn and f.opcode == frame.opcode
               and not f.comment.startswith("dup") for f in recording.frames) == 1
    if kind in ("change payload", "change address", "change key", "change operand") and once:
        return "the user's own choice, sent once"
    if kind == "change payload" and is_answer(frame):
        return "what a READ finds may change from one answer to the next"
    if kind == "change atomic value" and once:
        return "a value that is answered once"
    if kind in ("shorten", "lengthen") and frame.flags & capture.SEND and frame.flags & capture.LAST and once:
        return "the user's own choice, sent once"
    if kind == "change ack req" and frame.flags & (capture.READ | capture.ATOMIC):
        return "READs and atomics are answered in any case"
    if kind == "change msn" and is_answer(frame) and frame.syndrome < 0x20:
        return "messages behind its PSN may be counted or not"
    if kind == "drop" and frame.flags & (capture.READ | capture.ATOMIC) and is_answer(frame) and not once:
        return "it is asked for and answered again"
    if kind == "change ack req" and not frame.ack_req:
        return "AckReq is allowed on every packet"
    if kind == "change ack req" and not frame.flags & capture.LAST:
        return "AckReq within a message is the device's choice"
    if kind == "change dma length" and frame.flags & capture.READ:
        return None
    if is_plain_ack(frame):
        return {"drop": "a later acknowledgement covers it", "repeat": "an acknowledgement may be repeated",
                "swap": "it may leave before or after what it does not depend on",
                "change psn": "a cumulative acknowledgement of less is legal"}.get(kind)
    if kind in ("drop", "change destination") and sends_again(recording, index):
        return "it goes back there anyway, and might have gone back earlier"
    return None


def options_of(line):
    """Options for what sim/wire_random_test.c prints of a run."""
    words = line.split()
    given = {name: int(words[words.index(f"--{name.replace('_', '-')}") + 1])
             for name in ("timeout", "window", "ack_req", "rd_atomic")}
    regions = {}
    if "--region" in words:
        port, *numbers = words[words.index("--region") + 1].split(",")
        key, address, n_bytes = map(int, numbers)
        regions[port, key] = address, n_bytes
    answer_us = int(words[words.index("--answer-us") + 1])
    return Options(**given, answer_ns=1000 * answer_us, regions=regions, rdma_rxe="--rdma-rxe" in words)


def drawn_run(build, folder, seed):
    """(path of a capture, Options, path of its events) of the random run `seed`."""
    made = Path(folder) / f"drawn-{seed}.pcapng"
    done = subprocess.run([Path(build) / "test/sim/wire_random_test", made, "drawn", str(seed)],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"wire_random_test FILE drawn {seed} failed:\n{done.stdout[-2000:]}")
    line = next(line for line in done.stdout.splitlines() if "--answer-us" in line)
    return made, options_of(line), Path(f"{made}.events")


class Score:
    def __init__(self):
        self.made, self.noticed, self.excused = Counter(), Counter(), Counter()
        self.reasons, self.clauses, self.missed = Counter(), defaultdict(Counter), []

    def add(self, recording, kind, index, changes, name):
        found = recording.judge(changes)
        self.made[kind] += 1
        if found:
            self.noticed[kind] += 1
            self.clauses[kind].update({one.clause for one in found})
            return
        reason = excuse(recording, kind, index)
        if reason is not None:
            self.excused[kind] += 1
            self.reasons[kind, reason] += 1
            return
        frame = recording.frames[index]
        self.missed.append(f"{name}: {kind} of frame {frame.number}: {capture.NAMES[frame.opcode]} psn "
                           f"{frame.psn} syndrome {frame.syndrome:#x} at {frame.port}")

    def print(self, verbose):
        for kind, made in self.made.items():
            print(f"{kind:20} {self.noticed[kind]:5} of {made:5} noticed, {self.excused[kind]:4} legal, "
                  f"{made - self.noticed[kind] - self.excused[kind]:3} missed")
            if verbose:
                print("    ", ", ".join(f"{name} {n}" for name, n in self.clauses[kind].most_common(6)))
        for (kind, reason), n in sorted(self.reasons.items()):
            print(f"legal: {kind}: {reason} ({n})")
        for missed in self.missed:
            print("missed:", missed)
        n, noticed, excused = sum(self.made.values()), sum(self.noticed.values()), sum(self.excused.values())
        print(f"{n} changes: {noticed} noticed ({100 * noticed / max(n, 1):.1f} %), {excused} legal, "
              f"{n - noticed - excused} missed")


def score(build, seeds, n_each, rng_seed=0):
    """Changes `n_each` frames in each kind of way in each of the runs `seeds`. The runs themselves must
    be clean. Returns (Score, violations of unchanged runs)."""
    result, dirty = Score(), []
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            path, options, events = drawn_run(build, folder, seed)
            options.may_fail = n_each > 0  # what is in flight where the recording ends has no answer
            recording = Recording(path, options, events, 2500 if n_each > 0 else None)
            for name in (path, events):
                name.unlink()
            dirty += [(seed, one) for one in recording.judge({})]
            rng = random.Random(f"{rng_seed}:{seed}")
            for kind in [*KINDS, *MOVES]:
                for _ in range(n_each):
                    drawn = draw(recording, kind, rng)
                    if drawn is not None:
                        result.add(recording, kind, *drawn, f"seed {seed}")
    return result, dirty


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--captures", type=int, default=20, help="random runs")
    parser.add_argument("--each", type=int, default=5, help="changes of a kind in each run")
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("-v", "--verbose", action="store_true", help="clauses that noticed")
    asked = parser.parse_args()
    result, dirty = score(asked.build, range(asked.seed, asked.seed + asked.captures), asked.each)
    for seed, one in dirty:
        print(f"seed {seed}, unchanged: {one}")
    print(f"{asked.captures} random runs, {len({seed for seed, _ in dirty})} of them with violations")
    result.print(asked.verbose)
    return 1 if result.missed or dirty else 0


if __name__ == "__main__":
    sys.exit(main())
