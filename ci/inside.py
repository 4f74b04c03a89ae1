"""Runs of scenarios/inside, and what processes of one host must do on every backend that has them."""

import fcntl
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEFT = ROOT / os.environ.get("WEFT", "build/weft")
SMALL = ("--set", "jobs=[{all_reduce: {bytes: [8, 1MiB]}}, {all_to_all: {bytes: 64KiB}}]",
         "--set", "expect={data: exact}", "--backend")
LONG = ("--set", "faults.0.at=jobs+100us", "--set", "jobs.0.all_reduce.repeat=100000",
        "--set", "expect.result=fail")


# Runs a command with a /dev/shm of its own (as root), and lists in the file $0 what is left there.
ALONE = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm && "$@"; code=$?; '
         'find /dev/shm -name "weft-*" >"$0"; exit $code']


def run(name, *arguments, code=(0,), under=()):
    done = subprocess.run([*under, WEFT, "run", f"scenarios/inside/{name}.yaml", *arguments,
                           "--json"],
                          cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in code, (name, done.stdout[-2000:], done.stderr[-2000:])
    return json.loads(done.stdout)


def is_held(path):
    """By a living process, which has a lock on it; another user's; or gone meanwhile."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, FileNotFoundError, PermissionError):
        return True
    return False


def segments():
    return set(Path("/dev/shm").glob("weft-*"))


def run_and_leave_nothing(name, *arguments):
    """The document of a run, of whose shared memory nothing is left."""
    if subprocess.run([*ALONE, os.devnull, "true"], capture_output=True, check=False).returncode == 0:
        with tempfile.NamedTemporaryFile("r") as left:
            document = run(name, *arguments, under=[*ALONE, left.name])
            assert left.read() == ""
        return document
    # If it can have none of its own, what was there before is not judged. What came meanwhile may be
    # another test's, and goes with that test's next run.
    before = segments()
    document = run(name, *arguments)
    until = time.monotonic() + 60
    while left := [path.name for path in segments() - before if not is_held(path)]:
        assert time.monotonic() < until, left
        time.sleep(0.1)
    return document


def ways(document):
    return {(c["from"], c["to"]): (c["transport"], c["reason"]) for c in document["connections"]}


def processes_share_memory(backend, name, n_ranks):
    document = run_and_leave_nothing(name, *SMALL, backend)
    found = ways(document)
    assert document["result"] == "pass"
    assert len(found) == n_ranks * (n_ranks - 1)
    for (a, b), (transport, reason) in found.items():
        if a // 2 == b // 2:
            assert (transport, reason.split("; ")[-1]) == ("shm", "shm: same /dev/shm")
        else:
            assert (transport, reason) == ("net", "net: another host")


def a_killed_rank_ends_its_neighbours(backend):
    document = run_and_leave_nothing(
        "killed-rank", *LONG, "--set", "faults.0.process=1", "--set",
        "topology={defaults: {ports: [p0]}, nodes: {titanic: {gpus: 2}, iceberg: {ranks: 0}}, links: "
        "[{endpoints: ['titanic:p0', 'iceberg:p0'], subnet: 192.168.100.0/24}]}",
        "--backend", backend)
    assert document["result"] == "pass", document["expectations"]
    assert [f["where"]["peer"] for f in document["findings"]] == ["titanic/1"]
