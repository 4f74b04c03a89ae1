"""The part of ci/gpu that is weft's own, without NCCL: conformance of backends/cuda, its kernels bit by
bit and beside the copy rate, under compute-sanitizer, memory of another process on the same GPU, and
`weft run` on GPU memory over backend soft. Needs the driver, and a build by nvcc."""

import functools
import json
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "ci"))
import gpu_steps  # noqa: E402 pylint: disable=wrong-import-position

OF_COPY = 0.8  # of the copy rate, that each reduction has at least
JOBS = ("jobs=[{all_reduce: {bytes: [8, 1MiB, 64MiB]}}, {all_reduce: {bytes: 4MiB, dtype: bfloat16, op: avg}},"
        " {reduce_scatter: {bytes: 16MiB}}, {all_gather: {bytes: 16MiB}}, {broadcast: {bytes: 16MiB}},"
        " {reduce: {bytes: 16MiB}}, {all_to_all: {bytes: 16MiB}}, {send_recv: {bytes: 16MiB}}]")
# name, scenario, transport between its first two ranks
RUNS = [("three hosts, staged", "scenarios/basic/triangle.yaml", None),
        ("two processes, CUDA IPC", "scenarios/inside/nvlink-2.yaml", "p2p")]
SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")


def call(command, clock, **settings):
    """(exit status or None, stdout, stderr)."""
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(("NCCL_", "WEFT_")) or key == "WEFT_GPU_KERNELS"}
    env.update(settings)
    return gpu_steps.call(command, clock, cwd=ROOT, env=env)


def rows_of(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def result(name, outcome, *, figures=(), said="", problem=None):
    """As ci/gpu's, of one thing that was run."""
    status, out, err = outcome
    if status != 0 and problem is None:
        problem = f"exit status {status}: {(err.strip() or out.strip())[-600:]}"
    print(f"{'ok  ' if problem is None else 'FAIL'} {name}: {problem or said}", flush=True)
    return {"name": name, "figures": list(figures), "problem": problem, "n_wrong": 0}


def conformance(build, clock):
    name = "conformance of backends/cuda"
    outcome = call([build / "test/backends/cuda/cuda_test"], clock, WEFT_TEST_GPU="1")
    return result(name, outcome, said=(outcome[1].strip().splitlines() or [""])[-1])


def kernels(bench, clock):
    outcome = call([bench, "check"], clock)
    rows = rows_of(outcome[1])
    return result("reductions beside the host's", outcome, figures=rows,
                  said=f"{rows[0]['cases']} cases of bits, none wrong on {rows[0]['gpu']}" if rows else "")


def rates(bench, n_bytes, clock):
    outcome = call([bench, "rate", n_bytes], clock)
    rows = rows_of(outcome[1])
    slow = [f"{row['dtype']} {row['op']} {row['of_copy']:.2f}" for row in rows
            if row["what"] == "reduce" and row["of_copy"] < OF_COPY]
    copy = next((row["GBps"] for row in rows if row["what"] == "copy"), 0)
    return result("rates", outcome, figures=rows, said=f"copy {copy} GB/s, every reduction at least "
                  f"{OF_COPY} of it", problem=f"below {OF_COPY} of {copy} GB/s: {', '.join(slow)}"
                  if slow else None)


def other_process(bench, n_bytes, clock):
    outcome = call([bench, "ipc", n_bytes], clock)
    rows = rows_of(outcome[1])
    said = (f"{rows[0]['GBps']} GB/s, within a process {rows[0]['local_GBps']}, opened in "
            f"{rows[0]['open_us']} us") if rows else ""
    return result("memory of another process on the same GPU", outcome, figures=rows, said=said)


def sanitized(bench, clock, kind):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(tool).exists():
        raise gpu_steps.NotRun("it is not here")
    outcome = call([tool, "--tool", kind, "--error-exitcode", 9, bench, "check"], clock)
    return result(f"compute-sanitizer {kind}", outcome, said="no error")


def collective(weft, clock, run, jobs_of=JOBS):
    name, scenario, transport = run
    outcome = call([weft, "run", scenario, "--backend", "soft", "--json", "--set", jobs_of,
                    "--set", "expect={data: exact}"], clock, WEFT_GPU="cuda:0",
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
    return result(f"weft run on GPU memory, {name}", outcome, figures=jobs,
                  said=f"{len(jobs)} rows exact", problem=problem)


def steps_of(build, clock, n_bytes):
    """The contract and the figures; each step has the name of its result."""
    bench, weft = build / "bench/backends/cuda/gpu_bench", build / "weft"
    return [("conformance of backends/cuda", lambda: conformance(build, clock)),
            ("reductions beside the host's", lambda: kernels(bench, clock)),
            ("rates", lambda: rates(bench, n_bytes, clock)),
            ("memory of another process on the same GPU", lambda: other_process(bench, n_bytes, clock)),
            *((f"weft run on GPU memory, {run[0]}", functools.partial(collective, weft, clock, run))
              for run in RUNS)]


def sanitizer_steps_of(build, clock):
    """The slowest."""
    bench = build / "bench/backends/cuda/gpu_bench"
    return [(f"compute-sanitizer {kind}", functools.partial(sanitized, bench, clock, kind))
            for kind in SANITIZERS]


def named(results, beginning):
    return [one for one in results if one["name"].startswith(beginning) and gpu_steps.is_run(one)]


def is_right(results, n=1):
    """False where one is wrong, None where not all `n` ran."""
    return False if any(one["problem"] is not None for one in results) else True if len(results) >= n else None


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
         is_right(sanitizers, len(SANITIZERS))),
        ("collectives of three processes over soft on GPU memory, exact", rows_in(hosts), is_right(hosts)),
        ("collectives of two processes of a host, by p2p, exact", rows_in(inside), is_right(inside)),
    ]


WORDS = {True: "met", False: "NOT MET", None: "not run"}


def say_bars(results):
    """One a line."""
    for bar, figure, is_met in bars(results):
        print(f"{WORDS[is_met]:8} {bar}{': ' if figure else ''}{figure}", flush=True)


def markdown(results):
    """The bars, and the tables for docs/benchmarks.md."""
    by = {one["name"]: one["figures"] for one in results}
    rows = by.get("rates", [])
    lines = ["| bar | figure | |", "|---|---|---|"]
    lines += [f"| {bar} | {figure} | {WORDS[is_met]} |" for bar, figure, is_met in bars(results)]
    lines += ["", "| | GB/s read and written | of the copy rate |", "|---|---|---|"]
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
