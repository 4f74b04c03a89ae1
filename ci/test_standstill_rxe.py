"""A process of a job stands still in virtual time, over the kernel's soft-RoCE and over backend soft: for
5 s in 30 rounds of ci/standstill.py, for good in 20."""

import subprocess
import sys
from pathlib import Path

import pytest

from guest_kernel import WEFT, needs_guest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = needs_guest


def standstill(*arguments):
    done = subprocess.run(
        [sys.executable, ROOT / "ci" / "standstill.py", "--clock", "virtual", "--seed", "1", "--rounds", "10",
         "--jobs", "2", "--build", Path(WEFT).parent, *arguments],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.parametrize("backend", ["rxe", "soft"])
@pytest.mark.parametrize("first", range(0, 30, 10))
def test_a_standstill_is_no_death(first, backend):
    standstill("--backend", backend, "--first", str(first))


@pytest.mark.parametrize("backend", ["rxe", "soft"])
@pytest.mark.parametrize("first", range(0, 20, 10))
def test_a_process_that_is_stopped_for_good_is_named(first, backend):
    standstill("--backend", backend, "--first", str(first), "--for-good")
