"""The capture checker (ci/wire-check): that it sees what is wrong, and that what scenarios
put on the wire is right."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

import capture
from capture_check import Judge, Options, Story, judge_file
from capture_clauses import CLAUSES
from sampling import part

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT_FAST", str(ROOT / "build" / "weft"))
BUILD = Path(os.environ.get("WEFT_BUILD", ROOT / "build"))
CODES = {name: code for code, (name, _) in capture.OPCODES.items()}
MTU = 1024
A, B = b"\x0a\0\0\1", b"\x0a\0\0\2"
MS = 1_000_000
# What the judge assumes of QPs that weft makes: ibv_qp_attr.timeout 14, profiles mlx5 and rxe.
WEFT_QPS = Options(timeout=14, window=16384, retries=7, rd_atomic=16)
RXE_QPS = Options(timeout=14, window=129, ack_req=66, rdma_rxe=True)


# ---- stories written by hand ----

class Wire:
    """A cable between QP 17 of host a and QP 34 of host b. Frames take 500 ns."""

    def __init__(self):
        sport = capture.sport_of_both(17, 34)
        self.keys = [(A, B, 34, sport), (B, A, 17, sport)]
        self.frames, self.now = [], 1000

    def put(self, who, name, psn, lost=False, bad=False, after=1000, **fields):
        """`who` sends; unless lost it arrives, perhaps with a wrong ICRC."""
        self.now += after
        opcode = CODES[name]
        flags = capture.FLAGS[opcode]
        for is_out in (True, False):
            if lost and not is_out:
                return
            port = f"{who if is_out else 'b' if who == 'a' else 'a'}:p0"
            frame = capture.Frame(len(self.frames) + 1, self.now + 500 * (not is_out), port, is_out, "")
            frame.flow = "ab".index(who)
            frame.opcode, frame.flags, frame.psn = opcode, flags, psn
            frame.icrc_ok = is_out or not bad
            full = flags & capture.DATA and not flags & capture.LAST
            frame.n_payload = fields.get("size", MTU if full else 8 if flags & capture.DATA else 0)
            frame.pad = -frame.n_payload & 3
            ends = flags & capture.REQUEST and flags & capture.LAST
            frame.ack_req = fields.get("ack", int(bool(ends)))
            frame.va, frame.key = fields.get("va", 0x1000), 7
            frame.length = fields.get("length", frame.n_payload)
            frame.syndrome, frame.msn = fields.get("syndrome", 0x1f), fields.get("msn", 0)
            frame.extra, frame.crc = fields.get("extra", b""), fields.get("crc", 0)
            frame.faults = fields.get("faults", ())
            self.frames.append(frame)

    def judge(self, story=None, **options):
        self.frames.sort(key=lambda frame: (frame.at_ns, frame.number))
        judge = Judge(self.frames, self.keys, Options(**{"timeout": 10, **options}), story or Story())
        judge.full_packets.path_mtu = lambda *_: MTU
        return judge.run()

    def clauses(self, *args, **options):
        return [violation.clause for violation in self.judge(*args, **options)]


def writes(wire, psns, **fields):
    for psn in psns:
        wire.put("a", "WRITE_ONLY", psn, **fields)


def acks(wire, *pairs):
    for psn, msn in pairs:
        wire.put("b", "ACK", psn, msn=msn)


def message(wire, psn=5, lost=(), **fields):
    """3 packets, 2056 bytes."""
    whole = {"length": 2 * MTU + 8, **fields}
    wire.put("a", "WRITE_FIRST", psn, lost=psn in lost, ack=0, **whole)
    wire.put("a", "WRITE_MIDDLE", psn + 1, lost=psn + 1 in lost, ack=0)
    wire.put("a", "WRITE_LAST", psn + 2, lost=psn + 2 in lost)


def read(wire, psn, n, **fields):
    wire.put("a", "READ_REQUEST", psn, length=n * MTU, **fields)


def answer_read(wire, psn, n, msn, lost=()):
    names = ["READ_ONLY"] if n == 1 else ["READ_FIRST", *["READ_MIDDLE"] * (n - 2), "READ_LAST"]
    for i, name in enumerate(names):
        wire.put("b", name, psn + i, size=MTU, msn=msn, lost=psn + i in lost)


TIMEOUT_NS = 4096 << 10


def clean_stories():
    """Name and frames of what a good pair of NICs may do."""
    wire = Wire()
    message(wire)
    acks(wire, (7, 1))
    yield "one message", wire

    wire = Wire()
    message(wire, lost=(6,))
    wire.put("b", "ACK", 6, syndrome=0x60)
    wire.put("a", "WRITE_MIDDLE", 6, ack=0)
    wire.put("a", "WRITE_LAST", 7)
    acks(wire, (7, 1))
    yield "a loss, a NAK and a go-back", wire

    wire = Wire()
    message(wire, lost=(7,))
    wire.put("a", "WRITE_FIRST", 5, ack=0, after=TIMEOUT_NS, length=2 * MTU + 8)
    wire.put("a", "WRITE_MIDDLE", 6, ack=0)
    wire.put("a", "WRITE_LAST", 7)
    acks(wire, (7, 1))
    yield "a tail loss and the timer", wire

    wire = Wire()
    writes(wire, (0xffffff, 0), )
    wire.put("b", "ACK", 0xffffff, msn=1, lost=True)
    acks(wire, (0, 2))
    yield "a lost ACK, over the end of the PSNs", wire

    wire = Wire()
    wire.put("a", "SEND_ONLY", 5)
    wire.put("b", "ACK", 5, syndrome=0x20 | 12)
    wire.put("a", "SEND_ONLY", 5, after=640_500)
    acks(wire, (5, 1))
    yield "RNR", wire

    wire = Wire()
    writes(wire, (5,))
    read(wire, 6, 3)
    writes(wire, (9,))
    acks(wire, (5, 2))
    answer_read(wire, 6, 3, 2, lost=(7,))
    acks(wire, (9, 3))
    read(wire, 7, 2, va=0x1000 + MTU)
    answer_read(wire, 7, 2, 3)
    writes(wire, (9,))
    acks(wire, (9, 3))
    yield "a READ with a lost response", wire

    wire = Wire()
    wire.put("a", "FETCH_ADD", 5)
    wire.put("b", "ATOMIC_ACK", 5, msn=1, lost=True)
    wire.put("a", "FETCH_ADD", 5, after=TIMEOUT_NS)
    wire.put("b", "ATOMIC_ACK", 5, msn=1)
    yield "an atomic asked for twice", wire

    wire = Wire()
    writes(wire, (5,))
    wire.put("b", "ACK", 5, syndrome=0x62)
    yield "an access error", wire

    wire = Wire()
    writes(wire, (5,), bad=True)
    writes(wire, (6,))
    wire.put("b", "ACK", 5, syndrome=0x60)
    writes(wire, (5, 6))
    acks(wire, (6, 2))
    yield "a wrong ICRC", wire


@pytest.mark.parametrize("name,wire", clean_stories(), ids=lambda value: value if isinstance(value, str) else "")
def test_what_go_back_n_may_do_is_clean(name, wire):
    assert wire.judge() == [], name


def bad_stories():
    """What is wrong, and frames in which it is."""
    def wire_of(*steps):
        wire = Wire()
        for who, opcode, psn, fields in steps:
            wire.put(who, opcode, psn, **fields)
        return wire

    write = lambda psn, **fields: ("a", "WRITE_ONLY", psn, fields)
    ack = lambda psn, **fields: ("b", "ACK", psn, fields)
    yield "request.psn", wire_of(write(5), ack(5, msn=1), write(7), ack(7, msn=2))
    yield "again.reason", wire_of(write(5), write(5), ack(5, msn=1))
    yield "again.place", wire_of(write(5), write(6), write(7), write(6), ack(7, msn=3))
    yield "nak.once", wire_of(write(5), write(6, lost=True), write(7), ack(6, msn=1, syndrome=0x60),
                                  ack(6, msn=1, syndrome=0x60), write(6), write(7), ack(7, msn=3))
    yield "nak.gap", wire_of(write(5), ack(6, msn=1, syndrome=0x60))
    yield "nak.gap", wire_of(write(5), write(6, lost=True), write(7), ack(7, syndrome=0x60),
                                      write(6), write(7), ack(7, msn=3))
    yield "nak.due", wire_of(write(5), ack(5, msn=1), write(6, lost=True), write(7),
                                      write(6, after=TIMEOUT_NS, lost=True))
    yield "nak.due", wire_of(write(5), ack(5, msn=1), write(6, lost=True), write(7),
                                 write(6, after=TIMEOUT_NS), write(7), ack(7, msn=3))
    yield "ack.arrived", wire_of(write(5), ack(6, msn=1))
    yield "ack.arrived", wire_of(write(5), write(6, bad=True), ack(6, msn=2))
    yield "ack.unasked", wire_of(ack(5, msn=1))
    yield "ack.order", wire_of(write(5), write(6), ack(6, msn=2), ack(5, msn=2))
    yield "ack.msn", wire_of(write(5), write(6), ack(6, msn=3))
    yield "ack.msn", wire_of(write(5), write(6), ack(6, msn=1))
    yield "ack.due", wire_of(write(5), write(6, after=2 * MS), write(7, after=2 * MS))
    yield "request.done", wire_of(write(5), ack(5, msn=1, lost=True))
    yield "request.ack-req", wire_of(write(5, ack=0), ack(5, msn=1))
    yield "request.sequence", wire_of(("a", "WRITE_LAST", 5, {}), ack(5, msn=1))
    yield "request.sequence", wire_of(("a", "SEND_FIRST", 5, {"ack": 0}), write(6),
                                                ack(6, msn=1))
    yield "request.sequence", wire_of(("a", "SEND_FIRST", 5, {"ack": 0}),
                                            ("a", "FETCH_ADD", 6, {}), ("b", "ATOMIC_ACK", 6, {"msn": 1}))
    first = ("a", "WRITE_FIRST", 5, {"ack": 0, "length": MTU + 8})
    last = ("a", "WRITE_LAST", 6, {})
    yield "request.length", wire_of(
        ("a", "WRITE_FIRST", 5, {"ack": 0, "length": MTU + 16}), last, ack(6, msn=1))
    yield "request.length", wire_of(
        ("a", "WRITE_FIRST", 5, {"ack": 0, "length": MTU}), last, ack(6, msn=1))
    yield "request.mtu", wire_of(
        ("a", "WRITE_FIRST", 5, {"ack": 0, "length": MTU + 1028}),
        ("a", "WRITE_MIDDLE", 6, {"ack": 0, "size": 1020}), ("a", "WRITE_LAST", 7, {}), ack(7, msn=1))
    yield "request.mtu", wire_of(
        ("a", "WRITE_FIRST", 5, {"ack": 0, "length": MTU + 1028}),
        ("a", "WRITE_LAST", 6, {"size": 1028}), ack(6, msn=1))
    yield "again.same", wire_of(
        first, last, ack(5, syndrome=0x60, msn=0, lost=True), ("a", "WRITE_FIRST", 5, {
            "ack": 0, "length": MTU + 8, "after": TIMEOUT_NS}), write(6), ack(6, msn=1))
    yield "again.rnr", wire_of(
        ("a", "SEND_ONLY", 5, {}), ack(5, syndrome=0x2c), ("a", "SEND_ONLY", 5, {"after": 638_000}),
        ack(5, msn=1))
    yield "nak.rnr", wire_of(write(5), ack(5, syndrome=0x2c), write(5, after=MS), ack(5, msn=1))
    yield "qp.fatal", wire_of(write(5), ack(5, syndrome=0x61), write(6, after=MS))
    yield "qp.fatal", wire_of(write(5), write(6), ack(5, syndrome=0x62), ack(6, msn=1))
    yield "nak.fatal", wire_of(write(5), ack(5, msn=1), ack(7, syndrome=0x63))
    yield "read.asked", wire_of(write(5), ("b", "READ_ONLY", 5, {"msn": 1}))
    yield "atomic.asked", wire_of(write(5), ("b", "ATOMIC_ACK", 5, {"msn": 1}))
    two = ("a", "READ_REQUEST", 5, {"length": 2 * MTU})
    yield "read.answer", wire_of(
        two, ("b", "READ_ONLY", 5, {"size": MTU, "msn": 1}), ("b", "READ_LAST", 6, {"size": MTU, "msn": 1}))
    yield "read.answer", wire_of(
        two, ("b", "READ_FIRST", 5, {"msn": 1}), ("b", "READ_LAST", 6, {"size": 8, "msn": 1}))
    yield "read.asked", wire_of(two, ("b", "READ_LAST", 6, {"size": MTU, "msn": 1}),
                                            ("b", "READ_FIRST", 5, {"msn": 1}))
    yield "ack.read", wire_of(
        two, write(7), ack(7, msn=2), ("b", "READ_FIRST", 5, {"msn": 2}),
        ("b", "READ_LAST", 6, {"size": MTU, "msn": 2}))


    yield "again.same", wire_of(
        write(5, crc=1), write(5, crc=2, after=TIMEOUT_NS), ack(5, msn=1))
    add = lambda **fields: ("a", "FETCH_ADD", 5, {"extra": b"one", **fields})
    value = lambda value, **fields: ("b", "ATOMIC_ACK", 5, {"extra": value, "msn": 1, **fields})
    yield "again.same", wire_of(add(), value(b"1", lost=True), add(extra=b"two", after=TIMEOUT_NS))
    yield "atomic.replay", wire_of(add(), value(b"1", lost=True), add(after=TIMEOUT_NS), value(b"2"))
    yield "read.due", wire_of(add(), value(b"1", lost=True), add(after=TIMEOUT_NS), write(6, after=2 * MS),
                              ("b", "ACK", 6, {"msn": 2}))
    yield "ack.read", wire_of(two, ("a", "FETCH_ADD", 7, {}), ("b", "ATOMIC_ACK", 7, {"msn": 2}))
    yield "read.due", wire_of(two, ("b", "READ_FIRST", 5, {"msn": 1}), write(7, after=2 * MS))
    yield "ack.credit", wire_of(write(5), ack(5, msn=1, syndrome=3), write(6), ack(6, msn=2, syndrome=1))
    yield "ack.order", wire_of(write(5), write(6, lost=True), write(7), write(6), ack(6, msn=2),
                               ack(6, msn=2, syndrome=0x60))
    yield "again.late", wire_of(write(5), write(6, lost=True), write(7), ack(6, msn=1, syndrome=0x60),
                                write(8, after=2 * MS))
    yield "request.depth", wire_of(*[("a", "FETCH_ADD", psn, {}) for psn in range(5, 10)])
    yield "again.bounded", wire_of(*[write(5, after=TIMEOUT_NS, lost=True) for _ in range(5)])
    yield "request.window", wire_of(*[write(psn, lost=True) for psn in range(5, 45)])
    yield "nak.invalid", wire_of(("a", "WRITE_ONLY", 5, {"length": 16}), ack(5, msn=1))
    yield "nak.invalid", wire_of(("a", "SEND_LAST", 5, {}), ack(5, msn=1))
    yield "nak.invalid", wire_of(("a", "SEND_FIRST", 5, {"size": 20}), ack(5))
    yield "nak.access", wire_of(write(5, va=0x1ff9), ack(5, msn=1))
    yield "nak.access", wire_of(("a", "FETCH_ADD", 5, {"va": 0x1ff9}), ("b", "ATOMIC_ACK", 5, {"msn": 1}))
    unsent = wire_of(write(5), ack(5, msn=1), write(6), ack(6, msn=2))
    unsent.frames.append(unsent.frames[5])
    yield "wire.unsent", unsent


LIMITS = {"rd_atomic": 4, "retries": 3, "window": 32, "regions": {("b:p0", 7): (0x1000, 0x1000)}}


@pytest.mark.parametrize("clause,wire", [pytest.param(clause, wire, id=f"{i}-{clause}")
                                         for i, (clause, wire) in enumerate(bad_stories())])
def test_each_violation_is_seen(clause, wire):
    found = wire.clauses(**LIMITS)
    assert clause in found, found


def test_every_clause_but_of_frames_and_events_has_a_story():
    """Those of frames have bytes (ci/test_wire_check.py), and those of events stories below."""
    covered = {clause for clause, _ in bad_stories()}
    assert {name for name, clause in CLAUSES.items() if clause.view not in ("frame", "story")} == covered


def test_limits_that_the_caller_gives_are_kept():
    wire = Wire()
    for psn in range(5, 5 + 70):
        wire.put("a", "WRITE_FIRST" if psn == 5 else "WRITE_MIDDLE", psn, ack=0, length=MTU * 70)
    assert ["request.ack-req"] == wire.clauses(may_fail=True)
    assert "request.window" in wire.clauses(may_fail=True, window=32, ack_req=99)


def test_a_number_that_comes_again_may_have_another_path_mtu():
    wire = Wire()
    wire.put("a", "WRITE_FIRST", 5, ack=0, size=2 * MTU, length=2 * MTU + 8)
    wire.put("a", "WRITE_LAST", 6)
    acks(wire, (6, 1))
    again = wire.now + 600
    message(wire, psn=50)
    acks(wire, (52, 1))
    lines = [f"{at + i} {host} p0/{qp} state from={was} to={now}" for at in (1, again)
             for host, qp in (("a", "qp17"), ("b", "qp34"))
             for i, (was, now) in enumerate((("RESET", "INIT"), ("INIT", "RTR"), ("RTR", "RTS")))]
    assert Judge(wire.frames, wire.keys, Options(timeout=10), Story(lines)).run() == []
    without = Judge(wire.frames, wire.keys, Options(timeout=10), Story()).run()
    assert any(one.clause == "request.mtu" and one.expected == "2048 bytes" for one in without)


def test_the_story_tells_lives_and_carrier():
    lines = ["1 a p0/qp17 state from=RESET to=INIT", "2 a p0/qp17 state from=INIT to=RTR",
             "2 a p0/qp17 state from=RTR to=RTS", "1 b p0/qp34 state from=RESET to=INIT",
             "2 b p0/qp34 state from=INIT to=RTR", "2 b p0/qp34 state from=RTR to=RTS"]
    wire = Wire()
    writes(wire, (5,))
    acks(wire, (5, 1))
    again = ["3600 a p0/qp17 state from=RTS to=RESET", "3601 a p0/qp17 state from=RESET to=INIT",
             "3602 a p0/qp17 state from=INIT to=RTR", "3600 b p0/qp34 state from=RTS to=RESET",
             "3601 b p0/qp34 state from=RESET to=INIT", "3602 b p0/qp34 state from=INIT to=RTR"]
    writes(wire, (77,))
    acks(wire, (77, 1))
    assert wire.judge(Story(lines + again)) == []
    assert "request.psn" in wire.clauses(Story(lines))
    assert "qp.error" in wire.clauses(Story(lines + ["3600 a p0/qp17 state from=RTS to=ERR"]))
    dark = ["2500 a p0 port_down in_flight_lost=0", "9000 a p0 port_up in_flight_lost=0"]
    assert "port.carrier" in wire.clauses(Story(lines + again + dark))
    assert "qp.unknown" in wire.clauses(Story([f"9999{line}" for line in lines]))
    assert "qp.destination" in wire.clauses(Story(lines[:3]))


# ---- captures of the simulator ----

def capture_of(folder, path, *args, code=0):
    """(capture, story) of a run."""
    made = folder / "run.pcapng", folder / "run.events"
    done = subprocess.run([WEFT, "run", path, "-q", "--pcap", made[0], "--events", made[1], *args],
                          cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr[-2000:] + done.stdout[-2000:]
    return made


def judged(folder, path, *args, options=WEFT_QPS):
    """The checker's complaints, of which there should be none."""
    made = capture_of(folder, path, *args)
    violations, summary = judge_file(made[0], options, made[1])
    for one in made:
        one.unlink()
    return violations[:10], int(summary.split()[0])


SMALL = ("jobs=[{all_reduce: {bytes: [8, 100KiB]}}, {all_to_all: {bytes: 64KiB}},"
         " {broadcast: {bytes: 40KiB, root: 1}}]")
# Faults need traffic at their time.
SETS = {
    "silent-one-way": ["jobs.0.all_reduce.bytes=1MiB", "faults.0.at=980us"],
    "cable-down": ["jobs.0.all_reduce.bytes=4MiB", "faults.0.at=1ms", "faults.0.down_for=100us"],
    "twin-flap": ["jobs.0.all_reduce.bytes=4MiB", "faults.0.at=1ms", "faults.0.down_for=100us"],
    "loss": ["jobs.0.all_reduce.bytes=[8, 2MiB]"],
    "triangle-nccl-2.25": [],  # fails before it sends anything
}


def of_folder(*names, but=()):
    return [pytest.param(path, id=path.stem) for name in names
            for path in sorted((ROOT / "scenarios" / name).glob("*.yaml")) if path.stem not in but]


@pytest.mark.heavy
@pytest.mark.parametrize("path", part(of_folder("basic", "partial", "faults")))
def test_what_scenarios_put_on_the_wire_is_go_back_n(tmp_path, path):
    is_fault = path.parent.name == "faults"
    sets = SETS.get(path.stem, [] if is_fault else [SMALL, "expect={data: exact}"])
    # A port that may not send answers late.
    options = Options(timeout=14, window=16384, answer_ns=100 * MS) if path.stem == "pause-storm" \
        else WEFT_QPS
    complaints, n_frames = judged(tmp_path, path, *[word for item in sets for word in ("--set", item)],
                                  options=options)
    assert complaints == []
    assert n_frames > 100 or path.stem == "triangle-nccl-2.25"


LONG = {"hip08-flush-on-poll", "hip08-timeout-ignored", "rxe-endless-retry", "rxe-retry-lowered",
        "stale-gid", "bond-failover"}  # 60 to 140 MB each


# What is not as with WEFT_QPS. Who gives up an attempt, or takes a connection that has its lost rail
# again, leaves the requests of the old one without an answer.
OTHERS = {
    # An answer waits behind full frames, which take 170 ms each.
    "path-mtu-late": Options(timeout=14, window=16384, answer_ns=2000 * MS, may_fail=True),
    # ... or behind a few, of 0.3 ms.
    "arp-late": Options(timeout=14, window=16384, answer_ns=10 * MS, may_fail=True),
    "carrier-late": Options(timeout=14, window=16384, answer_ns=10 * MS, may_fail=True),
    "address-late": Options(timeout=14, window=16384, answer_ns=10 * MS, may_fail=True),
    "peer-port-late": Options(timeout=14, window=16384, answer_ns=10 * MS, may_fail=True),
    "flap-moves-gid": Options(timeout=14, window=16384, may_fail=True),
    # ... or behind a pause that never ends.
    "relay-silence": Options(timeout=14, window=16384, answer_ns=60000 * MS, may_fail=True),
    "transit": Options(timeout=14, window=16384, forwards={"iceberg"}),
}


@pytest.mark.parametrize("path", part(of_folder("nic", "net", but=LONG)))
def test_quirks_and_addresses_do_not_break_the_rules(tmp_path, path):
    options = OTHERS.get(path.stem, RXE_QPS if "rxe" in path.stem else WEFT_QPS)
    complaints, _ = judged(tmp_path, path, options=options)
    assert complaints == []


# Rows of sim/wire_random_test.c by profile: window, and whether its quirks are those of rdma_rxe.
@pytest.mark.parametrize("row,is_rxe", part(enumerate([False] * 4 + [True] * 2 + [False] * 3)))
def test_random_runs_of_every_operation_are_go_back_n(tmp_path, row, is_rxe):
    """READs, atomics, RNR, both ways at once, over cables that lose, repeat, reorder and corrupt."""
    made = tmp_path / "random.pcapng"
    subprocess.run([BUILD / "test/sim/wire_random_test", made, str(row)], cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)
    options = Options(timeout=8, window=129 if is_rxe else 16384, rdma_rxe=is_rxe,
                      ack_req=66 if is_rxe else 64)
    violations, summary = judge_file(made, options)
    assert violations == []
    assert int(summary.split()[0]) > 2000
    frames, _ = capture.read(made)
    spoken = {frame.opcode for frame in frames if frame.is_out}
    assert {CODES[name] for name in ("READ_MIDDLE", "ATOMIC_ACK", "COMPARE_SWAP", "SEND_LAST_IMM")} <= spoken
    naks = {frame.syndrome for frame in frames if frame.opcode == CODES["ACK"]}
    assert {0x60, 0x21} <= naks


@pytest.mark.parametrize("share,kind", part(itertools.product(
    ["0.5%", "5%"], ["loss", "corrupt", "duplicate", "reorder", "ecn"])))
def test_bad_cables_do_not_make_bad_requesters(tmp_path, kind, share):
    complaints, n_frames = judged(
        tmp_path, "scenarios/basic/triangle.yaml", "--set", f"topology.defaults.{kind}={share}",
        "--set", "jobs=[{all_reduce: {bytes: [8, 1MiB]}}, {all_to_all: {bytes: 256KiB}}]",
        "--set", "expect={data: exact}")
    assert complaints == []
    assert n_frames > 2000


@pytest.mark.parametrize("share", part(["0.001%", "0.01%", "0.1%", "1%", "10%"]))
def test_losses_of_every_order_are_repaired_by_the_rules(tmp_path, share):
    complaints, n_frames = judged(
        tmp_path, "scenarios/basic/pair.yaml", "--set", f"topology.defaults.loss={share}",
        "--set", "jobs=[{all_reduce: {bytes: [8, 1MiB]}}]", "--set", "expect={data: exact}")
    assert complaints == []
    assert n_frames > 1000


@pytest.fixture(scope="module", name="lossy")
def fixture_lossy(tmp_path_factory):
    """A capture with NAKs, repeats and timeouts in it, and its story."""
    return capture_of(tmp_path_factory.mktemp("lossy"), "scenarios/faults/loss.yaml", "--set",
                      "jobs.0.all_reduce.bytes=1MiB", "--set", "topology.defaults.loss=1%")


def bend(lossy, change):
    """Complaints about the capture after `change(frames)`."""
    frames, keys = capture.read(lossy[0])
    with open(lossy[1], encoding="ascii") as lines:
        story = Story(lines)
    frames = change(frames) or frames
    return [one.clause for one in Judge(frames, keys, WEFT_QPS, story).run()]


def nth(frames, n, test):
    return [i for i, frame in enumerate(frames) if test(frame)][n]


def without(frames, n, test):
    """Frames but the n'th that passes, at both ends."""
    gone = frames[nth(frames, n, test)]
    return [f for f in frames if (f.flow, f.psn, f.opcode) != (gone.flow, gone.psn, gone.opcode)
            or abs(f.at_ns - gone.at_ns) > 100_000]


def is_nak(frame):
    return frame.opcode == CODES["ACK"] and frame.syndrome == 0x60


def test_the_lossy_capture_is_clean_and_has_something_in_it(lossy):
    frames, _ = capture.read(lossy[0])
    assert bend(lossy, lambda frames: None) == []
    assert sum(is_nak(frame) and frame.is_out for frame in frames) > 5
    assert any(frame.comment == "loss" for frame in frames)


def test_a_real_capture_that_is_bent_is_not_clean(lossy):
    def repeat_nak(frames):
        i = nth(frames, 1, lambda f: is_nak(f) and f.is_out)
        return frames[:i + 1] + frames[i:]

    def swap_psns(frames):
        i = nth(frames, 300, lambda f: f.is_out and f.opcode == CODES["WRITE_MIDDLE"])
        j = next(j for j in range(i + 1, len(frames))
                 if frames[j].is_out and frames[j].flow == frames[i].flow)
        frames[i].psn, frames[j].psn = frames[j].psn, frames[i].psn

    def skip_msn(frames):
        frames[nth(frames, 100, lambda f: f.is_out and f.opcode == CODES["ACK"])].msn += 1

    def shorten(frames):
        frames[nth(frames, 50, lambda f: f.is_out and f.opcode == CODES["WRITE_MIDDLE"])].n_payload -= 4

    def lose_reth_bytes(frames):
        frames[nth(frames, 5, lambda f: f.is_out and f.opcode == CODES["WRITE_FIRST"])].length += 4

    changes = {
        "again.place": lambda frames: without(frames, 0, lambda f: is_nak(f) and f.is_out),
        "nak.once": repeat_nak,
        "request.psn": swap_psns,
        "ack.msn": skip_msn,
        "request.mtu": shorten,
        "request.length": lose_reth_bytes,
    }
    for clause, change in changes.items():
        found = bend(lossy, change)
        assert clause in found, (clause, found[:5])


def test_the_command_prints_a_line_a_violation(lossy, tmp_path):
    checker = [sys.executable, ROOT / "ci" / "wire-check"]
    done = subprocess.run([*checker, lossy[0], "--events", lossy[1], "--kind", "weft"],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1][-12:]) == (0, "0 violations")
    octets = bytearray(Path(lossy[0]).read_bytes())
    at = octets.index(b"\x12\xb7", 5000) + 20  # in the BTH or behind it: the ICRC covers it
    octets[at] ^= 1
    (tmp_path / "bent").write_bytes(octets)
    done = subprocess.run([*checker, tmp_path / "bent", "--events", lossy[1]], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 1
    assert ": frame " in done.stdout and ": frame.icrc: expected " in done.stdout
    (tmp_path / "bent").write_bytes(octets[:1000])
    done = subprocess.run([*checker, tmp_path / "bent"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "") and "block" in done.stderr
