"""Runs of scenarios/inside, and what processes of one host must do on every backend that has them."""

import fcntl
import json
import os
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEFT = ROOT / os.environ.get("WEFT", "build/weft")
SMALL = ("--set", "jobs=[{all_reduce: {bytes: [8, 1MiB]}}, {all_to_all: {bytes: 64KiB}}]",
         "--set", "expect={data: exact}", "--backend")
LONG = ("--set", "faults.0.at=2s", "--set", "jobs.0.all_reduce.repeat=100000",
        "--set", "expect.result=fail")


def run(name, *arguments, code=(0,)):
    done = subprocess.run([WEFT, "run", f"scenarios/inside/{name}.yaml", *arguments, "--json"],
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


def leftovers():
    """Segments of the dead. /dev/shm is everybody's: those of other tests' runs go in a moment."""
    until = time.monotonic() + 30
    while True:
        found = [path.name for path in Path("/dev/shm").glob("weft-*") if not is_held(path)]
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.1)


def ways(document):
    return {(c["from"], c["to"]): (c["transport"], c["reason"]) for c in document["connections"]}


def processes_share_memory(backend, name, n_ranks):
    document = run(name, *SMALL, backend)
    found = ways(document)
    assert document["result"] == "pass"
    assert len(found) == n_ranks * (n_ranks - 1)
    for (a, b), (transport, reason) in found.items():
        if a // 2 == b // 2:
            assert (transport, reason.split("; ")[-1]) == ("shm", "shm: same /dev/shm")
        else:
            assert (transport, reason) == ("net", "net: another host")
    assert leftovers() == []


def a_killed_rank_ends_its_neighbours(backend):
    document = run("killed-rank", *LONG, "--set", "faults.0.process=1", "--set",
                   "topology={defaults: {ports: [p0]}, nodes: {titanic: {gpus: 2}, iceberg: "
                   "{ranks: 0}}, links: [{endpoints: ['titanic:p0', 'iceberg:p0'], "
                   "subnet: 192.168.100.0/24}]}", "--backend", backend)
    assert document["result"] == "pass", document["expectations"]
    assert [f["where"]["peer"] for f in document["findings"]] == ["titanic/1"]
    assert leftovers() == []
