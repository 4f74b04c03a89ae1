#!/usr/bin/env python3
"""Kill Weft's commands by SIGKILL at many moments, and look for what is left.

    ci/kills.py [--moments 30] [--build build] [NAME...]

A moment is a system call of the command's first process, which is traced (ptrace(2)): of one run their
number is counted, and the others are killed at one of MOMENTS calls, evenly spread. What is asked of
each: every process that it started ends by itself; after `weft cleanup`, /tmp, TMPDIR,
XDG_RUNTIME_DIR, /dev/shm, /run/netns and the mounts are as before. All runs in namespaces of their own.
Exit 77: no user namespaces, or no guest's kernel where one is needed.
"""

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRACEME, SYSCALL, SETOPTIONS, SYSGOOD, EXITKILL = 0, 24, 0x4200, 1, 1 << 20
SUBREAPER = 36
LIMIT_S = 60  # for the processes of a killed command to end
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
SMALL = ["--set", "jobs=[{all_reduce: {bytes: 64KiB, repeat: 20}}]", "--set", "expect={data: exact}"]
PAIR = "scenarios/basic/pair.yaml"
COMMANDS = {
    "sim": ["run", "-q", PAIR, *SMALL],
    "soft": ["run", "-q", "--backend", "soft", PAIR, *SMALL],
    "rxe": ["run", "-q", "--backend", "rxe", PAIR, *SMALL],
    "guest": ["guest", "--", "true"],
    "exec": ["exec", PAIR, "--", "true"],
    "lab-up": ["lab", "up", PAIR],
    "lab-exec": ["lab", "exec", "titanic", "--", "true"],
    "plugin-check": ["plugin-check", "{plugin}", "--backend", "sim"],
}
NEED_GUEST = {"rxe", "guest", "exec", "lab-up", "lab-exec"}


class Place:
    """Folders of one command, and what else it could leave."""

    def __init__(self, weft):
        self.weft = weft
        self.home = Path(tempfile.mkdtemp(prefix="wk.", dir="/tmp"))
        for name in ("scratch", "run"):
            (self.home / name).mkdir(mode=0o700)
        self.env = {**os.environ, "TMPDIR": str(self.home / "scratch"), "XDG_RUNTIME_DIR": str(self.home / "run")}
        self.before = self.state()

    def state(self):
        names = [str(path) for folder in ("/dev/shm", "/run/netns", "/tmp") for path in Path(folder).glob("**/*")]
        return {*Path("/proc/mounts").read_text().splitlines(), *names}

    def do(self, *args):
        return subprocess.run([self.weft, *args], cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)


def run_until(command, env, last):
    """Run a command until its call number `last`, at which it is killed. Return (number of calls, wait status)."""
    child = os.fork()
    if child == 0:
        nothing = os.open("/dev/null", os.O_RDWR)
        for fd in range(3):
            os.dup2(nothing, fd)
        os.chdir(ROOT)
        os.setsid()
        LIBC.ptrace(TRACEME, 0, None, None)
        os.execve(command[0], command, env)
    _, status = os.waitpid(child, 0)
    LIBC.ptrace(SETOPTIONS, child, None, EXITKILL | SYSGOOD)
    stops, number = 0, 0
    while True:
        if LIBC.ptrace(SYSCALL, child, None, number) != 0:
            return stops // 2, status
        _, status = os.waitpid(child, 0)
        if not os.WIFSTOPPED(status):
            return stops // 2, status
        number = os.WSTOPSIG(status)
        if number == signal.SIGTRAP | 0x80:
            stops += 1
            number = 0
        elif number == signal.SIGTRAP:
            number = 0
        if last is not None and stops // 2 >= last:
            os.kill(child, signal.SIGKILL)
            while not os.WIFSIGNALED(status) and not os.WIFEXITED(status):
                _, status = os.waitpid(child, 0)
            return stops // 2, status


def children():
    """Return the processes that it has, orphans included."""
    return [int(word) for word in Path("/proc/thread-self/children").read_text().split()]


def reap(but=()):
    """Wait until every orphan has ended. Return the command lines of those that have not."""
    until = time.monotonic() + LIMIT_S
    while left := [pid for pid in children() if pid not in but]:
        for pid in left:
            os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > until:
            return [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in left]
        time.sleep(0.005)
    return []


def try_at(weft, name, last):
    """Return (number of calls, [what is wrong])."""
    place = Place(weft)
    kept = []
    if name == "lab-exec":
        up = place.do("lab", "up", PAIR)
        if up.returncode != 0:
            return 0, [f"lab up: {up.stderr}"]
        kept = children()
    plugin = str(Path(weft).parent / "libnccl-net-mesh.so")
    words = [word.replace("{plugin}", plugin) for word in COMMANDS[name]]
    n_calls, status = run_until([weft, *words], place.env, last)
    faults = [] if last is not None or status == 0 else [f"it ended with wait status {status:#x}"]
    if name == "lab-exec" and (left := reap(kept)):
        faults.append(f"processes of exec: {left}")
    if name.startswith("lab"):
        place.do("lab", "down")  # because the lab may be up although its `up` was killed
    if left := reap():
        faults.append(f"processes: {left}")
        for pid in children():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    place.do("cleanup")
    if left := sorted(place.state() ^ place.before):
        faults.append(f"after `weft cleanup`: {left}")
    shutil.rmtree(place.home)
    return n_calls, faults


def judge(weft, name, moments):
    total, faults = try_at(weft, name, None)
    for i in range(moments):
        last = max(1, total * (i + 1) // (moments + 1))
        for fault in try_at(weft, name, last)[1]:
            faults.append(f"killed at call {last} of {total}: {fault}")
    print(f"{name}: {moments} moments of {total} calls, {len(faults)} faults", flush=True)
    for fault in faults:
        print(f"  {name}: {fault}", flush=True)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=30)
    parser.add_argument("--build", default="build")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(COMMANDS)}; default: all")
    options = parser.parse_args()
    if set(options.names) - set(COMMANDS):
        parser.error(f"no such command: {', '.join(sorted(set(options.names) - set(COMMANDS)))}")
    if not options.inside:
        alone = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--ipc", "--"]
        if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
            print("kills: not run: no user namespaces", file=sys.stderr)
            return 77
        script = "mount -t tmpfs none /dev/shm && mount -t tmpfs none /tmp && mount -t tmpfs none /run && exec \"$@\""
        os.execvp(alone[0], [*alone, "sh", "-c", script, "sh", sys.executable, *sys.argv, "--inside"])
    LIBC.prctl(SUBREAPER, 1, 0, 0, 0)
    has_guest = subprocess.run([ROOT / "ci" / "rxe-guest", "--path"], capture_output=True, check=False).returncode == 0
    names = [name for name in options.names or COMMANDS if has_guest or name not in NEED_GUEST]
    if not names:
        print("kills: not run: no guest's kernel (make rxe-guest)", file=sys.stderr)
        return 77
    weft = str((ROOT / options.build / "weft").resolve())
    faults = [fault for name in names for fault in judge(weft, name, options.moments)]
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
