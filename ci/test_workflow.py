"""What GitHub runs exists, and runs the same here."""

import functools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
BUILD = os.environ.get("WEFT_BUILD", "build")
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
JOB = ROOT / "ci" / "job"


def ask(*command, code=0, cwd=ROOT, limit_s=60, **env):
    kept = {name: value for name, value in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
    done = subprocess.run(command, cwd=cwd, env={**kept, **env}, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=limit_s, check=False)
    assert done.returncode == code, (command, done.stdout, done.stderr)
    return done.stdout


TIERS = {line.split()[0]: line.split()[1] for line in ask(JOB, "--list").splitlines()}
NAMES = list(TIERS)
GATE = [name for name, tier in TIERS.items() if tier == "gate"]
NIGHT = [name for name, tier in TIERS.items() if tier == "night"]
BY_HAND = {"nightly"}  # all shards in a row, where there are no runners side by side


def matrix_of(job, key):
    """All values that a key of a job's matrix can have, those of an expression included."""
    matrix = job.get("strategy", {}).get("matrix", {})
    values = matrix.get(key, [])
    if isinstance(values, str):
        values = [value for text in re.findall(r"'(\[.*?\])'", values) for value in json.loads(text)]
    return [*values, *(row[key] for row in matrix.get("include", []) if key in row)]


def commands():
    """(job, command) of every `run:` line, with the matrix put in."""
    for name, job in WORKFLOW["jobs"].items():
        for step in job["steps"]:
            for line in step.get("run", "").splitlines():
                uses = re.findall(r"\$\{\{ matrix\.(\w+) \}\}", line)
                assert len(uses) <= 1 and line.count("${{") == len(uses), line
                for value in matrix_of(job, uses[0]) if uses else [""]:
                    yield name, re.sub(r"\$\{\{.*?\}\}", value, line)


@functools.cache
def make_targets():
    """The names that the Makefile declares, each of which has a rule."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    names = set(re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)[1].split()) - {"FORCE"}
    assert all(re.search(rf"^{name}:", text, re.MULTILINE) for name in names)
    return names


def assert_exists(words):
    """A command of ours names a script or a make target that is there."""
    if words[0] == "make":
        for word in words[1:]:
            if not word.startswith("-") and "=" not in word and not word.startswith("build/"):
                assert word in make_targets(), words
    elif words[0].startswith("ci/"):
        assert os.access(ROOT / words[0], os.X_OK), words
        assert words[0] != "ci/job" or words[1] in NAMES, words
    else:
        assert words[:2] == ["sudo", "-n"], words


def test_the_cache_of_the_guests_kernel_changes_with_its_sources():
    """Otherwise each job restores an old kernel, and builds the new one again."""
    guest = ROOT / "ci" / "guest"
    key, = (step["with"]["key"] for job in WORKFLOW["jobs"].values() for step in job["steps"]
            if step.get("id") == "guest")
    named = {path for pattern in re.findall(r"'([^']+)'", key) for path in ROOT.glob(pattern)}
    assert named == {ROOT / "ci" / "rxe-guest", guest / "uml.defconfig", guest / "crc32.h",
                     *guest.glob("[0-9][0-9]-*.patch")}


def test_every_command_of_the_workflow_exists():
    found = list(commands())
    assert len(found) > 10
    for _, line in found:
        assert_exists(line.split())


def jobs_on(event):
    """The names of ci/job that GitHub runs at an event."""
    return {line.split()[1] for name, line in commands() if line.startswith("ci/job ")
            and (WORKFLOW["jobs"][name]["if"] == "github.event_name != 'schedule'"
                 ) == (event == "push")}


def test_github_runs_the_gate_on_every_push_and_the_rest_at_night():
    assert jobs_on("push") == set(GATE)
    assert jobs_on("schedule") == {"deps", *NIGHT}
    assert set(NAMES) == {*GATE, *NIGHT, *BY_HAND}


def test_the_gate_is_the_same_wherever_it_is_written_down():
    gate = (ROOT / "ci" / "gate").read_text()
    assert re.findall(r'"(\w+)"', re.search(r"^STAGES = \((.*)\)$", gate, re.MULTILINE)[1]) == GATE
    run = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"all stages: (.*)$", run, re.MULTILINE)[1].split() == GATE
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \|", guide[guide.index("| stage |"):], re.MULTILINE)
    assert rows == GATE


def test_the_gate_runs_the_command_that_the_readme_names():
    assert "+ make test\n" in ask(JOB, "--dry-run", "test")
    assert re.search(r"^make test$", (ROOT / "README.md").read_text(), re.MULTILINE)


def test_contributing_and_make_help_name_the_tiers():
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    for command in ("make check", "make test", ".ci/run", "ci/job nightly"):
        assert f"`{command}`" in guide, command
    assert "make check" in ask("make", "help", MAKEFLAGS="")


@pytest.mark.parametrize("name", NAMES)
def test_every_job_says_what_it_would_run(name):
    lines = ask(JOB, "--dry-run", name).splitlines()
    assert lines
    for line in lines:
        if line.startswith("+ "):
            assert_exists(line[2:].split())
        else:
            assert line.startswith("SKIP ") or line == "0 passed, 0 failed, 1 skipped"


def test_jobs_are_bounded_and_may_only_read():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert WORKFLOW["concurrency"]["cancel-in-progress"] is True
    for name, job in WORKFLOW["jobs"].items():
        assert 0 < job["timeout-minutes"] <= 300, name
        assert "permissions" not in job, name
        uploads = [step for step in job["steps"] if "upload-artifact" in step.get("uses", "")]
        assert [step["if"] for step in uploads] == ["failure()"], name
        assert "build/ci" in uploads[0]["with"]["path"].split(), name


def test_soft_roce_is_tested_every_night_in_a_cached_guest():
    job = WORKFLOW["jobs"]["rxe"]
    cache = next(step for step in job["steps"] if "cache/restore" in step.get("uses", ""))
    for path in re.findall(r"'(.*?)'", cache["with"]["key"]):
        assert list(ROOT.glob(path)), path
    assert cache["with"]["path"] == "~/.cache/weft"
    assert "rxe-guest-build.log" in JOB.read_text()


@pytest.mark.heavy
def test_without_a_guest_its_job_fails_and_does_not_skip(tmp_path):
    """In all files of such tests, but for those that need no guest and take long: they run in their
    own file all the same."""
    long = ("ci/test_guest.py::test_a_kernel_that_stays_after_its_result_is_ended",
            "ci/test_kills.py::test_a_killed_command_leaves_nothing")
    said = ask(ROOT / "ci" / "check-run", "--guest", "--build", "build", code=1, limit_s=600,
               XDG_CACHE_HOME=str(tmp_path), WEFT_GUEST_KERNEL="",
               PYTEST_ADDOPTS=" ".join(f"--deselect {test}" for test in long), WEFT_TESTS="all")
    assert "every test in the guest must run" in said
    # What needs no guest passes; all else is skipped, each skip is a failure, and nothing fails besides.
    assert re.search(r"^[1-9]\d* passed, ([1-9]\d*) failed, \1 skipped$", said, re.MULTILINE), said[-500:]


def test_what_may_start_threads_is_found_by_what_it_links(tmp_path):
    """Two programs, of which one starts a thread; what was not built is not left out in silence."""
    names = ["src/base/heap_test", "backends/soft/host_test"]
    for name, text in zip(names, ("", "pthread_create((void *)p, 0, (void *)p, 0)")):
        program = tmp_path / "test" / name
        program.parent.mkdir(parents=True)
        subprocess.run(["gcc", "-include", "pthread.h", "-x", "c", "-", "-o", program], check=True,
                       input=f"int main(int n, char **p) {{ (void)n; (void)p; {text}; return 1; }}",
                       text=True)
    for only, count in ((names[0], "0 passed, 0 failed"), (names[1], "0 passed, 1 failed"),
                        ("backends/soft/engine_test", "0 passed, 1 failed")):
        said = ask(ROOT / "ci" / "check-run", "--threads", "--build", str(tmp_path), "--only", only,
                   code=0 if count.endswith(" 0 failed") else 1)
        assert said.splitlines()[-1].startswith(count), said


def test_an_unknown_job_is_a_usage_error():
    ask(JOB, "nosuchjob", code=2)
    ask(JOB, code=2)
    ask(ROOT / ".ci" / "run", "nosuchjob", code=2)
    for script in ("job", "gate", "check-run", "evidence", "again", "seeds", "fuzz", "determinism"):
        assert ask(ROOT / "ci" / script, "--help")


@pytest.fixture(name="tree")
def fixture_tree(tmp_path):
    """A tree with a Makefile of its own, in which `make tidy` fails."""
    (tmp_path / "ci").mkdir()
    for script in ("job", "evidence"):
        shutil.copy(ROOT / "ci" / script, tmp_path / "ci" / script)
    shutil.copytree(ROOT / "scenarios", tmp_path / "scenarios")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "weft").symlink_to(os.environ.get("WEFT_FAST", ROOT / "build" / "weft"))
    (tmp_path / "Makefile").write_text(
        "tidy:\n"
        "\t@echo 'skipped carp: no pond'\n"
        "\t@build/weft run -q scenarios/basic/pair.yaml --seed 7 --set expect.result=fail || true\n"
        "\t@echo '3 passed, 1 failed, 1 skipped'\n"
        "\t@false\n")
    return tmp_path


def test_a_failed_job_leaves_its_log_a_summary_and_evidence(tree):
    page = tree / "summary.md"
    ask(tree / "ci" / "job", "tidy", code=2, cwd=tree, GITHUB_STEP_SUMMARY=str(page))
    text = page.read_text()
    assert re.search(r"^\| tidy \(\w+\) \| \*\*failed\*\* \(2\) \| 3 passed, 1 failed, 1 skipped \|",
                     text, re.MULTILINE)
    assert "skipped carp: no pond" in text
    assert "replay: weft run scenarios/basic/pair.yaml" in text
    assert "skipped carp" in (tree / "build" / "ci" / "tidy.log").read_text()

    folder = tree / "build" / "ci" / "evidence" / "pair-sim-7"
    assert sorted(path.name for path in folder.iterdir()) == [
        "capture.pcapng", "events", "output", "replay.sh", "result.json", "scenario.yaml"]
    assert all(path.stat().st_size > 0 for path in folder.iterdir())
    document = json.loads((folder / "result.json").read_text())
    assert (document["scenario"], document["seed"], document["result"]) == ("pair", "7", "fail")
    ask("sh", folder / "replay.sh", code=1, cwd=tree)


def test_a_command_is_repeated_until_it_fails(tmp_path):
    again = ROOT / "ci" / "again"
    assert ask(again, "3", "true") == "3 passed, 0 failed, 0 skipped\n"
    count = tmp_path / "count"
    said = ask(again, "9", "sh", "-c", f"echo x >>{count}; test $(wc -l <{count}) -lt 3", code=1)
    assert said.splitlines()[-1] == "2 passed, 1 failed, 0 skipped"
