"""What tests in a guest need: its kernel, and a command that can be its init."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WEFT = str(Path(os.environ.get("WEFT_FAST") or os.environ.get("WEFT") or ROOT / "build" / "weft").resolve())

_asked = subprocess.run([ROOT / "ci" / "rxe-guest", "--path"], capture_output=True, text=True,
                        check=False)
KERNEL = os.environ.get("WEFT_GUEST_KERNEL") or _asked.stdout.strip()


def has_kernel():
    return bool(os.environ.get("WEFT_GUEST_KERNEL")) or _asked.returncode == 0


def is_sanitized(program):
    return b"__asan_init" in Path(program).read_bytes()


def _what_is_missing():
    if not has_kernel():
        return "no guest kernel is built; enable with: make rxe-guest"
    # clang's runtime looks for its stack in /proc, which init mounts later.
    if is_sanitized(WEFT):
        return "only a sanitized build is there; enable with: make all"
    return ""


needs_guest = pytest.mark.skipif(bool(_what_is_missing()),
                                 reason=f"SKIP rxe guest: {_what_is_missing()}")
PROVIDERS = sorted(Path("/usr/lib").glob("*/libibverbs"))
needs_providers = pytest.mark.skipif(not PROVIDERS,
                                     reason="SKIP rxe guest: no libibverbs; enable with: ci/deps test")


@contextlib.contextmanager
def readable_folder(prefix, *files):
    """Make a folder that an ordinary user can read, with the program, the scenarios and `files`."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    shutil.copy(WEFT, folder / "weft")
    for file in files:
        shutil.copy(file, folder)
    shutil.copytree(ROOT / "scenarios", folder / "scenarios")
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def ordinary_user():
    """Return the arguments of subprocess that drop root, if there is root to drop."""
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.getuid() == 0 else {}


def environment(kernel):
    """Return an environment without settings of the caller, in which guests run `kernel`."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("WEFT")}
    return {**env, "WEFT_GUEST_KERNEL": str(kernel), "NO_COLOR": "1", "HOME": "/"}


def assert_on_the_wire(document):
    """Assert that RoCE v2 frames crossed every cable and no management network."""
    frames = {name: value for name, value in document["counters"].items()
              if name.startswith("roce_frames.")}
    assert frames
    for name, value in frames.items():
        assert (value == 0) == name.endswith(".mgmt0"), frames
    for connection in document["connections"]:
        if connection["transport"] == "net":
            assert connection["gid_type"] == "RoCE v2"
            assert connection["path_mtu"] == 4096
