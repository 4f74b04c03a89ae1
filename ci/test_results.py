"""Results are never lost (docs/cli.md): every verb reports what stdout could not take, and the
documents of `weft run` have each file that was given, whatever ended the run."""

import json
import os
import re
import signal
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from test_cli import DOCUMENT_KEYS, FAST, PAIR, ROOT, TRIANGLE, WEFT, weft

NCCL = "scenarios/basic/triangle-nccl-2.25.yaml"
# What each verb is given so that it prints something on any machine.
PRINTS = {
    "run": [PAIR], "validate": [PAIR], "list": [], "show": [PAIR], "bench": ["--list"],
    "diagnose": [], "explain": [], "paths": ["scenarios/topology/dgx-spark.xml"],
    "swarm": ["--space", "all", "--seeds", "1..1", "--print"], "doctor": [PAIR], "plugin": [],
    "plugin-check": ["--list"], "relayd": ["--help"], "node": ["--help"], "guest": ["--help"],
    "cleanup": ["--help"], "exec": ["--help"], "lab": ["--help"],
    "import": ["netplan", *(f"spark-{i}=docs/netplan/pair-spark-{i}.yaml" for i in (1, 2))], "completion": ["bash"],
}


def verbs():
    usage = weft("--help").stdout
    return re.findall(r"^  ([a-z-]+) ", usage, re.MULTILINE)


def test_every_verb_is_asked():
    assert sorted(verbs()) == sorted(PRINTS)


@pytest.mark.parametrize("verb", sorted(PRINTS))
def test_no_verb_loses_what_it_prints(verb, tmp_path):
    words = PRINTS[verb]
    if verb == "diagnose":
        words = [str(tmp_path / "seen.json")]
        weft("run", PAIR, "-q", "--observations", words[0])
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([WEFT, verb, *words], cwd=ROOT, stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("weft: stdout: No space left on device") == 1, done.stderr


@pytest.fixture(name="broken")
def broken_file(tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text("name: broken\nbogus: 1\n")
    return path


def suites(path):
    return {suite.get("name"): suite for suite in ElementTree.parse(path).getroot()}


def test_documents_have_every_file_and_why_one_was_not_run(tmp_path, broken):
    junit, later = tmp_path / "j.xml", tmp_path / "later.yaml"
    later.write_text((ROOT / PAIR).read_text().replace("expect:", "expect:\n  time_at_most: 1s")
                     + "faults:\n  - {on: titanic, kind: clock, by: 1s}\n")
    files = [PAIR, broken, later, NCCL]
    done = weft("run", *files, "--json", "--junit", junit, code=2)
    runs = json.loads(done.stdout)["runs"]
    assert [run["file"] for run in runs] == [str(file) for file in files]
    assert all(set(run) == DOCUMENT_KEYS for run in runs)
    assert [run["result"] for run in runs] == ["pass", "error", "error", "pass"]
    assert f"{broken}:2:1: unknown key 'bogus'" in runs[1]["error"]
    assert "not implemented yet: " in runs[2]["error"] or f"{later}:" in runs[2]["error"]
    assert runs[0]["error"] is None
    assert f"weft run {broken} --backend sim" == runs[1]["replay"]
    found = suites(junit)
    assert len(found) == len(files)
    assert all(float(suite.get("time")) >= 0 and len(suite) == int(suite.get("tests")) > 0
               for suite in found.values())
    assert found[str(broken)].get("errors") == "1"
    error = found[str(broken)][0][0]
    assert error.tag == "error" and "unknown key 'bogus'" in error.get("message")
    assert f"replay: weft run {broken}" in error.text


def test_lines_have_every_file(broken):
    lines = weft("run", PAIR, broken, "--ndjson", code=2).stdout.splitlines()
    assert [json.loads(line)["result"] for line in lines] == ["pass", "error"]


def test_a_failed_case_has_the_finding_and_the_replay_line(tmp_path):
    junit = tmp_path / "j.xml"
    weft("run", NCCL, "--set", "expect={}", "-q", "--junit", junit, code=1)
    suite = suites(junit)["triangle-nccl-2-25"]
    failures = [case[0] for case in suite if len(case) > 0]
    assert len(failures) == int(suite.get("failures")) > 0
    for failure in failures:
        assert "route.wrong_nic" in failure.text and "replay: weft run " in failure.text


def test_quiet_prints_failures_and_nothing_else():
    assert weft("run", PAIR, "-q").stdout == ""
    said = weft("run", PAIR, NCCL, "--set", "expect={}", "-q", code=1).stdout
    for text in ("error route.wrong_nic at titanic:p1", "not ok result: expected pass, got fail", "FAIL triangle"):
        assert text in said
    assert "PASS" not in said and "busbw" not in said and "ok    " not in said
    assert weft("run", NCCL, "--set", "expect={}", "-q", "--json=/dev/null", code=1).stdout == said
    json.loads(weft("run", NCCL, "--set", "expect={}", "-q", "--json", code=1).stdout)


@pytest.mark.parametrize("faults, words", [
    ("[]", "ok     data: exact, 2 of 2 rows verified"),
    ("[{at: 0s, on: titanic, kind: kill}]",
     "not ok data: expected exact, got nothing was verified: none of 2 rows ended"),
    ("[{at: 3ms, on: titanic, kind: kill}]",
     "not ok data: expected exact, got exact as far as verified, 1 of 2 rows ended")])
def test_data_is_called_exact_as_far_as_it_was_verified(faults, words):
    jobs = "jobs=[{all_reduce: {bytes: 8}}, {all_reduce: {bytes: 64MiB}}]"
    done = subprocess.run([WEFT, "run", PAIR, "--set", jobs, "--set", f"faults={faults}", "--set", "expect={}"],
                          cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert words in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("form", ["--json", "--ndjson"])
def test_documents_are_whole_when_a_signal_ends_the_run(tmp_path, number, form):
    """The second file is a pipe: a process that could open it to write knows that its reader is
    there, and has the first result."""
    pipe, junit = tmp_path / "pipe.yaml", tmp_path / "j.xml"
    os.mkfifo(pipe)
    with subprocess.Popen([WEFT, "run", PAIR, pipe, TRIANGLE, form, "--junit", junit], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        with open(pipe, "w", encoding="ascii"):
            process.send_signal(number)
            out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    runs = (json.loads(out)["runs"] if form == "--json" else
            [json.loads(line) for line in out.splitlines()])
    assert [run["file"] for run in runs] == [PAIR, str(pipe), TRIANGLE]
    assert [run["result"] for run in runs] == ["pass", "error", "error"]
    assert [run["error"] for run in runs] == [
        None, "the process was ended before this run was over", "not begun"]
    assert all(set(run) == DOCUMENT_KEYS for run in runs)
    found = suites(junit)
    assert [suite.get("errors") for suite in found.values()] == ["0", "1", "1"]
    assert all(float(suite.get("time")) >= 0 for suite in found.values())


def test_an_interrupt_that_is_ignored_is_ignored(tmp_path):
    """As of a script that runs in the background. The second file is a pipe, as above."""
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    with subprocess.Popen([WEFT, "run", PAIR, pipe, "--json"], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) as process:
        with open(pipe, "w", encoding="ascii") as file:
            process.send_signal(signal.SIGINT)
            file.write((ROOT / PAIR).read_text(encoding="utf-8"))
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert [run["result"] for run in json.loads(out)["runs"]] == ["pass", "pass"]


# A guest's kernel, as far as what starts it looks. Its command keeps the results in GIVEN, the last of them cut
# short, prints one, and never ends.
KERNEL = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *volatile mark = "/proc/um_seed";

static void copy(const char *from, const char *folder, const char *name)
{
    char path[4096], bytes[65536];
    FILE *in = fopen(from, "r");
    size_t n = fread(bytes, 1, sizeof(bytes), in);

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *out = fopen(path, "w");
    fwrite(bytes, 1, n, out);
    fclose(out);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "WEFT_GUEST_SCRATCH=", 19) == 0) {
            copy(GIVEN "results", argv[i] + 19, "results");
            copy(GIVEN "out", argv[i] + 19, "out");
        }
    }
    for (;;) {
        pause();
    }
}
"""


@pytest.fixture(name="guest")
def kernel_that_hangs(tmp_path):
    (tmp_path / "kernel.c").write_text(KERNEL)
    subprocess.run(["cc", f'-DGIVEN="{tmp_path}/"', "-o", tmp_path / "kernel", tmp_path / "kernel.c"], check=True)
    lines = weft("run", PAIR, NCCL, PAIR, "--ndjson").stdout.splitlines(keepends=True)
    (tmp_path / "out").write_text(lines[0])
    timed = [line.replace("{", '{"seconds": 1.5, ', 1) for line in lines]
    (tmp_path / "results").write_text("".join(timed)[:-100])
    return {**os.environ, "WEFT_GUEST_KERNEL": str(tmp_path / "kernel")}


@pytest.mark.parametrize("ends", ["limit", signal.SIGINT, signal.SIGTERM])
def test_documents_are_whole_when_a_guest_is_ended(tmp_path, guest, ends):
    """By its time limit, or with the command. Files that it was done with have their results, those whose line it did
    not print included; the others have none."""
    json_file, junit = tmp_path / "j.json", tmp_path / "j.xml"
    limit = ["--time-limit", "2"] if ends == "limit" else []
    with subprocess.Popen([WEFT, "run", "--backend", "rxe", PAIR, NCCL, TRIANGLE, "--ndjson", f"--json={json_file}",
                           "--junit", junit, *limit], cwd=ROOT, env=guest, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        first = process.stdout.readline()
        if ends != "limit":
            process.send_signal(ends)
        out, said = process.communicate(timeout=60)
    assert process.returncode == (124 if ends == "limit" else 130), said
    lines = [json.loads(line) for line in [first, *out.splitlines()]]
    assert json.loads(json_file.read_text())["runs"] == lines
    assert [(line["file"], line["result"], line["error"]) for line in lines] == [
        (PAIR, "pass", None), (NCCL, "pass", None),
        (TRIANGLE, "error", "the guest was ended before this run was over")]
    assert all(set(line) == DOCUMENT_KEYS for line in lines)
    found = suites(junit)
    assert [(name, suite.get("errors"), suite.get("time")) for name, suite in found.items()] == [
        ("pair", "0", "1.500"), ("triangle-nccl-2-25", "0", "1.500"), (TRIANGLE, "1", "0.000")]


def test_a_document_on_stdout_has_the_results_of_a_guest_that_was_ended(guest):
    with subprocess.Popen([WEFT, "run", "--backend", "rxe", PAIR, NCCL, TRIANGLE, "--json", "--time-limit", "2"],
                          cwd=ROOT, env=guest, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()  # what this kernel prints, whatever the flags are
        runs = json.loads(process.communicate(timeout=60)[0])["runs"]
        assert [run["result"] for run in runs] == ["pass", "pass", "error"]


@pytest.mark.parametrize("n_files", [1, 2])
def test_a_guest_gives_its_results_when_each_is_known(tmp_path, n_files):
    """The descriptor of its folder is one that a guest's command gets. No program of its own inherits it."""
    folder = os.open(tmp_path, os.O_RDONLY)
    env = {**os.environ, "WEFT_GUEST_FOLDER": str(folder)}
    done = subprocess.run([WEFT, "run", *[PAIR, NCCL][:n_files], "--ndjson"], cwd=ROOT, env=env, text=True,
                          pass_fds=[folder], capture_output=True, timeout=60, check=True)
    os.close(folder)
    kept = [json.loads(line) for line in (tmp_path / "results").read_text().splitlines()]
    assert all(run.pop("seconds") > 0 for run in kept)
    assert kept == [json.loads(line) for line in done.stdout.splitlines()]
    assert len(kept) == n_files


@pytest.mark.parametrize("content, said", [
    (b"#!/bin/false\n", "keeps real time only"),
    (b"\x7fELF, but no program: /proc/um_seed", "Exec format error")])
def test_documents_are_whole_when_no_guest_starts(tmp_path, broken, content, said):
    junit, kernel = tmp_path / "j.xml", tmp_path / "kernel"
    kernel.write_bytes(content)
    kernel.chmod(0o755)
    done = weft("run", "--backend", "rxe", "--clock", "virtual", PAIR, broken, "--json", "--junit", junit, code=3,
                env={"WEFT_GUEST_KERNEL": str(kernel)})
    assert said in done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert [(run["file"], run["result"]) for run in runs] == [(PAIR, "error"), (str(broken), "error")]
    assert {run["error"] for run in runs} == {"the guest that this run needs cannot be started"}
    assert len(suites(junit)) == 2


def test_documents_are_whole_when_a_program_cannot_be_run(tmp_path):
    junit, programs = tmp_path / "j.xml", "scenarios/programs/devinfo.yaml"
    done = weft("run", "--backend", "soft", PAIR, programs, "--set", "jobs=[{exec: {titanic: 'cat {ghost}'}}]",
                "--set", "expect={findings: []}", "--json", "--junit", junit, code=2)
    assert ["no such placeholder" in run["error"] for run in json.loads(done.stdout)["runs"]] == [True, True]
    assert len(suites(junit)) == 2


def test_memory_that_the_test_bed_lacks_is_no_verdict(tmp_path):
    """256 MiB of a simulated GPU do not fit below the limit."""
    junit = tmp_path / "j.xml"
    done = subprocess.run(
        ["sh", "-c", 'ulimit -v 200000; exec "$@"', "sh", FAST, "run", PAIR, TRIANGLE, "--json", "--junit",
         junit, "--set", "jobs=[{all_reduce: {bytes: 256MiB}}]", "--set", "expect={}"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 3, done.stderr
    assert "weft: out of memory: " in done.stderr and "payload: timing" in done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert [run["result"] for run in runs] == ["error", "error"]
    assert len(suites(junit)) == 2
    swarm = subprocess.run(
        ["sh", "-c", 'ulimit -v 200000; exec "$@"', "sh", FAST, "swarm", PAIR, "--seeds", "1..1", "--set",
         "jobs=[{all_reduce: {bytes: 256MiB}}]", "--set", "expect={}"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert json.loads(swarm.stdout)["result"] == "error"
