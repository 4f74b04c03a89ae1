"""Every test has a class, pure or wire, and ci/check-run and ci/conftest.py hold it to that."""

import ast
import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sampling
import wire

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ("check-run", "conftest.py", "wire.py", "failures.py", "sampling.py", "processes.py",
           "sanitizers.py")
KINDS = wire.read()


@pytest.fixture(name="tree")
def fixture_tree(tmp_path):
    """A tree with nothing but the scripts, in which a list and tests are to be written."""
    (tmp_path / "ci").mkdir()
    for script in SCRIPTS:
        shutil.copy(ROOT / "ci" / script, tmp_path / "ci" / script)
    (tmp_path / "ci" / "wire-tests.txt").write_text("")
    return tmp_path


def ask(tree, *command, code=0, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WEFT")}
    done = subprocess.run(command, cwd=tree, env={**kept, **environment}, capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, timeout=300, check=False)
    assert done.returncode == code, (command, done.stdout, done.stderr)
    return done.stdout + done.stderr


def check_run(tree, *words, code=0, **environment):
    """What it printed, and the failures that it kept."""
    kept = tree / "failures"
    kept.unlink(missing_ok=True)
    said = ask(tree, "ci/check-run", "--quiet", *words, code=code, WEFT_FAILURES=str(kept),
               WEFT_STAGE="test", **environment)
    rows = kept.read_text().splitlines() if kept.exists() else []
    return said.splitlines(), [json.loads(row) for row in rows]


# ---- the list ----

def functions_of(path):
    return {node.name for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize("name", KINDS)
def test_what_the_list_names_exists(name):
    """A case of a function is not looked for, only its function."""
    file, _, function = name.partition("::")
    if not file.endswith(".py"):
        assert not function and (ROOT / f"{file}.c").is_file(), name
        return
    assert file.startswith("ci/test_") and (ROOT / file).is_file(), name
    assert not function or function.partition("[")[0] in functions_of(ROOT / file), name


def test_an_exception_is_one():
    """A line `pure` is of a Check program, or of a test whose file is listed."""
    for name, kind in KINDS.items():
        if kind == "pure" and name.endswith(".py") or "::" in name and kind == "pure":
            assert KINDS.get(name.partition("::")[0], "pure") != "pure", name


def test_the_gate_has_some_of_each():
    gate = {name for name, kind in KINDS.items() if kind == "gate"}
    assert {"backends/soft/conformance_test", "backends/linux/conformance_test",
            "ci/test_plugin.py::test_the_contract_on_a_triangle",
            "ci/test_rxe.py::test_basic_scenarios_pass_as_an_ordinary_user"} <= gate


@pytest.mark.parametrize("line", ["src/a_test", "src/a_test gate", "src/a_test often why",
                                  "src/a_test gate why\nsrc/a_test nightly why"])
def test_a_line_that_is_none_is_told_with_its_number(tmp_path, line):
    (tmp_path / "list").write_text(f"# why\n\n{line}\n")
    with pytest.raises(ValueError, match=rf"wire-tests.txt:{3 + line.count(chr(10))}: "):
        wire.read(tmp_path / "list")


def test_the_more_specific_line_counts():
    kinds = {"ci/test_a.py": "nightly", "ci/test_a.py::test_b": "gate",
             "ci/test_a.py::test_b[c]": "pure"}
    assert [wire.kind_of(f"ci/test_a.py{rest}", kinds) for rest in
            ("", "::test_d", "::test_b", "::test_b[d]", "::test_b[c]", "b")] == [
        "nightly", "nightly", "gate", "gate", "pure", "pure"]
    assert [wire.takes_any_of(choice, "ci/test_a.py", kinds) for choice in
            ("all", "pure", "wire", "wire-gate")] == [True] * 4
    assert not wire.takes_any_of("pure", "ci/test_a.py", {"ci/test_a.py": "gate"})
    assert not wire.takes_any_of("wire", "ci/test_b.py", kinds)


def test_files_that_get_the_sanitized_build_exist_and_use_it():
    for path in module().SANITIZED:
        assert 'os.environ.get("WEFT", ' in (ROOT / path).read_text(), path


def module():
    """ci/check-run, which has no suffix."""
    loader = importlib.machinery.SourceFileLoader("check_run", str(ROOT / "ci" / "check-run"))
    made = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_run", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(made)
    return made


# ---- ci/conftest.py ----

CLASSES = """
def test_pure(): pass
def test_gate(): pass
def test_nightly(): pass
"""


def test_pytest_runs_the_class_that_it_is_told_to(tree):
    (tree / "ci" / "test_a.py").write_text(CLASSES)
    (tree / "ci" / "wire-tests.txt").write_text("ci/test_a.py::test_gate gate why\n"
                                                "ci/test_a.py::test_nightly nightly why\n")
    for choice, names in (("pure", "pure"), ("wire", "gate nightly"), ("wire-gate", "gate")):
        said = ask(tree, "pytest", "--collect-only", "-q", "ci/test_a.py", WEFT_TESTS=choice)
        found = [line.partition("::test_")[2] for line in said.splitlines() if "::" in line]
        assert found == names.split()
        assert f"{3 - len(found)} deselected" in said and "skipped" not in said
    said = ask(tree, "pytest", "-q", "ci/test_a.py", code=4, WEFT_TESTS="often")
    assert "WEFT_TESTS: expected all, pure, wire, wire-gate, real, virtual, virtual-gate, not often" in said


HEAVY = """
import pytest
def test_light(): pass
@pytest.mark.heavy
def test_heavy(): pass
@pytest.mark.heavy("together")
def test_one(): pass
@pytest.mark.heavy("together")
def test_two(): pass
"""


def test_a_heavy_test_has_its_turn_in_one_of_eight_samples(tree, monkeypatch):
    (tree / "ci" / "test_a.py").write_text(HEAVY)
    (tree / "ci" / "wire-tests.txt").write_text("")

    def turns(name):
        taken = []
        for sample in range(16):
            monkeypatch.setenv("WEFT_SAMPLE", str(sample))
            taken += [sample] if sampling.is_turn_of(name) else []
        monkeypatch.delenv("WEFT_SAMPLE")
        return taken

    def names(**env):
        said = ask(tree, "pytest", "--collect-only", "-q", "ci/test_a.py", **env)
        return [line.partition("::test_")[2] for line in said.splitlines() if "::" in line]

    alone, together = turns("ci/test_a.py::test_heavy"), turns("together")
    for some in (alone, together):
        assert len(some) == 2 and some[1] == some[0] + 8
    assert alone[0] != together[0]
    assert names() == ["light", "heavy", "one", "two"]
    assert names(WEFT_SAMPLE=str(alone[1])) == ["light", "heavy"]
    assert names(WEFT_SAMPLE=str(together[0])) == ["light", "one", "two"]


# Each test does what its name says; those of `wrong` must not, unless they are listed.
ACTS = """
import socket, subprocess, threading, time
from concurrent.futures import ThreadPoolExecutor
import pytest

@pytest.fixture(scope="module")
def door():
    with socket.socket() as made:
        yield made

def run(*words, **how): subprocess.run(words, check=False, **how)

def test_wrong_thread():
    thread = threading.Thread(target=print)
    thread.start()
    thread.join()

def test_wrong_socket(): socket.socket().close()
def test_wrong_fixture(door): pass
def test_wrong_sleep(): time.sleep(0.001)
def test_wrong_time(): time.time()
def test_wrong_monotonic(): time.monotonic()
def test_wrong_perf_counter(): time.perf_counter()
def test_wrong_backend(): run("true", "run", "x.yaml", "--backend", "soft")
def test_wrong_backend_of_a_script(): run("sh", "-c", "true weft run --backend=rxe x.yaml")
def test_wrong_shell(): run("true; true --backend verbs", shell=True)
def test_wrong_node(): run("env", "true", "build/weft", "node", "--name", "x")
def test_wrong_relay(): run("true", "./weft", "relayd")
def test_wrong_guest(): run("true", "weft", "guest", "--", "true")
def test_wrong_plugin(): run("true", "weft", "plugin-check", "x.so")
def test_wrong_unshare(): run("/usr/bin/unshare", "--version")
def test_wrong_netns(): run("true", "ip", "netns", "list")
def test_wrong_worker():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(socket.socket).result()

def test_fine_pool():
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(len, ("a", "bc"))) == [1, 2]

def test_fine_programs():
    subprocess.run(["sleep", "0.01"], check=True, timeout=60, capture_output=True)
    for words in ("weft run x.yaml --backend sim", "weft plugin-check --backend sim x.so",
                  "weft node --help", "weft plugin-check --list", "weft show x --backend rxe",
                  "weft help guest", "grep unshared node"):
        run("true", *words.split())
"""


def test_a_pure_test_keeps_to_virtual_time(tree):
    (tree / "ci" / "test_a.py").write_text(ACTS)
    said = ask(tree, "pytest", "-q", "-rA", "-p", "no:cacheprovider", "ci/test_a.py", code=1)
    wrong = ACTS.count("def test_wrong_")
    assert f"{wrong - 1} failed, 2 passed, 1 error" in said  # that of the fixture
    words = "is a pure test and {}: do without, or list it in ci/wire-tests.txt with a reason"
    for name, act in (("thread", "starts a thread"), ("socket", "opens a socket"),
                      ("fixture", "opens a socket"), ("sleep", "calls time.sleep"),
                      ("worker", "opens a socket"),
                      ("node", "starts what lives in real time, by the word node")):
        assert f"Failed: ci/test_a.py::test_wrong_{name} {words.format(act)}" in said
    (tree / "ci" / "wire-tests.txt").write_text("ci/test_a.py gate why\n")
    said = ask(tree, "pytest", "-q", "-p", "no:cacheprovider", "ci/test_a.py")
    assert f"{wrong + 2} passed" in said


# ---- ci/check-run ----

# Each fails until it was run so often.
COUNTED = """
from pathlib import Path
import pytest

def passes_at(n, name):
    count = Path(__file__).with_name(name)
    count.write_text((count.read_text() if count.exists() else "") + "x")
    assert len(count.read_text()) >= n

def test_once(): passes_at(2, "once")
@pytest.mark.parametrize("what", ["a b", "c"])
def test_often(what): passes_at(1 if what == "c" else 9, f"often {what}")
def test_pure(): passes_at(2, "pure")
"""
LIST = "ci/test_a.py::test_once gate why\nci/test_a.py::test_often nightly why\n"


def test_only_what_failed_of_the_wire_is_repeated(tree):
    (tree / "ci" / "test_a.py").write_text(COUNTED)
    (tree / "ci" / "wire-tests.txt").write_text(LIST)
    said, kept = check_run(tree, "--fast", "build", "--build", "build/asan", "--sample", "3",
                           code=1)
    assert {name: len((tree / "ci" / name).read_text())
            for name in ("once", "often a b", "often c", "pure")} == {
        "once": 2, "often a b": 3, "often c": 1, "pure": 1}
    assert said[-5:] == ["flaky ci/test_a.py::test_once: passed when repeated alone (1 of 2)",
                         "  FAILED ci/test_a.py::test_often[a b]",
                         "  FAILED ci/test_a.py::test_pure",
                         "1 flaky", "2 passed, 2 failed, 0 skipped"]
    rows = {row["test"].partition("::")[2]: row for row in kept}
    assert {name: row["kind"] for name, row in rows.items()} == {
        "test_often[a b]": "failed", "test_pure": "failed", "test_once": "flaky"}
    assert rows["test_pure"]["stage"] == "test" and "assert" in rows["test_pure"]["words"]
    assert rows["test_often[a b]"]["words"].endswith("failed when repeated alone, too, 2 times")
    assert rows["test_often[a b]"]["again"] == (
        "WEFT=$PWD/build/weft WEFT_BUILD=$PWD/build/asan WEFT_FAST=$PWD/build/weft WEFT_SAMPLE=3 "
        "WEFT_GUEST_KERNEL=/nonexistent pytest -q 'ci/test_a.py::test_often[a b]'")
    assert "1 failed" in ask(tree, "sh", "-c", rows["test_often[a b]"]["again"], code=1)
    assert "1 passed" in ask(tree, "sh", "-c", rows["test_pure"]["again"])


def program(tree, name, body):
    """A Check program that is none: a script with a source, which counts its runs in NAME.runs."""
    (tree / f"{name}.c").parent.mkdir(parents=True, exist_ok=True)
    (tree / f"{name}.c").write_text("")
    made = tree / "build" / "test" / name
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_text("#!/bin/sh\n"
                    f'echo "$CK_RUN_CASE" >>{made}.runs\n'
                    "log() {\n"
                    'echo "<t xmlns=\'c\'><test result=\'$1\'><fn>a.c:1</fn><id>it_waits</id>'
                    "<iteration>0</iteration><duration>0</duration><description>the waits"
                    '</description><message>late</message></test></t>" >"$CK_XML_LOG_FILE_NAME"\n'
                    f"}}\n{body}\n")
    made.chmod(0o755)
    return made


def test_a_check_program_is_repeated_by_its_test_case(tree):
    (tree / "build").mkdir()
    (tree / "build" / "flags").write_text("gcc -fsanitize=address,undefined\n")
    flaky = 'if [ "$CK_RUN_CASE" ]; then log success; else log failure; echo seen; exit 1; fi'
    often = program(tree, "src/a_test/a_test", flaky)
    never = program(tree, "src/b/b_test", "echo no log; exit 3")
    made_pure = program(tree, "src/c/c_test", flaky)
    (tree / "ci" / "wire-tests.txt").write_text("src/a_test/a_test gate why\n"
                                                "src/b/b_test nightly why\n")
    said, kept = check_run(tree, "--no-pytest", code=1)
    runs = [Path(f"{made}.runs").read_text().splitlines() for made in (often, never, made_pure)]
    # The pure one runs with its tests in one process, then in one each; that is no repetition.
    assert runs == [["", "the waits"], [""] * 3, [""] * 2]
    assert said[-1] == "1 passed, 2 failed, 0 skipped" and said[-2] == "1 flaky"
    rows = {row["test"]: row for row in kept}
    assert rows["build/test/src/a_test/a_test it_waits"]["kind"] == "flaky"
    assert "exit status 3" in rows["build/test/src/b/b_test"]["words"]
    pure = rows["build/test/src/c/c_test it_waits"]
    assert pure["words"] == "seen\n\na.c:1: late"
    assert pure["again"].startswith("CK_RUN_CASE='the waits' CK_DEFAULT_TIMEOUT=120 ASAN_OPTIONS=")
    assert pure["again"].endswith(" build/test/src/c/c_test") and "UBSAN_OPTIONS=" in pure["again"]
    ask(tree, "sh", "-c", pure["again"], CK_XML_LOG_FILE_NAME="/dev/null")
    assert Path(f"{made_pure}.runs").read_text().splitlines() == ["", "", "the waits"]


def test_tests_that_pass_apart_only_fail(tree):
    together = 'if [ "$CK_FORK" = no ]; then echo overflow; exit 1; fi; log success'
    program(tree, "src/a/a_test", together)
    (tree / "ci" / "wire-tests.txt").write_text("src/b/b_test gate why\n")
    program(tree, "src/b/b_test", together)  # a wire test always has a process for each
    said, kept = check_run(tree, "--no-pytest", code=1)
    assert said[-1] == "2 passed, 1 failed, 0 skipped"
    assert [row["test"] for row in kept] == ["build/test/src/a/a_test: together"]
    assert "CK_FORK=no" in kept[0]["words"] and "overflow" in kept[0]["words"]


def test_check_run_takes_the_class_that_it_is_told_to(tree):
    for name in ("src/a/a_test", "src/b/b_test", "src/c/c_test"):
        program(tree, name, "log success")
    (tree / "ci" / "test_a.py").write_text(CLASSES)
    (tree / "ci" / "wire-tests.txt").write_text(
        "src/b/b_test gate why\nsrc/c/c_test nightly why\nci/test_a.py nightly why\n"
        "ci/test_a.py::test_gate gate why\n")
    for choice, programs, passed in (("all", 4, 6), ("pure", 1, 1), ("wire-gate", 2, 2)):
        said, kept = check_run(tree, "--tests", choice)
        assert said[-2].startswith(f"{programs} programs in ")
        assert said[-1] == f"{passed} passed, 0 failed, 0 skipped" and kept == []


def test_a_check_program_that_starts_threads_is_declared(tree):
    text = "int main(int n, char **p) {{ {} return n + !p; }}"
    made = {name: program(tree, f"src/{name}/{name}_test", "") for name in "abc"}
    for name, body in (("a", "pthread_create((void *)p, 0, (void *)p, 0);"), ("b", "")):
        subprocess.run(["gcc", "-include", "pthread.h", "-x", "c", "-", "-o", made[name]],
                       check=True, input=text.format(body), text=True)
    shutil.copy(made["a"], made["c"])
    (tree / "ci" / "wire-tests.txt").write_text("src/c/c_test pure why\n")
    said, kept = check_run(tree, "--no-pytest", code=1)
    words = "it links pthread_create: declare it in ci/wire-tests.txt, as src/a/a_test"
    assert [row["words"].strip() for row in kept if row["test"].endswith(": class")] == [words]
    assert words in said


# As `weft guest`: says how it was called and that it is one, and runs the command.
GUEST = """#!/bin/sh
echo "$@" >>"$0.calls"
[ "$1 $2 $3 $4" = "guest --clock virtual --time-limit" ] || exit 9
while [ "$1" != -- ]; do shift; done
shift
IN_GUEST=yes exec "$@"
"""
ASKS_FOR_A_GUEST = """
import os
import pytest
def test_here(): assert "IN_GUEST" not in os.environ
def test_there(): assert "IN_GUEST" in os.environ and os.environ["WEFT_GUEST_KERNEL"] == "/nonexistent"
def test_sample(): assert os.environ["IN_GUEST"] == "yes"
def test_wrong(): assert "IN_GUEST" not in os.environ
"""


def test_virtual_tests_run_in_a_guest_and_are_not_repeated(tree):
    (tree / "build").mkdir()
    (tree / "build" / "weft").write_text(GUEST)
    (tree / "build" / "weft").chmod(0o755)
    made = program(tree, "src/a/a_test", 'if [ "$IN_GUEST" ]; then log success; fi')
    (tree / "ci" / "test_a.py").write_text(ASKS_FOR_A_GUEST)
    (tree / "ci" / "wire-tests.txt").write_text(
        "src/a/a_test virtual why\nci/test_a.py virtual why\nci/test_a.py::test_here gate why\n"
        "ci/test_a.py::test_sample sample why\n")
    kernel = {"WEFT_GUEST_KERNEL": "/bin/true"}
    said, kept = check_run(tree, "--tests", "virtual", code=1, **kernel)
    assert said[-1] == "3 passed, 1 failed, 0 skipped" and not any(line.startswith("repeats") for line in said)
    assert [row["kind"] for row in kept] == ["failed"]
    assert f"{tree}/build/weft guest --clock virtual" in kept[0]["again"]
    assert kept[0]["again"].endswith(" pytest -q ci/test_a.py::test_wrong")
    (tree / "again").write_text(kept[0]["again"])  # a pure test that names a guest is refused
    assert "1 failed" in ask(tree, "sh", "again", code=1, **kernel)
    assert len(Path(f"{made}.runs").read_text().splitlines()) == 1
    for choice, counts in (("virtual-gate", "1 passed"), ("real", "1 passed")):
        said, _ = check_run(tree, "--tests", choice, **kernel)
        assert said[-1] == f"{counts}, 0 failed, 0 skipped"
    (tree / "ci" / "rxe-guest").write_text("#!/bin/sh\nexit 1\n")
    (tree / "ci" / "rxe-guest").chmod(0o755)
    (tree / "ci" / "allowed-skips.txt").write_text("rxe guest: why\n")
    said, _ = check_run(tree, "--tests", "virtual")
    assert said[-1] == "0 passed, 0 failed, 1 skipped"
    assert "skipped rxe guest: no guest kernel is built; enable with: make rxe-guest" in said


def test_a_skip_that_may_not_be_is_kept_and_can_be_repeated(tree):
    program(tree, "src/a/a_test", "echo 'SKIP moon: it is far'; exit 77")
    said, kept = check_run(tree, code=1)
    assert said[-2:] == ["  FAILED moon", "0 passed, 1 failed, 1 skipped"]
    assert kept[0]["test"] == "moon" and kept[0]["again"].endswith(" build/test/src/a/a_test")


@pytest.mark.parametrize("n_signals", [1, 20000])
def test_who_is_told_to_end_takes_its_jobs_along(tree, n_signals):
    """The job says through a pipe that it runs. The pipe ends when the job has ended. timeout(1) sends its signal
    twice, and the second can come while the first is handled."""
    os.mkfifo(tree / "runs")
    (tree / "ci" / "test_a.py").write_text("import subprocess\n"
                                           "def test_a(): subprocess.run(['sh', '-c', 'echo up; "
                                           f"exec sleep 100'], stdout=open('{tree}/runs', 'w'))\n")
    (tree / "ci" / "test_b.py").write_text("from pathlib import Path\n"
                                           f"def test_b(): Path('{tree}/started').touch()\n")
    with subprocess.Popen(["ci/check-run", "--jobs", "1"], cwd=tree, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL) as process:
        with open(tree / "runs", encoding="ascii") as pipe:
            assert pipe.readline() == "up\n"
            for _ in range(n_signals):
                process.terminate()
            assert process.wait(60) == 143
            assert pipe.read() == ""
    assert not (tree / "started").exists(), "the next job is not started"
