#!/usr/bin/env python3
"""How long a cable may be away: down-times of 10 us to 3 s, of one cable and of two, at many moments.

    ci/outages.py [--moments 40] [--seed 1] [--part K/N] [--build build]

The meshes are a pair, twins, a triangle of single cables, and two hosts behind a relay, which the second
has twin cables to. Each first runs without faults, to learn how long it lasts. Then one cable, or two
whose outages overlap, go down for each down-time at each moment: half of the moments lie in set-up, the
others are spread over the whole run and a little beyond its end. --part takes every Nth run from the Kth on.

A job must go on if no rank was cut off for longer than PROMISE_S of its mesh says (docs/scenario.md,
"faults"). If one was, the run may end either way, but with the right data or with a finding. Prints a
table: what is promised, and of how many runs the job went on, with a star where some were cut off for
longer than promised.
A run that fails is kept in build/ci/outages, and the line that repeats it is printed.
"""

import argparse
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import failures
from mesh_run import run_one

ROOT = Path(__file__).resolve().parent.parent
KEPT = Path("build/ci/outages")
DOWN_US = [10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000]
# Two ranks that have nothing but cables between them survive the first, all others the second.
CABLES_S, ROUTES_S = 1.0, 5.0
# Hosts, cables, hosts without a rank, and the promise.
MESHES = {
    "pair": (2, [(0, 1)], [], CABLES_S),
    "twins": (2, [(0, 1), (0, 1)], [], CABLES_S),
    "triangle": (3, [(0, 1), (0, 2), (1, 2)], [], ROUTES_S),
    "relay": (3, [(0, 1), (1, 2), (1, 2)], [1], ROUTES_S),
}
FIRST_US = 20  # of set-up
SET_UP_US = 4_000


class Mesh:
    """A scenario without its faults."""

    def __init__(self, name):
        n_hosts, self.cables, without, self.promise_s = MESHES[name]
        self.name = name
        self.ranks = [host for host in range(n_hosts) if host not in without]
        ports = [0] * n_hosts
        self.ends = []
        for cable in self.cables:
            ends = []
            for host in cable:
                ends.append(f"h{host}:p{ports[host]}")
                ports[host] += 1
            self.ends.append(ends)
        self.lines = [f"name: outage-{name}", "topology:", "  nodes:"]
        for host in range(n_hosts):
            names = ", ".join(f"p{port}" for port in range(ports[host]))
            none = ", ranks: 0" if host in without else ""
            self.lines.append(f"    h{host}: {{ports: [{names}]{none}}}")
        self.lines.append("  links:")
        self.lines += [f'    - {{endpoints: ["{a}", "{b}"], subnet: 10.1.{i}.0/24, rate: 10Gbps}}'
                       for i, (a, b) in enumerate(self.ends)]
        self.jobs = ["jobs:", "  - all_to_all: {bytes: 1MiB, repeat: 16}", "expect:",
                     "  data: exact", ""]

    def text(self, outages):
        """The scenario with (at_us, for_us, cable, end) of each outage."""
        faults = [f'  - {{at: {at}us, on: "{self.ends[cable][end]}", kind: down, for: {long}us}}'
                  for at, long, cable, end in outages]
        return "\n".join([*self.lines, *(["faults:"] if faults else []), *faults, *self.jobs])

    def is_cut(self, down):
        """True if some rank cannot reach another without the cables in `down`."""
        reached = {self.ranks[0]}
        for _ in self.cables:
            for i, (a, b) in enumerate(self.cables):
                if i not in down and (a in reached) != (b in reached):
                    reached |= {a, b}
        return not reached.issuperset(self.ranks)

    def promise(self, n_cables):
        """How long `n_cables` may be away, in words: for ever if the others always join all ranks."""
        cuts = any(self.is_cut(set(down)) for down in combinations(range(len(self.cables)), n_cables))
        return f"{self.promise_s:g} s" if cuts else "always"

    def cut_s(self, outages):
        """The longest time for which some rank was cut off."""
        moments = sorted({at for at, *_ in outages} | {at + long for at, long, *_ in outages})
        longest = now = 0
        for begin, end in zip(moments, moments[1:]):
            down = {cable for at, long, cable, _ in outages if at <= begin < at + long}
            now = now + end - begin if self.is_cut(down) else 0
            longest = max(longest, now)
        return longest / 1e6


def moments(count, end_us):
    """Half in set-up, each so much later than the one before, and half evenly over the whole run."""
    n_early = count // 2
    early = [int(FIRST_US * (SET_UP_US / FIRST_US) ** (i / max(1, n_early - 1)))
             for i in range(n_early)]
    return early + [int(end_us * 1.05 * (i + 0.5) / (count - n_early))
                    for i in range(count - n_early)]


def draw(rng, mesh, n_cables, down_us, at_us):
    """One outage, or two that overlap."""
    cables = rng.sample(range(len(mesh.cables)), n_cables)
    outages = [(at_us, down_us, cables[0], rng.randrange(2))]
    for cable in cables[1:]:
        at = max(0, at_us + rng.randint(-down_us + 1, down_us - 1))
        outages.append((at, down_us, cable, rng.randrange(2)))
    return outages


def complaint(status, document, cut_s, promise_s):
    if document is None:
        return f"exit status {status}, no document"
    if any(job["nwrong"] not in (0, None) for job in document["jobs"]):
        return "wrong elements"
    if status != 0 and cut_s <= promise_s:
        return f"exit status {status}, though no rank was cut off for longer than {cut_s:.6f} s"
    if status != 0 and not document["findings"]:
        return "failed without a finding"
    return None


def runs_of(count, seed, weft):
    """Every (mesh, cables, down-time, path, scenario, seconds cut off)."""
    for name in MESHES:
        mesh = Mesh(name)
        path = KEPT / f"{name}.yaml"
        (ROOT / path).write_text(mesh.text([]))
        status, document, text = run_one(weft, path)
        if status != 0:
            raise SystemExit(f"{path} fails without a fault: {text}")
        for n_cables in range(1, min(2, len(mesh.cables)) + 1):
            for down_us in DOWN_US:
                for i, at_us in enumerate(moments(count, document["sim_time_ns"] // 1000)):
                    rng = random.Random(f"{seed}/{name}/{n_cables}/{down_us}/{i}")
                    outages = draw(rng, mesh, n_cables, down_us, at_us)
                    path = KEPT / f"{name}-{n_cables}-{down_us}us-{i}.yaml"
                    yield mesh, n_cables, down_us, path, mesh.text(outages), mesh.cut_s(outages)


def try_one(weft, run):
    mesh, _, _, path, text, cut_s = run
    (ROOT / path).write_text(text)
    status, document, said = run_one(weft, path)
    problem = complaint(status, document, cut_s, mesh.promise_s)
    if problem is not None:
        return status, f"{problem}: {document['symptom'] if document else said}"
    (ROOT / path).unlink()
    return status, None


def print_table(score):
    """score: (mesh, cables) -> down-time -> [went on, runs, any cut off for longer than promised]"""
    columns = [f"{name}, {n}" for name, n in score]
    print(f"| down | {' | '.join(columns)} |")
    print("|---" * (len(columns) + 1) + "|")
    print(f"| promised | {' | '.join(Mesh(name).promise(n) for name, n in score)} |")
    for down_us in DOWN_US:
        cells = []
        for row in score.values():
            went_on, runs, is_beyond = row.get(down_us, (0, 0, False))
            cells.append(f"{went_on} of {runs}{'*' if is_beyond else ''}" if runs else "-")
        down = f"{down_us} us" if down_us < 1000 else \
            f"{down_us // 1000} ms" if down_us < 1_000_000 else f"{down_us // 1_000_000} s"
        print(f"| {down} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--moments", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="1/1", metavar="K/N")
    parser.add_argument("--build", default="build")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    weft = str((Path.cwd() / options.build / "weft").resolve())
    (ROOT / KEPT).mkdir(parents=True, exist_ok=True)
    k, n = map(int, options.part.split("/"))
    print(f"outages: --seed {options.seed} --moments {options.moments} --part {k}/{n}", flush=True)
    runs = list(runs_of(options.moments, options.seed, weft))[k - 1::n]
    score, n_failed = {}, 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for run, (status, problem) in zip(runs, pool.map(lambda run: try_one(weft, run), runs)):
            mesh, n_cables, down_us, path, _, cut_s = run
            cell = score.setdefault((mesh.name, n_cables), {}).setdefault(down_us, [0, 0, False])
            cell[0] += status == 0
            cell[1] += 1
            cell[2] = cell[2] or cut_s > mesh.promise_s
            if problem is not None:
                n_failed += 1
                print(f"FAILED {problem}\nreplay: weft run {path}", flush=True)
                failures.keep(f"outages {path.name}", problem, f"build/weft run {path}")
    print_table(score)
    print(f"{len(runs) - n_failed} passed, {n_failed} failed, 0 skipped")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
