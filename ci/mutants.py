#!/usr/bin/env python3
"""Breaks the program on purpose, one ci/mutants/*.patch at a time; a test must notice each.

A patch starts with comment lines:

    # test: src/base/heap_test            (Check binaries, separated by blanks, or
    # test: pytest ci/test_x.py -k name    a pytest call, quoted as for a shell; several such lines
                                           are allowed)
    # why: what would go wrong unnoticed

Two workers have a copy of the tree each under build/mutants, and build incrementally, without
optimisation and without what only debuggers read. A mutant is killed when one of its tests fails
or hangs. One that survives, does not apply or does not build, and a test that fails without any
patch, are failures.
"""

import argparse
import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from processes import kill_session

ROOT = Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "build" / "mutants"
MAKE = ["make", "-r", "--no-print-directory", "O=-O0", "CFLAGS=-g0"]
TEST_LIMIT_S = 120


def run(command, cwd, limit_s=600):
    """(exit status, output). A job out of time is killed with its children: status None. So is a
    program of tests at the first that fails."""
    env = {key: value for key, value in os.environ.items()
           if key not in ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL")}
    env.update(WEFT=str(cwd / "build" / "weft"), WEFT_BUILD=str(cwd / "build"), LC_ALL="C.UTF-8",
               CK_DEFAULT_TIMEOUT="120", CK_TIMEOUT_MULTIPLIER="0.25", CK_TAP_LOG_FILE_NAME="-")
    process = subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    timer = threading.Timer(limit_s, kill_session, [process.pid])
    timer.start()
    lines = []
    failed = False
    with process.stdout:
        for line in process.stdout:
            lines.append(line)
            if line.startswith("not ok ") and not failed:  # Check's word on one test: it is enough
                failed = True
                kill_session(process.pid)
    status = process.wait()
    is_late = timer.finished.is_set()
    timer.cancel()
    return 1 if failed else None if is_late else status, "".join(lines)


class Mutant:
    def __init__(self, path):
        self.path = path
        self.name = path.stem
        header = [line for line in path.read_text().splitlines() if line.startswith("#")]
        self.why = " ".join(line[len("# why:"):].strip() for line in header
                            if line.startswith("# why:"))
        self.commands = []  # what to run
        self.targets = []   # what to build first
        for line in header:
            if not line.startswith("# test:"):
                continue
            words = shlex.split(line[len("# test:"):])
            if words and words[0] == "pytest":
                self.commands.append([*words, "-x", "-q", "-p", "no:cacheprovider"])
                self.targets.append("build/weft")
                if "plugin" in words[1]:
                    self.targets.append("build/libnccl-net-mesh.so")
            else:
                self.commands += [[f"build/test/{word}"] for word in words]
                self.targets += [f"build/test/{word}" for word in words]


def sync(worker):
    """Makes the worker's copy equal to the tree, touching only what changed."""
    worker.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT,
                            capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        paths = [path for path in listed.stdout.split("\0") if path]
    else:
        paths = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()
                 and path.relative_to(ROOT).parts[0] not in ("build", ".git")]
    wanted = {path for path in paths if (ROOT / path).is_file()}
    for path in wanted:
        source, copy = ROOT / path, worker / path
        if copy.exists() and copy.read_bytes() == source.read_bytes():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
        shutil.copymode(source, copy)
    for copy in worker.rglob("*"):
        relative = copy.relative_to(worker)
        if relative.parts[0] != "build" and copy.is_file() and str(relative) not in wanted:
            copy.unlink()


def patch(worker, mutant, *options):
    return run(["patch", "-p1", "-F1", "--batch", "--no-backup-if-mismatch", "-r", "-", *options,
                "-i", str(mutant.path)], worker)


def restore(worker, mutant):
    """Takes the patched files from the tree again: surer than patching backwards."""
    for path in re.findall(r"^\+\+\+ b/(\S+)", mutant.path.read_text(), re.MULTILINE):
        shutil.copyfile(ROOT / path, worker / path)


def baseline(worker, mutants, jobs):
    """Builds everything that is needed and runs each test once, unpatched, `jobs` at a time.
    Failures' text."""
    targets = sorted({target for mutant in mutants for target in mutant.targets})
    status, output = run([*MAKE, f"-j{os.cpu_count() or 2}", *targets], worker, 1800)
    if status != 0:
        return ["the tree does not build:\n" + output[-4000:]]
    commands = sorted({tuple(command) for mutant in mutants for command in mutant.commands})
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        done = pool.map(lambda command: run(list(command), worker, TEST_LIMIT_S), commands)
        return [f"{' '.join(command)} fails without any mutant:\n{output[-4000:]}"
                for command, (status, output) in zip(commands, done) if status != 0]


def judge(worker, mutant):
    """('killed' or what is wrong, detail)"""
    if not mutant.commands:
        return "NO TEST", "the patch names none"
    status, output = patch(worker, mutant)
    if status != 0:
        restore(worker, mutant)
        return "NOT APPLIED", output.strip()
    try:
        status, output = run([*MAKE, *sorted(set(mutant.targets))], worker)
        if status != 0:
            return "NOT BUILT", "\n".join(output.splitlines()[-12:])
        for command in mutant.commands:
            status, output = run(command, worker, TEST_LIMIT_S)
            if status != 0:
                return "killed", "hangs" if status is None else ""
        return "SURVIVED", mutant.why
    finally:
        restore(worker, mutant)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="mutants to try (default: all)")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    mutants = [Mutant(path) for path in sorted((ROOT / "ci" / "mutants").glob("*.patch"))
               if not options.names or path.stem in options.names]
    start = time.monotonic()
    first = SCRATCH / "0"
    sync(first)
    failures = baseline(first, mutants, options.jobs)
    for failure in failures:
        print(failure)
    if failures:
        print(f"0 passed, {len(failures)} failed, 0 skipped")
        return 1

    workers = queue.Queue()
    workers.put(first)
    for index in range(1, min(options.jobs, max(len(mutants), 1))):
        worker = SCRATCH / str(index)
        if worker.exists():
            shutil.rmtree(worker)
        shutil.copytree(first, worker, copy_function=shutil.copy2)
        workers.put(worker)

    def one(mutant):
        worker = workers.get()
        begin = time.monotonic()
        try:
            verdict, detail = judge(worker, mutant)
        finally:
            workers.put(worker)
        print(f"  {verdict:12} {mutant.name:40} {time.monotonic() - begin:5.1f} s  {mutant.why}",
              flush=True)
        if verdict != "killed":
            print("      " + detail.replace("\n", "\n      "), flush=True)
        return verdict == "killed"

    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        verdicts = list(pool.map(one, mutants))
    print(f"{len(mutants)} mutants in {time.monotonic() - start:.0f} s")
    print(f"{sum(verdicts)} passed, {len(verdicts) - sum(verdicts)} failed, 0 skipped")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
