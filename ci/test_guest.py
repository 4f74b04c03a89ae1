"""Tests that need rdma_rxe, in a guest that has it. Skipped by name where no guest kernel is built."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("WEFT_BUILD", "build")
GUEST = ROOT / "ci" / "guest" / "conformance"


def has_guest():
    if os.environ.get("WEFT_GUEST_KERNEL"):
        return True
    return subprocess.run([ROOT / "ci" / "rxe-guest", "--path"], capture_output=True,
                          check=False).returncode == 0


def in_guest(program):
    if not has_guest():
        pytest.skip("SKIP rxe guest: no guest kernel is built; make rxe-guest")
    return subprocess.run([GUEST, BUILD / "test" / program], cwd=ROOT, timeout=400,
                          capture_output=True, text=True, check=False)


def test_the_waist_over_soft_roce():
    done = in_guest("backends/verbs/conformance_test")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "SKIP" not in done.stdout
    counts = re.search(r"100%: Checks: (\d+), Failures: 0, Errors: 0", done.stdout)
    assert counts and int(counts[1]) >= 35, done.stdout[-2000:]


def test_the_simulated_nic_and_soft_roce_keep_one_contract():
    """The conformance suite between the two, each on either side of the cable."""
    done = in_guest("backends/soft/interop_test")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "SKIP" not in done.stdout
    counts = re.findall(r"100%: Checks: (\d+), Failures: 0, Errors: 0", done.stdout)
    assert len(counts) == 2 and all(int(count) >= 35 for count in counts), done.stdout[-2000:]


def test_a_guest_that_does_not_end_is_ended():
    if not has_guest():
        pytest.skip("SKIP rxe guest: no guest kernel is built; make rxe-guest")
    done = subprocess.run([GUEST, "/bin/sleep", "600"], cwd=ROOT, timeout=120,
                          env={**os.environ, "WEFT_GUEST_SECONDS": "5"},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "without a result" in done.stderr


def test_a_kernel_that_stays_after_its_result_is_ended(tmp_path):
    """As user-mode Linux did once: "Power down", and then nothing for ever."""
    kernel = tmp_path / "kernel"
    kernel.write_text("""#!/bin/sh
for word; do
    case $word in WEFT_GUEST_SCRATCH=*) scratch=${word#*=} ;; esac
done
echo 7 >"$scratch/exit"
exec sleep 600
""")
    kernel.chmod(0o755)
    done = subprocess.run([BUILD / "weft", "guest", "--time-limit", "500", "--", "true"], cwd=ROOT,
                          timeout=400, env={**os.environ, "WEFT_GUEST_KERNEL": str(kernel)},
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (7, "")


def test_a_guest_removes_what_a_killed_one_left(tmp_path):
    """Its scratch folder, empty or not, of a process that is no more."""
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    for name in ("empty", "killed"):
        (tmp_path / f"weft-guest.{ended.pid}.{name}").mkdir()
    (tmp_path / f"weft-guest.{ended.pid}.killed" / "argv").write_text("true")
    kernel = tmp_path / "kernel"
    kernel.write_text("""#!/bin/sh
for word; do
    case $word in WEFT_GUEST_SCRATCH=*) scratch=${word#*=} ;; esac
done
echo 0 >"$scratch/exit"
""")
    kernel.chmod(0o755)
    done = subprocess.run([BUILD / "weft", "guest", "--", "true"], cwd=ROOT, timeout=100,
                          env={**os.environ, "WEFT_GUEST_KERNEL": str(kernel), "TMPDIR": str(tmp_path)},
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.glob("weft-guest.*")) == []
