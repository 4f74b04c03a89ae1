"""ci/wire-check: formats, single-ended captures, and how many changes of a frame it notices."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import capture
from capture_check import Judge, Options, Story, judge_capture
from capture_clauses import CLAUSES
from test_capture import BUILD, ROOT, WEFT_QPS, capture_of
from wire_mutations import KINDS, MOVES, Recording, drawn_run, mend, score

CHECK = [sys.executable, ROOT / "ci" / "wire-check"]


@pytest.fixture(scope="module", name="lossy")
def fixture_lossy(tmp_path_factory):
    """A capture with NAKs and retransmissions, and its events. With seed 1 the job ends before the timer of a
    message whose ACK was lost."""
    return capture_of(tmp_path_factory.mktemp("wire"), "scenarios/faults/loss.yaml", "--seed", "3", "--set",
                      "jobs=[{all_reduce: {bytes: 128KiB}}]", "--set", "topology.defaults.loss=1%")


# ---- random runs ----

@pytest.mark.heavy
@pytest.mark.parametrize("first", range(1, 25, 8))
def test_random_runs_of_every_profile_are_clean(tmp_path, first):
    """Profile, addresses, MTU, limits, loss, duplicates, reordering, corruption and flaps are drawn."""
    for seed in range(first, first + 8):
        path, options, events = drawn_run(BUILD, tmp_path, seed)
        verdict = judge_capture(path, options, events)
        assert verdict.violations == [], f"seed {seed}"
        assert verdict.n_frames > 300 and verdict.view == "all"


def test_every_change_of_a_frame_is_noticed_or_legal():
    result, dirty = score(BUILD, range(1, 5), 2)
    assert dirty == [] and result.missed == []
    assert set(result.made) >= set(MOVES) | set(KINDS) - {"break ip sum"}
    always = {"change psn", "change opcode", "change bth reserved", "change pad",
              "change dma length", "break icrc", "break ip sum", "break udp sum", "break udp length"}
    assert all(result.noticed[kind] == result.made[kind] for kind in always)
    assert sum(result.noticed.values()) > 0.8 * sum(result.made.values())


# ---- clauses of the frame itself, in bytes ----

def bent(recording, index, change):
    octets, at_ns, comment = recording.packet(index)
    octets = change(octets) or octets
    return {one.clause for one in recording.judge({index: [(octets, at_ns, comment)]})}


def test_each_clause_of_a_frame_is_seen_in_bytes(lossy):
    recording = Recording(lossy[0], WEFT_QPS, n_frames=1500)
    recording.options = Options(may_fail=True)
    assert recording.judge({}) == []
    index = next(i for i, frame in enumerate(recording.frames) if frame.is_out and frame.opcode == 0x11)
    bth = capture.locate(recording.packets[index])[1]

    def put(at, value, mended=True):
        def change(octets):
            octets[at] = value
            return mend(octets) if mended else octets
        return change

    changes = {
        "frame.length": put(bth - 3, 77),
        "frame.ip-checksum": put(14 + 10, recording.packets[index][24] ^ 1),
        "frame.udp-checksum": put(bth - 1, 1),
        "frame.icrc": put(len(recording.packets[index]) - 1, recording.packets[index][-1] ^ 1, False),
        "frame.bth": put(bth + 1, 1),
        "frame.opcode": put(bth, 0x15),
        "frame.payload": put(bth + 1, 0x10),
        "frame.syndrome": put(bth + 12, 0x7f),
    }
    assert set(changes) == {name for name, clause in CLAUSES.items() if clause.view == "frame"}
    for clause, change in changes.items():
        found = bent(recording, index, change)
        assert clause in found, (clause, found)


# ---- formats and points of view ----

def rewritten(path, keep=lambda name, is_out: True):
    """(name, ns, is_out, octets) of the packets that are kept."""
    return [(name, at_ns, is_out, octets) for _, at_ns, name, is_out, octets, _, _ in
            capture.packets(Path(path).read_bytes()) if keep(name, is_out)]


def pcap_of(packets, order="<", magic=0xa1b23c4d, link=1):
    made = struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, 65535, link)
    for _, at_ns, is_out, octets in packets:
        if link == 276:  # SLL2: protocol, reserved, interface, ARPHRD, packet type, address
            octets = octets[12:14] + struct.pack(">HIHBB8s", 0, 3, 1, 4 if is_out else 0, 6, b"") + octets[14:]
        fraction = at_ns % 10**9 // (1 if magic == 0xa1b23c4d else 1000)
        made += struct.pack(order + "IIII", at_ns // 10**9, fraction, len(octets), len(octets)) + octets
    return made


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [0xa1b23c4d, 0xa1b2c3d4])
def test_pcap_is_read_in_either_byte_order(lossy, tmp_path, order, magic):
    (tmp_path / "one").write_bytes(pcap_of(rewritten(lossy[0])[:50], order, magic))
    frames, _ = capture.read(tmp_path / "one")
    whole, _ = capture.read(lossy[0])
    kept = [frame for frame in whole if frame.number <= 50]
    assert [(f.opcode, f.psn, f.icrc_ok) for f in frames] == [(f.opcode, f.psn, f.icrc_ok) for f in kept]
    assert all(frame.is_out is None for frame in frames)


def first_port(lossy):
    frames, keys = capture.read(lossy[0])
    frame = next(frame for frame in frames if frame.is_out)
    return frame.port, ".".join(str(byte) for byte in keys[frame.flow][0])


@pytest.mark.heavy
def test_a_capture_of_one_end_is_judged_at_that_end(lossy, tmp_path):
    port, address = first_port(lossy)
    at_port = rewritten(lossy[0], lambda name, is_out: name == port)
    for link, more in ((1, ["--local", address]), (276, [])):
        (tmp_path / "one").write_bytes(pcap_of(at_port, link=link))
        done = subprocess.run([*CHECK, tmp_path / "one", "--kind", "weft", *more, "--json"],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]
        document = json.loads(done.stdout)
        assert document["view"] == "port" and document["frames"] > 100
    # A NIC that is wrong there is seen there.
    i, packet = next((i, packet) for i, packet in enumerate(at_port)
                     if packet[2] and packet[3][42] == 0x11 and i > 100)
    octets = bytearray(packet[3])
    octets[42 + 11] ^= 4  # PSN
    at_port[i] = (*packet[:3], bytes(mend(octets)))
    (tmp_path / "one").write_bytes(pcap_of(at_port))
    done = subprocess.run([*CHECK, tmp_path / "one", "--kind", "weft", "--local", address],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and ": frame " in done.stdout and "; seen: " in done.stdout


def test_a_capture_that_begins_late_is_calibrated(lossy, tmp_path):
    port, address = first_port(lossy)
    at_port = rewritten(lossy[0], lambda name, is_out: name == port)
    for cut in range(len(at_port) // 8, len(at_port), len(at_port) // 8):
        (tmp_path / "one").write_bytes(pcap_of(at_port[cut:]))
        verdict = judge_capture(tmp_path / "one", Options(
            timeout=14, window=16384, late=True, may_fail=True, local={bytes(map(int, address.split(".")))}))
        assert verdict.violations == [], cut


def test_a_tap_between_the_ends_judges_what_it_can(lossy, tmp_path):
    """Only frames and the streams of each end: what was lost before or behind the tap is unknown."""
    sent = rewritten(lossy[0], lambda name, is_out: is_out)
    kept = [packet for i, packet in enumerate(sent) if i % 17]
    (tmp_path / "one").write_bytes(pcap_of(kept))
    verdict = judge_capture(tmp_path / "one")
    assert verdict.view == "stream" and verdict.violations == []
    i, packet = next((i, packet) for i, packet in enumerate(kept) if packet[3][42] == 0x07)
    octets = bytearray(packet[3])
    octets[42] = 0x01  # a MIDDLE of a SEND within a WRITE
    kept[i] = (*packet[:3], bytes(mend(octets)))
    (tmp_path / "one").write_bytes(pcap_of(kept))
    assert judge_capture(tmp_path / "one").violations != []


def test_frames_that_a_port_sent_may_be_missing_there(lossy, tmp_path):
    """As netem drops them before a tap of the kernel sees them: the simulator knows which were lost."""
    whole, keys = capture.read(lossy[0])
    with open(lossy[1], encoding="ascii") as lines:
        story = Story(lines)
    seen = [frame for frame in whole if not (frame.is_out and frame.comment == "loss")]
    assert len(seen) < len(whole)
    assert Judge(seen, keys, Options(timeout=14, window=16384, unseen=True), story).run() == []
    assert Judge(seen, keys, Options(timeout=14, window=16384), story).run() != []


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(1, 7))
def test_random_runs_without_what_was_lost_are_clean(tmp_path, seed):
    path, options, events = drawn_run(BUILD, tmp_path, seed)
    frames, keys = capture.read(path)
    options.unseen = True
    with open(events, encoding="ascii") as lines:
        story = Story(lines)
    seen = [frame for frame in frames if not (frame.is_out and frame.comment == "loss")]
    for frame in seen:  # what the cable did, at the tap of its sender
        if frame.is_out and frame.comment == "corrupt":
            frame.icrc_ok = False
        elif frame.is_out and frame.comment == "delayed" and not story.carrier:
            frame.at_ns += 2000
    seen.sort(key=lambda frame: frame.at_ns)
    for frame in seen:
        frame.comment = "" if frame.is_out else frame.comment
    assert Judge(seen, keys, options, story).run() == []


# ---- the command ----

def test_many_captures_are_judged_by_one_process(lossy, tmp_path):
    (tmp_path / "bad").write_bytes(b"no capture at all, but long enough for a header")
    done = subprocess.run([*CHECK, "--kind", "weft", lossy[0], lossy[0]], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("2 captures, 0 with violations, ")
    done = subprocess.run([*CHECK, lossy[0], tmp_path / "bad"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "neither pcapng nor pcap" in done.stderr


def test_the_clauses_are_printed_and_documented():
    done = subprocess.run([*CHECK, "--clauses"], capture_output=True, text=True, check=True)
    text = (ROOT / "docs" / "wire-check.md").read_text(encoding="ascii")
    for name in CLAUSES:
        assert name in done.stdout and f"`{name}`" in text, name
