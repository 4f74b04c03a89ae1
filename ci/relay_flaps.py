#!/usr/bin/env python3
"""Random meshes with relays whose cables flap: the job ends well wherever it can.

    ci/relay_flaps.py [--count 2000] [--seed N] [--first 0] [--build build] [--keep]

Without --seed one is drawn, and printed. Each mesh is a line, ring, star or grid of 3 to 9 hosts,
some without ranks; neighbours have one cable, twins, or up to seven. It has a management network
or none. Each scenario first runs without faults, to learn how long it lasts. Then one or two
cables go down, by either end, for 20 us to 10 s, at a moment of its set-up, its job or its close, or
before it starts.

The judge knows only the cables and the flaps. If no rank is cut off from another for longer than
limit_of() the mesh, the run must pass with the right data. If one is, the run must pass, or fail with a finding
that names an end of a cable that was down while it was cut off. A scenario that fails is kept in
build/ci/flaps, and the line that repeats it is printed.
"""

import argparse
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import failures
from mesh_run import run_one

ROOT = Path(__file__).resolve().parent.parent
KEPT = Path("build/ci/flaps")
# A job survives so long without a route, and with nothing but cables between two ranks so long
# (docs/scenario.md, "faults").
LIMIT_S, CABLES_LIMIT_S = 5.0, 1.0
SHORTEST_S, LONGEST_S = 20e-6, 10.0
# A handle has room for ten IPv4 addresses (docs/wire.md, "The handle").
HANDLE_ADDRESSES = 10
PROFILES = ["mlx5", "mlx5", "hns-hip08", "hns-hip09", "rxe"]
JOBS = ["all_reduce", "all_to_all", "all_to_all", "send_recv", "all_gather", "broadcast"]


def log_uniform(rng, low, high):
    return low * (high / low) ** rng.random()


# ---- meshes ----

def draw_neighbours(rng):
    """(shape, number of hosts, pairs of neighbours)."""
    shape = rng.choice(["line", "line", "ring", "star", "grid"])
    if shape == "grid":
        width, height = rng.choice([(2, 2), (3, 2), (3, 3)])
        n = width * height
        pairs = [(i, i + 1) for i in range(n) if (i + 1) % width != 0]
        pairs += [(i, i + width) for i in range(n - width)]
        return shape, n, pairs
    n = rng.randrange(3, 6)
    if shape == "line":
        return shape, n, [(i, i + 1) for i in range(n - 1)]
    if shape == "star":
        return shape, n, [(0, i) for i in range(1, n)]
    return shape, n + 1, [(i, (i + 1) % (n + 1)) for i in range(n + 1)]


class Mesh:
    """A scenario without its faults."""

    def __init__(self, rng, name):
        self.name = name
        self.shape, self.n, pairs = draw_neighbours(rng)
        self.seed = rng.randrange(1 << 32)
        self.cables = [pair for pair in pairs
                       for _ in range(rng.choice([1, 1, 1, 1, 2, 2, rng.randrange(3, 8)]))]
        rng.shuffle(self.cables)
        self.ends = []  # of each cable: "h0:p0", "h1:p3"
        ports = [0] * self.n
        self.links = []
        for i, (a, b) in enumerate(self.cables):
            ends = []
            for host in rng.sample([a, b], 2):
                ends.append(f"h{host}:p{ports[host]}")
                ports[host] += 1
            self.ends.append(ends)
            self.links.append(
                f'    - {{endpoints: ["{ends[0]}", "{ends[1]}"], '
                f"subnet: 10.1.{i}.0/{rng.choice([24, 30, 31])}, "
                f"rate: {rng.choice([10, 25, 40, 100, 200])}Gbps, "
                f"delay: {rng.choice(['200ns', '1us', '5us', '20us'])}, "
                f"mtu: {rng.choice([1500, 4200, 9000])}}}")
        self.is_managed = max(ports) > HANDLE_ADDRESSES or rng.random() < 0.5
        self.ranks = [i for i in range(self.n) if rng.random() < 0.85]
        while len(self.ranks) < 2:
            self.ranks = sorted(set(self.ranks) | {rng.randrange(self.n)})
        self.order = rng.sample(self.ranks, len(self.ranks))
        self.nodes = [
            f"    h{i}: {{ports: [{', '.join(f'p{k}' for k in range(ports[i]))}], "
            f"profile: {rng.choice(PROFILES)}{'' if i in self.ranks else ', ranks: 0'}}}"
            for i in range(self.n)]
        self.buffers = rng.choice([1, 2, 8])
        n_bytes = rng.choice([4096, 65536, 1 << 20, 4 << 20])
        self.job = (f"{rng.choice(JOBS)}: {{bytes: {n_bytes}, "
                    f"repeat: {rng.choice([1, 4, 20])}}}")

    def text(self, faults):
        lines = [f"name: {self.name}", f"seed: {self.seed}", "topology:"]
        if not self.is_managed:
            lines.append("  management: none")
        lines += ["  defaults:", f"    env: {{WEFT_RELAY_BUFFERS: '{self.buffers}'}}", "  nodes:",
                  *self.nodes, "  links:", *self.links,
                  f"ranks: [{', '.join(f'h{i}' for i in self.order)}]"]
        if faults:
            lines.append("faults:")
            lines += [f'  - {{at: {flap.at_us}us, on: "{flap.on}", kind: down, '
                      f"for: {flap.for_us}us}}" for flap in faults]
        lines += ["jobs:", f"  - {self.job}", "expect:", "  data: exact", ""]
        return "\n".join(lines)


class Flap:
    """One cable that is down for a while."""

    def __init__(self, rng, mesh, end_s):
        self.cable = rng.randrange(len(mesh.cables))
        self.on = rng.choice(mesh.ends[self.cable]) + rng.choice(["", "", "->", "<-"])
        longest = rng.choice([2.0, LIMIT_S, LIMIT_S, LONGEST_S])
        for_s = rng.choice([log_uniform(rng, SHORTEST_S, longest), rng.uniform(0, longest)])
        self.moment = rng.choice(["start", "set-up", "job", "job", "close"])
        at_s = {"start": 0, "set-up": log_uniform(rng, 50e-6, max(end_s, 60e-6)),
                "job": rng.uniform(0, end_s),
                "close": max(0, end_s - log_uniform(rng, 1e-6, end_s / 5))}[self.moment]
        self.at_us = int(at_s * 1e6)
        self.for_us = max(20, int(for_s * 1e6))

    def overlap(self, rng, other):
        """Goes down while the other is."""
        self.at_us = int(rng.uniform(max(0, other.at_us - self.for_us),
                                     other.at_us + other.for_us))


def draw_flaps(rng, mesh, end_s):
    flaps = [Flap(rng, mesh, end_s)]
    if rng.random() < 0.5:
        flaps.append(Flap(rng, mesh, end_s))
        if rng.random() < 0.7:
            flaps[1].overlap(rng, flaps[0])
    return flaps


# ---- the judge ----

def parts(mesh, without):
    """For each host one of those that it reaches without some cables, the same for each of them."""
    at = {i: i for i in range(mesh.n)}

    def root(i):
        while at[i] != i:
            i = at[i]
        return i

    for i, (a, b) in enumerate(mesh.cables):
        if i not in without:
            at[root(a)] = root(b)
    return [root(i) for i in range(mesh.n)]


def is_cut(mesh, down):
    """True if some rank cannot reach another without the cables in `down`."""
    part = parts(mesh, down)
    return len({part[i] for i in mesh.ranks}) > 1


def limit_of(mesh):
    """How long a cut must be survived: less if two ranks have only cables between them."""
    for ends in set(map(frozenset, mesh.cables)):
        part = parts(mesh, {i for i, pair in enumerate(mesh.cables) if set(pair) == ends})
        a, b = ends
        if a in mesh.ranks and b in mesh.ranks and part[a] != part[b]:
            return CABLES_LIMIT_S
    return LIMIT_S


def cuts(mesh, flaps):
    """(seconds, cables) of each stretch in which some rank is cut off."""
    moments = sorted({flap.at_us for flap in flaps} | {flap.at_us + flap.for_us for flap in flaps})
    found = []
    for begin, end in zip(moments, moments[1:]):
        down = {flap.cable for flap in flaps if flap.at_us <= begin < flap.at_us + flap.for_us}
        if not is_cut(mesh, down):
            found.append(None)
        elif found and found[-1] is not None:
            found[-1] = (found[-1][0] + (end - begin) / 1e6, found[-1][1] | down)
        else:
            found.append(((end - begin) / 1e6, down))
    return [cut for cut in found if cut is not None]


def names_a_cut(mesh, found_cuts, document):
    ends = {end for _, cables in found_cuts for cable in cables for end in mesh.ends[cable]}
    return any(f"{finding['where'].get('host')}:{finding['where'].get('port')}" in ends
               for finding in document["findings"])


def complaint(mesh, flaps, status, document):
    if document is None:
        return f"exit status {status}, no document"
    if any(job["nwrong"] not in (0, None) for job in document["jobs"]):
        return "wrong elements"
    if status == 0:
        return None
    found = cuts(mesh, flaps)
    longest = max((seconds for seconds, _ in found), default=0)
    if longest < limit_of(mesh):
        return f"exit status {status}, though no rank was cut off for longer than {longest:.6f} s"
    if not names_a_cut(mesh, found, document):
        return "no finding names the cut: " + ", ".join(
            f"{finding['code']} {finding['where']}" for finding in document["findings"])
    return None


# ---- runs ----

def try_one(weft, seed, i):
    """(path, class, None or what is wrong)."""
    path = KEPT / f"flap-{seed}-{i}.yaml"
    rng = random.Random(f"{seed}/{i}")
    mesh = Mesh(rng, path.stem)
    (ROOT / path).write_text(mesh.text([]))
    status, document, text = run_one(weft, path)
    if status != 0:
        return path, "no flap", f"exit status {status} without a flap: {text}"
    flaps = draw_flaps(rng, mesh, document["sim_time_ns"] / 1e9)
    (ROOT / path).write_text(mesh.text(flaps))
    kind = " ".join([mesh.shape, "cut" if cuts(mesh, flaps) else "connected"])
    status, document, text = run_one(weft, path)
    problem = complaint(mesh, flaps, status, document)
    if problem is not None:
        moments = ", ".join(flap.moment for flap in flaps)
        symptom = document["symptom"] if document else text
        problem = f"{problem} ({moments}): {symptom}"
    return path, kind, problem


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--build", default="build")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="keep scenarios that pass, too")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"relays and flaps: --seed {seed} --first {options.first} --count {options.count}",
          flush=True)
    (ROOT / KEPT).mkdir(parents=True, exist_ok=True)
    weft = str((Path.cwd() / options.build / "weft").resolve())
    score = {}

    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        for path, kind, problem in pool.map(lambda i: try_one(weft, seed, i),
                                            range(options.first, options.first + options.count)):
            passed, drawn = score.get(kind, (0, 0))
            score[kind] = (passed + (problem is None), drawn + 1)
            if problem is not None:
                print(f"FAILED {problem}\nreplay: weft run {path}", flush=True)
                failures.keep(f"relay_flaps {path.name}", problem, f"build/weft run {path}")
            elif not options.keep:
                (ROOT / path).unlink()
    for kind, (passed, drawn) in sorted(score.items()):
        print(f"{kind}: {passed} of {drawn}")
    n_failed = sum(drawn - passed for passed, drawn in score.values())
    print(f"{options.count - n_failed} passed, {n_failed} failed, 0 skipped")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
