"""Backend soft beside the kernel's soft-RoCE, in one mesh in a guest."""

import json
import subprocess
from pathlib import Path

import pytest

import capture
from capture_check import Options, judge_file
from guest_kernel import WEFT, needs_guest

ROOT = Path(__file__).resolve().parent.parent


@needs_guest
@pytest.mark.parametrize("wire", ["raw", "udp-foreign"])
def test_a_triangle_of_one_soft_host_and_two_of_the_kernel(tmp_path, wire):
    made = tmp_path / "run.pcapng"
    done = subprocess.run(
        [WEFT, "run", "--backend", "rxe", "scenarios/basic/triangle.yaml", "-q", "--pcap", made,
         "--set", "jobs=[{all_reduce: {bytes: [8, 256KiB, 1MiB]}}, {all_to_all: {bytes: 64KiB}}]",
         "--set", "expect={data: exact}", "--set",
         f"topology.nodes.titanic.env={{WEFT_NIC: soft, WEFT_SOFT_WIRE: {wire}}}"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    violations, summary = judge_file(made, Options(window=129, ack_req=66, answer_ns=1_000_000_000,
                                                   rdma_rxe=True, may_stand_still=True))
    assert violations == []
    assert int(summary.split()[0]) > 1000
    frames, _ = capture.read(made)
    assert all(frame.icrc_ok for frame in frames)


@needs_guest
def test_what_is_lost_is_asked_for_by_both(tmp_path):
    """Two of the three cables lose frames: sequence NAKs go both ways between the two kinds of NIC,
    and the data is right."""
    made = tmp_path / "run.pcapng"
    done = subprocess.run(
        [WEFT, "run", "--backend", "rxe", "scenarios/basic/triangle.yaml", "-q", "--pcap", made,
         "--set", "jobs=[{all_reduce: {bytes: [64KiB, 1MiB], repeat: 5}}]",
         "--set", "expect={data: exact}", "--set", "topology.links.0.loss=1%",
         "--set", "topology.links.2.loss=1%",
         "--set", "topology.nodes.titanic.env={WEFT_NIC: soft, WEFT_SOFT_WIRE: raw}"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    frames, _ = capture.read(made)
    naks = {frame.port for frame in frames if frame.is_out and frame.syndrome == 0x60}
    assert naks & {"titanic:p0", "titanic:p1"}, "the simulated NIC asked for nothing"
    assert naks & {"iceberg:p1", "carpathia:p0"}, "rdma_rxe asked the simulated NIC for nothing"


def losses_in_a_row(path):
    """How many frames of a flow were missing where a later one arrived first."""
    newest, gaps = {}, []
    for frame in capture.read(path)[0]:
        if frame.is_out or frame.n_payload == 0:
            continue
        ahead = (frame.psn - newest.get(frame.flow, frame.psn)) & 0xffffff
        if ahead < 1 << 23:
            newest[frame.flow] = frame.psn
        if 1 < ahead < 1000:  # beyond, another job began
            gaps.append(ahead - 1)
    return gaps


@needs_guest
@pytest.mark.parametrize("impairment", ["topology.links.0.loss=1%",
                                        'faults=[{on: "titanic:p0", kind: loss, share: 1%, at: jobs+1us}]'],
                         ids=["loss", "fault"])
def test_frames_are_lost_one_by_one(tmp_path, impairment):
    """netem draws once for a datagram that the kernel has yet to divide into 15 frames."""
    made = tmp_path / "run.pcapng"
    done = subprocess.run(
        [WEFT, "run", "--backend", "soft", "--clock", "virtual", "scenarios/basic/pair.yaml", "-q", "--pcap", made,
         "--set", "jobs=[{all_reduce: {bytes: 4MiB, repeat: 3}}]", "--set", impairment],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    gaps = losses_in_a_row(made)
    assert len(gaps) > 20 and max(gaps) <= 4, gaps


@needs_guest
@pytest.mark.parametrize("file,changes", [("one-way-down", ("--set", "faults.0.for=100ms")), ("loss", ())],
                         ids=["one-way-down", "loss"])
def test_what_a_cable_lost_is_a_warning_as_on_rxe(file, changes):
    """Both NICs count what they sent and received. The job survives. A cable that is mute until a timer expires loses
    a whole window, at whatever moment of the job."""
    found = {}
    for backend in ("soft", "rxe"):
        done = subprocess.run(
            [WEFT, "run", "--backend", backend, "--clock", "virtual", f"scenarios/faults/{file}.yaml", *changes, "-q",
             "--json=-"], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        found[backend] = [(one["code"], one["where"], one["evidence"]["survived"])
                          for one in json.loads(done.stdout)["findings"]]
    assert found["soft"] == found["rxe"] != []
