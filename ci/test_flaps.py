"""Flaps that end do not end a job (ci/flaps.py)."""

import os
import subprocess
import sys
from pathlib import Path

import sampling

ROOT = Path(__file__).resolve().parent.parent
BUILD = str(Path(os.environ.get("WEFT_FAST", ROOT / "build" / "weft")).parent)


def sweep(*flags):
    return subprocess.run([sys.executable, "ci/flaps.py", "--build", BUILD, *flags], cwd=ROOT,
                          capture_output=True, text=True, check=False)


def taken(n):
    first, count = sampling.span(n)
    return ["--seed", "1", "--first", str(first), "--count", str(count)]


def test_two_flaps_of_a_triangle():
    """A host without any route for 20 ms: the job went on, or gave up, by the moment."""
    done = sweep(*taken(100), "--kind", "two-flaps")
    assert done.returncode == 0, done.stdout


def test_flaps_of_every_kind():
    done = sweep(*taken(40))
    assert done.returncode == 0, done.stdout
