"""Tests that need rdma_rxe, in a guest that has it. Skipped by name where no guest kernel is built."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from guest_kernel import needs_guest

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("WEFT_BUILD", "build")
GUEST = ROOT / "ci" / "guest" / "conformance"


def in_guest(program):
    return subprocess.run([GUEST, BUILD / "test" / program], cwd=ROOT, timeout=400,
                          capture_output=True, text=True, check=False)


@needs_guest
def test_the_waist_over_soft_roce():
    done = in_guest("backends/verbs/conformance_test")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "SKIP" not in done.stdout
    counts = re.search(r"100%: Checks: (\d+), Failures: 0, Errors: 0", done.stdout)
    assert counts and int(counts[1]) >= 35, done.stdout[-2000:]


@needs_guest
def test_the_simulated_nic_and_soft_roce_keep_one_contract():
    """The conformance suite between the two, each on either side of the cable."""
    done = in_guest("backends/soft/interop_test")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "SKIP" not in done.stdout
    counts = re.findall(r"100%: Checks: (\d+), Failures: 0, Errors: 0", done.stdout)
    assert len(counts) == 2 and all(int(count) >= 35 for count in counts), done.stdout[-2000:]


@needs_guest
def test_a_guest_that_does_not_end_is_ended():
    done = subprocess.run([GUEST, "/bin/sleep", "600"], cwd=ROOT, timeout=120,
                          env={**os.environ, "WEFT_GUEST_SECONDS": "5"},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "without a result" in done.stderr


@needs_guest
@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_a_guest_names_the_clock_rate_of_its_processor(clock):
    """Without it perftest shows 0.00 MB/s. Once, and with all else that was there."""
    done = subprocess.run([BUILD / "weft", "guest", "--clock", clock, "--", "cat", "/proc/cpuinfo"], cwd=ROOT,
                          timeout=400, capture_output=True, text=True, check=True)
    assert len(re.findall(r"^cpu MHz\t*: [0-9.]+$", done.stdout, re.M)) == 1
    assert len(re.findall(r"^processor\t*: 0$", done.stdout, re.M)) == 1 and "bogomips" in done.stdout


def guest_of(folder, script, *flags, **environment):
    """Runs `true` in a guest whose kernel is a shell script that knows $scratch."""
    kernel = folder / "kernel"
    kernel.write_text("""#!/bin/sh
for word; do
    case $word in WEFT_GUEST_SCRATCH=*) scratch=${word#*=} ;; esac
done
""" + script)
    kernel.chmod(0o755)
    return subprocess.run([BUILD / "weft", "guest", *flags, "--", "true"], cwd=ROOT, timeout=400,
                          env={**os.environ, "WEFT_GUEST_KERNEL": str(kernel), **environment},
                          capture_output=True, text=True, check=False)


def test_a_kernel_that_stays_after_its_result_is_ended(tmp_path):
    """As user-mode Linux did once: "Power down", and then nothing for ever."""
    done = guest_of(tmp_path, 'echo 7 >"$scratch/exit"\nexec sleep 600\n', "--time-limit", "500")
    assert (done.returncode, done.stderr) == (7, "")


@pytest.mark.parametrize("script,first,last,n_lines", [
    ("exit 1", [], "its console has nothing", 1),
    ("echo panic", ["panic"], "its console is above", 2),
    ("seq -f 'line %g' 3000", ["line 1", "line 2"], "its console is above", None),
    # One line that is longer than both ends.
    ("printf '%09000d' 0", ["[...]"], "its console is above", None)])
def test_what_a_kernel_said_at_both_ends_is_shown(tmp_path, script, first, last, n_lines):
    done = guest_of(tmp_path, script + "\n")
    lines = done.stderr.splitlines()
    assert done.returncode == 3 and lines[:len(first)] == first, lines[:3]
    assert lines[-1] == (f"weft guest: guest: the guest ended without a result; {last}")
    assert n_lines in (None, len(lines))
    if "seq" in script:
        gap = lines.index("[...]")
        assert lines[gap - 1] == f"line {gap}" and lines[-2] == "line 3000"
        assert lines[gap + 1].startswith("line ") and len(done.stderr) < 4200


def test_a_guest_removes_what_a_killed_one_left(tmp_path):
    """Its scratch folder, empty or not, of a process that is no more."""
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    for name in ("empty", "killed"):
        (tmp_path / f"weft-guest.{ended.pid}.{name}").mkdir()
    (tmp_path / f"weft-guest.{ended.pid}.killed" / "argv").write_text("true")
    done = guest_of(tmp_path, 'echo 0 >"$scratch/exit"\n', TMPDIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.glob("weft-guest.*")) == []
