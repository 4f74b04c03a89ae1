"""What `auto` takes, beside every algorithm there is: the model's choice against the simulator's clock."""

import itertools
import json
import os
import subprocess
from pathlib import Path

import pytest

from sampling import part

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT_FAST", os.environ.get("WEFT", str(ROOT / "build/weft")))
ALGORITHMS = {"all_reduce": "direct ring rings exchange doubling halving tree trees chain",
              "all_gather": "direct ring rings doubling tree trees",
              "reduce_scatter": "direct ring rings halving tree trees"}
FACTOR = 1.5  # of the best, that what is taken needs at most (docs/collectives.md)


def times(scenario, kind, algorithm, sizes):
    jobs = f"jobs=[{{{kind}: {{bytes: [{', '.join(sizes)}], repeat: 3, algorithm: {algorithm}}}}}]"
    done = subprocess.run([WEFT, "run", f"scenarios/{scenario}.yaml", "--json", "--set", jobs, "--set",
                           "expect={}", "--set", "payload=timing"], cwd=ROOT, text=True,
                          capture_output=True, check=True, timeout=100)
    return [job["time_ns"] for job in json.loads(done.stdout)["jobs"]]


def check_choice(scenario, kind, sizes):
    measured = {algorithm: times(scenario, kind, algorithm, sizes) for algorithm in ALGORITHMS[kind].split()}
    for size, taken, *all_of in zip(sizes, times(scenario, kind, "auto", sizes), *measured.values(), strict=True):
        assert taken <= FACTOR * min(all_of), (size, taken, dict(zip(measured, all_of, strict=True)))


@pytest.mark.parametrize("scenario, kind", part(itertools.product(
    ["inside/nvswitch-8", "inside/pcie-4", "inside/nvlink-2", "partial/ring-4"], ALGORITHMS)))
def test_what_is_taken_is_near_the_best(scenario, kind):
    check_choice(scenario, kind, ("512KiB", "1MiB"))


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ALGORITHMS)
def test_where_copies_and_reductions_add_up(kind):
    check_choice("inside/nvswitch-8", kind, ("256KiB",))


@pytest.mark.parametrize("scenario, kind", part(itertools.product(
    ["basic/triangle", "partial/ring-4", "partial/line-3", "partial/grid-2x4",
     "partial/dragonfly-9"], ALGORITHMS)))
def test_over_cables_of_short_messages_too(scenario, kind):
    check_choice(scenario, kind, ("1KiB", "16KiB"))
