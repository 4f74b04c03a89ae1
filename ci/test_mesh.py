"""What the project promises about meshes of every shape, as figures."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import failures
import relay_flaps
import sampling

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT_FAST", str(ROOT / "build" / "weft"))
LARGE = "256MiB"


def run(path, *sets, code=0, flags=()):
    command = [WEFT, "run", str(path), "--json", *flags]
    for item in sets:
        command += ["--set", item]
    done = subprocess.run(command, cwd=ROOT, timeout=600, capture_output=True, text=True,
                          check=False)
    assert done.returncode == code, done.stderr[-3000:] + done.stdout[-3000:]
    return json.loads(done.stdout)


def share_of_bound(path, kind, size=LARGE):
    """Share of the bound that the bus bandwidth reaches, timing only: verified runs of smaller sizes are elsewhere."""
    document = run(path, f"jobs=[{{{kind}: {{bytes: {size}}}}}]", "expect={result: pass}",
                   "payload=timing")
    job = document["jobs"][0]
    return job["bus_bw_gBps"] / job["limit_gBps"], job["algorithm"]


BARS = [
    ("basic/triangle", 0.96),
    ("basic/twin-triangle", 0.95),
    ("partial/ring-4", 0.95),
    ("scale/full-mesh-16", 0.93),
    ("partial/line-3", 0.92),
    ("partial/star-5", 0.92),
    ("partial/grid-2x4", 0.85),
]


@pytest.mark.parametrize("name,bar,kind", sampling.part(
    (*bar, kind) for bar in BARS for kind in ("all_reduce", "all_gather", "reduce_scatter")))
def test_a_large_collective_reaches_its_share_of_the_bound(name, bar, kind):
    share, algorithm = share_of_bound(f"scenarios/{name}.yaml", kind)
    assert bar <= share <= 1, algorithm


def test_all_to_all_on_a_ring_of_four_reaches_its_share_of_the_bound():
    share, algorithm = share_of_bound("scenarios/partial/ring-4.yaml", "all_to_all")
    assert 0.85 <= share <= 1, algorithm


def test_rails_are_used_as_they_are_fast():
    """Each pair has a cable of 100 Gb/s and one of 25."""
    slow = [f"topology.links.{i}.rate=25Gbps" for i in (1, 3, 5)]
    document = run(TWIN, "jobs=[{all_reduce: {bytes: 64MiB}}]", "expect={result: pass}",
                   "payload=timing", *slow)
    job = document["jobs"][0]
    assert 0.95 <= job["bus_bw_gBps"] / job["limit_gBps"] <= 1


@pytest.mark.parametrize("path", sorted((ROOT / "scenarios" / "partial").glob("*.yaml")),
                         ids=lambda path: path.stem)
def test_every_collective_is_exact_on_every_partial_mesh(path):
    document = run(path)
    assert {job["job"] for job in document["jobs"]} == {
        "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all",
        "send_recv", "barrier"}
    assert all(job["nwrong"] == 0 for job in document["jobs"])
    assert document["findings"] == []


@pytest.mark.parametrize("name", sampling.part(["ring-64", "ring-256", "torus-8x8", "full-mesh-16"]))
def test_large_meshes_are_verified_within_memory_and_time(name):
    """Every byte, under 2 GiB. The time is bounded by this test's own limit of 600 s; figures are in
    docs/benchmarks.md."""
    script = ("import resource, subprocess, sys\n"
              "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
              "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
              "sys.exit(done.returncode)\n")
    done = subprocess.run([sys.executable, "-c", script, WEFT, "run",
                           f"scenarios/scale/{name}.yaml"], cwd=ROOT, timeout=600,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) < 2 * 1024 * 1024  # KiB


def circulant(folder, n, distances, ranks=None):
    """Write a mesh of n hosts, each joined to those at the distances; of `ranks` only have any."""
    ports = [f"p{i}" for i in range(2 * len(distances))]
    nodes = {f"h{i}": {"ports": ports, **({} if ranks is None or i in ranks else {"ranks": 0})}
             for i in range(n)}
    links = [{"endpoints": [f"h{i}:p{2 * k}", f"h{(i + distance) % n}:p{2 * k + 1}"],
              "subnet": f"10.{k + 1}.{i}.0/24"}
             for k, distance in enumerate(distances) for i in range(n)]
    file = folder / "mesh.yaml"
    file.write_text(json.dumps({"name": "mesh", "topology": {"nodes": nodes, "links": links},
                                "jobs": [{"all_reduce": {"bytes": 8}}]}))
    return file


EVERY_KIND = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "send_recv")
# Files of meshes for policy weft, and rings whose opposite hosts no connection joins.
EVERY_MESH = [*(path for folder in ("basic", "partial", "scale", "spark")
                for path in sorted((ROOT / "scenarios" / folder).glob("*.yaml"))
                if not re.search("^(policy|payload): ", path.read_text(), re.M)), 32, 40, 48]


@pytest.mark.parametrize("mesh", sampling.part(EVERY_MESH), ids=lambda mesh: getattr(mesh, "stem", f"ring-{mesh}"))
def test_every_collective_is_exact_on_every_mesh(mesh, tmp_path):
    file = circulant(tmp_path, mesh, [1]) if isinstance(mesh, int) else mesh
    jobs = ", ".join(f"{{{kind}: {{bytes: 64KiB}}}}" for kind in EVERY_KIND)
    document = run(file, f"jobs=[{jobs}, {{barrier: }}]", "expect={data: exact}")
    assert [job["job"] for job in document["jobs"]] == [*EVERY_KIND, "barrier"]
    assert (document["result"], document["findings"]) == ("pass", [])
    assert all(job["nwrong"] == 0 for job in document["jobs"])


@pytest.mark.parametrize("n, subnet", [(5, "fd00:0:0:{}::/64"), (12, "fd00:0:0:{}::/64"), (16, "10.0.{}.0/24")])
def test_a_host_with_many_cables_needs_no_management_network(n, subnet, tmp_path):
    """The handle of the hub's listener has the address of each cable."""
    nodes = {"hub": {"ports": [f"p{i}" for i in range(n)]}, **{f"leaf{i}": {"ports": ["p0"]} for i in range(n)}}
    links = [{"endpoints": [f"hub:p{i}", f"leaf{i}:p0"], "subnet": subnet.format(i + 1)} for i in range(n)]
    file = tmp_path / "star.yaml"
    file.write_text(json.dumps({"name": "star", "topology": {"management": "none", "nodes": nodes, "links": links},
                                "jobs": [{"all_reduce": {"bytes": "64KiB"}}]}))
    document = run(file)
    assert (document["result"], document["findings"]) == ("pass", [])
    assert not any(connection["via"] for connection in document["connections"])


@pytest.mark.heavy
@pytest.mark.parametrize("n, distances", [(30, [1]), (64, [1, 2]), (96, [1, 2]), (160, [1, 2])])
def test_no_algorithm_is_chosen_that_needs_too_many_relays(n, distances, tmp_path):
    """A connection passes 13 relays at most, and opposite hosts are farther apart than that."""
    document = run(circulant(tmp_path, n, distances), "expect={data: exact}")
    assert (document["result"], document["jobs"][0]["nwrong"]) == ("pass", 0)


@pytest.mark.parametrize("n, ranks, job", [(28, [0, 7, 14, 21], "all_to_all"), (29, [0, 14], "broadcast"),
                                           (40, [0, 14], "all_reduce")])
def test_ranks_are_joined_that_are_14_cables_apart(n, ranks, job, tmp_path):
    """All 13 relays that a connection's purpose can name."""
    file = circulant(tmp_path, n, [1], ranks)
    document = run(file, f"jobs=[{{{job}: {{bytes: 1KiB}}}}]", "expect={data: exact}")
    assert (document["result"], document["jobs"][0]["nwrong"]) == ("pass", 0)
    assert max(len(connection["via"]) for connection in document["connections"]) == 13


# Mesh (hosts, distances, hosts with ranks), job, what is said, what is done about it.
TOO_FAR = [
    ((40, [1], [0, 20]), "all_reduce: {bytes: 64KiB}", "joins h0 and h20, 20 cables apart",
     "give ranks to nearer hosts (`ranks: 0`), or add cables", {"ranks": [0, 14]}),
    ((40, [1], [0, 15]), "send_recv: {bytes: 8}", "joins h0 and h15, 15 cables apart",
     "give ranks to nearer hosts (`ranks: 0`), or add cables", {"ranks": [0, 14]}),
    ((30, [1]), "all_to_all: {bytes: 64KiB, algorithm: direct}", "joins h0 and h15, 15 cables apart",
     "leave out `algorithm`", {"job": "all_to_all: {bytes: 64KiB}"}),
    ((64, [1, 2]), "all_reduce: {bytes: 8, algorithm: exchange}", "all_reduce (exchange) joins",
     "leave out `algorithm`", {"job": "all_reduce: {bytes: 8}"}),
]


@pytest.mark.parametrize("mesh, job, why, do, done", TOO_FAR,
                         ids=[f"{mesh[0]}-{job.split(':')[0]}" for mesh, job, *_ in TOO_FAR])
def test_what_is_too_far_apart_is_refused_with_what_helps(mesh, job, why, do, done, tmp_path):
    file = circulant(tmp_path, *mesh)
    refused = subprocess.run([WEFT, "run", file, "--set", f"jobs=[{{{job}}}]"], cwd=ROOT, text=True,
                             capture_output=True, timeout=60, check=False)
    assert refused.returncode == 2, refused.stderr
    assert why in refused.stderr and refused.stderr.splitlines()[0].endswith(do)
    file = circulant(tmp_path, *mesh[:2], done.get("ranks"))
    assert run(file, f"jobs=[{{{done.get('job', job)}}}]", "expect={data: exact}")["result"] == "pass"


def test_a_timing_run_says_that_nothing_was_verified():
    document = run("scenarios/basic/triangle.yaml", "jobs=[{all_reduce: {bytes: 1MiB}}]",
                   "expect={result: pass}", "payload=timing")
    assert document["jobs"][0]["nwrong"] is None
    moved = run("scenarios/basic/triangle.yaml", "jobs=[{all_reduce: {bytes: 1MiB}}]",
                "expect={result: pass}")
    assert moved["jobs"][0]["nwrong"] == 0
    assert document["jobs"][0]["time_ns"] == moved["jobs"][0]["time_ns"]
    assert document["links"] == moved["links"]


# ---- failover ----

TWIN = "scenarios/basic/twin-triangle.yaml"


def flap_time_ns(*faults):
    document = run(TWIN, "jobs=[{all_reduce: {bytes: 1GiB}}]", "expect={result: pass}",
                   "payload=timing", *faults)
    return document


def test_a_flap_on_the_twin_triangle_costs_what_the_lost_capacity_costs():
    """One of twelve directed rails is gone for a while in the middle of 1 GiB. Whatever remains
    while it is down carries at least what the mesh without that cable could."""
    whole = flap_time_ns()["jobs"][0]
    down_ns = 20_000_000
    start = whole["time_ns"] * 3 // 2  # the warm-up is as long
    document = flap_time_ns(f"faults=[{{at: {start}ns, link: 'titanic:p0', down_for: {down_ns}ns}}]")
    job = document["jobs"][0]
    without = run(TWIN, "jobs=[{all_reduce: {bytes: 1GiB}}]", "expect={result: pass}",
                  "payload=timing", "topology.links.0.up=false")["jobs"][0]
    # While the cable is down the job goes at most by without/whole slower.
    slower = without["time_ns"] / whole["time_ns"]
    allowed = whole["time_ns"] + down_ns * (1 - 1 / slower)
    detection_ns = 0  # the port says so at once
    assert whole["time_ns"] < job["time_ns"] <= 1.3 * allowed + detection_ns
    assert document["counters"]["failovers"] > 0
    assert document["counters"]["relayed_bytes.carpathia"] > 0
    drops = {link["link"]: link["drops"] for link in document["links"]}
    assert all(n == 0 for name, n in drops.items() if "titanic:p0" not in name), drops


@pytest.mark.heavy
def test_a_flap_moves_real_data_exactly_once():
    document = run("scenarios/faults/twin-flap.yaml")
    assert document["jobs"][0]["nwrong"] == 0


def test_a_cable_that_is_gone_for_good_is_gone_round():
    """A triangle without one of its cables is a line; the third host relays."""
    document = run("scenarios/basic/triangle.yaml", "jobs=[{all_reduce: {bytes: 64MiB}}]",
                   "expect={result: pass, data: exact}",
                   "faults=[{at: 4ms, on: 'titanic:p0', kind: down}]")
    assert document["jobs"][0]["nwrong"] == 0


def test_a_host_that_idles_forwards_for_the_others():
    """B has nothing to do while A and C move 1 GiB through it."""
    document = run("scenarios/partial/line-3.yaml",
                   "jobs=[{broadcast: {bytes: 1GiB, root: 0, algorithm: direct}}]",
                   "ranks=[h0, h2]", "topology.nodes.h1.ranks=0",
                   "expect={result: pass, connections: [{from: 0, to: 1, via: [h1]}]}",
                   "payload=timing")
    assert document["jobs"][0]["time_ns"] > 0


def test_warnings_do_not_hide_why_a_cut_ring_fails():
    """Relays give up hundreds of attempts whose lanes ended, which is no listener's refusal."""
    faults = ", ".join(f"{{at: 400us, on: '{port}', kind: down}}" for port in ("h3:p0", "h6:p0"))
    done = subprocess.run([WEFT, "run", "scenarios/partial/ring-8.yaml", "--set", f"faults=[{faults}]",
                           "--set", "jobs=[{all_to_all: {bytes: 64KiB}}]", "--set", "expect={}"],
                          cwd=ROOT, timeout=300, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "error link.down" in done.stdout
    assert "listener" not in done.stderr


def test_a_ring_of_eight_with_one_buffer_a_hop_finishes():
    document = run("scenarios/partial/ring-8.yaml", "jobs=[{all_to_all: {bytes: 4MiB}}]",
                   "topology.defaults={env: {WEFT_RELAY_BUFFERS: '1'}}")
    assert document["jobs"][0]["nwrong"] == 0


def test_a_host_may_have_more_ports_than_it_can_tell_of(tmp_path):
    """Facts of 16 ports fit the handshake: those that face the peer must be among them."""
    leaves = [f"leaf-{i}" for i in range(24)]
    lines = ["name: hub", "topology:", "  nodes:",
             f"    hub: {{ports: [{', '.join(f'p{i}' for i in range(24))}]}}",
             *(f"    {leaf}: {{ports: [p0]}}" for leaf in leaves), "  links:",
             *(f'    - {{endpoints: ["hub:p{i}", "{leaf}:p0"], subnet: 10.1.{i}.0/30}}'
               for i, leaf in enumerate(leaves)),
             "jobs:", "  - all_reduce: {bytes: 1MiB}", "expect:", "  data: exact", ""]
    path = tmp_path / "hub.yaml"
    path.write_text("\n".join(lines))
    assert run(path)["jobs"][0]["nwrong"] == 0


def test_devices_with_queues_for_fifteen_receives_carry_messages():
    """Profile minimal: shorter queues, fewer CQEs and fewer regions than anything sold."""
    sets = [f"topology.nodes.{host}.profile=minimal" for host in ("titanic", "iceberg", "carpathia")]
    document = run("scenarios/basic/triangle.yaml", *sets,
                   "jobs=[{all_reduce: {bytes: 16MiB}}, {all_to_all: {bytes: 1MiB}}]",
                   "expect={result: pass, data: exact}")
    assert all(job["nwrong"] == 0 for job in document["jobs"])


def test_elements_are_aligned_whatever_an_earlier_job_left():
    """Staging of an odd number of 2-byte elements serves 4-byte ones next. Misaligned loads are
    an error where WEFT is built with the undefined-behaviour sanitizer, as in `make test`."""
    weft = os.environ.get("WEFT", WEFT)
    jobs = ("jobs=[{reduce_scatter: {bytes: 66, dtype: float16}},"
            " {reduce_scatter: {bytes: 12, dtype: float32}}]")
    done = subprocess.run([weft, "run", "-q", "scenarios/basic/triangle.yaml", "--set", jobs, "--set",
                           "expect={data: exact}"], cwd=ROOT, timeout=120, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr


def random_meshes(*arguments, **env):
    """Run ci/random_meshes.py. Its failures are those of the test, so it does not keep them itself."""
    env = {**{key: value for key, value in os.environ.items() if key != "WEFT_FAILURES"}, **env}
    return subprocess.run([sys.executable, "ci/random_meshes.py", *map(str, arguments)], cwd=ROOT,
                          timeout=600, capture_output=True, text=True, check=False, env=env)


def test_random_meshes_of_every_kind():
    """A few dozen of what `ci/job meshes` runs hundreds of; the test's output names a mesh that
    fails, and the line that repeats it."""
    first, n = sampling.span(40)
    done = random_meshes("--seed", 1, "--first", first, "--count", n, "--build", Path(WEFT).parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{n} passed, 0 failed, 0 skipped"


def test_random_meshes_with_faults_that_end():
    """A few of what `ci/job meshes` runs thousands of."""
    first, n = sampling.span(12)
    done = random_meshes("--seed", 1, "--first", first, "--count", n, "--faults",
                         "--build", Path(WEFT).parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{n} passed, 0 failed, 0 skipped"


def test_cables_of_relayed_meshes_flap():
    """A few of what `make soak` runs thousands of."""
    first, n = sampling.span(12)
    done = subprocess.run([sys.executable, "ci/relay_flaps.py", "--seed", "1", "--first", str(first),
                           "--count", str(n), "--build", str(Path(WEFT).parent)], cwd=ROOT,
                          timeout=600, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{n} passed, 0 failed, 0 skipped"


def test_the_judge_of_flaps_knows_what_is_cut():
    """A line of three hosts, the second without a rank, whose second pair has twins."""
    mesh = SimpleNamespace(n=3, ranks=[0, 2], cables=[(0, 1), (1, 2), (1, 2)])

    def flap(cable, at_us, for_us):
        return SimpleNamespace(cable=cable, at_us=at_us, for_us=for_us)

    assert relay_flaps.cuts(mesh, [flap(1, 0, 100)]) == []
    assert relay_flaps.cuts(mesh, [flap(0, 5, 100)]) == [(100e-6, {0})]
    assert relay_flaps.cuts(mesh, [flap(1, 0, 100), flap(2, 60, 100)]) == [(40e-6, {1, 2})]
    (seconds, cables), = relay_flaps.cuts(mesh, [flap(0, 0, 100), flap(0, 50, 100)])
    assert round(seconds * 1e6) == 150 and cables == {0}
    assert relay_flaps.limit_of(mesh) == relay_flaps.LIMIT_S
    mesh.ranks = [1, 2]
    assert relay_flaps.cuts(mesh, [flap(0, 5, 100)]) == []
    assert relay_flaps.limit_of(mesh) == relay_flaps.CABLES_LIMIT_S
    mesh.cables.append((2, 0))
    assert relay_flaps.limit_of(mesh) == relay_flaps.LIMIT_S


def test_a_random_mesh_that_fails_is_kept_and_its_replay_printed(tmp_path):
    """The n'th mesh of a seed is the same in any run, and a failure leaves the file that the
    line names."""
    (tmp_path / "weft").symlink_to("/bin/false")
    kept = ROOT / "build" / "ci" / "meshes"
    texts = []
    for first, count in ((6, 2), (7, 1)):
        rows = tmp_path / f"failures-{first}"
        done = random_meshes("--seed", 99, "--first", first, "--count", count, "--build", tmp_path,
                             WEFT_FAILURES=str(rows))
        assert done.returncode == 1
        assert "replay: weft run build/ci/meshes/mesh-99-7.yaml" in done.stdout.splitlines()
        assert done.stdout.splitlines()[-1] == f"0 passed, {count} failed, 0 skipped"
        last = failures.read(rows)[count - 1]
        assert last["test"] == "random meshes: mesh-99-7"
        assert last["again"] == (f"ci/random_meshes.py --build {tmp_path} --seed 99 --first 7 "
                                 "--count 1")
        texts.append((kept / "mesh-99-7.yaml").read_text())
        for path in kept.glob("mesh-99-*.yaml"):
            path.unlink()
    assert texts[0] == texts[1]


def test_a_sample_of_meshes_depends_on_the_commit_alone(tmp_path):
    """Each sample is some of the 300 fixed meshes, and the commit's number says which."""
    (tmp_path / "weft").symlink_to("/bin/false")
    for number, first in ((0, 0), (297, 0), (298, 1), (5 * 297 + 296, 296)):
        done = random_meshes("--sample", 3, "--build", tmp_path, WEFT_SAMPLE=str(number))
        assert done.stdout.splitlines()[0] == f"random meshes: --seed 1 --first {first} --count 3"
        for i in range(first, first + 3):
            (ROOT / "build" / "ci" / "meshes" / f"mesh-1-{i}.yaml").unlink()


def test_scenarios_are_what_their_generator_writes():
    done = subprocess.run([sys.executable, "ci/mesh_scenarios.py", "--check"], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
