"""Backend soft: the simulated NIC on a real wire, in namespaces and on loopback."""

import glob
import json
import os
import subprocess
from pathlib import Path

import pytest

import capture
from capture_check import Options, judge_file

ROOT = Path(__file__).resolve().parent.parent
# The fast build: what is asked here is behaviour over a wire, not memory.
WEFT = os.environ.get("WEFT_FAST", os.environ.get("WEFT", str(ROOT / "build" / "weft")))
SCENARIOS = sorted(str(path.relative_to(ROOT)) for folder in ("basic", "partial")
                   for path in ROOT.glob(f"scenarios/{folder}/*.yaml"))
SMALL = ["--set", "jobs=[{all_reduce: {bytes: [8, 64KiB, 1MiB]}}]"]
# Bounds on bandwidth are of 256 MiB, and mean nothing on a wire without a rate limit.
CHANGES = {"scenarios/basic/triangle.yaml": [*SMALL, "--set", "expect={data: exact}"]}


def run(*args, layout=None, code=0, **environment):
    if layout is not None:
        environment["WEFT_SOFT_LAYOUT"] = layout
    done = subprocess.run([WEFT, "run", *args, "--json"], cwd=ROOT, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=120, check=False,
                          env={**os.environ, **environment})
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stderr if code > 1 else json.loads(done.stdout)


def has_namespaces():
    """Root's, or those of a user namespace."""
    done = subprocess.run(["unshare", "--user", "--net", "--map-root-user", "true"],
                          capture_output=True, check=False)
    return done.returncode == 0


needs_namespaces = pytest.mark.skipif(
    not has_namespaces(), reason="SKIP namespaces: this user may not make network namespaces")


@pytest.mark.parametrize("path", SCENARIOS)
def test_every_mesh_on_loopback(path):
    document = run("--backend", "soft", path, *CHANGES.get(path, []), layout="loopback")
    assert document["expectations"] and all(row["ok"] for row in document["expectations"])


@needs_namespaces
@pytest.mark.parametrize("path", SCENARIOS)
def test_every_mesh_in_namespaces(path):
    document = run("--backend", "soft", path, *CHANGES.get(path, []), layout="namespaces")
    assert document["expectations"] and all(row["ok"] for row in document["expectations"])


@needs_namespaces
def test_a_network_namespace_of_another_owner_is_not_left():
    """A user namespace may not return to the network namespace that it came from."""
    before = set(glob.glob("/run/netns/weft-*"))
    done = subprocess.run(["unshare", "--user", "--mount", "--map-root-user", WEFT, "run", "--backend", "soft",
                           "scenarios/basic/pair.yaml"], cwd=ROOT, capture_output=True, text=True, timeout=60,
                          check=False, env={**os.environ, "WEFT_SOFT_LAYOUT": "namespaces"})
    assert done.returncode == 3 and "start weft with `unshare --net`, too\n" in done.stderr, done.stderr
    assert set(glob.glob("/run/netns/weft-*")) <= before


def test_hosts_of_one_loopback_that_were_told_where_others_are():
    document = run("--backend", "soft", "scenarios/basic/triangle.yaml", *SMALL, "--set",
                   "boot=static", "--set", "expect={data: exact}", layout="loopback")
    assert document["result"] == "pass"


@needs_namespaces
def test_a_port_without_a_cable_keeps_nobody_from_starting():
    """Its netdev has a link-local address that cannot be bound, and no other."""
    document = run("--backend", "soft", "scenarios/inside/nvlink-2.yaml", "--set",
                   "expect={data: exact}", layout="namespaces")
    assert document["result"] == "pass"


@needs_namespaces
def test_a_cable_that_flaps_is_up_when_it_is():
    """The kernel reports carriers once a second; a port that is up is one at once."""
    document = run("--backend", "soft", "scenarios/faults/flap.yaml", layout="namespaces")
    assert all(row["ok"] for row in document["expectations"])


@needs_namespaces
def test_faults_that_are_due_together_come_in_order_of_time():
    """The process that applies them wakes after both. The later one is the first in the file."""
    document = run("--backend", "soft", "scenarios/basic/pair.yaml", *SMALL, "--set", "expect={data: exact}",
                   "--set", "faults=[{at: 1001us, on: 'titanic:p0', kind: up}, {at: 1ms, on: 'titanic:p0', "
                   "kind: down}]", layout="namespaces")
    assert document["result"] == "pass" and document["connected"]


@needs_namespaces
def test_the_raw_wire_has_whole_packets():
    document = run("--backend", "soft", "scenarios/basic/triangle.yaml", *SMALL, "--set",
                   "expect={data: exact}", layout="namespaces", WEFT_SOFT_WIRE="raw")
    assert document["expectations"] and all(row["ok"] for row in document["expectations"])


@needs_namespaces
@pytest.mark.parametrize("wire", ["udp", "raw"])
def test_what_is_captured_is_go_back_n(tmp_path, wire):
    """Frames of both ends of every cable, judged by another program's reading of the rules."""
    made = tmp_path / "run.pcapng"
    done = subprocess.run(
        [WEFT, "run", "--backend", "soft", "scenarios/basic/triangle.yaml", "-q", "--pcap", made,
         "--set", "jobs=[{all_reduce: {bytes: [8, 256KiB]}}, {all_to_all: {bytes: 64KiB}}]",
         "--set", "expect={data: exact}"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "WEFT_SOFT_LAYOUT": "namespaces", "WEFT_SOFT_WIRE": wire})
    assert done.returncode == 0, done.stderr[-2000:]
    violations, summary = judge_file(made, Options(window=64, ack_req=16, answer_ns=1_000_000_000,
                                                   may_stand_still=True))
    assert violations == []
    assert int(summary.split()[0]) > 500
    frames, _ = capture.read(made)
    assert all(frame.icrc_ok for frame in frames)


# In virtual time they meet for 1 ms and connect until 12 ms; in real time either takes longer.
@pytest.mark.parametrize("at_ms", [*range(20), 60, 100])
def test_a_killed_host_ends_the_others(at_ms):
    """By SIGKILL, while they start, connect, or are in mid-job: the rest end, and say why."""
    document = run("--backend", "soft", "scenarios/basic/triangle.yaml", "--set",
                   "jobs=[{all_reduce: {bytes: 1MiB, repeat: 4000}}]", "--set",
                   f"faults=[{{on: iceberg, kind: kill, at: {at_ms}ms}}]", "--set",
                   "expect={result: fail}", layout="loopback")
    assert all(row["ok"] for row in document["expectations"])
    assert document["sim_time_ns"] < 20e9


def two_rows(repeat):
    return ["--set", f"jobs=[{{all_reduce: {{bytes: 8}}}}, {{all_reduce: {{bytes: 1MiB, repeat: {repeat}}}}}]"]


def first_at(events, *words):
    """Time in nanoseconds of the first event that has these words, or None."""
    return next((int(line.split(" ", 1)[0]) for line in events.read_text().splitlines()
                 if all(word in line for word in words)), None)


def test_a_host_that_is_stopped_for_good_is_not_waited_for_after_the_others():
    """It counts as hanging when all others have ended, 15 s after its absence, and not 90 s later."""
    done = subprocess.run(
        [WEFT, "run", "--backend", "soft", "scenarios/basic/triangle.yaml", *SMALL, "--set",
         "faults=[{on: carpathia, kind: stop, at: 0s}]", "--set", "expect={result: fail, findings: [peer.silent]}"],
        cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "carpathia: killed; stopped for good, and all others have ended" in done.stderr


@pytest.mark.parametrize("moment, begins, later_ns", [
    ("jobs+1ms", ("from=barrier", "to=jobs"), 1_000_000),
    ("row 2", ("done", "bytes=8 "), 0),
    ("titanic sent 1MiB", ("start", "bytes=1048576"), 0),
], ids=["jobs", "row", "sent"])
def test_a_fault_comes_at_a_moment_of_the_job(tmp_path, moment, begins, later_ns):
    """However long the hosts took to meet: not before it, and in the midst of the job."""
    events = tmp_path / "events"
    document = run("--backend", "soft", "scenarios/basic/triangle.yaml", *two_rows(4000), "--events",
                   str(events), "--set", f"faults=[{{on: iceberg, kind: kill, at: {moment}}}]",
                   "--set", "expect={result: fail}", layout="loopback")
    assert first_at(events, "fault kind=kill") >= first_at(events, *begins) + later_ns
    assert document["jobs"][1]["time_ns"] is None
    assert document["warnings"] == []


def test_a_process_meets_a_fault_at_its_own_moment(tmp_path):
    """The first work request of its second row is refused, once, which it survives."""
    events = tmp_path / "events"
    document = run("--backend", "soft", "scenarios/basic/triangle.yaml", *two_rows(40), "--events",
                   str(events), "--set",
                   "faults=[{on: iceberg, kind: call_error, call: post_send, errno: 12, at: row 2}, "
                   "{on: titanic, kind: kill, at: row 2+1000s}]",
                   "--set", "expect={data: exact}", layout="loopback")
    met = first_at(events, "iceberg", "call_fault", "call=post_send nth=1")
    assert met >= first_at(events, "iceberg", "done", "bytes=8 ")
    assert document["warnings"] == ["fault 2 at row 2+1000s never came: the run was over before"]


def test_what_it_cannot_do_is_named():
    refused = run("--backend", "soft", "scenarios/faults/black-hole.yaml", code=3)
    assert "backend soft has no path_limit" in refused
    on_loopback = run("--backend", "soft", "scenarios/faults/cable-down.yaml", layout="loopback",
                      code=3)
    assert "backend soft has no fault of a cable on loopback: down" in on_loopback
    assert "namespaces or loopback" in run("--backend", "soft", "scenarios/basic/pair.yaml",
                                           layout="moon", code=2)
