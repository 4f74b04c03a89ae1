#!/usr/bin/env python3
"""Random flaps in small meshes: after every set of faults that ends, the job ends in success.

    ci/flaps.py [--count 2000] [--seed N] [--first 0] [--build build] [--kind triangle]

Without --seed one is drawn, and printed. Each run has a pair, twins, a triangle, twins in a
triangle, a square or a chain, with a management network or without, and one to six faults:
carriers of cables (20 us to 5 s) that go down, and GIDs that are deleted and added again, both
during set-up or while the job runs. A run that fails is kept in build/ci/flaps, and
the line that repeats it is printed.

Neighbours that have no route but their cables survive 1 s without any of them (docs/wire.md,
"Failover"): a pair, twins and a chain have faults of up to 0.4 s, so that two in a row stay below.
Some GIDs are missing already when the processes start.
"""

import argparse
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import failures

ROOT = Path(__file__).resolve().parent.parent
KEPT = Path("build/ci/flaps")
LIMIT_S = 300
TRIANGLE = [(0, 1), (0, 2), (1, 2)]
KINDS = {
    "two-flaps": (3, TRIANGLE),
    "pair": (2, [(0, 1)]),
    "twins": (2, [(0, 1), (0, 1)]),
    "triangle": (3, TRIANGLE),
    "twin-triangle": (3, TRIANGLE * 2),
    "square": (4, [(0, 1), (1, 2), (2, 3), (3, 0)]),
    "chain": (3, [(0, 1), (1, 2)]),
}
# A mesh without a route for longer ends (5 s, docs/wire.md). All faults begin within START_US of
# each other, so that an outage cannot be longer than the longest fault and that.
OUTAGE_US = 5_000_000
PAIR_US = 400_000
START_US = 40_000


def cables_of(edges):
    """Return (end, end) of every cable, as (host, port)."""
    ports = {}
    cables = []
    for edge in edges:
        ends = []
        for host in edge:
            ends.append((host, ports.get(host, 0)))
            ports[host] = ports.get(host, 0) + 1
        cables.append(tuple(ends))
    return cables


def draw_faults(rng, kind, cables):
    longest = PAIR_US if kind in ("pair", "twins", "chain") else OUTAGE_US - START_US
    if kind == "two-flaps":  # as they were found: 20 ms each, in every order and overlap
        first = rng.randint(0, 30_000)
        return [(max(0, first + shift), 20_000, cable, "down")
                for cable, shift in zip(rng.sample(range(3), 2),
                                        (0, rng.randint(-20_000, 20_000)))]
    faults = {}
    begin = rng.choice([0, rng.randint(0, 2_000), rng.randint(0, 60_000)])
    for _ in range(rng.choice([1, 1, 2, 2, 3, 4, 6])):
        length = min(longest, int(20 * 250_000 ** rng.random()))
        at = begin + rng.randint(0, rng.choice([10, 1_000, START_US]))
        cable = rng.randrange(len(cables))
        what = rng.choice(["down", "down", "down", "gid"])
        faults.setdefault(cable, (at, length, cable, what))
    return list(faults.values())


def fault_lines(rng, faults, cables):
    for at, length, cable, kind in faults:
        host, port = cables[cable][rng.randrange(2)]
        on = f'"h{host}:p{port}"'
        if kind == "down":
            yield f"  - {{at: {at}us, on: {on}, kind: down, for: {length}us}}"
        else:
            end = [h for h, _ in cables[cable]].index(host)
            address = f"10.1.{cable}.{end + 1}"
            yield f"  - {{at: {at}us, on: {on}, kind: gid_delete, address: {address}}}"
            yield f"  - {{at: {at + length}us, on: {on}, kind: gid_add, address: {address}}}"


def draw(rng, kind):
    """Return a scenario as YAML. Slow cables make the job outlast the faults' beginnings."""
    kind = kind or rng.choice(["two-flaps", *KINDS])
    n_hosts, edges = KINDS[kind]
    cables = cables_of(edges)
    lines = [f"name: flaps-{kind}", f"seed: {rng.randint(1, 10**6)}", "topology:"]
    if rng.random() < 0.3:
        lines.append("  management: none")
    lines.append("  nodes:")
    for host in range(n_hosts):
        ports = [f"p{port}" for ends in cables for h, port in ends if h == host]
        lines.append(f"    h{host}: {{ports: [{', '.join(ports)}]}}")
    lines.append("  links:")
    for i, ((a, p), (b, q)) in enumerate(cables):
        lines.append(f'    - {{endpoints: ["h{a}:p{p}", "h{b}:p{q}"], subnet: 10.1.{i}.0/24, '
                     "rate: 1Gbps}")
    lines += ["faults:", *fault_lines(rng, draw_faults(rng, kind, cables), cables)]
    job = rng.choice(["all_reduce", "all_gather", "all_to_all"])
    size, repeat = rng.choice([("1MiB", 12), ("256KiB", 40), ("16KiB", 200)])
    lines += ["jobs:", f"  - {job}: {{bytes: {size}, repeat: {repeat}}}"]
    return "\n".join(lines) + "\n"


def run(weft, seed, index, kind):
    text = draw(random.Random(f"{seed}/{index}"), kind)
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{seed}-{index}.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        done = subprocess.run([weft, "run", "-q", str(path)], capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)
        code, said = done.returncode, (done.stdout + done.stderr).strip()
    except subprocess.TimeoutExpired:
        code, said = 124, f"no end within {LIMIT_S} s"
    if code == 0:
        path.unlink()
        return None
    return f"{path}: exit code {code}\n{said}\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randint(1, 10**9))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--build", default="build")
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    weft = str(ROOT / args.build / "weft")
    kind = f" --kind {args.kind}" if args.kind else ""
    print(f"seed {args.seed}, {args.count} runs", flush=True)
    failed = 0
    with ThreadPoolExecutor(args.jobs) as pool:
        indices = range(args.first, args.first + args.count)
        for index, why in zip(indices, pool.map(
                lambda i: run(weft, args.seed, i, args.kind), indices)):
            if why is not None:
                failed += 1
                again = f"ci/flaps.py --seed {args.seed} --first {index} --count 1{kind}"
                print(f"FAIL: {again}\n{why}", flush=True)
                failures.keep(f"flaps {args.seed}/{index}", why, again)
    print(f"{args.count - failed} of {args.count} jobs went on")
    print(f"{args.count - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
