"""Commands are killed by SIGKILL at 30 moments each: ci/kills.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from guest_kernel import needs_guest

ROOT = Path(__file__).resolve().parent.parent
# The fast build: what is asked here is what processes leave, not memory.
WEFT = Path(os.environ.get("WEFT_FAST", os.environ.get("WEFT", str(ROOT / "build" / "weft"))))


@pytest.mark.parametrize("name", ["sim", "soft", "plugin-check", *(
    pytest.param(name, marks=needs_guest) for name in ("rxe", "guest", "exec", "lab-up", "lab-exec"))])
def test_a_killed_command_leaves_nothing(name):
    done = subprocess.run(
        [sys.executable, ROOT / "ci" / "kills.py", "--build", WEFT.resolve().parent, name], cwd=ROOT,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode == 77:
        pytest.skip("SKIP namespaces: this user may not make network namespaces; enable with: run as root")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
