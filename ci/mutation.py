"""The program broken on purpose: the patches of ci/mutants, copies of the tree to plant them in, and
what the tests of a patch report.

A patch starts with comment lines:

    # test: src/base/heap_test            (Check binaries, separated by blanks, or
    # test: pytest ci/test_x.py -k name    a pytest call, quoted as for a shell; several such lines
                                           are allowed)
    # case: a_port_goes[17]               (a case that notices; of sweeps only this one is run first)
    # why: what would go wrong unnoticed

All cases are run if what is run first passes.
"""

import contextlib
import os
import queue
import re
import shlex
import shutil
import subprocess
import threading
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import wire
from processes import kill_session

ROOT = Path(__file__).resolve().parent.parent
SCRATCH = ROOT / "build" / "mutants"
PATCHES = ROOT / "ci" / "mutants"
# The library as the tree builds it, whose objects are copied; the tests, of which few are built,
# without optimisation.
MAKE = ["make", "-r", "--no-print-directory", "TEST_O=-O0"]
BASELINE_LIMIT_S = 600
# A mutant hangs if its test is silent for this many times as long as without it, and at least so
# long. A program of Check writes a line when a test ends, so that one test that never does is noticed
# early among many that take their time. Sweeps of the mutant are up to four times as long.
HANG_FACTOR, HANG_LEAST_S = 8, 30
WHOLE_LIMIT_S = 1800  # for what hangs and writes all the same
# Says that a test noticed a mutant: it failed, or it never ended.
NOTICED = ("killed", "hangs")
# Removed from the environment of tests, because a mutant's failures are none of the gate's, and
# a mutant's test must not be among those that a sample leaves out.
NOT_INHERITED = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "WEFT_FAILURES", "WEFT_STAGE",
                 "WEFT_SAMPLE", "WEFT_CASE", "WEFT_TESTS", "WEFT_FAST")


# How a job ended: its exit status, None if it was killed because it hung; what it wrote; and the
# longest time in which it wrote nothing.
Ended = namedtuple("Ended", "status output silence_s")


class Silence:
    """Kills a session that writes nothing for `limit_s`, or that is not over after WHOLE_LIMIT_S."""

    def __init__(self, leader, limit_s):
        self.leader, self.limit_s = leader, limit_s
        self.begin = self.last = time.monotonic()
        self.longest_s = 0.0
        self.is_broken = False  # by the end of a limit
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while True:
            end = min(self.last + self.limit_s, self.begin + WHOLE_LIMIT_S)
            left = end - time.monotonic()
            if left <= 0:
                self.is_broken = True
                kill_session(self.leader)
                return
            if self.over.wait(left):
                return

    def hear(self):
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - self.last)
        self.last = now

    def end(self):
        self.hear()
        self.over.set()
        self.thread.join()


def follow(command, cwd, limit_s=600, **settings):
    """Run a job and return how it Ended.

    A job that is silent for `limit_s` is killed with its children. A program of tests is killed at
    the first that fails; where they can, its tests share a process. `settings` are variables of its
    environment, such as WEFT_SAMPLE, the part of their cases that its sweeps take."""
    env = {key: value for key, value in os.environ.items() if key not in NOT_INHERITED}
    env.update(WEFT=str(cwd / "build" / "weft"), WEFT_BUILD=str(cwd / "build"), LC_ALL="C.UTF-8",
               CK_DEFAULT_TIMEOUT="120", CK_TIMEOUT_MULTIPLIER="1", CK_TAP_LOG_FILE_NAME="-")
    env.update(settings)
    if not wire.needs_forks(str(command[0]).removeprefix("build/test/"), wire.read()):
        env["CK_FORK"] = "no"
    process = subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    silence = Silence(process.pid, limit_s)
    lines = []
    failed = False
    with process.stdout:
        for line in process.stdout:
            silence.hear()
            lines.append(line)
            if line.startswith("not ok ") and not failed:  # the first failed test is enough
                failed = True
                kill_session(process.pid)
    status = process.wait()
    silence.end()
    status = 1 if failed else None if silence.is_broken else status
    return Ended(status, "".join(lines), silence.longest_s)


def run(command, cwd, limit_s=600, **settings):
    """Run a job as follow() does and return its exit status and output."""
    return follow(command, cwd, limit_s, **settings)[:2]


class Mutant:
    """One patch: the files that it changes, and the tests that must notice."""

    def __init__(self, path):
        self.path = path
        self.name = path.stem
        text = path.read_text()
        header = [line for line in text.splitlines() if line.startswith("#")]
        self.files = re.findall(r"^\+\+\+ b/(\S+)", text, re.MULTILINE)
        self.why = " ".join(line[len("# why:"):].strip() for line in header
                            if line.startswith("# why:"))
        cases = [line[len("# case:"):].strip() for line in header if line.startswith("# case:")]
        self.case = cases[0] if cases else None
        self.commands = []  # what to run
        self.targets = []   # what to build first
        self.sources = []   # the tests' own files
        for line in header:
            if not line.startswith("# test:"):
                continue
            words = shlex.split(line[len("# test:"):])
            if words and words[0] == "pytest":
                self.commands.append([*words, "-x", "-q", "-p", "no:cacheprovider"])
                self.targets.append("build/weft")
                self.sources.append(words[1].split("::")[0])
                if "plugin" in words[1]:
                    self.targets.append("build/libnccl-net-mesh.so")
            else:
                self.commands += [[f"build/test/{word}"] for word in words]
                self.targets += [f"build/test/{word}" for word in words]
                self.sources += [f"{word}.c" for word in words]

    def touches(self):
        """Return the paths of the patch, of what it changes and of the tests that it names."""
        return {f"ci/mutants/{self.path.name}", *self.files, *self.sources}


def is_wire(command, kinds, root=ROOT):
    """Return true if a command of a mutant runs a test that depends on real time, by wire.read().

    A pytest call runs the functions of which a name of its -k is a part, or all if there is none."""
    if command[0] != "pytest":
        return wire.kind_of(command[0].removeprefix("build/test/"), kinds) != "pure"
    path, _, function = command[1].partition("::")
    functions = re.findall(r"^def (test_\w+)", (root / path).read_text(), re.MULTILINE)
    asked = function.split("[")[0] or (command[command.index("-k") + 1] if "-k" in command else "")
    words = set(re.findall(r"[^\s()]+", asked)) - {"and", "or", "not"}
    chosen = [name for name in functions if any(word.lower() in name.lower() for word in words)]
    for name in (f"{path}::{name}" for name in chosen or functions):
        cases = [kind for case, kind in kinds.items() if case.startswith(f"{name}[")]
        if {wire.kind_of(name, kinds), *cases} != {"pure"}:
            return True
    return False


def sync(worker):
    """Make the worker's copy equal to the tree, touching only what changed."""
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
    take_build(worker)


def take_build(worker):
    """Copy what the tree has built into a copy of the tree that has built nothing.

    The sources are older in the copy, so that make builds again only what a patch changes."""
    build = ROOT / "build"
    if (worker / "build" / "flags").exists():
        return
    # The remembered flags name the folder, and every object depends on them.
    for where, make, target in ((ROOT, MAKE[:-1], "all"), (worker, MAKE, "build/flags"),
                                (worker, MAKE, "build/members")):
        status, output = run([*make, f"-j{os.cpu_count()}", target], where, 1800)
        if status != 0:
            raise SystemExit(f"{output}\nmutants: make {target} failed in {where}")
    built = [path for path in (build / "obj").rglob("*.[od]")
             if not path.stem.endswith(("_test", "_testing"))]
    for path in (build / "cuda" / "kernels.fatbin", *sorted(built), *sorted(build.glob("*.a")),
                 *sorted(build.glob("*.so")), build / "weft"):
        copy = worker / path.relative_to(ROOT)
        if path.exists() and path.name != "libweft-testing.a":
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            shutil.copymode(path, copy)


def patch(worker, mutant, *options):
    return run(["patch", "-p1", "-F1", "--batch", "--no-backup-if-mismatch", "-r", "-", *options,
                "-i", str(mutant.path)], worker)


def restore(worker, mutant):
    """Copy the patched files from the tree again, which is safer than patching backwards."""
    for path in mutant.files:
        shutil.copyfile(ROOT / path, worker / path)


def not_applying(mutants, jobs):
    """Return each mutant that does not apply to the tree, with what patch printed."""
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        done = pool.map(lambda mutant: patch(ROOT, mutant, "--dry-run"), mutants)
        return [(mutant, output.strip()) for mutant, (status, output) in zip(mutants, done)
                if status != 0]


class Baseline:
    """What the chosen mutants need, built, and each of their tests run once without any patch.

    With `sample` the sweeps of Check programs take that quarter of their cases, which is enough to
    show that a program passes."""

    def __init__(self, worker, mutants, jobs, sample=None):
        self.sample = sample
        self.failures = []  # (mutant that has the test, test, output)
        self.flaky = []     # the same, of tests of real time that passed when repeated alone
        self.silence_s = {}  # the longest of each command
        self.jobs = jobs
        self.users = {}
        for mutant in mutants:
            for command in mutant.commands:
                self.users.setdefault(tuple(command), mutant)
        if self.build(worker, mutants):
            self.test(worker)

    def build(self, worker, mutants):
        targets = sorted({target for mutant in mutants for target in mutant.targets})
        if not targets:
            return True
        status, output = run([*MAKE, f"-j{self.jobs}", *targets], worker, 1800)
        if status != 0:
            self.failures.append((mutants[0], "the build without any mutant", output))
        return status == 0

    def test(self, worker):
        def one(command):
            part = {"WEFT_SAMPLE": self.sample} if self.sample and command[0] != "pytest" else {}
            ended = follow(list(command), worker, BASELINE_LIMIT_S, **part)
            self.silence_s[command] = ended.silence_s
            return ended.status, ended.output

        kinds = wire.read()
        commands = sorted(self.users)
        with ThreadPoolExecutor(max_workers=self.jobs) as pool:
            results = list(pool.map(one, commands))
        for command, (status, output) in zip(commands, results):
            if status == 0:
                continue
            row = self.users[command], f"{' '.join(command)} without any mutant", output
            # Repeat only a test of real time; the result of any other is that of its code.
            if is_wire(command, kinds) and one(command)[0] == 0:
                self.flaky.append(row)
            else:
                self.failures.append(row)

    def limit_s(self, command):
        """Return how long a command may be silent under a mutant before it counts as hanging."""
        return max(HANG_LEAST_S, HANG_FACTOR * self.silence_s[tuple(command)])


class NotPlanted(Exception):
    """A patch does not apply."""


@contextlib.contextmanager
def planted(worker, mutant):
    """Apply the patch to the worker's copy, and make it equal to the tree again afterwards."""
    try:
        status, output = patch(worker, mutant)
        if status != 0:
            raise NotPlanted(output.strip())
        yield
    finally:
        restore(worker, mutant)


def judge_planted(worker, mutant, limit_s):
    if not mutant.commands:
        return "NO TEST", "the patch names none"
    status, output = run([*MAKE, *sorted(set(mutant.targets))], worker)
    if status != 0:
        return "NOT BUILT", "\n".join(output.splitlines()[-12:])
    named = [{"WEFT_CASE": mutant.case}] if mutant.case else []
    for part in [*named, {}]:
        for command in mutant.commands:
            status, _ = run(command, worker, limit_s(command), **part)
            if status is None:
                return "hangs", " ".join(command)
            if status != 0:
                return "killed", "" if part or not named else f"not by {mutant.case}"
    return "SURVIVED", mutant.why


def judge(worker, mutant, limit_s):
    """Return one of NOTICED or what is wrong, and a detail. `limit_s` gives each command its time."""
    try:
        with planted(worker, mutant):
            return judge_planted(worker, mutant, limit_s)
    except NotPlanted as error:
        return "NOT APPLIED", str(error)


def load(names=()):
    """Return all mutants in the order of their names, or those named."""
    mutants = [Mutant(path) for path in sorted(PATCHES.glob("*.patch"))]
    unknown = sorted(set(names) - {mutant.name for mutant in mutants})
    if unknown:
        raise SystemExit(f"no such mutant: {' '.join(unknown)}")
    return [mutant for mutant in mutants if not names or mutant.name in names]


class Copies:
    """Copies of the first worker, one for each of `n` jobs, lent one at a time."""

    def __init__(self, first, n):
        self.free = queue.Queue()
        self.free.put(first)
        for index in range(1, n):
            worker = first.parent / str(index)
            if worker.exists():
                shutil.rmtree(worker)
            shutil.copytree(first, worker, copy_function=shutil.copy2)
            self.free.put(worker)

    @contextlib.contextmanager
    def lend(self):
        worker = self.free.get()
        try:
            yield worker
        finally:
            self.free.put(worker)
