#!/usr/bin/env python3
"""Asks the guest's kernel what it makes of random histories of GID tables.

    ci/gid_histories.py SEED CASES > sim/rules/gid_recorded.csv

The histories are those of sim/rules/gid_table.csv: addresses that come and go, with peers and
secondaries, slots in use, devices made anew. sim/gid_rules_test plays them to the simulator.
"""

import errno
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = "case,types,op,argument,errno,events,table,source"
ADDRESSES = [
    "10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24", "10.0.0.4/16", "10.0.1.1/24", "10.1.0.1/24",
    "10.1.0.2/24", "fd00::1/64", "fd00::2/64", "fe80::5/64", "10.3.0.1 peer 10.3.0.2/32",
    "10.3.0.3 peer 10.3.0.2/32", "10.4.0.1 peer 10.4.0.2/24", "10.4.0.9 peer 10.4.0.3/24",
    "10.4.0.2/24"]
OPS = ["add"] * 6 + ["del"] * 4 + ["hold"] * 2 + ["release", "scan"]


def history(rng):
    """(op, argument) pairs."""
    yield "start", "-"
    yield "promote_secondaries", str(rng.randint(0, 1))
    there, held = [], []
    for _ in range(14):
        op = rng.choice(OPS)
        if op == "add":
            address = rng.choice(ADDRESSES)
            there += [address] if address not in there else []
            yield op, address
        elif op == "del" and there:
            address = there.pop(rng.randrange(len(there)))
            yield op, address.split()[0].split("/")[0]
        elif op == "hold":
            held.append(str(rng.randint(0, 5)))
            yield op, held[-1]
        elif op == "release" and held:
            yield op, rng.choice(held)
        elif op == "scan" and not held:
            yield op, "-"


def ask(rows):
    with tempfile.NamedTemporaryFile("w", suffix=".csv", dir=ROOT / "build") as file:
        file.write(COLUMNS + "\n")
        for case, op, argument in rows:
            file.write(f"{case},v2,{op},{argument},-,-,-,-\n")
        file.flush()
        os.chmod(file.name, 0o644)
        done = subprocess.run(
            [ROOT / "ci/guest/conformance", ROOT / "ci/guest/rules.py", "gid_table", file.name],
            capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(rows), done.stdout[-2000:] + done.stderr[-2000:]
    return answers


def main():
    rng = random.Random(int(sys.argv[1]))
    rows = [(f"r{case}", op, argument) for case in range(int(sys.argv[2]))
            for op, argument in history(rng)]
    print("# Random histories (as in gid_table.csv, with 16 slots looked at) and what soft-RoCE of "
          "Linux made of\n# them: ci/gid_histories.py.")
    print(COLUMNS)
    for (case, op, argument), answer in zip(rows, ask(rows)):
        code = answer["errno"]
        name = "-" if code == "" else errno.errorcode.get(code, "0")
        events = "-" if op in ("start", "scan") else answer["events"]
        print(f"{case},v2,{op},{argument},{name},{events},{' '.join(answer['table'])},Linux 7.2.13")


if __name__ == "__main__":
    main()
