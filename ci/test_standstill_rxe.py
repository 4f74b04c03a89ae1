"""A process of a job over the kernel's soft-RoCE stands still for 5 s, in virtual time: 30 rounds of
ci/standstill.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from guest_kernel import WEFT, needs_guest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = needs_guest


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_a_standstill_is_no_death(first):
    done = subprocess.run(
        [sys.executable, ROOT / "ci" / "standstill.py", "--backend", "rxe", "--seed", "1", "--first",
         str(first), "--rounds", "10", "--jobs", "2", "--build", Path(WEFT).parent],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
