"""libnccl-net-mesh.so over libibverbs and the kernel's soft-RoCE: the contract on a triangle of
network namespaces, in a guest."""

import json
import subprocess
from pathlib import Path

from guest_kernel import WEFT, needs_guest

ROOT = Path(__file__).resolve().parent.parent
# Once as it is, then with a limit of locked memory, which holds for who lacks CAP_IPC_LOCK.
BOTH = """
"$@" || exit
printf @
ulimit -l 1024
export NCCL_DEBUG=WARN
setpriv --bounding-set=-ipc_lock "$@"
"""


CLOSE = """
ci/mesh-namespaces 2 0-1 python3 ci/plugin_close.py "$1" message 100 1 &&
    ci/mesh-namespaces 2 0-1 python3 ci/plugin_close.py "$1" set-up 60 1
"""


@needs_guest
def test_an_end_may_close_at_once():
    ran = subprocess.run(
        [WEFT, "guest", "--time-limit", "300", "--", "env", "MESH_RXE=1", "bash", "-c", CLOSE, "bash",
         str(Path(WEFT).parent / "libnccl-net-mesh.so")],
        cwd=ROOT, capture_output=True, text=True, timeout=400, check=False, stdin=subprocess.DEVNULL)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    assert ran.stdout.count(" 0 failed ") == 2


@needs_guest
def test_the_contract_on_a_triangle():
    """And, in the same guest, that the kernel's own limit of locked memory is reported by its finding."""
    ran = subprocess.run(
        [WEFT, "guest", "--time-limit", "300", "--", "env", "MESH_RXE=1", "bash", "-c", BOTH, "bash",
         "ci/mesh-namespaces", "3", "0-1 1-2 0-2", WEFT, "plugin-check", "-q", "--json",
         "--netversion", "11", str(Path(WEFT).parent / "libnccl-net-mesh.so")],
        cwd=ROOT, capture_output=True, text=True, timeout=400, check=False, stdin=subprocess.DEVNULL)
    assert ran.returncode == 1, ran.stdout[-2000:] + ran.stderr[-2000:]
    whole, limited = (json.loads(text)["results"][0] for text in ran.stdout.split("@"))
    assert (whole["result"], whole["versions"]) == ("pass", [11])
    assert (limited["result"], limited["clause"]) == ("fail", "memory.result")
    assert "(errno 12 Cannot allocate memory) [host.memlock: weft explain host.memlock]" in ran.stderr
