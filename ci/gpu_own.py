"""The part of ci/gpu that is weft's own, without NCCL: conformance of backends/cuda, its kernels bit by
bit and beside the copy rate, under compute-sanitizer, memory of another process on the same GPU, and
`weft run` on GPU memory over backend soft. Needs the driver, and a build by nvcc."""

import json
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OF_COPY = 0.8  # of the copy rate, that each reduction has at least
JOBS = ("jobs=[{all_reduce: {bytes: [8, 1MiB, 64MiB]}}, {all_reduce: {bytes: 4MiB, dtype: bfloat16, op: avg}},"
        " {reduce_scatter: {bytes: 16MiB}}, {all_gather: {bytes: 16MiB}}, {broadcast: {bytes: 16MiB}},"
        " {reduce: {bytes: 16MiB}}, {all_to_all: {bytes: 16MiB}}, {send_recv: {bytes: 16MiB}}]")
# name, scenario, transport between its first two ranks
RUNS = [("three hosts, staged", "scenarios/basic/triangle.yaml", None),
        ("two processes, CUDA IPC", "scenarios/inside/nvlink-2.yaml", "p2p")]
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")


def call(command, limit_s, **settings):
    """(exit status or None, stdout, stderr)."""
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(("NCCL_", "WEFT_")) or key == "WEFT_GPU_KERNELS"}
    env.update(settings)
    try:
        done = subprocess.run([str(word) for word in command], cwd=ROOT, env=env, text=True,
                              capture_output=True, check=False, timeout=limit_s, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None, "", f"not over after {limit_s} s"
    return done.returncode, done.stdout, done.stderr


def rows_of(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def result(name, outcome, *, figures=(), said="", problem=None):
    """As ci/gpu's, of one thing that was run."""
    status, out, err = outcome
    if status != 0 and problem is None:
        problem = f"exit status {status}: {(err.strip() or out.strip())[-600:]}"
    print(f"{'ok  ' if problem is None else 'FAIL'} {name}: {problem or said}", flush=True)
    return {"name": name, "figures": list(figures), "problem": problem, "n_wrong": 0}


def conformance(build, limit_s):
    name = "conformance of backends/cuda"
    outcome = call([build / "test/backends/cuda/cuda_test"], limit_s, WEFT_TEST_GPU="1")
    return result(name, outcome, said=(outcome[1].strip().splitlines() or [""])[-1])


def kernels(bench, limit_s):
    outcome = call([bench, "check"], limit_s)
    rows = rows_of(outcome[1])
    return result("reductions beside the host's", outcome, figures=rows,
                  said=f"{rows[0]['cases']} cases of bits, none wrong on {rows[0]['gpu']}" if rows else "")


def rates(bench, n_bytes, limit_s):
    outcome = call([bench, "rate", n_bytes], limit_s)
    rows = rows_of(outcome[1])
    slow = [f"{row['dtype']} {row['op']} {row['of_copy']:.2f}" for row in rows
            if row["what"] == "reduce" and row["of_copy"] < OF_COPY]
    copy = next((row["GBps"] for row in rows if row["what"] == "copy"), 0)
    return result("rates", outcome, figures=rows, said=f"copy {copy} GB/s, every reduction at least "
                  f"{OF_COPY} of it", problem=f"below {OF_COPY} of {copy} GB/s: {', '.join(slow)}"
                  if slow else None)


def other_process(bench, n_bytes, limit_s):
    outcome = call([bench, "ipc", n_bytes], limit_s)
    rows = rows_of(outcome[1])
    said = (f"{rows[0]['GBps']} GB/s, within a process {rows[0]['local_GBps']}, opened in "
            f"{rows[0]['open_us']} us") if rows else ""
    return result("memory of another process on the same GPU", outcome, figures=rows, said=said)


def sanitized(bench, limit_s):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(tool).exists():
        print("not run: compute-sanitizer: it is not here")
        return
    for kind in SANITIZERS:
        outcome = call([tool, "--tool", kind, "--error-exitcode", 9, bench, "check"], limit_s)
        yield result(f"compute-sanitizer {kind}", outcome, said="no error")


def collectives(weft, limit_s, jobs_of=JOBS):
    for name, scenario, transport in RUNS:
        outcome = call([weft, "run", scenario, "--backend", "soft", "--json", "--set", jobs_of,
                        "--set", "expect={data: exact}"], limit_s, WEFT_GPU="cuda:0",
                       WEFT_SOFT_LAYOUT="loopback")
        problem, jobs = None, []
        if outcome[0] == 0:
            document = json.loads(outcome[1])
            jobs = document["jobs"]
            wrong = sum(job["nwrong"] or 0 for job in jobs)
            by = {row["transport"] for row in document["connections"]}
            problem = f"{wrong} elements wrong" if wrong else None
            if transport is not None and by != {transport}:
                problem = f"connected by {', '.join(sorted(by))} instead of {transport}"
        yield result(f"weft run on GPU memory, {name}", outcome, figures=jobs,
                     said=f"{len(jobs)} rows exact", problem=problem)


def parts_of(build, n_bytes, limit_s):
    """What there is to run, the slowest last."""
    bench = build / "bench/backends/cuda/gpu_bench"
    yield "conformance", lambda: [conformance(build, limit_s)]
    yield "reductions", lambda: [kernels(bench, limit_s)]
    yield "rates", lambda: [rates(bench, n_bytes, limit_s)]
    yield "another process", lambda: [other_process(bench, n_bytes, limit_s)]
    yield "collectives", lambda: collectives(build / "weft", limit_s)
    yield "compute-sanitizer", lambda: sanitized(bench, limit_s)


def run_own(build, *, n_bytes=256 << 20, limit_s=300, save=lambda results: None):
    """Results of everything, in the order of printing; `save` has them after every part, so that nothing
    is lost by one that fails or by a machine that is taken away."""
    results = []
    for name, part in parts_of(build, n_bytes, limit_s):
        try:
            for one in part():
                results.append(one)
                save(results)
        except (OSError, LookupError, TypeError, ValueError) as error:
            results.append(result(name, (0, "", ""), problem=f"{type(error).__name__}: {error}"))
            save(results)
    return results


def named(results, beginning):
    return [one for one in results if one["name"].startswith(beginning)]


def is_right(results):
    """True or False, or None where nothing ran."""
    return all(one["problem"] is None for one in results) if results else None


def rows_in(results):
    return f"{sum(len(one['figures']) for one in results)} rows"


def bars(results):
    """(the bar, the figure, whether it is met; None: not run) of each bar of the GPU's part."""
    reduced = [row for one in named(results, "rates") for row in one["figures"] if row["what"] == "reduce"]
    least = min(reduced, key=lambda row: row["of_copy"], default=None)
    copied = [row for one in named(results, "memory of another process") for row in one["figures"]]
    sanitizers = named(results, "compute-sanitizer")
    hosts = named(results, "weft run on GPU memory, three hosts")
    inside = named(results, "weft run on GPU memory, two processes")
    return [
        ("the contract of io/gpu.h with the real driver", "", is_right(named(results, "conformance"))),
        ("reductions, every type and operation, bit by bit", "", is_right(named(results, "reductions"))),
        (f"each reduction at least {OF_COPY} of the copy rate",
         f"least {least['of_copy']:.2f}, {least['dtype']} {least['op']}" if least else "",
         least["of_copy"] >= OF_COPY if least else is_right(named(results, "rates"))),
        ("two processes on one GPU over CUDA IPC, exact; beside cudaMemcpy device to device",
         ", ".join(f"{row['GBps']:.0f} of {row['local_GBps']:.0f} GB/s ({row['GBps'] / row['local_GBps']:.2f})"
                   for row in copied if row["local_GBps"] > 0),
         is_right(named(results, "memory of another process"))),
        ("kernels under compute-sanitizer", ", ".join(one["name"].split()[-1] for one in sanitizers),
         is_right(sanitizers) if len(sanitizers) in (0, len(SANITIZERS)) else False),
        ("collectives of three processes over soft on GPU memory, exact", rows_in(hosts), is_right(hosts)),
        ("collectives of two processes of a host, by p2p, exact", rows_in(inside), is_right(inside)),
    ]


def say_bars(results):
    """Printed, one a line; the table of them."""
    words = {True: "met", False: "NOT MET", None: "not run"}
    lines = ["| bar | figure | |", "|---|---|---|"]
    for bar, figure, is_met in bars(results):
        print(f"{words[is_met]:8} {bar}{': ' if figure else ''}{figure}", flush=True)
        lines.append(f"| {bar} | {figure} | {words[is_met]} |")
    return "\n".join(lines) + "\n"


def markdown(results):
    """The tables for docs/benchmarks.md."""
    by = {one["name"]: one["figures"] for one in results}
    rows = by.get("rates", [])
    lines = ["| | GB/s read and written | of the copy rate |", "|---|---|---|"]
    for row in rows:
        lines.append(f"| copy within {row['gpu']} | {row['GBps']:.1f} | |" if row["what"] == "copy" else
                     f"| {row['dtype']} {row['op']} | {row['GBps']:.1f} | {row['of_copy']:.2f} |")
    for row in by.get("memory of another process on the same GPU", []):
        lines += ["", f"Copies out of another process's memory on the same GPU: {row['GBps']:.1f} GB/s, within a "
                  f"process {row['local_GBps']:.1f}; opened in {row['open_us']:.0f} us."]
    lines += ["", "| `weft run --backend soft` on GPU memory | operation | bytes | us | busbw GB/s |",
              "|---|---|---|---|---|"]
    for name, _, _ in RUNS:
        for job in by.get(f"weft run on GPU memory, {name}", []):
            lines.append(f"| {name} | {job['job']} {job['dtype']} | {job['size_bytes']} | "
                         f"{job['time_ns'] / 1000:.0f} | {job['bus_bw_gBps']:.2f} |")
    return "\n".join(lines) + "\n"
