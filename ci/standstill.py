#!/usr/bin/env python3
"""A process gets no processor for some seconds at any moment of a job on backend soft or rxe.

    ci/standstill.py [--backend soft] [--rounds 30] [--seed N] [--first 0] [--seconds 5] [--jobs 3]
                     [--build build]

Each round draws a pair, twins, a triangle or (on rxe) a ring of eight, with or without a management
network, on soft on namespaces or on loopback, a job, one host, and a moment: in set-up, as the jobs
begin, at one of their rows, or when a host has sent some megabytes. At that moment a signal stops the
host's process for --seconds (fault `stop`). Every job must pass.

Without --seed one is drawn, and printed; --seed S --first I --rounds 1 draws round I of seed S
again: on rxe, in virtual time, to the byte; on soft but for the kernel's timing. A scenario that
fails is kept in build/ci/standstill.
Exit 77: no namespaces, or no guest kernel.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import failures

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "ci" / "standstill"
LIMIT_S = 150
# Hosts and cables.
MESHES = {"pair": (2, [(0, 1)]), "twins": (2, [(0, 1), (0, 1)]),
          "triangle": (3, [(0, 1), (0, 2), (1, 2)])}
MESHES_OF = {"soft": MESHES, "rxe": {**MESHES, "ring": (8, [(h, (h + 1) % 8) for h in range(8)])}}
ROWS = 12
# While processes start, meet and connect. Computing is free in virtual time.
SET_UP_MS = {"soft": (60, 260), "rxe": (3, 90)}


def draw_moment(rng, hosts, backend):
    """Set-up is short, and has most of the waits of different kinds: it is drawn most often."""
    kind = rng.random()
    if kind < 0.6:
        return f"{rng.randrange(*SET_UP_MS[backend]) * 1000 + rng.randrange(1000)}us"
    if kind < 0.7:
        return f"jobs+{rng.randrange(2000)}us"
    if kind < 0.85:
        return f"row {rng.randrange(1, ROWS + 1)}+{rng.randrange(1000)}us"
    return f"h{rng.randrange(hosts)} sent {rng.randrange(1, 16)}MiB"


def draw(seed, i, seconds, backend):
    """(layout, text of the scenario)"""
    rng = random.Random(f"{seed}/{i}")
    meshes = MESHES_OF[backend]
    name = rng.choice(list(meshes))
    hosts, cables = meshes[name]
    ports = [0] * hosts
    links = []
    for c, cable in enumerate(cables):
        ends = []
        for host in cable:
            ends.append(f"h{host}:p{ports[host]}")
            ports[host] += 1
        links.append(f'    - {{endpoints: ["{ends[0]}", "{ends[1]}"], subnet: 10.1.{c}.0/24}}')
    job = rng.choice(["all_reduce", "all_gather", "broadcast"])
    lines = [f"name: standstill-{name}", "topology:",
             *(["  management: none"] if rng.random() < 0.4 else []), "  nodes:",
             *(f"    h{h}: {{ports: [{', '.join(f'p{p}' for p in range(ports[h]))}]}}"
               for h in range(hosts)),
             "  links:", *links, "jobs:", *[f"  - {job}: {{bytes: 2MiB, repeat: 4}}"] * ROWS, "faults:",
             f"  - {{at: {draw_moment(rng, hosts, backend)}, on: h{rng.randrange(hosts)}, kind: stop, "
             f"for: {seconds}s}}", "expect: {data: exact}", ""]
    layout = rng.choice(["namespaces", "namespaces", "loopback"]) if backend == "soft" else None
    return layout, "\n".join(lines)


def try_one(weft, seed, i, seconds, backend):
    """(layout, path, what is wrong or None, whether the moment came)"""
    layout, text = draw(seed, i, seconds, backend)
    path = KEPT / f"{i}.yaml"
    path.write_text(text)
    try:
        done = subprocess.run([weft, "run", "--backend", backend, "--json", "--seed", str(i + 1), path],
                              cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=LIMIT_S, check=False,
                              env={**os.environ, **({"WEFT_SOFT_LAYOUT": layout} if layout else {})})
    except subprocess.TimeoutExpired:
        return layout, path, f"no end within {LIMIT_S} s", True
    (KEPT / f"{i}.log").write_text(done.stdout + done.stderr)
    came = "never came" not in done.stdout + done.stderr
    if done.returncode == 0:
        path.unlink()
        return layout, path, None, came
    try:
        document = json.loads(done.stdout)
        said = f"{document['symptom']}, findings {[found['code'] for found in document['findings']]}"
    except (json.JSONDecodeError, KeyError):
        said = done.stderr[-500:]
    return layout, path, f"exit status {done.returncode}: {said}", came


def what_is_missing(backend):
    """Soft needs namespaces, root's or those of a user namespace; rxe its guest's kernel."""
    asked, why = ((["unshare", "--user", "--net", "--map-root-user", "true"],
                   "namespaces: this user may not make network namespaces; enable with: run as root")
                  if backend == "soft" else
                  ([ROOT / "ci" / "rxe-guest", "--path"],
                   "rxe guest: no guest kernel is built; enable with: make rxe-guest"))
    return why if subprocess.run(asked, capture_output=True, check=False).returncode else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--backend", choices=list(MESHES_OF), default="soft")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    weft = str((Path.cwd() / options.build / "weft").resolve())
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    missing = what_is_missing(options.backend)
    if missing:
        print(f"SKIP {missing}")
        return 77
    KEPT.mkdir(parents=True, exist_ok=True)
    words = f"standstill --backend {options.backend} --seed {seed}"
    print(f"{words} --first {options.first} --rounds {options.rounds}", flush=True)
    rounds = range(options.first, options.first + options.rounds)
    n_failed = n_came = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        tries = pool.map(lambda i: try_one(weft, seed, i, options.seconds, options.backend),
                         rounds)
        for i, (layout, path, problem, came) in zip(rounds, tries):
            n_came += came
            if problem is None:
                continue
            n_failed += 1
            replay = (f"{f'WEFT_SOFT_LAYOUT={layout} ' if layout else ''}build/weft run --backend "
                      f"{options.backend} --seed {i + 1} {path.relative_to(ROOT)}")
            print(f"FAILED {i}: {problem}\nreplay: {replay}", flush=True)
            failures.keep(f"{words} --first {i} --rounds 1", problem, replay)
    print(f"the moment came in {n_came} of {options.rounds}")
    print(f"{options.rounds - n_failed} passed, {n_failed} failed, 0 skipped")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
