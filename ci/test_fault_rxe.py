"""Fault cases in the guest, with the kernel's soft-RoCE: they end as on sim."""

import subprocess
from pathlib import Path

import pytest

from fault_cases import REAL_BOUND_S, RXE
from fault_page import ROOT, WEFT, sets_in_real_time


def shell_of(name):
    """Runs a scenario; says which it was, and the end of what it said, if it does not end so."""
    path = f"scenarios/{name}.yaml"
    sets = " ".join(f"--set '{text}'" for text in sets_in_real_time(path, "rxe"))
    return (f"said=$({Path(WEFT).resolve()} run --backend rxe {path} {sets} 2>&1) || "
            f"{{ echo 'not as on sim: {name}'; echo \"$said\" | tail -n 30; }}; ")


def test_the_same_on_rxe():
    """All in one guest: a guest costs more than what runs in it."""
    asked = subprocess.run([ROOT / "ci" / "rxe-guest", "--path"], capture_output=True, check=False)
    if asked.returncode != 0:
        pytest.skip("SKIP rxe guest: no guest kernel is built; enable with: make rxe-guest")
    if b"__asan_init" in Path(WEFT).read_bytes():
        pytest.skip("SKIP rxe guest: only a sanitized build is there; enable with: make all")
    script = "".join(shell_of(name) for name in RXE)
    done = subprocess.run([WEFT, "guest", "-q", "--", "sh", "-c", script], cwd=ROOT,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=REAL_BOUND_S * len(RXE), check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr[-1500:]
