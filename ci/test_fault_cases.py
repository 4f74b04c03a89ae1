"""The seventy fault cases of ci/fault_cases.py, each within its bound, and docs/faults.md, which
is made of them."""

import re

import pytest

from fault_cases import CASES, ELSEWHERE, NOT_ON, REAL_BOUND_S, REASONS, RXE, SOFT
from fault_page import (PAGE, ROOT, SCENARIOS, backends_of, bound_of, document, page, run,
                        sets_elsewhere)


def test_there_are_seventy():
    assert sorted(CASES) == list(range(1, 71))
    assert all(places or reason for _, places, _, reason in CASES.values())
    ours = {str(path.relative_to(ROOT)) for path in ROOT.glob("scenarios/calls/*.yaml")}
    assert ours <= set(SCENARIOS)
    assert {f"scenarios/{name}.yaml" for name in [*SOFT, *RXE, *ELSEWHERE]} <= set(SCENARIOS)


@pytest.mark.parametrize("backend", ["soft", "rxe"])
def test_a_case_is_on_a_backend_or_there_is_a_reason(backend):
    reasons = [number for cases in NOT_ON[backend].values() for number in cases]
    assert len(reasons) == len(set(reasons))
    assert sorted(reasons) == [number for number in CASES if backend not in backends_of(number)]
    assert set(NOT_ON[backend]) <= set(REASONS)


@pytest.mark.heavy
@pytest.mark.parametrize("path", SCENARIOS)
def test_it_ends_as_it_must_in_time(path):
    assert document(path)["sim_time_ns"] <= bound_of(path) * 1e9


# Which of a host's words are said before the listener knows who it is, HELLO, CHALLENGE, AUTH and what
# goes with them: of the rendezvous, and of the connection each way.
@pytest.mark.parametrize("host, nth", [("titanic", n) for n in (1, 4, 5, 6)] +
                         [("iceberg", n) for n in (1, 2, 3, 5, 6)])
def test_a_stream_that_dies_before_it_is_known_is_made_anew(host, nth):
    """Case 14, at every word: nothing that the host says on this stream from then on arrives."""
    done = run("scenarios/calls/c14-half-open.yaml", "--set",
               f"faults=[{{on: {host}, kind: call_lost, call: send, nth: {nth}}}]")
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]


@pytest.mark.parametrize("where", sorted({where for _, places, _, _ in CASES.values()
                                          for where in places if ":" in where}))
def test_the_tests_exist_and_run(where):
    path, test = where.split(":")
    text = (ROOT / path).read_text()
    if path.endswith(".py"):
        assert f"def {test}(" in text
    else:
        assert f"START_TEST({test})" in text
        assert re.search(rf"(?:tcase_add_\w*test|suite_add_sweep)\(\s*\w+,\s*{test}\b", text)


@pytest.mark.parametrize("name", SOFT)
def test_the_same_on_soft(name):
    path = f"scenarios/{name}.yaml"
    sets = [word for text in sets_elsewhere(path) for word in ("--set", text)]
    done = run(path, "--backend", "soft", *sets, timeout=REAL_BOUND_S,
               WEFT_SOFT_LAYOUT="loopback")
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]


def test_the_page_is_what_the_cases_make():
    assert PAGE.read_text() == page(), "ci/fault_page.py"
