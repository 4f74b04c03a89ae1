"""Every scenario on backend sim, by a command that was built with sanitizers.

Every scenario gets the verdict that its file expects, and no report. Two runs at a time. `ci/job
whole` builds the command, and names it in WEFT_SANITIZED.
"""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import sanitizers

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 300
EXACT = "expect={data: exact}"  # without bandwidths, which are those of the whole size
# What moves hundreds of MiB, or has hundreds of ranks, does with less.
SMALLER = {
    "basic/triangle.yaml": [EXACT, "jobs.0.all_reduce.bytes=[8, 512, 64KiB, 1MiB, 16MiB]"],
    "faults/twin-flap.yaml": [EXACT, "jobs.0.all_reduce.bytes=16MiB", "faults.0.at=1ms",
                              "faults.0.down_for=3ms"],
    "faults/cable-down.yaml": [EXACT, "jobs.0.all_reduce.bytes=16MiB", "faults.0.at=1ms"],
    "partial/dragonfly-9.yaml": [EXACT, "jobs.0.all_reduce.bytes=[8, 64KiB, 1MiB]"],
    "scale/full-mesh-16.yaml": [EXACT, "jobs.0.all_reduce.bytes=[8, 64KiB]",
                                "jobs.1.all_to_all.bytes=64KiB"],
    "scale/ring-64.yaml": [EXACT, "jobs.0.all_reduce.bytes=[8, 64KiB]"],
    "scale/ring-256.yaml": [EXACT, "jobs.0.all_reduce.bytes=4KiB"],
}
LEFT_OUT = {
    "scale/ring-256-timing.yaml": "the mesh of ring-256, which takes half a minute",
}


def scenarios():
    return sorted(str(path.relative_to(ROOT / "scenarios"))
                  for path in ROOT.glob("scenarios/**/*.yaml")
                  if path.parent.name != "programs")  # those run in a guest only


def run(weft, name):
    """What the run wrote to stderr and how it ended, or None if all is in order."""
    changes = [word for change in SMALLER.get(name, []) for word in ("--set", change)]
    try:
        done = subprocess.run([weft, "run", "--quiet", *changes, f"scenarios/{name}"], cwd=ROOT,
                              capture_output=True, text=True, errors="replace", check=False,
                              timeout=LIMIT_S, stdin=subprocess.DEVNULL,
                              env={**os.environ, **sanitizers.ENVIRONMENT})
    except subprocess.TimeoutExpired:
        return f"{name}: not over after {LIMIT_S} s"
    is_fine = done.returncode == 0 and "Sanitizer" not in done.stderr \
        and "runtime error:" not in done.stderr
    return None if is_fine else f"{name}: exit {done.returncode}\n{done.stderr[:6000]}"


def test_exceptions_are_scenarios():
    assert SMALLER.keys() | LEFT_OUT.keys() <= set(scenarios())


def test_every_scenario_is_clean_under_sanitizers_of_clang():
    weft = os.environ.get("WEFT_SANITIZED")
    if not weft:
        pytest.skip("SKIP clang sanitizers: no command that clang built with its sanitizers; "
                    "enable with: make test, where clang is installed")
    names = [name for name in scenarios() if name not in LEFT_OUT]
    assert len(names) > 150
    with ThreadPoolExecutor(2) as pool:
        failures = [failure for failure in pool.map(lambda name: run(weft, name), names) if failure]
    assert not failures, "\n".join(failures)
