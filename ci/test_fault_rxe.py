"""Fault cases with the kernel's soft-RoCE, in virtual time but for one: they end as on sim."""

import subprocess

import pytest

from fault_cases import REAL_BOUND_S, RXE
from fault_page import ROOT, WEFT, sets_elsewhere

# A hundred thousand looks at the clock in a row are taken for a wait there (docs/virtual-time.md).
IN_REAL_TIME = ("calls/c57-event-storm",)


@pytest.mark.parametrize("name", RXE)
def test_the_same_on_rxe(name):
    asked = subprocess.run([ROOT / "ci" / "rxe-guest", "--path"], capture_output=True, check=False)
    if asked.returncode != 0:
        pytest.skip("SKIP rxe guest: no guest kernel is built; enable with: make rxe-guest")
    with open(WEFT, "rb") as program:
        if b"__asan_init" in program.read():
            pytest.skip("SKIP rxe guest: only a sanitized build is there; enable with: make all")
    path = f"scenarios/{name}.yaml"
    sets = [word for text in sets_elsewhere(path) for word in ("--set", text)]
    clock = "real" if name in IN_REAL_TIME else "virtual"
    done = subprocess.run([WEFT, "run", "--backend", "rxe", "--clock", clock, path, *sets],
                          cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=REAL_BOUND_S, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1500:]
