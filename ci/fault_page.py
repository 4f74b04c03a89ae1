#!/usr/bin/env python3
"""docs/faults.md, made of ci/fault_cases.py and of what its scenarios do: `ci/fault_page.py`
writes it."""

import json
import os
import re
import subprocess
from functools import lru_cache
from pathlib import Path

from fault_cases import CASES, ELSEWHERE, IN_MID_JOB, NOT_ON, REAL_BOUND_S, REASONS, RXE, SOFT

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT_FAST", os.environ.get("WEFT", str(ROOT / "build" / "weft")))
PAGE = ROOT / "docs" / "faults.md"
SIM_BOUND_S = 30  # of a scenario that declares no time of its own
SCENARIOS = sorted({where for _, places, _, _ in CASES.values() for where in places
                    if where.startswith("scenarios/")})
HEAD = """# The seventy fault cases

What is done to a job, and what comes of it. `ci/fault_page.py` makes this
page; `make test` fails when it is not what the tests make, when a case is over later than its
bound, or when it ends in another way. Late fails like never.

A scenario's bound is in simulated time: its own `expect: time`, else {default} s. A test beside
the code asserts its bound itself; "its own": it runs its world for a time, and asserts what is
then. Scenarios of cases with "soft" or "rxe" run there as well, to the same result within {real} s of
real time: soft lives in it, so that a fault's time may be one before the job; rxe keeps virtual time,
but for case 57, and is asked where its guest kernel is built (`make rxe-guest`). Tests of
`src/io/conformance_*` run on all. Why a case is not on a backend stands below the table.

| case | what is done | where | over within | outcome | backends | not on |
|---|---|---|---|---|---|---|
"""


def run(path, *args, timeout=60, **environment):
    return subprocess.run([WEFT, "run", path, "--json", *args], cwd=ROOT, capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, timeout=timeout, check=False,
                          env={**os.environ, **environment})


def result_of(path):
    """What the file says must come of it."""
    return "fail" if re.search(r"^  result: fail", (ROOT / path).read_text(), re.M) else "pass"


def sets_elsewhere(path):
    """What `expect` says of the end on any backend: no counters, and no times; and what else is set
    where time is not sim's."""
    findings = re.search(r"^  findings: (\[.*\])$", (ROOT / path).read_text(), re.M)
    expected = f"result: {result_of(path)}" + (f", findings: {findings[1]}" if findings else "")
    if path not in IN_MID_JOB:
        return [f"expect={{{expected}}}"]
    return [f"expect={{{expected}}}", "faults.0.at=jobs+1ms",
            "jobs=[{all_reduce: {bytes: 1MiB, repeat: 200}}]"]


def bound_of(path):
    declared = re.search(r"time: \{at_most: (\d+)(ms|s)\}", (ROOT / path).read_text())
    return (int(declared[1]) / (1000 if declared[2] == "ms" else 1)) if declared else SIM_BOUND_S


@lru_cache(maxsize=None)
def document(path):
    done = run(path)
    assert done.returncode == 0, (path, done.stdout[-1500:], done.stderr[-1500:])
    return json.loads(done.stdout)


def outcome_of(path):
    made = document(path)
    if result_of(path) == "pass":
        return "passes"
    symptom = made["symptom"]
    if symptom is None:
        return "fails: the data is wrong, and that is found"
    for key in ("errno", "wc_status"):
        if symptom[key] is not None:
            return f"{symptom['text'].split(':')[0]} fails, {key} {symptom[key]}"
    return f"fails: {symptom['text'].split(':')[0]}"


def seconds(bound):
    return f"{bound:g} s" if bound >= 1 else f"{bound * 1000:g} ms"


def link(where):
    path, _, test = where.partition(":")
    name = path.rsplit("/", 1)[1]
    return f"[{test or name}](../{path})"


def row(number):
    inject, places, bound, not_expressible = CASES[number]
    scenarios = [where for where in places if where.startswith("scenarios/")]
    bounds = [seconds(bound_of(where)) for where in scenarios] + ([bound] if bound else [])
    outcomes = [outcome_of(where) for where in scenarios]
    outcomes += ["as the test says"] if len(scenarios) < len(places) else []
    outcomes += [f"left out: {not_expressible}"] if not_expressible else []
    return "| " + " | ".join((
        str(number), inject, ", ".join(map(link, places)) or "nowhere",
        ", ".join(dict.fromkeys(bounds)) or "none", "; ".join(dict.fromkeys(outcomes)),
        ", ".join(backends_of(number)) or "none", reasons_of(number))) + " |\n"


def backends_of(number):
    """Backends of a test, by its directory."""
    found = set()
    for where in CASES[number][1]:
        name = where.removeprefix("scenarios/").removesuffix(".yaml")
        is_real = where.startswith(("backends/soft/", "ci/test_plugin", "ci/test_hostile"))
        is_any = where.startswith("src/io/conformance_")
        found |= {"soft"} if is_real or is_any or name in SOFT else set()
        found |= {"rxe"} if is_any or name in RXE else set()
        found |= set(ELSEWHERE.get(name, []))
        found |= {"sim"} if not is_real and "test_tidy" not in where else set()
    return [name for name in ("sim", "soft", "rxe") if name in found]


def reasons_of(number):
    letters = {backend: letter for backend, reasons in NOT_ON.items()
               for letter, cases in reasons.items() if number in cases}
    if len(set(letters.values())) == 1 and len(letters) == 2:
        return f"soft, rxe: {letters['soft']}"
    return "; ".join(f"{backend}: {letter}" for backend, letter in letters.items())


def page():
    return HEAD.format(default=SIM_BOUND_S, real=REAL_BOUND_S) + "".join(map(row, sorted(CASES))) + (
        "\nNot on:\n\n" + "".join(f"- {letter}: {why}\n" for letter, why in REASONS.items()))


if __name__ == "__main__":
    PAGE.write_text(page())
