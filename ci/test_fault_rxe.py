"""Fault cases with the kernel's soft-RoCE, in virtual time but for one: they end as on sim."""

import subprocess

import pytest

from fault_cases import REAL_BOUND_S, RXE
from fault_page import ROOT, sets_elsewhere
from guest_kernel import WEFT, needs_guest

# A hundred thousand looks at the clock in a row are taken for a wait there (docs/virtual-time.md).
IN_REAL_TIME = ("calls/c57-event-storm",)


@needs_guest
@pytest.mark.parametrize("name", RXE)
def test_the_same_on_rxe(name):
    path = f"scenarios/{name}.yaml"
    sets = [word for text in sets_elsewhere(path) for word in ("--set", text)]
    clock = "real" if name in IN_REAL_TIME else "virtual"
    done = subprocess.run([WEFT, "run", "--backend", "rxe", "--clock", clock, path, *sets],
                          cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=REAL_BOUND_S, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1500:]
