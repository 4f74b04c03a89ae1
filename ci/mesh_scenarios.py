#!/usr/bin/env python3
"""Writes scenarios/partial and scenarios/scale: meshes that are tedious to type.

    ci/mesh_scenarios.py            writes them
    ci/mesh_scenarios.py --check    exit 1 if a file is not what would be written

Cable i is 10.1.i/256.(i mod 256).0/24. Ports count up from p0 in order of the cables.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent / "scenarios"

EVERY_JOB = """\
jobs:
  - all_reduce: {bytes: [8, 64KiB, 4MiB]}
  - reduce_scatter: {bytes: [1KiB, 1MiB]}
  - all_gather: {bytes: [1KiB, 1MiB], dtype: bfloat16}
  - broadcast: {bytes: [8, 1MiB], root: %(root)d, dtype: uint8}
  - reduce: {bytes: [8, 1MiB], root: %(root)d, op: max}
  - all_to_all: {bytes: [64KiB, 1MiB]}
  - send_recv: {bytes: [8, 1MiB], dtype: int32}
  - barrier:
"""


class Mesh:
    def __init__(self, hosts, ranks=None):
        self.hosts = list(hosts)
        self.ranks = list(ranks) if ranks is not None else None
        self.ports = {host: 0 for host in hosts}
        self.links = []

    def cable(self, a, b):
        ends = []
        for host in (a, b):
            ends.append(f"{host}:p{self.ports[host]}")
            self.ports[host] += 1
        n = len(self.links)
        self.links.append((ends, f"10.{1 + n // 256}.{n % 256}.0/24"))
        return self

    def text(self, folder, name, comment, description, jobs, expect, extra=""):
        out = [f"# {line}" for line in comment]
        out += [f"name: {name}", f"description: {description}"]
        if extra:
            out.append(extra)
        out.append("topology:")
        if len(self.hosts) > 250:
            out.append("  management: {subnet: 10.0.0.0/16}")
        out.append("  nodes:")
        for host in self.hosts:
            ports = ", ".join(f"p{i}" for i in range(self.ports[host]))
            ranks = ", ranks: 0" if self.ranks is not None and host not in self.ranks else ""
            out.append(f"    {host}: {{ports: [{ports}]{ranks}}}")
        out.append("  links:")
        for ends, subnet in self.links:
            out.append(f'    - {{endpoints: ["{ends[0]}", "{ends[1]}"], subnet: {subnet}}}')
        out.append(jobs.rstrip("\n"))
        out.append(expect.rstrip("\n"))
        return ROOT / folder / f"{name}.yaml", "\n".join(out) + "\n"


def line(n, ranks=None):
    mesh = Mesh([f"h{i}" for i in range(n)], ranks)
    for i in range(n - 1):
        mesh.cable(f"h{i}", f"h{i + 1}")
    return mesh


def ring(n):
    mesh = Mesh([f"h{i}" for i in range(n)])
    for i in range(n):
        mesh.cable(f"h{i}", f"h{(i + 1) % n}")
    return mesh


def star(n):
    mesh = Mesh(["hub"] + [f"h{i}" for i in range(1, n)])
    for i in range(1, n):
        mesh.cable("hub", f"h{i}")
    return mesh


def square_with_diagonal():
    return ring(4).cable("h0", "h2")


def two_triangles():
    mesh = Mesh(["a0", "a1", "a2", "b0", "b1", "b2"])
    for side in "ab":
        for i in range(3):
            mesh.cable(f"{side}{i}", f"{side}{(i + 1) % 3}")
    return mesh.cable("a0", "b0")


def grid(rows, columns, wrap):
    mesh = Mesh([f"h{r}{c}" for r in range(rows) for c in range(columns)])
    for r in range(rows):
        for c in range(columns):
            if c + 1 < columns or wrap:
                mesh.cable(f"h{r}{c}", f"h{r}{(c + 1) % columns}")
            if r + 1 < rows or wrap:
                mesh.cable(f"h{r}{c}", f"h{(r + 1) % rows}{c}")
    return mesh


def dragonfly():
    """Three groups of three; in a group all are joined; each group has a cable to each other."""
    mesh = Mesh([f"g{g}h{i}" for g in range(3) for i in range(3)])
    for g in range(3):
        for i in range(3):
            mesh.cable(f"g{g}h{i}", f"g{g}h{(i + 1) % 3}")
    for g in range(3):
        mesh.cable(f"g{g}h0", f"g{(g + 1) % 3}h1")
    return mesh


def full(n):
    mesh = Mesh([f"h{i:02d}" for i in range(n)])
    for i in range(n):
        for j in range(i + 1, n):
            mesh.cable(f"h{i:02d}", f"h{j:02d}")
    return mesh


def scenarios():
    exact = "expect:\n  data: exact\n"
    via = "expect:\n  data: exact\n  connections: [{from: %d, to: %d, via: [%s]}]\n"
    jobs0 = EVERY_JOB % {"root": 0}
    yield line(3).text(
        "partial", "line-3",
        ["h0 and h2 share no cable: what they say to each other passes through h1, whose rank",
         "takes part in the collectives as well."],
        "a line of three ranks; the ends talk through the middle",
        EVERY_JOB % {"root": 2}, via % (0, 2, "h1"))
    yield line(3, ["h0", "h2"]).text(
        "partial", "line-3-relay",
        ["The host in the middle has no rank: it only relays (weft relayd)."],
        "two ranks that share no cable, and a host between them that only relays",
        EVERY_JOB % {"root": 1}, via % (0, 1, "h1"))
    yield ring(4).text("partial", "ring-4", ["Opposite corners share no cable."],
                       "a ring of four; corners reach each other both ways round",
                       jobs0, exact)
    yield star(5).text("partial", "star-5", ["Everything between leaves passes the hub."],
                       "a hub with four leaves", EVERY_JOB % {"root": 3},
                       via % (1, 2, "hub"))
    yield ring(8).text("partial", "ring-8", ["Up to four hops."],
                       "a ring of eight; up to three relays in a row", jobs0, exact)
    yield square_with_diagonal().text(
        "partial", "square-diagonal", ["Only h1 and h3 share no cable."],
        "a square with one diagonal", jobs0, exact)
    yield two_triangles().text(
        "partial", "two-triangles",
        ["The cable between a0 and b0 is the least cut: everything between both sides crosses it."],
        "two triangles joined by one cable", jobs0, exact)
    yield grid(2, 4, False).text("partial", "grid-2x4", ["Corners have two cables, others three."],
                                 "a grid of two rows and four columns", jobs0, exact)
    yield dragonfly().text("partial", "dragonfly-9",
                           ["Three groups of three, one cable between each two groups."],
                           "a dragonfly of nine hosts", jobs0, exact)
    big = "jobs:\n  - all_reduce: {bytes: [8, 1MiB]}\n"
    yield ring(64).text("scale", "ring-64", ["All data goes by the cables of a ring."],
                        "a ring of 64 hosts", big, exact)
    yield ring(256).text("scale", "ring-256", ["4 MiB, every byte verified."],
                         "a ring of 256 hosts", "jobs:\n  - all_reduce: {bytes: 4MiB, in_place: true}\n", exact)
    yield ring(256).text(
        "scale", "ring-256-timing",
        ["Only time is simulated, payload is not moved: nothing is verified, and the report says",
         "so."],
        "a ring of 256 hosts, 64 MiB, timing only",
        "jobs:\n  - all_reduce: {bytes: 64MiB}\n", "expect:\n  result: pass\n",
        extra="payload: timing")
    yield full(16).text("scale", "full-mesh-16", ["120 cables: everyone reaches everyone."],
                        "a full mesh of 16 hosts",
                        "jobs:\n  - all_reduce: {bytes: [8, 16MiB]}\n  - all_to_all: {bytes: 4MiB}\n",
                        exact)
    yield grid(8, 8, True).text("scale", "torus-8x8", ["Four cables a host, wrapped around."],
                                "a torus of 64 hosts", big, exact)


def main():
    check = sys.argv[1:] == ["--check"]
    stale = []
    for path, text in scenarios():
        if check:
            if not path.exists() or path.read_text() != text:
                stale.append(path.relative_to(ROOT.parent))
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    for path in stale:
        print(f"{path} is not what ci/mesh_scenarios.py writes")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
