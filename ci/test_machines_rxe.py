"""`weft run --backend verbs`: three machines with libibverbs and the kernel's soft-RoCE, which are
network namespaces of one guest, each reached by its name."""

import json
import os
import subprocess
from pathlib import Path

from guest_kernel import WEFT, needs_guest

ROOT = Path(__file__).resolve().parent.parent
HOSTS = ["titanic", "iceberg", "carpathia"]

pytestmark = needs_guest


def test_a_triangle_of_machines():
    """Devices are found by themselves, and called like the ports whose addresses they have."""
    done = subprocess.run(
        [WEFT, "guest", "--time-limit", "100", "--", "env", "MACHINES_RXE=1",
         f"PATH={Path(WEFT).parent}:{os.environ['PATH']}", "ci/machines", "weft", "run",
         "scenarios/basic/triangle.yaml", "--backend", "verbs", "--json", "-q",
         "--set", "jobs=[{all_reduce: {bytes: [64, 1MiB], repeat: 2}}, {all_to_all: {bytes: 64KiB}}]",
         "--set", "expect={data: exact, findings: []}"],
        cwd=ROOT, capture_output=True, text=True, timeout=150, check=False,
        stdin=subprocess.DEVNULL)
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    document = json.loads(done.stdout)
    assert document["backend"] == "verbs" and document["result"] == "pass"
    assert [job["nwrong"] for job in document["jobs"]] == [0, 0, 0]
    assert {(c["from_host"], c["local_port"], c["to_host"], c["remote_port"])
            for c in document["connections"]} == {
        (HOSTS[a], f"p{(b - a) % 3 - 1}", HOSTS[b], f"p{(a - b) % 3 - 1}")
        for a in range(3) for b in range(3) if a != b}
