"""ci/gpu where there is no GPU: it compiles, says what is missing, and its verification verifies (with
a CUDA and an NCCL of one rank in host memory)."""

import importlib.machinery
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("gpu", str(ROOT / "ci/gpu"))
gpu = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu", LOADER))
LOADER.exec_module(gpu)
steps = gpu.gpu_steps


@pytest.fixture(name="toolkit", scope="module")
def fixture_toolkit():
    try:
        return gpu.find_toolkit()
    except gpu.NotRun as missing:
        pytest.skip(f"SKIP CUDA toolkit: {missing}")


@pytest.fixture(name="fake", scope="module")
def fixture_fake(toolkit, tmp_path_factory):
    """gpu_rank with NCCL and CUDA of one rank in host memory."""
    out = tmp_path_factory.mktemp("gpu") / "gpu_rank"
    subprocess.run(["gcc", "-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
                    "-fsanitize=address,undefined", "-isystem", toolkit / "include", "-o", out,
                    "ci/gpu_rank.c", "ci/gpu_fake.c"], cwd=ROOT, check=True, timeout=120)
    return out


def rows_of(fake, tmp_path, *, max_bytes=70000, **environment):
    ran = subprocess.run([fake, "0", "1", tmp_path / "id", gpu.OPS, str(max_bytes)], text=True,
                         capture_output=True, check=True, timeout=60,
                         env={**os.environ, **environment})
    return gpu.judge([(0, ran.stdout, ran.stderr)])


def test_it_compiles_with_the_toolkit_and_says_what_is_missing(toolkit, tmp_path):
    subprocess.run(list(map(str, gpu.compiler_of(toolkit, tmp_path))), check=True, timeout=120)
    assert (tmp_path / "gpu/gpu_rank").exists()
    try:
        gpu.check_gpu()
    except gpu.NotRun:
        ran = subprocess.run(["ci/gpu", "--build", str(tmp_path)], cwd=ROOT, capture_output=True,
                             text=True, check=False, timeout=120)
        assert ran.returncode == 77
        assert ran.stdout.startswith("SKIP gpu: no NVIDIA ") and ran.stdout.endswith("not run\n")


@pytest.mark.usefixtures("toolkit")
def test_packed_programs_run_from_the_packed_folder_alone(tmp_path):
    """What --pack takes along but for the machine's own C library, driver and NCCL."""
    build = Path(os.environ.get("WEFT_FAST") or os.environ.get("WEFT") or "build/weft").resolve().parent
    libraries = gpu.libraries_of(build / "weft")
    assert {"libyaml-0.so.2", "libjansson.so.4", "libsodium.so.23"} <= {path.name for path in libraries}
    assert not any(path.name.startswith(gpu.OF_THE_MACHINE) for path in libraries)
    with pytest.raises(gpu.NotRun, match="has no weft, .*ci/gpu --pack"):
        gpu.find_packed("own", tmp_path, gpu.OWN_PROGRAMS)


@pytest.mark.usefixtures("toolkit")
def test_the_kernels_in_weft_are_those_that_were_built():
    """A compiler cache would give those of an earlier build."""
    image = ROOT / "build/cuda/kernels.fatbin"
    if not image.exists():
        pytest.skip("SKIP CUDA kernels: weft was built without nvcc")
    weft = os.environ.get("WEFT_FAST") or os.environ.get("WEFT") or "build/weft"
    assert image.read_bytes() in (ROOT / weft).read_bytes()


def test_every_operation_and_size_is_verified(fake, tmp_path):
    rows, version, problem = rows_of(fake, tmp_path)
    assert problem is None and version >= 20000
    assert {row["op"] for row in rows} == set(gpu.OPS.split(","))
    assert [row["bytes"] for row in rows if row["op"] == "all_reduce"] == [
        8, 64, 512, 4096, 32768, 70000]
    assert {row["wrong"] for row in rows} == {0}


def test_one_wrong_element_is_seen(fake, tmp_path):
    rows, _, problem = rows_of(fake, tmp_path, FAKE_WRONG="1")
    assert problem is None and {row["wrong"] for row in rows} == {2}  # before and after the clock
    assert all(row["first"] == row["bytes"] // 4 - 1 for row in rows)


def test_a_rank_that_ends_early_is_a_problem():
    done = '{"rank": 0, "nccl": 22809}\n{"rank": 0, "done": true}\n'
    assert gpu.judge([(0, done, "")]) == ([], 22809, None)
    assert "exit status 1: broken" in gpu.judge([(0, done, ""), (1, "", "broken\n")])[2]
    assert gpu.judge([(0, done.splitlines()[0], "")])[2] is not None


def test_each_rank_is_a_host_of_its_own(monkeypatch):
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    envs = [gpu.environment(r, "line", "mesh", Path("/n"), Path("/t"), Path("/b")) for r in range(3)]
    assert len({env["NCCL_HOSTID"] for env in envs}) == 3
    assert [env["NCCL_MESH_LOOPBACK"] for env in envs] == [f"{r}: 0-1 1-2" for r in range(3)]
    assert all(env["NCCL_MNNVL_ENABLE"] == "0" and "NCCL_ALGO" not in env for env in envs)
    assert envs[0]["LD_LIBRARY_PATH"].startswith("/n:/b:/t/lib64:")
    beside = gpu.environment(0, "line", "socket", Path("/n"), Path("/t"), Path("/b"))
    assert beside["NCCL_NET"] == "Socket" and "NCCL_MESH_LOOPBACK" not in beside


def test_processes_that_hang_are_ended():
    results = gpu.run([(["sh", "-c", "echo one; exec sleep 600"], os.environ),
                       (["sh", "-c", "echo two >&2; exit 3"], os.environ)], steps.Clock(2, 60))
    assert results == [(-9, "one\n", ""), (3, "", "two\n")]


def test_what_is_run_is_all_that_was_asked_for():
    class Options:
        quick, mesh = False, None
    runs = [*gpu.chosen_of(Options), *gpu.forced_of(Options)]
    assert {mesh for mesh, *_ in runs} == set(gpu.MESHES)
    for mesh in gpu.MESHES:
        asked = {(net, ops, *settings.values()) for m, net, ops, settings in runs if m == mesh}
        assert {("mesh", gpu.OPS), ("socket", gpu.OPS), ("mesh", gpu.OPS, "LL128")} <= asked
        assert {("mesh", "all_reduce", protocol, algorithm) for protocol in ("Simple", "LL", "LL128")
                for algorithm in ("Ring", "Tree")} <= asked


def test_the_table_has_both_transports_side_by_side():
    rows = [{"op": "all_reduce", "bytes": 8, "us": 20.0, "algbw": 0.1},
            {"op": "all_reduce", "bytes": 1 << 24, "us": 2000.0, "algbw": 8.39}]
    same = {"library": "toolkit", "nccl": 22809, "mesh": "line", "settings": {}}
    text = gpu.markdown([{"name": "rates", "figures": []}, {**same, "net": "mesh", "rows": rows},
                         {**same, "net": "socket", "rows": rows[:1]}])
    assert "| toolkit 22809 | line | all_reduce | 20 us | 20 us | 8.39 GB/s | 0.10 GB/s |" in text
    assert json.dumps(rows)


# --- a time that is given --------------------------------------------------------------------


class Hours:
    """A clock that shows an hour more at each reading, once it goes."""

    def __init__(self):
        self.at, self.goes = 0, False

    def __call__(self):
        self.at += 3600 if self.goes else 0
        return self.at


def whole(name, problem=None, n_wrong=0):
    return {"name": name, "figures": [], "problem": problem, "n_wrong": n_wrong}


def test_what_the_time_does_not_reach_is_named(capsys):
    now = Hours()
    clock, saved = steps.Clock(1, 60, now), []

    def slow():
        now.goes = True
        return steps.call(["sleep", "600"], clock)

    results = steps.run_steps([("a", lambda: whole("a"), None), ("b", slow, None),
                               ("c", lambda: whole("c"), None)], clock,
                              lambda so_far: saved.append([one["name"] for one in so_far]))
    assert [one.get("not_run") for one in results] == [None, "no time left", "no time left"]
    assert saved == [["a"], ["a", "b"], ["a", "b", "c"]]
    assert steps.conclude(results) == 0
    assert capsys.readouterr().out == ("not run: b: no time left\nnot run: c: no time left\n"
                                       "1 passed, 0 failed, 2 skipped\n")


def test_a_step_has_a_limit_of_its_own_that_those_it_started_do_not_outlive():
    now = Hours()
    now.goes = True
    clock = steps.Clock(1e9, 60, now)
    assert steps.call(["sh", "-c", "sleep 600 & exec sleep 600"], clock) == (None, "", "not over after 60 s")
    assert steps.call(["sh", "-c", "echo out; echo err >&2; exit 3"], steps.Clock(2, 60)) == (
        3, "out\n", "err\n")
    results = gpu.run([(["sleep", "600"], os.environ)] * 2, clock)
    assert results == [(-9, "", "")] * 2


def test_processes_that_run_together_end_with_the_time():
    now = Hours()
    clock = steps.Clock(1, 60, now)
    now.goes = True
    with pytest.raises(steps.NotRun, match="no time left"):
        gpu.run([(["sleep", "600"], os.environ)] * 2, clock)


def test_who_is_told_to_end_says_what_is_left(capsys):
    clock = steps.Clock(10, 600)
    before = signal.getsignal(signal.SIGTERM)
    try:
        clock.end_on(signal.SIGTERM)
        results = steps.run_steps(
            [("a", lambda: steps.call(["sh", "-c", "kill -TERM $PPID; exec sleep 600"], clock), None),
             ("b", lambda: whole("b"), None)], clock)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [one["not_run"] for one in results] == ["ended by SIGTERM"] * 2
    assert steps.conclude(results) == 77
    assert capsys.readouterr().out.endswith("not run: b: ended by SIGTERM\n0 passed, 0 failed, 2 skipped\n")


def test_a_step_whose_programs_were_not_built_is_not_run(capsys):
    def broken():
        raise ValueError("no JSON")

    results = steps.run_steps(
        [("build", lambda: whole("build", problem="exit status 2"), None), ("a", lambda: whole("a"), "build"),
         ("b", broken, None), ("c", lambda: whole("c"), "a"), ("d", lambda: whole("d", n_wrong=1), None)],
        steps.Clock(1, 60))
    assert [one["problem"] for one in results] == ["exit status 2", None, "ValueError: no JSON", None, None]
    assert [one.get("not_run") for one in results] == [None, "it needs build", None, "it needs a", None]
    assert steps.conclude(results) == 1
    assert capsys.readouterr().out.endswith("0 passed, 3 failed, 2 skipped\n")


def test_the_tree_is_built_by_relative_paths(monkeypatch):
    """An object whose dependencies name another path than make's would stay when a header changes."""
    ran = []
    monkeypatch.setattr(gpu.gpu_steps, "call", lambda command, *_, **__: ran.append(command) or (0, "", ""))

    class Options:
        packed, build = False, ROOT / "build"
    gpu.build_own(Options, steps.Clock(1, 60, now=lambda: 0.0))
    assert "BUILD=build" in ran[0] and not any(word.startswith("/") for word in ran[0])


def test_steps_come_by_worth(monkeypatch, tmp_path):
    class Options:
        quick, mesh, packed, only, mps, build = False, None, False, None, False, tmp_path
    monkeypatch.setattr(gpu, "find_toolkit", lambda: tmp_path)
    monkeypatch.setattr(gpu, "find_nccls", lambda _: {"toolkit": tmp_path})
    names = [name for name, _, _ in gpu.all_steps(Options, steps.Clock(1, 60))]
    marks = [gpu.BUILT_OWN, "conformance of backends/cuda", "rates", "weft run on GPU memory, two processes, "
             "CUDA IPC", gpu.BUILT_RANK, "toolkit pair mesh, as NCCL chooses, all", "torch.distributed ring-4 "
             "socket, as NCCL chooses, all", f"toolkit ring-4 mesh, {gpu.PULLED}, all_reduce",
             "compute-sanitizer memcheck", "compute-sanitizer synccheck",
             "toolkit pair mesh, Simple, all", "toolkit ring-4 mesh, LL128 Tree, all_reduce"]
    assert [name for name in names if name in marks] == marks
    assert len(names) == len(set(names)) == 7 + 1 + 8 + 8 + 2 + 4 + 4 * 9
    Options.only = "pulled"
    assert [name for name, _, _ in gpu.all_steps(Options, steps.Clock(1, 60))] == [
        gpu.BUILT_RANK, *(f"toolkit {mesh} mesh, {gpu.PULLED}, all_reduce" for mesh in gpu.PULLED_IN)]
    Options.only, Options.mps = None, True
    assert not any("sanitizer" in name for name, _, _ in gpu.all_steps(Options, steps.Clock(1, 60)))
    Options.mps = False

    def missing():
        raise steps.NotRun("no CUDA toolkit")

    monkeypatch.setattr(gpu, "find_toolkit", missing)
    left = steps.run_steps(gpu.all_steps(Options, steps.Clock(0, 60)), steps.Clock(0, 60))
    assert [one["name"] for one in left][7:] == ["NCCL", *(f"compute-sanitizer {kind}" for kind in
                                                         gpu.gpu_own.SANITIZERS)]
