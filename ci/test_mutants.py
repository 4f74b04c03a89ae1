"""Which mutants a sample, a shard and the submission choose, and what a verdict is called. Nothing here
builds or tries one."""

import random
from pathlib import Path

import pytest

import mutants
import mutation
from mutation import Baseline, Mutant, is_wire, load


def make(folder, name, file, *tests):
    path = folder / f"{name}.patch"
    path.write_text("".join(f"# test: {test}\n" for test in tests)
                    + f"# why: nothing\n--- a/{file}\n+++ b/{file}\n@@ -1 +1 @@\n-a\n+b\n")
    return Mutant(path)


@pytest.fixture(name="hundred")
def fixture_hundred(tmp_path):
    return [make(tmp_path, f"m{i:02}", f"src/f{i:02}.c", f"src/f{i:02}_test") for i in range(100)]


def names(chosen):
    return [mutant.name for mutant in chosen]


def test_a_mutant_is_touched_by_its_patch_its_files_and_its_tests(tmp_path):
    mutant = make(tmp_path, "m", "src/base/heap.c", "src/base/heap_test sim/nic_test",
                  'pytest ci/test_nic.py::test_it -k "a b"')
    assert mutant.touches() == {"ci/mutants/m.patch", "src/base/heap.c", "src/base/heap_test.c",
                                "sim/nic_test.c", "ci/test_nic.py"}
    for path in mutant.touches():
        assert mutants.choose([mutant], 0, "1", {path}) == ([mutant], 0)
    assert mutants.choose([mutant], 0, "1", {"src/base/heap.h"}) == ([], 0)


def test_every_mutant_names_tests_that_exist():
    root = Path(__file__).resolve().parent.parent
    every = load()
    assert len(every) > 300
    for mutant in every:
        assert mutant.commands and all((root / path).is_file() for path in mutant.touches()), mutant.name


def test_a_sample_depends_on_nothing_but_its_seed(hundred):
    first, _ = mutants.choose(hundred, 24, "1", set())
    shuffled = random.Random(1).sample(hundred, len(hundred))
    assert set(mutants.choose(shuffled, 24, "1", set())[0]) == set(first)
    assert len(first) == 24 and names(first) == sorted(names(first))
    assert mutants.choose(hundred, 24, "2", set())[0] != first
    tried = set().union(*(names(mutants.choose(hundred, 24, str(seed), set())[0])
                          for seed in range(60)))
    assert len(tried) == 100


def test_those_that_are_touched_do_not_count_among_the_sample(hundred):
    changed = {f"src/f{i:02}.c" for i in range(10)}
    chosen, n_late = mutants.choose(hundred, 5, "1", changed)
    assert len(chosen) == 15 and n_late == 0
    assert names(chosen)[:10] == [f"m{i:02}" for i in range(10)]


def test_a_large_submission_leaves_some_of_what_it_touches_to_the_night(hundred):
    changed = {f"src/f{i:02}.c" for i in range(90)}
    chosen, n_late = mutants.choose(hundred, 5, "1", changed, max_touched=60)
    assert len(chosen) == 65 and n_late == 30
    assert sum(name < "m90" for name in names(chosen)) == 60
    assert mutants.choose(hundred, 5, "1", changed, max_touched=60)[0] == chosen
    assert mutants.choose(hundred, 5, "2", changed, max_touched=60)[0] != chosen


@pytest.mark.parametrize("n", [1, 3, 7, 100, 101])
def test_shards_have_every_mutant_once(hundred, n):
    parts = [mutants.shard(hundred, f"{k}/{n}") for k in range(1, n + 1)]
    assert sorted(name for part in parts for name in names(part)) == names(hundred)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "1/0", "-1/4", "a/b"])
def test_a_shard_that_does_not_exist_is_refused(hundred, text):
    with pytest.raises(SystemExit):
        mutants.shard(hundred, text)


def test_a_mutant_with_a_test_of_real_time_is_known(tmp_path):
    kinds = {"backends/soft/host_test": "gate", "backends/fault/fault_test": "pure",
             "ci/test_a.py": "nightly", "ci/test_a.py::test_text": "pure",
             "ci/test_b.py::test_slow_one": "gate", "ci/test_b.py::test_cases[soft]": "nightly"}
    for name, functions in {"a": ("text", "job"), "b": ("slow_one", "quick", "cases"), "c": ("x",)}.items():
        (tmp_path / "ci").mkdir(exist_ok=True)
        (tmp_path / "ci" / f"test_{name}.py").write_text(
            "".join(f"def test_{function}():\n    pass\n\n\n" for function in functions))

    def asks(test):
        return is_wire(make(tmp_path, "m", "src/a.c", test).commands[0], kinds, tmp_path)

    assert asks("backends/soft/host_test")
    assert not asks("backends/soft/engine_test") and not asks("backends/fault/fault_test")
    assert asks("pytest ci/test_a.py") and asks("pytest ci/test_a.py -k job")
    assert not asks("pytest ci/test_a.py -k text")
    assert asks("pytest ci/test_b.py") and asks("pytest ci/test_b.py -k slow")
    assert asks('pytest ci/test_b.py -k "quick or SLOW"') and asks("pytest ci/test_b.py -k cases")
    assert asks("pytest ci/test_b.py::test_slow_one") and asks("pytest ci/test_b.py -k a_parameter")
    assert not asks("pytest ci/test_b.py -k quick")
    assert not asks("pytest ci/test_b.py::test_quick")
    assert not asks("pytest ci/test_c.py -k slow")


def test_the_submission_starts_where_it_left_its_upstream(monkeypatch):
    """What git says is made up here: HEAD, and where it meets each upstream."""
    bases = {}

    def git(*words):
        if words[0] == "merge-base":
            return bases.get(words[2])
        if words[0] == "rev-list":
            return "head\none\ntwo\nthree\nfour\nfive"
        if words[0] == "rev-parse":
            return None if "none^{commit}" in words else "head"
        return "a.c\nb.c" if words[-1] == "main" else ""

    monkeypatch.setattr(mutants, "git", git)
    assert mutants.base_of_submission("asked") == "asked"
    with pytest.raises(SystemExit):
        mutants.base_of_submission("none")
    assert mutants.base_of_submission(None) == "five"
    bases["@{upstream}"] = "there"
    assert mutants.base_of_submission(None) == "there"
    bases["origin/main"] = "main"
    assert mutants.base_of_submission("") == "main"
    assert mutants.submission(None) == ("main", {"a.c", "b.c"})
    bases.update({"origin/main": "head", "@{upstream}": "head"})  # all is merged
    assert mutants.base_of_submission(None) == "five"
    monkeypatch.setattr(mutants, "git", lambda *words: None)
    assert mutants.submission(None) == ("nothing", set())


def test_a_mutant_hangs_after_half_a_minute_at_the_least(tmp_path):
    baseline = Baseline(tmp_path, [], 1)
    baseline.silence_s = {("quick",): 0.1, ("slow",): 20.0}
    assert baseline.limit_s(["quick"]) == 30
    assert baseline.limit_s(["slow"]) == 160


def test_a_job_hangs_when_it_is_silent_for_too_long(tmp_path, monkeypatch):
    """What writes on may take longer; what writes for ever has an end of its own."""
    talks = ["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo ok $i; sleep 0.5; done"]
    ended = mutation.follow(talks, tmp_path, limit_s=3)
    assert ended.status == 0 and ended.output.count("ok") == 8 and 0.5 <= ended.silence_s < 3
    hangs = ["sh", "-c", "echo ok 1; sleep 1000"]
    ended = mutation.follow(hangs, tmp_path, limit_s=1)
    assert ended == (None, "ok 1\n", ended.silence_s) and ended.silence_s >= 1
    monkeypatch.setattr(mutation, "WHOLE_LIMIT_S", 2)
    assert mutation.run(["sh", "-c", "while echo ok; do sleep 0.1; done"], tmp_path, 600)[0] is None
    assert mutation.run(["sh", "-c", "echo not ok 1; sleep 1000"], tmp_path, 600) == (1, "not ok 1\n")


@pytest.mark.parametrize("status, verdict", [(1, "killed"), (-11, "killed"), (None, "hangs"),
                                             (0, "SURVIVED")])
def test_a_mutant_that_hangs_is_not_called_killed(tmp_path, monkeypatch, status, verdict):
    """What the build and the test end with is made up here."""
    monkeypatch.setattr(mutation, "run",
                        lambda command, *_, **_settings: (0 if command[0] == "make" else status, ""))
    mutant = make(tmp_path, "m", "src/a.c", "src/a_test")
    found, detail = mutation.judge_planted(tmp_path, mutant, lambda _command: 30)
    assert found == verdict and (found in mutation.NOTICED) == (status != 0)
    assert ("build/test/src/a_test" in detail) == (status is None)


@pytest.mark.parametrize("fails_by, tried, verdict", [
    ("case", ["a_port_goes[3]"], ("killed", "")),
    ("the others", ["a_port_goes[3]", None], ("killed", "not by a_port_goes[3]")),
    ("none", ["a_port_goes[3]", None], ("SURVIVED", "m"))])
def test_the_case_of_a_mutant_is_tried_first(tmp_path, monkeypatch, fails_by, tried, verdict):
    ran = []

    def run(command, *_, **settings):
        if command[0] == "make":
            return 0, ""
        ran.append(settings.get("WEFT_CASE"))
        return int(fails_by == ("the others" if ran[-1] is None else "case")), ""

    monkeypatch.setattr(mutation, "run", run)
    mutant = make(tmp_path, "m", "src/a.c", "src/a_test")
    assert mutant.case is None
    mutant.case, mutant.why = "a_port_goes[3]", "m"
    assert mutation.judge_planted(tmp_path, mutant, lambda _command: 30) == verdict
    assert ran == tried


def test_a_copy_takes_what_the_tree_has_built_but_tests(tmp_path, monkeypatch):
    """What make does is made up here. A copy that has built something keeps that."""
    tree, worker = tmp_path / "tree", tmp_path / "worker"
    taken = ("obj/src/a.o", "obj/src/a.d", "libweft.a", "libnccl-net-mesh.so", "weft",
             "cuda/kernels.fatbin")
    for name in (*taken, "obj/src/a_test.o", "obj/src/a_testing.o", "libweft-testing.a"):
        (tree / "build" / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / "build" / name).write_text(name)
    made = []

    def run(command, cwd, _limit_s):
        made.append((cwd, command[-1]))
        if cwd == worker:
            (worker / "build").mkdir(parents=True, exist_ok=True)
            (cwd / command[-1]).write_text("")
        return 0, ""

    monkeypatch.setattr(mutation, "ROOT", tree)
    monkeypatch.setattr(mutation, "run", run)
    mutation.take_build(worker)
    assert made == [(tree, "all"), (worker, "build/flags"), (worker, "build/members")]
    found = {str(path.relative_to(worker / "build")) for path in worker.rglob("*") if path.is_file()}
    assert found == {*taken, "flags", "members"}
    remembered = (worker / "build" / "flags").stat().st_mtime_ns
    assert all((worker / "build" / name).stat().st_mtime_ns >= remembered for name in taken)
    mutation.take_build(worker)
    assert len(made) == 3


def test_mutants_are_not_tried_on_a_tree_that_does_not_build(tmp_path, monkeypatch):
    monkeypatch.setattr(mutation, "run", lambda command, cwd, limit_s: (2, "a.c:1: error"))
    with pytest.raises(SystemExit, match="a.c:1: error\nmutants: make all failed"):
        mutation.take_build(tmp_path)
