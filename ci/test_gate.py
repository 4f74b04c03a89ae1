"""What the gate reports: every failure by name, with the command that repeats it, however it ended.

The tree of these tests has a ci/job of its own, whose stages do what a test writes into them.
"""

import json
import os
import select
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STAGES = ["deps", "tidy", "test", "second", "mutants", "wire"]


@pytest.fixture(name="tree")
def fixture_tree(tmp_path):
    (tmp_path / "ci").mkdir()
    (tmp_path / ".ci").mkdir()
    for name in ("ci/gate", "ci/failures.py", "ci/processes.py", "ci/sampling.py", ".ci/run"):
        shutil.copy(ROOT / name, tmp_path / name)
    job = tmp_path / "ci" / "job"
    job.write_text("#!/bin/bash\n[[ $1 != --dry-run ]] || { [[ -f ci/$2.stage ]]; exit; }\n"
                   "set -o pipefail\nbash ci/$1.stage 2>&1 | tee build/ci/$1.log\n")
    job.chmod(0o755)
    for name in STAGES:
        stage(tmp_path, name, "echo '2 passed, 0 failed, 1 skipped'")
    return tmp_path


def stage(tree, name, text):
    (tree / "ci" / f"{name}.stage").write_text(text + "\n")


def keep(test, words, again, kind="failed"):
    """A line of a stage that keeps a failure, as failures.keep does."""
    row = {"stage": "", "test": test, "kind": kind, "words": words, "again": again}
    text = json.dumps(row).replace('"stage": ""', '"stage": "\'$WEFT_STAGE\'"')
    return f"echo '{text}' >>$WEFT_FAILURES"


def gate(tree, *words, code):
    done = subprocess.run(["bash", ".ci/run", *words], cwd=tree, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=300, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout.splitlines()


def wait_for_end(pid):
    """Returns once the process has ended, which it does at once if it was killed."""
    try:
        file = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([file], [], [])
    os.close(file)


def verdict(tree):
    return json.loads((tree / "build" / "ci" / "verdict.json").read_text())


def test_a_green_run_sums_up_its_stages(tree):
    said = gate(tree, code=0)
    assert said[-1] == "12 passed, 0 failed, 6 skipped"
    document = verdict(tree)
    assert (document["verdict"], document["failures"], document["flaky"]) == ("pass", [], [])
    assert [row["name"] for row in document["stages"]] == STAGES


@pytest.mark.parametrize("name", STAGES)
def test_a_failure_in_any_stage_is_in_the_last_lines_with_its_command(tree, name):
    stage(tree, name, keep("carp[7]", "no pond", "ci/fish --seed 7 carp")
          + "\nseq 500\necho '3 passed, 1 failed, 0 skipped'\nexit 1")
    stage(tree, STAGES[-1] if name != STAGES[-1] else STAGES[0],
          "seq 500\necho '2 passed, 0 failed, 0 skipped'")
    said = gate(tree, code=1)
    assert said[-1].split(", ")[1] == "1 failed"
    end = said[-60:]
    at = end.index(f"  FAILED {name}: carp[7]")
    assert end[at + 1].strip() == "no pond"
    assert end[at + 2].strip() == "again: ci/fish --seed 7 carp"
    assert verdict(tree)["failures"] == [{"stage": name, "test": "carp[7]", "kind": "failed",
                                          "words": "no pond", "again": "ci/fish --seed 7 carp"}]


def test_a_stage_that_names_no_test_is_named_with_its_errors(tree):
    stage(tree, "second", "echo 'x.c:3:1: error: no pond'\nseq 100\nexit 2")
    said = gate(tree, code=1)
    assert "  FAILED second: second: exit 2" in said[-60:]
    assert "           x.c:3:1: error: no pond" in said[-60:]
    assert "    again: ci/job second" in said[-60:]


def test_a_flaky_test_is_named_and_refuses_nothing(tree):
    stage(tree, "wire", keep("tench", "late", "ci/fish tench", "flaky")
          + "\necho '4 passed, 0 failed, 0 skipped'")
    said = gate(tree, code=0)
    assert "  FLAKY  wire: tench" in said[-60:]
    assert "1 flaky: real-time tests that passed when repeated alone" in said[-60:]
    assert [row["test"] for row in verdict(tree)["flaky"]] == ["tench"]


def test_many_failures_keep_their_names_and_the_report_its_length(tree):
    stage(tree, "test", "\n".join(keep(f"carp[{i}]", "no pond", f"ci/fish {i}") for i in range(40))
          + "\necho '0 passed, 40 failed, 0 skipped'\nexit 1")
    end = gate(tree, "test", code=1)[-60:]
    assert sum("FAILED test: carp[" in line for line in end) == 40
    assert "  test  " in "\n".join(end)


@pytest.mark.parametrize("ended_by, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_stage_and_the_report_is_printed(tree, ended_by, code):
    stage(tree, "tidy", keep("carp", "no pond", "ci/fish carp") + "\nexit 1")
    # What a stage starts ends with it, in whatever session.
    stage(tree, "test", "setsid sh -c 'echo $$ >other; exec sleep 100000' &\n"
          "until [ -s other ]; do sleep 0.1; done\necho begun\nexec sleep 100000")
    with subprocess.Popen(["bash", ".ci/run"], cwd=tree, stdout=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL) as process:
        said = []
        for line in process.stdout:
            said.append(line.rstrip("\n"))
            if said[-1] == "begun":
                process.send_signal(ended_by)
    assert process.returncode == code
    assert "  FAILED tidy: carp" in said
    assert "  FAILED test: test: was ended before it was over" in said
    assert said[-1] == "2 passed, 2 failed, 1 skipped"
    assert verdict(tree)["verdict"] == "ended"
    wait_for_end(int((tree / "other").read_text()))


def test_the_time_limit_ends_a_run_with_its_report(tree):
    stage(tree, "deps", "exec sleep 100000")
    said = gate(tree, "--limit", "0.01", code=124)
    assert "  FAILED deps: deps: was ended before it was over" in said
    assert verdict(tree)["verdict"] == "ended"


def test_an_unknown_stage_is_a_usage_error(tree):
    gate(tree, "carp", code=2)
