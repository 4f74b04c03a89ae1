"""Flaps that end do not end a job (ci/flaps.py, ci/outages.py, scenarios/flaps)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import outages
import sampling

ROOT = Path(__file__).resolve().parent.parent
BUILD = str(Path(os.environ.get("WEFT_FAST", ROOT / "build" / "weft")).parent)


def sweep(*flags):
    return subprocess.run([sys.executable, "ci/flaps.py", "--build", BUILD, *flags], cwd=ROOT,
                          capture_output=True, text=True, check=False)


def taken(n):
    first, count = sampling.span(n)
    return ["--seed", "1", "--first", str(first), "--count", str(count)]


def test_two_flaps_of_a_triangle():
    """A host without any route for 20 ms: the job went on, or gave up, by the moment."""
    done = sweep(*taken(100), "--kind", "two-flaps")
    assert done.returncode == 0, done.stdout


def test_flaps_of_every_kind():
    done = sweep(*taken(40))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", sorted(Path(ROOT / "scenarios" / "flaps").glob("*.yaml")),
                         ids=lambda path: path.stem)
def test_a_flap_that_once_ended_a_job(path):
    done = subprocess.run([f"{BUILD}/weft", "run", "-q", str(path)], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["twin-behind-a-relay", "twin-behind-a-relay-managed"])
def test_a_twin_behind_a_relay_flaps_at_any_moment(name):
    """24 moments, in set-up and while data moves, of 10 us and of 50 ms; a sample takes an eighth."""
    rounds = [(at_us, long) for at_us in (300, 600, 900, 1300, 2000, 3000, 5000, 9000, 16000, 24000, 30000, 41000)
              for long in ("10us", "50ms")]
    first, count = sampling.span(len(rounds))
    for at_us, long in rounds[first:first + count]:
        fault = f"faults=[{{at: {at_us}us, on: 'carpathia:p0', kind: down, for: {long}}}]"
        done = subprocess.run([f"{BUILD}/weft", "run", "-q", f"scenarios/flaps/{name}.yaml", "--set", fault],
                              cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, fault + done.stdout + done.stderr


def test_outages_of_every_length():
    """Every 30th of what `ci/job flaps` runs."""
    done = subprocess.run([sys.executable, "ci/outages.py", "--build", BUILD, "--moments", "10",
                           "--part", "2/30"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_judge_of_outages_knows_what_is_cut():
    twins, relay = outages.Mesh("twins"), outages.Mesh("relay")
    assert twins.cut_s([(0, 1_000_000, 0, 0)]) == 0
    assert twins.cut_s([(0, 1_000_000, 0, 0), (600_000, 1_000_000, 1, 0)]) == 0.4
    assert relay.cut_s([(5, 2_000_000, 0, 1)]) == 2
    assert relay.cut_s([(0, 30, 1, 0), (10, 30, 0, 0)]) == 30e-6
    assert relay.cut_s([(0, 30, 1, 0), (10, 30, 2, 0)]) == 20e-6
    assert outages.Mesh("pair").promise(1) == twins.promise(2) == "1 s"
    assert twins.promise(1) == outages.Mesh("triangle").promise(1) == "always"
    assert outages.Mesh("triangle").promise(2) == relay.promise(1) == "5 s"
