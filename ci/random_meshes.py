#!/usr/bin/env python3
"""Random connected meshes, random jobs: every byte right, no rank waits for ever.

    ci/random_meshes.py [--count 2000] [--seed N] [--first 0] [--build build]
    ci/random_meshes.py --sample 60 [--seed 1] [--build build]
    ci/random_meshes.py --faults [--count 3000] [--hosts 12] ...

Without --seed one is drawn, and printed. With --sample the commit chooses the first mesh, so that
COUNT of the first FIXED meshes of a fixed seed are run, always the same for a commit. Each mesh has
2 to 12 hosts, a random tree and random further cables (twins and bundles among them), rates, delays,
MTUs, bounded queues with pause, profiles, hosts that only relay, one, two or eight relay buffers a
hop, and a management network or none. A mesh that fails is kept in build/ci/meshes, and the line that
repeats it is printed; --seed S --first I --count 1 draws the I'th mesh of seed S again.

What is asked of each run: it passes within a time, every element is right, no lossless cable
drops a frame, every cable that carried payload lies on a way that a connection of the document
names, and no relay ever held more than its lanes' buffers.

With --faults each mesh also gets one to four faults that end, most of them while another lasts: carriers
that go, ports held by pause frames, cables that lose all or some of what they carry, corrupt, double,
reorder, delay or slow it, and GIDs that go. Faults that can cut a rank off last together less long than
every job survives that (docs/scenario.md, "faults"), so that every run must pass. Cables and ways are
not judged then.
"""

import argparse
import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import failures
import sampling
from mesh_run import run_one
from relay_flaps import limit_of, log_uniform

ROOT = Path(__file__).resolve().parent.parent
KINDS = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all",
         "send_recv", "barrier"]
REDUCING = {"all_reduce", "reduce_scatter", "reduce"}
DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
          "bfloat16", "float32", "float64"]
ALGORITHMS = {
    "all_reduce": "direct ring rings exchange doubling halving tree trees chain",
    "reduce_scatter": "direct ring rings halving tree trees",
    "all_gather": "direct ring rings doubling tree trees",
    "broadcast": "direct doubling tree trees chain",
    "reduce": "direct halving tree trees chain",
}
OPS = ["sum", "prod", "min", "max", "avg"]
PROFILES = ["mlx5", "mlx5", "hns-hip08", "hns-hip09", "rxe"]
# A device of this kind has 64 regions, and a connection that is being made takes three: the relays
# of a larger mesh run out of them.
SMALL_PROFILES = [*PROFILES, "minimal", "minimal"]
SMALL_HOSTS = 5
HOSTS_MAX = 12
# A handle has room for ten IPv4 addresses: without a management network no peer could dial the
# eleventh port (docs/wire.md, "The handle").
HANDLE_ADDRESSES = 10
# What a cable carries besides payload: handshakes, ARP, probes.
CONTROL_BYTES = 64 * 1024
CONTROL_BYTES_ALONE = 256 * 1024  # without a management network the rendezvous, too
FRAGMENT_BYTES = 128 * 1024  # of a relay's buffer
RELAY_BUFFERS = "WEFT_RELAY_BUFFERS"
FIXED = 300  # meshes of seed 1 that --sample chooses from; `ci/job meshes` runs all of them
KEPT = Path("build/ci/meshes")
# Faults that a queue pair or a job may not get through, and those that it only is slowed by.
CUTS = ["down", "down", "down", "down, way", "pause, way", "loss, share: 100%, way",
        "gid_delete, address", "addr_del, address"]
NUISANCES = ["loss, share: 3%", "corrupt, share: 3%", "duplicate, share: 10%", "reorder, share: 10%",
             "delay, delay: 20us, jitter: 5us", "rate, rate: 1Gbps", "loss, share: 30%"]
SURVIVED = 0.9  # of the limit that the documentation states


def draw_job(rng, n_ranks):
    kind = rng.choice(KINDS)
    if kind == "barrier":
        return "  - barrier:"
    size = rng.choice([0, 1, 8, 1000, 4096, 65536, 300_001, 1 << 20])
    keys = [f"bytes: {size}", f"dtype: {rng.choice(DTYPES)}"]
    if kind in REDUCING:
        keys.append(f"op: {rng.choice(OPS)}")
    if kind in ("broadcast", "reduce"):
        keys.append(f"root: {rng.randrange(n_ranks)}")
    if kind not in ("all_to_all", "send_recv") and rng.random() < 0.3:
        keys.append("in_place: true")
    if kind in ALGORITHMS and rng.random() < 0.4:
        keys.append(f"algorithm: {rng.choice(ALGORITHMS[kind].split())}")
    return f"  - {kind}: {{{', '.join(keys)}}}"


def draw_cables(rng, n):
    """A random tree, a line or a star, then some more cables, twins and thick bundles among
    them."""
    shape = rng.choice(["tree", "tree", "line", "star"])
    cables = [({"tree": rng.randrange(i), "line": i - 1, "star": 0}[shape], i)
              for i in range(1, n)]
    if rng.random() < 0.15:
        cables += [rng.choice(cables)] * rng.randrange(3, 7)
    for _ in range(rng.randrange(n + 1)):
        cables.append(rng.choice(cables) if rng.random() < 0.3
                      else tuple(sorted(rng.sample(range(n), 2))))
    rng.shuffle(cables)
    return cables


class Shape:
    """What relay_flaps judges a mesh by."""

    def __init__(self, n, cables, ranks):
        self.n, self.cables, self.ranks = n, cables, ranks


def draw_faults(rng, ends, prefixes, tight, shape):
    """One to four faults as lines of YAML. Of each cable `ends` has both ports, and `prefixes` the
    length; `tight` has ports whose GIDs do not go."""
    budget_us = limit_of(shape) * SURVIVED * 1e6
    begin_us = int(log_uniform(rng, 20, 20_000))
    lines, last = [], None
    for _ in range(rng.randrange(1, 5)):
        is_cut = rng.random() < 0.6
        what, *keys = rng.choice(CUTS if is_cut else NUISANCES).split(", ")
        at_us, for_us = begin_us, int(log_uniform(rng, 10, 5_000_000 if is_cut else 200_000))
        if is_cut:
            for_us = max(1, int(min(for_us, rng.uniform(0.2, 1) * budget_us)))
            budget_us -= for_us
        if last is not None and rng.random() < 0.8:
            at_us = max(0, rng.randint(last[0] - for_us, last[0] + last[1]))
        else:
            at_us += rng.randrange(2_000)
        last = (at_us, for_us)
        cable = rng.randrange(len(ends))
        end = rng.randrange(2)
        on = ends[cable][end]
        if "address" in keys and on in tight:
            what, keys = "down", []
        if "way" in keys or (not is_cut and what != "rate"):
            on += rng.choice(["->", "<-"])
        address = f"address: 10.1.{cable}.{end if prefixes[cable] == 31 else end + 1}"
        keys = [f"kind: {what}",
                *(address if key == "address" else key for key in keys if key != "way")]
        lines.append(f'  - {{at: {at_us}us, for: {for_us}us, on: "{on}", {", ".join(keys)}}}')
    return lines


def draw(rng, name, fault_rng=None, hosts_max=HOSTS_MAX):
    n = rng.randrange(2, hosts_max + 1)
    names = [f"h{i}" for i in range(n)]
    ports = [0] * n
    links, cables = [], draw_cables(rng, n)
    ends_of, prefixes = [], []
    for i, (a, b) in enumerate(cables):
        ends = []
        for host in rng.sample([a, b], 2):
            ends.append(f"h{host}:p{ports[host]}")
            ports[host] += 1
        ends_of.append(ends)
        prefixes.append(rng.choice([24, 30, 31]))
        links.append(f'    - {{endpoints: ["{ends[0]}", "{ends[1]}"], '
                     f"subnet: 10.1.{i}.0/{prefixes[-1]}, "
                     f"rate: {rng.choice([10, 25, 40, 100, 200])}Gbps, "
                     f"delay: {rng.choice(['200ns', '1us', '5us', '20us'])}, "
                     f"mtu: {rng.choice([1500, 4200, 9000])}"
                     f"{rng.choice(['', '', '', ', queue: 256KiB, pause: on'])}}}")
    ranks = [i for i in range(n) if rng.random() < 0.85]
    while len(ranks) < 2:
        ranks = sorted(set(ranks) | {rng.randrange(n)})
    lines = [f"name: {name}", f"seed: {rng.randrange(1 << 32)}", "topology:",
             *(["  management: none"] if max(ports) <= HANDLE_ADDRESSES and rng.random() < 0.3
               else []), "  defaults:",
             f"    env: {{{RELAY_BUFFERS}: '{rng.choice([1, 2, 8])}'}}", "  nodes:"]
    tight = []  # ports with two places for GIDs: one in use keeps its own, so that it cannot come back
    for i in range(n):
        keys = [f"ports: [{', '.join(f'p{k}' for k in range(ports[i]))}]",
                f"profile: {rng.choice(SMALL_PROFILES if n <= SMALL_HOSTS else PROFILES)}"]
        tight += [port for ends in ends_of for port in ends
                  if port.startswith(f"h{i}:") and keys[1] == "profile: minimal"]
        if i not in ranks:
            keys.append("ranks: 0")
        lines.append(f"    {names[i]}: {{{', '.join(keys)}}}")
    lines += ["  links:", *links]
    order = [names[i] for i in ranks]
    rng.shuffle(order)
    lines.append(f"ranks: [{', '.join(order)}]")
    if fault_rng is not None:
        lines += ["faults:", *draw_faults(fault_rng, ends_of, prefixes, tight, Shape(n, cables, ranks))]
    lines += ["jobs:"] + [draw_job(rng, len(ranks)) for _ in range(rng.randrange(1, 4))]
    lines += ["expect:", "  data: exact", ""]
    return "\n".join(lines)


def ways(document):
    """The pairs of hosts between which some connection has a hop, both directions."""
    pairs = set()
    for c in document["connections"]:
        path = [c["from_host"], *c["via"], c["to_host"]]
        for a, b in zip(path, path[1:]):
            pairs |= {(a, b), (b, a)}
    return pairs


def relays_within(counters, n_buffers):
    """Whether each relay's memory stayed within its lanes' buffers."""
    return all(value <= counters["relay_lanes." + name.split(".", 1)[1]] * n_buffers
               * FRAGMENT_BYTES
               for name, value in counters.items() if name.startswith("relay_memory_peak."))


def went_on(document):
    """Whether a job with faults passed with the right data. A warning may name what it survived."""
    return all(row["ok"] or row["expect"].startswith("findings: ")
               for row in document["expectations"]) and \
        all(finding["severity"] != "error" for finding in document["findings"])


def complaint(status, document, text):
    has_faults = "\nfaults:\n" in text
    if document is None or (status != 0 and not (has_faults and went_on(document))):
        return f"exit status {status}"
    if any(job["nwrong"] != 0 for job in document["jobs"]):
        return "wrong elements"
    n_buffers = int(re.search(RELAY_BUFFERS + r": '(\d+)'", text)[1])
    control = CONTROL_BYTES_ALONE if "management: none" in text else CONTROL_BYTES
    if not relays_within(document["counters"], n_buffers):
        return f"a relay held more than {n_buffers} buffers a lane"
    if has_faults:
        return None
    allowed = ways(document)
    for link in document["links"]:
        a, b = (end.split(":")[0] for end in link["link"].split("->"))
        if link["drops"] != 0:
            return f"{link['link']} dropped {link['drops']} frames"
        if (a, b) not in allowed and link["bytes"] > control:
            return f"{link['link']} carried {link['bytes']} bytes, and is on no route"
    return None


def judge(weft, path):
    """None, or what is wrong."""
    status, document, printed = run_one(weft, path)
    if status is None:
        return printed
    problem = complaint(status, document, (ROOT / path).read_text())
    if problem is None:
        return None
    return f"{problem}: {document.get('symptom') if document else printed}"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--sample", type=int, metavar="COUNT",
                        help=f"COUNT of {FIXED} fixed meshes, by the commit's hash")
    parser.add_argument("--faults", action="store_true", help="each mesh with faults that end")
    parser.add_argument("--hosts", type=int, default=HOSTS_MAX, metavar="N",
                        help="meshes of at most N hosts, which take less time; default: %(default)s")
    parser.add_argument("--build", default="build")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if options.sample is not None:
        number = sampling.number()
        if number is None:
            number = int(sampling.of_commit())
        options.seed = 1 if options.seed is None else options.seed
        options.count = options.sample
        options.first = number % max(1, FIXED - options.sample)
    return options


def main():
    options = parse_arguments()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    kind = (" --faults" if options.faults else "") + (
        f" --hosts {options.hosts}" if options.hosts != HOSTS_MAX else "")
    print(f"random meshes: --seed {seed} --first {options.first} --count {options.count}"
          f"{kind}", flush=True)
    (ROOT / KEPT).mkdir(parents=True, exist_ok=True)
    size = f"-of-{options.hosts}" if options.hosts != HOSTS_MAX else ""
    weft = str((Path.cwd() / options.build / "weft").resolve())

    def one(i):
        path = KEPT / f"{'faults' if options.faults else 'mesh'}{size}-{seed}-{i}.yaml"
        faults = random.Random(f"{seed}/{i}/faults") if options.faults else None
        (ROOT / path).write_text(draw(random.Random(f"{seed}/{i}"), path.stem, faults, options.hosts))
        problem = judge(weft, path)
        if problem is None:
            (ROOT / path).unlink()
        return i, path, problem

    n_failed = 0
    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        for i, path, problem in pool.map(one, range(options.first, options.first + options.count)):
            if problem is not None:
                n_failed += 1
                print(f"FAILED {problem}\nreplay: weft run {path}", flush=True)
                failures.keep(f"random meshes: {path.stem}", problem,
                              f"ci/random_meshes.py --build {options.build} --seed {seed} "
                              f"--first {i} --count 1{kind}")
    print(f"{options.count - n_failed} passed, {n_failed} failed, 0 skipped")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
