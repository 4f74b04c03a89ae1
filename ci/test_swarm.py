"""weft swarm: many seeds, one row each, in the order of files and seeds (docs/cli.md)."""

import json
import os
import resource
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.path.abspath(os.environ.get("WEFT", str(ROOT / "build" / "weft")))
FAST = os.environ.get("WEFT_FAST", WEFT)
PAIR = "scenarios/basic/pair.yaml"
STORM = "scenarios/swarm/storm.yaml"
SMALL = ["--set", "jobs=[{all_reduce: {bytes: 16KiB}}]"]
KEYS = {"schema_version", "weft", "file", "scenario", "backend", "policy", "seed", "replay",
        "result", "trace_hash", "sim_time_ns", "counters", "failed", "findings", "symptom",
        "connected"}
SPACES = ("all", "packets", "cables", "gids", "calls", "processes", "inside", "meshes", "seconds",
          "policies")


def swarm(*args, code=0, program=WEFT, cwd=ROOT, **kwargs):
    done = subprocess.run([program, "swarm", *map(str, args)], cwd=cwd, capture_output=True,
                          text=True, timeout=300, check=False, **kwargs)
    assert done.returncode == code, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done


def rows_of(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_row_is_the_run_it_names():
    rows = rows_of(swarm(PAIR, STORM, "--seeds", "7..8", *SMALL))
    assert [(row["file"], row["seed"]) for row in rows] == [
        (PAIR, "7"), (PAIR, "8"), (STORM, "7"), (STORM, "8")]
    assert len({row["trace_hash"] for row in rows}) == 4
    for row in rows:
        assert set(row) == KEYS
        assert row["result"] == "pass" and row["failed"] == [] and row["findings"] == []
        document = replayed(row["replay"], ROOT)
        for key in ("schema_version", "weft", "scenario", "backend", "policy", "seed",
                    "trace_hash", "result", "sim_time_ns"):
            assert document[key] == row[key], key


def replayed(replay, cwd):
    """The document of a row's replay line, as a shell would take it."""
    program, words = replay.split(" ", 1)
    assert program == "weft"
    run = subprocess.run(f"{WEFT} {words} --json", shell=True, cwd=cwd, text=True,
                         capture_output=True, timeout=60, check=True)
    return json.loads(run.stdout)


def test_names_that_a_shell_would_take_apart(tmp_path):
    name = "it's $HOME; a.yaml"
    (tmp_path / name).write_bytes((ROOT / PAIR).read_bytes())
    row, = rows_of(swarm(name, "--seeds", "7..7", "--set", "description=it's $HOME", *SMALL,
                         cwd=tmp_path))
    assert "it'\\''s $HOME; a.yaml" in row["replay"]
    assert "description=it'\\''s $HOME" in row["replay"]
    assert replayed(row["replay"], tmp_path)["trace_hash"] == row["trace_hash"]


def test_a_scenario_from_a_pipe(tmp_path):
    text = (ROOT / PAIR).read_text()
    done = swarm("/dev/stdin", "--seeds", "7..8", "--shrink", *SMALL, "--set",
                 "expect={result: fail}", code=1, cwd=tmp_path, input=text)
    row = rows_of(done)[0]
    small, = tmp_path.glob("*-seed-7.yaml")
    run = subprocess.run([WEFT, "run", small, "--json"], capture_output=True, text=True,
                         timeout=60, check=False)
    assert json.loads(run.stdout)["expectations"][0]["ok"] is False
    assert row["failed"] == [{"expect": "result: fail", "got": "pass"}]


def test_the_same_rows_whatever_the_processes_and_shards():
    whole = swarm(STORM, "--seeds", "1..7", "--jobs", "1", *SMALL)
    assert swarm(STORM, "--seeds", "1..7", "--jobs", "3", *SMALL).stdout == whole.stdout
    shards = [line for i in (1, 2, 3) for line in swarm(
        STORM, "--seeds", "1..7", "--shard", f"{i}/3", *SMALL).stdout.splitlines()]
    assert sorted(shards) == sorted(whole.stdout.splitlines())
    assert swarm(STORM, "--seeds", "1..2", "--shard", "3/3", *SMALL).stdout == ""


def test_what_is_no_range_is_refused():
    for args, words in ((["--seeds", "5"], "--seeds: expected A..B"),
                        ([], "--seeds: expected A..B"),
                        (["--seeds", "5..4"], "got '5..4'"),
                        (["--seeds", "1..99999999999"], "2^32"),
                        (["--seeds", "-1..4"], "got '-1..4'"),
                        (["--seeds", "1..4", "--shard", "0/2"], "--shard: expected i/N"),
                        (["--seeds", "1..4", "--shard", "3/2"], "--shard: expected i/N"),
                        (["--seeds", "1..4", "--jobs", "0"], "--jobs: expected"),
                        (["--seeds", "1..4", "--jobs", "2x"], "--jobs: expected")):
        assert words in swarm(PAIR, *args, code=2).stderr
    assert "usage: weft swarm FILE..." in swarm("--seeds", "1..2", code=2).stderr
    assert "ghost.yaml" in swarm("ghost.yaml", "--seeds", "1..2", code=2).stderr


def test_a_failure_is_told_and_does_not_stop_the_rest():
    done = swarm(PAIR, "--seeds", "1..3", "--set", "expect={result: fail}", code=1)
    for seed, row in enumerate(rows_of(done), start=1):
        assert row["result"] == "fail" and row["seed"] == str(seed)
        assert row["failed"] == [{"expect": "result: fail", "got": "pass"}]
        assert f"replay: {row['replay']}\n" in done.stderr
    assert "0 passed, 3 failed" in done.stderr


LIMITS_S = (1, 10, 100)


def test_a_run_that_falls_or_never_ends_costs_only_itself(tmp_path):
    """However short a limit is, the first run exceeds it. Whether the second one keeps it depends on
    the machine, so limits get longer until it does."""
    endless = tmp_path / "endless.yaml"
    text = (ROOT / PAIR).read_text()
    endless.write_text(text[:text.index("jobs:")] +
                       "jobs:\n  - all_reduce: {bytes: 16MiB, repeat: 1000000}\n")

    def limited(code, *args, **kwargs):
        return rows_of(swarm(endless, PAIR, "--seeds", "1..1", "--jobs", "1", *args, code=code,
                             program=FAST, **kwargs))

    for limit_s in LIMITS_S:
        def short_of_time(limit_s=limit_s):
            resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 1))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        fallen, passed = limited(1, preexec_fn=short_of_time)
        assert fallen["result"] == "crash" and fallen["trace_hash"] is None
        assert fallen["failed"] == [{"expect": "the run ends",
                                     "got": "signal 24 (CPU time limit exceeded)"}]
        if passed["result"] != "crash":
            break
    assert passed["result"] == "pass"

    for limit_s in LIMITS_S:
        late, passed = limited(124, "--time-limit", limit_s)
        assert late["result"] == "timeout"
        assert late["failed"] == [{"expect": "the run ends", "got": "out of time"}]
        if passed["result"] != "timeout":
            break
    assert passed["result"] == "pass"


def test_a_failure_is_made_small(tmp_path):
    """No job ends within a microsecond: of three hosts, six cables, faults and three jobs, one job
    of one byte over one cable is enough to show it."""
    done = swarm(ROOT / STORM, "--seeds", "4..4", "--shrink", "--set",
                 "expect={data: exact, time: {at_most: 1us}}", code=1, cwd=tmp_path)
    row, = rows_of(done)
    small = tmp_path / "storm-seed-4.yaml"
    assert f"weft run {small.name}" in done.stderr
    text = small.read_text()
    assert row["replay"] in text and "\nfaults:" not in text
    run = subprocess.run([WEFT, "run", small, "--json"], capture_output=True, text=True,
                         timeout=60, check=False)
    assert run.returncode == 1
    document = json.loads(run.stdout)
    assert document["seed"] == "4"
    failed = [item["expect"] for item in document["expectations"] if not item["ok"]]
    assert failed == [item["expect"] for item in row["failed"]]
    assert len(document["links"]) <= 2  # one cable, both directions
    assert len(document["jobs"]) == 1 and "bytes: 1," in text


def test_small_is_the_same_cause(tmp_path):
    """A file whose job fails of a call that fails, over a mesh that is whole. A cut mesh fails the same
    expectation, with fewer hosts and faults, and is not what was found."""
    text = """
name: cause
topology:
  nodes: {a: {ports: [p0, p1]}, b: {ports: [p0, p1]}, c: {ports: [p0, p1]}}
  links:
    - {endpoints: ["a:p0", "b:p0"], subnet: 10.1.0.0/24}
    - {endpoints: ["b:p1", "c:p0"], subnet: 10.2.0.0/24}
    - {endpoints: ["c:p1", "a:p1"], subnet: 10.3.0.0/24}
jobs:
  - all_reduce: {bytes: [8, 64KiB]}
faults:
  - {at: 900ms, on: "a:p0", kind: down, for: 1ms}
  - {on: b, kind: call_error, call: create_qp, count: 10000, errno: 12}
"""
    (tmp_path / "cause.yaml").write_text(text)
    row, = rows_of(swarm("cause.yaml", "--seeds", "4..4", "--shrink", code=1, cwd=tmp_path))
    assert row["symptom"]["errno"] == 12 and row["connected"] is True
    run = subprocess.run([WEFT, "run", tmp_path / "cause-seed-4.yaml", "--json"],
                         capture_output=True, text=True, timeout=60, check=False)
    document = json.loads(run.stdout)
    for key in ("phase", "errno", "wc_status"):
        assert document["symptom"][key] == row["symptom"][key], key
    assert document["connected"] is True
    assert [item["code"] for item in document["findings"]] == row["findings"]
    assert len(document["links"]) < 6 and "kind: down" not in (
        tmp_path / "cause-seed-4.yaml").read_text()


def test_the_last_word_and_the_last_process():
    """last-word-lost and all-killed: what runs of a space found, with the seeds 1 to 60."""
    for row in rows_of(swarm("scenarios/swarm/last-word-lost.yaml",
                             "scenarios/swarm/all-killed.yaml", "--seeds", "1..60")):
        assert row["result"] == "pass", row


def test_each_space_draws_files_that_are_valid(tmp_path):
    for space in SPACES:
        printed = swarm("--space", space, "--seeds", "1..40", "--print").stdout
        assert swarm("--space", space, "--seeds", "1..40", "--print").stdout == printed
        files = []
        for i, text in enumerate(printed.split("---\n")):
            assert f"seed: {i + 1}\n" in text
            files.append(tmp_path / f"{space}-{i}.yaml")
            files[-1].write_text(text)
        assert len(files) == 40
        subprocess.run([WEFT, "validate", "-q", *files], check=True, timeout=120)
    assert "there is no space 'none'" in swarm("--space", "none", "--seeds", "1..1", code=2).stderr


def test_a_setting_repeats_from_its_file(tmp_path):
    """Every row of a space names a file that gives the same run; --print writes it, and so does a
    failure."""
    rows = rows_of(swarm("--space", "packets", "--seeds", "1..12", "--jobs", "1", cwd=tmp_path))
    assert rows == rows_of(swarm("--space", "packets", "--seeds", "1..12", "--jobs", "3",
                                 cwd=tmp_path))
    for row in rows[:4]:
        seed = row["seed"]
        (tmp_path / row["file"]).write_text(
            swarm("--space", "packets", "--seeds", f"{seed}..{seed}", "--print").stdout)
        document = replayed(row["replay"], tmp_path)
        assert document["sim_time_ns"] == row["sim_time_ns"]
        assert document["result"] == row["result"]
        assert any(item["expect"] == "invariant: data" for item in document["expectations"])


def test_seeds_that_failed_once():
    """342: a port goes down while a flow comes up, and then the SYN of its next attempt is lost.
    1526: the same, and the flow had been up."""
    for seed in (342, 1526):
        row, = rows_of(swarm(STORM, "--seeds", f"{seed}..{seed}"))
        assert row["result"] == "pass"


@pytest.mark.parametrize("backend", ["soft", "rxe"])
def test_a_space_draws_what_a_backend_has(tmp_path, backend):
    """Which backends a file is for is decided by the check that refuses it at its run."""
    texts = []
    for space in SPACES:
        done = swarm("--space", space, "--seeds", "1..40", "--backend", backend, "--print")
        texts += done.stdout.split("---\n")
    for i, text in enumerate(texts):
        (tmp_path / f"{i}.yaml").write_text(text)
    done = subprocess.run([FAST, "list", tmp_path, "--json"], capture_output=True, text=True, timeout=60,
                          check=True)
    files = json.loads(done.stdout)["scenarios"]
    assert len(files) == 40 * len(SPACES)
    assert [one["file"] for one in files if backend not in one["backends"]] == []
    drawn = "".join(texts)
    assert f" for {backend}\n" in drawn
    for word in ("at: jobs+", "kind: down", "kind: kill", "kind: call_short", "loss: ", "fd00:", "profile:",
                 "ranks: "):
        assert word in drawn, word
    assert ("profile_override" in drawn) == (backend == "soft")
