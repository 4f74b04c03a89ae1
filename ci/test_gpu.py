"""ci/gpu where there is no GPU: it compiles, says what is missing, and its verification verifies (with
a CUDA and an NCCL of one rank in host memory)."""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("gpu", str(ROOT / "ci/gpu"))
gpu = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu", LOADER))
LOADER.exec_module(gpu)


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
    assert gpu.compile_rank(toolkit, tmp_path).exists()
    try:
        gpu.check_gpu()
    except gpu.NotRun:
        ran = subprocess.run(["ci/gpu", "--build", str(tmp_path)], cwd=ROOT, capture_output=True,
                             text=True, check=False, timeout=120)
        assert ran.returncode == 77
        assert ran.stdout.startswith("SKIP gpu: no NVIDIA ") and ran.stdout.endswith("not run\n")


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
                       (["sh", "-c", "echo two >&2; exit 3"], os.environ)], 60)
    assert results == [(-9, "one\n", ""), (3, "", "two\n")]


def test_what_is_run_is_all_that_was_asked_for():
    class Options:
        quick = False
    runs = list(gpu.combinations(Options))
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
    text = gpu.markdown([{**same, "net": "mesh", "rows": rows},
                         {**same, "net": "socket", "rows": rows[:1]}])
    assert "| toolkit 22809 | line | all_reduce | 20 us | 20 us | 8.39 GB/s | 0.10 GB/s |" in text
    assert json.dumps(rows)
