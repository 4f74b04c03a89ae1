"""The kernel's soft-RoCE before the judge of captures (ci/wire-check): an implementation that
is not part of Weft keeps the rules by which the simulated NICs are judged."""

import subprocess
from pathlib import Path

import pytest

import capture
from capture_check import Options, judge_file
from guest_kernel import WEFT, needs_guest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = needs_guest


@pytest.mark.parametrize("name", ["pair", "triangle", "ipv6"])
def test_soft_roce_is_go_back_n(tmp_path, name):
    """rxe_param.h has the window; the guest's one CPU is slow to answer. How long it waits before
    it repeats is not judged: its ACK timer goes on when everything is acknowledged, and repeats
    what happens to be sent when it runs out (docs/rxe.md)."""
    made = tmp_path / "run.pcapng"
    done = subprocess.run(
        [WEFT, "run", "--backend", "rxe", f"scenarios/basic/{name}.yaml", "-q", "--pcap", made, "--set",
         "jobs=[{all_reduce: {bytes: [8, 256KiB]}}, {all_to_all: {bytes: 64KiB}}]", "--set",
         "expect={data: exact}"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    options = Options(window=129, ack_req=66, answer_ns=1_000_000_000, rdma_rxe=True,
                      may_stand_still=True)
    violations, summary = judge_file(made, options)
    assert violations == []
    assert int(summary.split()[0]) > 500
    frames, _ = capture.read(made)
    assert all(frame.icrc_ok for frame in frames)
    assert {frame.opcode for frame in frames} >= {0x06, 0x07, 0x11}  # WRITE_FIRST, MIDDLE, ACK


@pytest.mark.parametrize("kind", ["loss", "duplicate", "reorder"])
def test_soft_roce_answers_by_the_rules_on_bad_cables(tmp_path, kind):
    """netem drops and delays what a port sends before the capture sees it, so only what reached a port
    is known: its answers are judged."""
    made = tmp_path / "run.pcapng"
    done = subprocess.run(
        [WEFT, "run", "--backend", "rxe", "scenarios/basic/triangle.yaml", "-q", "--pcap", made, "--set",
         "jobs=[{all_reduce: {bytes: [8, 256KiB]}}, {all_to_all: {bytes: 64KiB}}]", "--set",
         "expect={data: exact}", "--set", f"topology.defaults.{kind}=1%"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    options = Options(window=129, ack_req=66, answer_ns=1_000_000_000, rdma_rxe=True,
                      may_stand_still=True, may_fail=True, unseen=True)
    violations, summary = judge_file(made, options)
    assert violations == []
    assert int(summary.split()[0]) > 500
