"""No finding blames an innocent host: one host is at fault at a random moment, and whatever is named
must be that host, or a connection to it. The meshes, the victims and the moments are drawn."""

import json
import os
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sampling import part

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.path.abspath(os.environ.get("WEFT_FAST", os.environ.get("WEFT", str(ROOT / "build/weft"))))
N_DRAWS = int(os.environ.get("WEFT_INNOCENT_DRAWS", "100"))
SEED = int(os.environ.get("WEFT_INNOCENT_SEED", "1"))


def ring(n):
    return [(i, (i + 1) % n) for i in range(n)]


MESHES = {"triangle": (3, ring(3)), "line": (4, ring(4)[:3]), "ring-4": (4, ring(4)),
          "ring-6": (6, ring(6)), "star": (5, [(0, i) for i in range(1, 5)]),
          "grid-2x3": (6, [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)])}
JOBS = ("all_reduce: {bytes: 64KiB, repeat: 4}", "all_to_all: {bytes: 4KiB}", "barrier: {repeat: 3}",
        "broadcast: {bytes: 1MiB, root: 0}")


def scenario(draw, mesh, boot, extra, fault):
    """A scenario file in which one thing is wrong. `extra` is of hosts by number."""
    n, links = MESHES[mesh]
    ports = {i: 0 for i in range(n)}
    lines = []
    for k, (a, b) in enumerate(links):
        lines.append(f'    - {{endpoints: ["h{a}:p{ports[a]}", "h{b}:p{ports[b]}"], '
                     f"subnet: 192.168.{k}.0/24}}")
        ports[a] += 1
        ports[b] += 1
    nodes = [f"    h{i}: {{ports: [{', '.join(f'p{k}' for k in range(ports[i]))}]"
             f"{extra.get(i, '')}}}" for i in range(n)]
    management = draw.choice(["none", "{subnet: 10.0.0.0/24}"]) if boot != "rendezvous" else \
        "{subnet: 10.0.0.0/24}"
    return "\n".join([
        "name: innocent", f"boot: {boot}", "topology:", f"  management: {management}", "  nodes:",
        *nodes, "  links:", *lines, "jobs:", f"  - {draw.choice(JOBS)}", "faults:", f"  - {fault}",
        "expect: {result: any}", ""])


def run(path, seed):
    done = subprocess.run([WEFT, "run", path.name, "--seed", str(seed), "--json", "-q"], cwd=path.parent,
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def findings_of(path, seed):
    return [(finding["code"], finding["where"]) for finding in run(path, seed)["findings"]
            if finding["severity"] == "error"]


def machines(where):
    """{"h0", "h1"} where h0 met it with h1/2."""
    return {(where[end] or "").split("/")[0] for end in ("host", "peer")}


def blamed_wrongly(tmp_path, draws):
    """What is said of each (name, text, victim) that does not concern the victim."""
    def one(item):
        name, text, victim = item
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        return [f"{name}: {code} at {where['host']} -> {where['peer']}, but it was {victim}"
                for code, where in findings_of(path, 1) if victim not in machines(where)]

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return [line for lines in pool.map(one, part(draws)) for line in lines]


def moment(draw):
    """From the first packet to the middle of the jobs, each power of ten as often."""
    return f"{int(10 ** draw.uniform(4, 7))}ns"


def killed(boot, seed, n_draws):
    """(name, text, victim) of processes that are killed."""
    draw = random.Random(f"kill {boot} {seed}")
    draws = []
    for i in range(n_draws):
        mesh = draw.choice(sorted(MESHES))
        n = MESHES[mesh][0]
        victim = draw.randrange(1, n)
        extra = {victim: ", ranks: 0"} if draw.random() < 0.5 else {}
        text = scenario(draw, mesh, boot, extra, f"{{at: {moment(draw)}, on: h{victim}, kind: kill}}")
        draws.append((f"{mesh}-{i}", text, f"h{victim}"))
    return draws


@pytest.mark.parametrize("boot", ["rendezvous", "static", "neighbours"])
def test_a_process_that_is_killed(tmp_path, boot):
    assert not blamed_wrongly(tmp_path, killed(boot, SEED, N_DRAWS))


def test_a_relay_that_is_killed(tmp_path):
    """A sender's error is of the relay, not of the end of the flow: few draws show the difference."""
    assert not blamed_wrongly(tmp_path, killed("neighbours", 2, 300)[-1:])


def test_a_call_that_fails_among_several_ranks_a_host(tmp_path):
    draw = random.Random(f"call {SEED}")
    draws = []
    for i in range(N_DRAWS):
        mesh = draw.choice(["triangle", "line", "ring-4"])
        n = MESHES[mesh][0]
        victim = draw.randrange(n)
        extra = {k: f", ranks: {draw.randint(1, 3)}" for k in range(n)}
        what = draw.choice(["kind: call_error, call: send", "kind: verb_error, verb: post_send"])
        fault = (f"{{at: 0ns, on: h{victim}, {what}, nth: {draw.randint(1, 40)}, "
                 f"errno: {draw.choice([5, 12, 22])}}}")
        text = scenario(draw, mesh, "rendezvous", extra, fault)
        draws.append((f"{mesh}-{i}", text, f"h{victim}"))
    assert not blamed_wrongly(tmp_path, draws)


# What was once said wrongly, or said at all: links, hosts without ranks, boot, has a management
# network, job, fault, and what must be said (code, host, port, peer), nothing for a job that passes.
STAR, LINE = MESHES["star"][1][:3], MESHES["line"][1]
KEPT = {
    # Its neighbours have its blob of a round that cannot complete without those behind it.
    "relay-killed": (LINE, [1], "static", False, "barrier: {repeat: 3}",
                     "{at: 13435ns, on: h1, kind: kill}", [("peer.dead", "h0", None, "h1")]),
    # Its neighbours are done, and so is the job: no rank needs the relay, and its end does not fail the job.
    "leaf-cut-off": (LINE, [0], "neighbours", False, "all_to_all: {bytes: 64KiB}",
                     '{at: row 1+5us, on: "h0:p0", kind: down}', []),
    "leaf-silent": (STAR, [2], "static", False, "barrier: {repeat: 3}",
                    '{at: row 1+1us, on: "h0:p1", kind: loss, share: 100%}', []),
    # The end of the flow waited for the relay, which knows of its cable.
    "cable-behind-a-relay": (STAR, [0, 1], "static", False, "all_to_all: {bytes: 4KiB}",
                             '{at: 15770ns, on: "h0:p1", kind: down}', [("link.down", "h0", "p1", "h2")]),
    "host-cut-off-in-boot": (STAR, [1, 3], "static", False, "barrier: {repeat: 3}",
                             "{at: 22853ns, on: h3, kind: down}", [("link.down", "h3", "p0", "h0")]),
    # Two ranks wait for each other, because the relay between them stands still.
    "relay-stopped": (LINE[:2], [1], "rendezvous", True, "all_reduce: {bytes: 64KiB, repeat: 4}",
                      "{at: jobs+1us, on: h1, kind: stop}", [("peer.silent", "h0", None, "h1")]),
    # Its process ends as those do that still need it, which say that the stream to it broke.
    "relay-killed-in-use": (ring(6), [3, 4], "rendezvous", True, "all_to_all: {bytes: 1MiB}",
                            "{at: jobs, on: h3, kind: kill}", [("peer.dead", "h4", "p0", "h3")]),
    # A whole island of relays has no rank left.
    "relays-cut-off": (ring(6)[:5], [3, 4, 5], "static", False, "barrier: {repeat: 3}",
                       '{at: row 1+5us, on: "h3:p0", kind: down}', []),
    # Its neighbour refuses it, because it is done.
    "leaf-comes-back": (STAR, [2], "static", False, "barrier: {repeat: 3}",
                        '{at: row 1+1us, on: "h0:p1", kind: down, for: 11s}', []),
    # Both ends of the cable stand in their set-up, where no counter has moved, and the others wait for them.
    "rank-lost-in-set-up": (LINE, [0, 1], "static", False, "barrier: {repeat: 3}",
                            "{at: 15979ns, on: h3, kind: loss, share: 100%}",
                            [("undetermined", "h2", None, "h3")]),
    # No rank needed it, but it did not end well.
    "relay-killed-at-the-end": (LINE[:2], [0], "rendezvous", True, "barrier: {repeat: 3}",
                                "{at: 900us, on: h0, kind: kill}", [("peer.dead", None, None, "h0")]),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_was_once_said_wrongly(tmp_path, name):
    links, relays, boot, is_managed, job, fault, wanted = KEPT[name]
    n = 1 + max(map(max, links))
    ports = {i: sum(pair.count(i) for pair in links) for i in range(n)}
    used = {i: 0 for i in range(n)}
    lines = ["name: kept", f"boot: {boot}", "topology:",
             f"  management: {'{subnet: 10.0.0.0/24}' if is_managed else 'none'}", "  nodes:"]
    lines += [f"    h{i}: {{ports: [{', '.join(f'p{k}' for k in range(ports[i]))}]"
              f"{', ranks: 0' if i in relays else ''}}}" for i in range(n)]
    lines.append("  links:")
    for k, (a, b) in enumerate(links):
        lines.append(f'    - {{endpoints: ["h{a}:p{used[a]}", "h{b}:p{used[b]}"], subnet: 192.168.{k}.0/24}}')
        used[a] += 1
        used[b] += 1
    path = tmp_path / f"{name}.yaml"
    path.write_text("\n".join([*lines, "jobs:", f"  - {job}", "faults:", f"  - {fault}",
                               "expect: {result: any}", ""]))
    document = run(path, 1)
    assert [(finding["code"], *(finding["where"][key] for key in ("host", "port", "peer")))
            for finding in document["findings"] if finding["severity"] == "error"] == wanted
    assert wanted or document["symptom"] is None
    assert document["sim_time_ns"] < 200e9


INSIDE = """name: inside
topology:
  management: {{subnet: 10.0.0.0/24}}
  nodes:
    h0: {{ports: [p0], ranks: 3}}
    h1: {{ports: [p0]}}
  links:
    - {{endpoints: ["h0:p0", "h1:p0"], subnet: 192.168.0.0/24}}
jobs:
  - all_reduce: {{bytes: 64KiB, repeat: 4}}
faults:
  - {{at: 0ns, on: h0, kind: call_error, call: send, nth: {nth}, errno: 22}}
expect: {{result: any}}
"""


def test_no_send_that_fails_is_waited_for(tmp_path):
    """Each send of a host with three ranks fails once: the run ends in success, or says so soon."""
    def end_of(nth):
        path = tmp_path / f"{nth}.yaml"
        path.write_text(INSIDE.format(nth=nth))
        return run(path, 1)["sim_time_ns"]

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        ends = list(pool.map(end_of, range(1, 81)))
    late = {nth: end / 1e9 for nth, end in enumerate(ends, 1) if end > 5e9}
    assert not late, f"seconds of world time: {late}"
