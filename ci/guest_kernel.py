"""What tests in a guest need: its kernel, and a command that can be its init."""

import os
import subprocess
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
