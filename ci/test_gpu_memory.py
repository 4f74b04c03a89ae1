"""`weft run --backend soft` and `weft node` on GPU memory, over a CUDA driver without a GPU
(ci/gpu_driver.c), whose device memory faults under the CPU and whose streams are threads."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "ci"))
import gpu_own  # noqa: E402 pylint: disable=wrong-import-position
import gpu_steps  # noqa: E402 pylint: disable=wrong-import-position

WEFT = os.environ.get("WEFT_FAST", os.environ.get("WEFT", str(ROOT / "build" / "weft")))
JOBS = ("jobs=[{all_reduce: {bytes: [8, 1MiB], dtype: bfloat16}}, {all_reduce: {bytes: 1MiB, op: avg}},"
        " {reduce_scatter: {bytes: 256KiB, dtype: float64, op: max}}, {all_gather: {bytes: 256KiB}},"
        " {broadcast: {bytes: 1MiB}}, {reduce: {bytes: 64KiB, dtype: int8, op: prod}},"
        " {all_to_all: {bytes: 256KiB}}, {send_recv: {bytes: 64KiB}}]")


@pytest.fixture(name="driver", scope="module")
def fixture_driver(tmp_path_factory):
    """Where its libcuda.so.1 is."""
    place = tmp_path_factory.mktemp("driver")
    subprocess.run(["gcc", "-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
                    "-pthread", "-I.", "-Isrc", "-Wl,-soname,libcuda.so.1", "-o",
                    place / "libcuda.so.1", "ci/gpu_driver.c", "ci/gpu_driver_work.c",
                    "backends/cuda/kernels_testing.c", "-lm"],
                   cwd=ROOT, check=True, timeout=120)
    (place / "kernels").write_text("the driver has its own")
    return place


def run(driver, tmp_path, *args, code=0, **settings):
    """(document of the run, what the driver did for each process)."""
    log = tmp_path / "log"
    env = {key: value for key, value in os.environ.items() if not key.startswith("WEFT_")}
    env.update(FAKE_CUDA_LOG=str(log), WEFT_SOFT_LAYOUT="loopback",
               LD_LIBRARY_PATH=f"{driver}:{env.get('LD_LIBRARY_PATH', '')}",
               WEFT_GPU_KERNELS=str(driver / "kernels"), **settings)
    done = subprocess.run([WEFT, "run", "--backend", "soft", "--json", "--set", "expect={data: exact}",
                           *args], cwd=ROOT, env=env, text=True, capture_output=True, check=False,
                          timeout=100)
    assert done.returncode == code, done.stderr
    done_by = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    for did in done_by:
        assert did["left"] == 0 and did["pushed"] == 0
    return json.loads(done.stdout), done_by


def test_every_collective_is_exact_and_staged(driver, tmp_path):
    document, did = run(driver, tmp_path, "scenarios/basic/triangle.yaml", "--set", JOBS,
                        WEFT_GPU="cuda", FAKE_CUDA_LATE_US="30")
    assert document["result"] == "pass" and {job["nwrong"] for job in document["jobs"]} == {0}
    assert len(did) == 3
    for one in did:  # buffers on the device, pieces on the host; copies for sending and receiving
        assert one["device_bytes"] >= 1 << 21 and one["host_bytes"] > 0
        assert one["copies"] > 20 and one["launches"] > 8


def test_a_gpu_that_shares_the_hosts_memory_stages_nothing(driver, tmp_path):
    document, did = run(driver, tmp_path, "scenarios/basic/pair.yaml", "--set", JOBS,
                        WEFT_GPU="cuda", FAKE_CUDA_INTEGRATED="1")
    assert document["result"] == "pass"
    assert [one["device_bytes"] for one in did] == [0, 0]
    assert all(one["launches"] > 8 for one in did)
    (tmp_path / "staged").mkdir()
    _, staged = run(driver, tmp_path / "staged", "scenarios/basic/pair.yaml", "--set", JOBS,
                    WEFT_GPU="cuda", FAKE_CUDA_INTEGRATED="1", WEFT_GPU_DIRECT="0")
    assert min(one["copies"] for one in staged) > max(one["copies"] for one in did)


def test_processes_of_a_host_copy_between_their_gpus(driver, tmp_path):
    document, did = run(driver, tmp_path, "scenarios/inside/nvlink-2.yaml", "--set", JOBS,
                        WEFT_GPU="cuda", FAKE_CUDA_DEVICES="2", FAKE_CUDA_LATE_US="20")
    assert document["result"] == "pass"
    assert {row["transport"] for row in document["connections"]} == {"p2p"}
    assert [one["host_bytes"] for one in did] == [0, 0] and all(one["copies"] > 20 for one in did)


@pytest.mark.parametrize("error", ["217", "801"])  # a container, a driver without IPC
def test_processes_whose_driver_refuses_ipc_share_memory_of_the_host(driver, tmp_path, error):
    document, did = run(driver, tmp_path, "scenarios/inside/nvlink-2.yaml", "--set", JOBS,
                        "--set", "expect={data: exact, findings: [host.ipc_refused]}",
                        WEFT_GPU="cuda", FAKE_CUDA_DEVICES="2", FAKE_CUDA_IPC=error)
    assert document["result"] == "pass" and {job["nwrong"] for job in document["jobs"]} == {0}
    assert {row["transport"] for row in document["connections"]} == {"shm"}
    assert {row["reason"].split(" (")[0] for row in document["connections"]} == {"p2p: memory not opened"}
    assert all(one["device_bytes"] > 1 << 20 and one["copies"] > 20 for one in did)


@pytest.fixture(name="bench", scope="module")
def fixture_bench(driver):
    build = Path(WEFT).parent
    flags = build / "flags"  # of the library that it is linked with
    more = re.findall(r"-fsanitize=\S+|--coverage", flags.read_text() if flags.exists() else "")
    subprocess.run(["gcc", *more, "-std=c11", "-O1", "-g", "-D_POSIX_C_SOURCE=200809L", "-Isrc", "-I.", "-o",
                    driver / "gpu_bench", "backends/cuda/gpu_bench.c", build / "libweft.a", "-ldl",
                    "-lpthread"], cwd=ROOT, check=True, timeout=120)
    return driver / "gpu_bench"


def test_what_ci_gpu_does_on_a_gpu_works_without(driver, bench, monkeypatch, capsys):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    monkeypatch.setenv("WEFT_GPU_KERNELS", str(driver / "kernels"))
    monkeypatch.setenv("FAKE_CUDA_LATE_US", "20")
    monkeypatch.setattr(gpu_own, "OF_COPY", 1e9)  # no clock decides here
    clock = gpu_steps.Clock(10, 60)
    results = [gpu_own.kernels(bench, clock), gpu_own.rates(bench, 65536, clock),
               gpu_own.other_process(bench, 3 << 20, clock),
               *(gpu_own.collective(Path(WEFT), clock, run, "jobs=[{all_reduce: {bytes: 64KiB}}]")
                 for run in gpu_own.RUNS)]
    assert [one["problem"] is None for one in results] == [True, False, True, True, True]
    assert results[1]["problem"].startswith("below 1000000000.0 of ")
    monkeypatch.setattr(gpu_own, "OF_COPY", 0)
    assert gpu_own.rates(bench, 4096, clock)["problem"] is None
    assert len(results[1]["figures"]) == 1 + 12 * 5 and results[2]["figures"][0]["wrong"] == 0
    met = {bar: is_met for bar, _, is_met in gpu_own.bars(results)}
    assert list(met.values()) == [None, True, True, True, None, True, True]
    monkeypatch.setattr(gpu_own, "OF_COPY", 1e9)
    assert [is_met for _, _, is_met in gpu_own.bars(results)][2] is False
    gpu_own.say_bars(results)
    text = gpu_own.markdown(results)
    assert "| each reduction at least 1000000000.0 of the copy rate | least " in text
    assert "NOT MET" in text and "| kernels under compute-sanitizer |  | not run |" in text
    assert "NOT MET  each reduction" in capsys.readouterr().out
    assert "| float32 sum | " in text and "| two processes, CUDA IPC | all_reduce float32 | 65536 |" in text
    monkeypatch.setenv("FAKE_CUDA_DEVICES", "0")
    assert gpu_own.kernels(bench, clock)["problem"].startswith("exit status 77: SKIP gpu_bench: no CUDA")
    assert capsys.readouterr().out.count("FAIL") == 1


def test_bars_of_steps_that_were_not_reached_are_not_run():
    ran = [{"name": f"compute-sanitizer {kind}", "figures": [], "problem": None, "n_wrong": 0}
           for kind in gpu_own.SANITIZERS]

    def bar(results):
        return next(is_met for name, _, is_met in gpu_own.bars(results) if "compute-sanitizer" in name)

    assert bar(ran) is True and bar(ran[:3]) is None
    assert bar([*ran[:3], {**ran[3], "not_run": "no time left"}]) is None
    assert bar([{**ran[0], "problem": "exit status 9"}]) is False


def test_the_command_ends_with_its_time_and_says_what_it_did_not_reach(driver, tmp_path):
    env = {**os.environ, "LD_LIBRARY_PATH": str(driver)}
    done = subprocess.run(["ci/gpu", "--only", "own", "--minutes", "0", "--build", tmp_path], cwd=ROOT, env=env,
                          text=True, capture_output=True, check=False, timeout=60)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (77, "")
    assert lines[0] == "not run: the programs of weft's own part: no time left"
    assert lines[10] == "not run: compute-sanitizer synccheck: no time left"
    assert [line.split("  ")[0] for line in lines[11:-1]] == ["not run"] * 7
    assert lines[-1] == "0 passed, 0 failed, 11 skipped"
    assert len(json.loads((tmp_path / "gpu/figures.json").read_text())) == 11
    assert "| kernels under compute-sanitizer |  | not run |" in (tmp_path / "gpu/figures.md").read_text()


@pytest.mark.parametrize("which, devices", [
    ("cuda", [0, 1]), ("cuda:1", [1, 1]), ("cuda:2,0", [0, 2]),
    ("cuda:GPU-22222222-2222-2222-2222-222222222222,GPU-33", [1, 2])])
def test_each_process_of_a_host_has_its_gpu(driver, tmp_path, which, devices):
    document, did = run(driver, tmp_path, "scenarios/inside/plain-2.yaml", "--set",
                        "jobs=[{all_reduce: {bytes: 1MiB}}]", WEFT_GPU=which, FAKE_CUDA_DEVICES="3")
    assert document["result"] == "pass"
    assert sorted(one["device"] for one in did) == devices


@pytest.mark.parametrize("settings, says", [
    ({"FAKE_CUDA_INIT": "803"}, "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"),
    ({"FAKE_CUDA_DEVICES": "0"}, "no CUDA device"),
    ({"WEFT_GPU": "cuda:1"}, "no CUDA device 1, of 1 that are visible"),
    ({"WEFT_GPU": "cuda:GPU-77"}, "no CUDA device is GPU-77, of 1 that are visible"),
    ({"WEFT_GPU_KERNELS": "/no/such"}, "no kernels in /no/such"),
    *([] if Path("/dev/nvidia0").exists() else [({"LD_LIBRARY_PATH": ""}, "no CUDA driver: ")])])
def test_without_the_gpu_that_was_asked_for_there_is_no_run(driver, tmp_path, settings, says):
    env = {**os.environ, "LD_LIBRARY_PATH": str(driver), "WEFT_GPU": "cuda", "WEFT_NIC": "soft",
           "WEFT_SOFT_BLOCK": "250", "WEFT_GPU_KERNELS": str(driver / "kernels"), **settings}
    done = subprocess.run([WEFT, "node", "--scenario", "scenarios/basic/pair.yaml", "--name", "titanic",
                           "--result", tmp_path / "record"], cwd=ROOT, env=env, text=True,
                          capture_output=True, check=False, timeout=60)
    assert done.returncode == 3 and says in done.stderr


def test_a_run_without_gpu_has_its_finding(driver, tmp_path):
    document, _ = run(driver, tmp_path, "scenarios/basic/pair.yaml", code=1, WEFT_GPU="cuda",
                      FAKE_CUDA_INIT="100")
    assert "CUDA_ERROR_NO_DEVICE" in document["symptom"]["text"]
    assert {finding["code"] for finding in document["findings"]} == {"host.no_gpu"}
    done = subprocess.run([WEFT, "run", "--backend", "soft", "scenarios/basic/pair.yaml"], cwd=ROOT,
                          env={**os.environ, "WEFT_GPU": "rocm"}, text=True, capture_output=True,
                          check=False, timeout=60)
    assert done.returncode != 0 and "WEFT_GPU: host, cuda or cuda:WHICH, not rocm" in done.stdout
