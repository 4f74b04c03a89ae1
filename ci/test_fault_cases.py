"""The seventy fault cases of ci/fault_cases.py, each within its bound, and docs/faults.md, which
is made of them."""

import re

import pytest

from fault_cases import CASES, REAL_BOUND_S, RXE, SOFT
from fault_page import PAGE, ROOT, SCENARIOS, bound_of, document, page, result_of, run


def test_there_are_seventy():
    assert sorted(CASES) == list(range(1, 71))
    assert all(places or reason for _, places, _, reason in CASES.values())
    ours = {str(path.relative_to(ROOT)) for path in ROOT.glob("scenarios/calls/*.yaml")}
    assert ours <= set(SCENARIOS)
    assert {f"scenarios/calls/{name}.yaml" for name in SOFT + RXE} <= ours


@pytest.mark.parametrize("path", SCENARIOS)
def test_it_ends_as_it_must_in_time(path):
    assert document(path)["sim_time_ns"] <= bound_of(path) * 1e9


@pytest.mark.parametrize("where", sorted({where for _, places, _, _ in CASES.values()
                                          for where in places if ":" in where}))
def test_the_tests_exist_and_run(where):
    path, test = where.split(":")
    text = (ROOT / path).read_text()
    if path.endswith(".py"):
        assert f"def {test}(" in text
    else:
        assert f"START_TEST({test})" in text
        assert re.search(rf"tcase_add_\w*test\(\s*\w+,\s*{test}\b", text)


@pytest.mark.parametrize("name", SOFT)
def test_the_same_on_soft(name):
    path = f"scenarios/calls/{name}.yaml"
    done = run(path, "--backend", "soft", "--set", f"expect={{result: {result_of(path)}}}",
               timeout=REAL_BOUND_S, WEFT_SOFT_LAYOUT="loopback")
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]


def test_the_page_is_what_the_cases_make():
    assert PAGE.read_text() == page(), "ci/fault_page.py"
