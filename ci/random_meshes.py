#!/usr/bin/env python3
"""Random connected meshes, random jobs: every byte right, nobody waits for ever.

    ci/random_meshes.py [--count 2000] [--seed N] [--build build]

Without --seed one is drawn, and printed. Each mesh has 2 to 12 hosts, a random tree and random
further cables (twins among them), rates, delays, MTUs, profiles, hosts that only relay, and one or
two relay buffers a hop. A run that fails is kept beside the others, with the line that repeats it.

What is asked of each run: it passes, every element is right, no lossless cable drops a frame, and
every cable that carried payload lies on a way that a connection of the document names.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all",
         "send_recv", "barrier"]
REDUCING = {"all_reduce", "reduce_scatter", "reduce"}
DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
          "bfloat16", "float32", "float64"]
OPS = ["sum", "prod", "min", "max", "avg"]
# What a cable carries besides payload: handshakes, ARP, probes.
CONTROL_BYTES = 64 * 1024


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
    return f"  - {kind}: {{{', '.join(keys)}}}"


def draw_cables(rng, n):
    """A random tree, then some more cables, twins among them."""
    cables = [(rng.randrange(i), i) for i in range(1, n)]
    for _ in range(rng.randrange(n + 1)):
        cables.append(rng.choice(cables) if rng.random() < 0.3
                      else tuple(sorted(rng.sample(range(n), 2))))
    rng.shuffle(cables)
    return cables


def draw(rng, name):
    n = rng.randrange(2, 13)
    names = [f"h{i}" for i in range(n)]
    ports = [0] * n
    links = []
    for i, (a, b) in enumerate(draw_cables(rng, n)):
        ends = []
        for host in rng.sample([a, b], 2):
            ends.append(f"h{host}:p{ports[host]}")
            ports[host] += 1
        links.append(f'    - {{endpoints: ["{ends[0]}", "{ends[1]}"], '
                     f"subnet: 10.1.{i}.0/{rng.choice([24, 30, 31])}, "
                     f"rate: {rng.choice([10, 25, 40, 100, 200])}Gbps, "
                     f"delay: {rng.choice(['200ns', '1us', '5us', '20us'])}, "
                     f"mtu: {rng.choice([1500, 4200, 9000])}}}")
    ranks = [i for i in range(n) if rng.random() < 0.85]
    while len(ranks) < 2:
        ranks = sorted(set(ranks) | {rng.randrange(n)})
    lines = [f"name: {name}", f"seed: {rng.randrange(1 << 32)}", "topology:", "  defaults:",
             f"    env: {{WEFT_RELAY_BUFFERS: '{rng.choice([1, 2, 8])}'}}", "  nodes:"]
    for i in range(n):
        keys = [f"ports: [{', '.join(f'p{k}' for k in range(ports[i]))}]",
                f"profile: {rng.choice(['mlx5', 'mlx5', 'hns-hip09', 'minimal', 'rxe'])}"]
        if i not in ranks:
            keys.append("ranks: 0")
        lines.append(f"    {names[i]}: {{{', '.join(keys)}}}")
    lines += ["  links:", *links]
    order = [names[i] for i in ranks]
    rng.shuffle(order)
    lines.append(f"ranks: [{', '.join(order)}]")
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


def complaint(status, document):
    if status != 0 or document is None:
        return f"exit {status}"
    if any(job["nwrong"] != 0 for job in document["jobs"]):
        return "wrong elements"
    allowed = ways(document)
    for link in document["links"]:
        a, b = (end.split(":")[0] for end in link["link"].split("->"))
        if link["drops"] != 0:
            return f"{link['link']} dropped {link['drops']} frames"
        if (a, b) not in allowed and link["bytes"] > CONTROL_BYTES:
            return f"{link['link']} carried {link['bytes']} bytes, and is on nobody's way"
    return None


def run_one(weft, path):
    try:
        done = subprocess.run([weft, "run", "--json", str(path)], cwd=ROOT, timeout=300,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              check=False)
    except subprocess.TimeoutExpired:
        return "no end within 300 s"
    try:
        document = json.loads(done.stdout)
    except json.JSONDecodeError:
        document = None
    problem = complaint(done.returncode, document)
    return None if problem is None else f"{problem}\n{done.stderr[-600:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--build", default="build")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"random meshes: --seed {seed} --count {options.count}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="weft-meshes-"))
    paths = []
    for i in range(options.count):
        paths.append(folder / f"mesh-{i}.yaml")
        paths[-1].write_text(draw(random.Random(f"{seed}/{i}"), f"mesh-{i}"))
    n_failed = 0
    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        for path, problem in zip(paths, pool.map(lambda p: run_one(f"{options.build}/weft", p),
                                                 paths)):
            if problem is None:
                path.unlink()
            else:
                n_failed += 1
                print(f"FAILED {problem}\nrepeat: {options.build}/weft run {path}", flush=True)
    if n_failed == 0:
        folder.rmdir()
    print(f"{options.count - n_failed} passed, {n_failed} failed, 0 skipped")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
