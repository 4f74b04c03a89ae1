#!/usr/bin/env python3
"""A process gets no processor for some seconds, or ever again, at any moment of a job on soft or rxe.

    ci/standstill.py [--backend soft] [--clock virtual] [--rounds 30] [--seed N] [--first 0]
                     [--seconds 5 | --for-good] [--jobs 3] [--build build]

Each round draws a pair, twins, a triangle or (in virtual time) a ring of eight, with or without a
management network, on soft on namespaces or on loopback, a job, one host, and a moment: in set-up, as
the jobs begin, at one of their rows, or when a host has sent some megabytes. At that moment a signal
stops the host's process for --seconds (fault `stop`). Every job must pass.

With --for-good nothing continues the process. The job must then fail within FOR_GOOD_S of its own
time, with no finding but peer.silent, which names the stopped host. A round whose moment does not
come must pass.

Without --seed one is drawn, and printed; --seed S --first I --rounds 1 draws round I of seed S
again: in virtual time (always on rxe, with --clock virtual on soft) to the byte, else but for the
kernel's timing. A scenario that fails is kept in build/ci/standstill.
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
# The others wait for a row's limit (60 s and 20 times its bound) or at the barrier after it (60 s more).
# Then the process that does not end is killed after 90 s.
FOR_GOOD_S = 220
# Hosts and cables.
MESHES = {"pair": (2, [(0, 1)]), "twins": (2, [(0, 1), (0, 1)]),
          "triangle": (3, [(0, 1), (0, 2), (1, 2)])}
MESHES_OF = {"real": MESHES, "virtual": {**MESHES, "ring": (8, [(h, (h + 1) % 8) for h in range(8)])}}
ROWS = 12
# While processes start, meet and connect. Computing is free in virtual time.
SET_UP_MS = {"real": (60, 260), "virtual": (3, 90)}


def draw_moment(rng, hosts, clock):
    """Set-up is short, and has most of the waits of different kinds: it is drawn most often."""
    kind = rng.random()
    if kind < 0.6:
        return f"{rng.randrange(*SET_UP_MS[clock]) * 1000 + rng.randrange(1000)}us"
    if kind < 0.7:
        return f"jobs+{rng.randrange(2000)}us"
    if kind < 0.85:
        return f"row {rng.randrange(1, ROWS + 1)}+{rng.randrange(1000)}us"
    return f"h{rng.randrange(hosts)} sent {rng.randrange(1, 16)}MiB"


class Round:
    """The mesh, job, host and moment of one round, and the run of it."""

    def __init__(self, options, seed, i):
        rng = random.Random(f"{seed}/{i}")
        self.options, self.number = options, i
        self.path = KEPT / f"{options.backend}-{options.clock}-{i}.yaml"
        meshes = MESHES_OF[options.clock]
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
        head = [f"name: standstill-{name}", "topology:",
                *(["  management: none"] if rng.random() < 0.4 else []), "  nodes:",
                *(f"    h{h}: {{ports: [{', '.join(f'p{p}' for p in range(ports[h]))}]}}"
                  for h in range(hosts)),
                "  links:", *links, "jobs:", *[f"  - {job}: {{bytes: 2MiB, repeat: 4}}"] * ROWS, "faults:"]
        moment, self.host = draw_moment(rng, hosts, options.clock), f"h{rng.randrange(hosts)}"
        self.at_ns = int(moment[:-2]) * 1000 if moment[:-2].isdigit() else 0
        long, expect = ("", "{}") if options.for_good else (f", for: {options.seconds}s", "{data: exact}")
        self.text = "\n".join([*head, f"  - {{at: {moment}, on: {self.host}, kind: stop{long}}}",
                               f"expect: {expect}", ""])
        self.layout = (rng.choice(["namespaces", "namespaces", "loopback"])
                       if options.backend == "soft" else None)

    def replay(self):
        variable = f"WEFT_SOFT_LAYOUT={self.layout} " if self.layout else ""
        return (f"{variable}build/weft run --backend {self.options.backend} --clock {self.options.clock} "
                f"--seed {self.number + 1} {self.path.relative_to(ROOT)}")

    def judge(self, status, document):
        """What is wrong with how the run ended, or None."""
        names = [(found["code"], found["where"]["peer"] or found["where"]["host"])
                 for found in document["findings"]]
        self.came = self.came and document["sim_time_ns"] > self.at_ns
        if not self.options.for_good or not self.came:
            return None if status == 0 else f"{document['symptom']}, findings {names}"
        if document["symptom"] is None or names != [("peer.silent", self.host)]:
            return f"{self.host} is not named: {document['symptom']}, findings {names}"
        if document["sim_time_ns"] > FOR_GOOD_S * 1_000_000_000:
            return f"it ended after {document['sim_time_ns'] / 1e9:.1f} s"
        return None

    def run(self, weft):
        """(what is wrong or None, whether the moment came)"""
        self.came = True
        self.path.write_text(self.text)
        command = [weft, "run", "--backend", self.options.backend, "--clock", self.options.clock, "--json",
                   "--seed", str(self.number + 1), self.path]
        limit_s = LIMIT_S + (FOR_GOOD_S if self.options.for_good else 0)
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s,
                                  stdin=subprocess.DEVNULL, check=False,
                                  env={**os.environ,
                                       **({"WEFT_SOFT_LAYOUT": self.layout} if self.layout else {})})
        except subprocess.TimeoutExpired:
            return f"no end within {limit_s} s", True
        self.came = "never came" not in done.stdout + done.stderr
        self.path.with_suffix(".log").write_text(done.stdout + done.stderr)
        try:
            problem = self.judge(done.returncode, json.loads(done.stdout))
        except (json.JSONDecodeError, KeyError):
            problem = done.stderr[-500:]
        if problem is None:
            self.path.unlink()
            return None, self.came
        return f"exit status {done.returncode}: {problem}", self.came


def what_is_missing(clock):
    """Soft needs namespaces, root's or those of a user namespace; virtual time the guest's kernel."""
    if clock == "virtual" and os.environ.get("WEFT_GUEST_KERNEL"):
        return None
    asked, why = ((["unshare", "--user", "--net", "--map-root-user", "true"],
                   "namespaces: this user may not make network namespaces; enable with: run as root")
                  if clock == "real" else
                  ([ROOT / "ci" / "rxe-guest", "--path"],
                   "rxe guest: no guest kernel is built; enable with: make rxe-guest"))
    return why if subprocess.run(asked, capture_output=True, check=False).returncode else None


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--backend", choices=["soft", "rxe"], default="soft")
    parser.add_argument("--clock", choices=list(MESHES_OF))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--first", type=int, default=0)
    how_long = parser.add_mutually_exclusive_group()
    how_long.add_argument("--seconds", type=int, default=5)
    how_long.add_argument("--for-good", action="store_true")
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    options.clock = options.clock or ("virtual" if options.backend == "rxe" else "real")
    return options


def main():
    options = parse_arguments()
    weft = str((Path.cwd() / options.build / "weft").resolve())
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    missing = what_is_missing(options.clock)
    if missing:
        print(f"SKIP {missing}")
        return 77
    KEPT.mkdir(parents=True, exist_ok=True)
    long = "--for-good" if options.for_good else f"--seconds {options.seconds}"
    words = f"standstill --backend {options.backend} --clock {options.clock} {long} --seed {seed}"
    print(f"{words} --first {options.first} --rounds {options.rounds}", flush=True)
    rounds = [Round(options, seed, options.first + i) for i in range(options.rounds)]
    n_failed = n_came = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for round_, (problem, came) in zip(rounds, pool.map(lambda one: one.run(weft), rounds)):
            n_came += came
            if problem is None:
                continue
            n_failed += 1
            print(f"FAILED {round_.number}: {problem}\nreplay: {round_.replay()}", flush=True)
            failures.keep(f"{words} --first {round_.number} --rounds 1", problem, round_.replay())
    print(f"the moment came in {n_came} of {options.rounds}")
    print(f"{options.rounds - n_failed} passed, {n_failed} failed, 0 skipped")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
