"""libnccl-net-mesh.so over libibverbs and the kernel's soft-RoCE: the contract on a triangle of
network namespaces, in a guest."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT_FAST") or os.environ.get("WEFT", "build/weft")


def has_guest():
    if os.environ.get("WEFT_GUEST_KERNEL"):
        return True
    return subprocess.run([ROOT / "ci" / "rxe-guest", "--path"], capture_output=True,
                          check=False).returncode == 0


def test_the_contract_on_a_triangle():
    if not has_guest():
        pytest.skip("SKIP rxe guest: no guest kernel is built; make rxe-guest")
    ran = subprocess.run(
        [WEFT, "guest", "--time-limit", "300", "--", "env", "MESH_RXE=1", "ci/mesh-namespaces", "3",
         "0-1 1-2 0-2", WEFT, "plugin-check", "-q", "--json", "--netversion", "11",
         str(Path(WEFT).parent / "libnccl-net-mesh.so")],
        cwd=ROOT, capture_output=True, text=True, timeout=400, check=False, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    result = json.loads(ran.stdout)["results"][0]
    assert (result["result"], result["versions"]) == ("pass", [11])
