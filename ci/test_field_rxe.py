"""scenarios/field over the kernel's soft-RoCE: the same symptom and finding as on the simulated NIC."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from guest_kernel import WEFT, needs_guest, needs_providers

ROOT = Path(__file__).resolve().parent.parent
# Scenarios whose cause is in addresses or neighbours, so that real time changes nothing.
NAMES = ["s01", "s03", "s04", "s05", "s06", "s07", "s11", "s14", "s15", "s16", "s18", "s27", "s38",
         "s46"]

pytestmark = [needs_guest, needs_providers]


def run(name):
    path, = (ROOT / "scenarios" / "field").glob(f"{name}-*.yaml")
    return subprocess.run([WEFT, "run", "--backend", "rxe", path, "--json"], cwd=ROOT,
                          capture_output=True, text=True, timeout=120, check=False)


def test_the_kernel_shows_what_users_saw():
    """Each judges its own symptom and finding; they mostly wait, so several do at a time."""
    with ThreadPoolExecutor(5) as pool:
        ended = dict(zip(NAMES, pool.map(run, NAMES)))
    for name, done in ended.items():
        assert done.returncode == 0, name + done.stdout[-2000:] + done.stderr[-2000:]
        document = json.loads(done.stdout)
        assert document["backend"] == "rxe" and document["result"] == "pass"
