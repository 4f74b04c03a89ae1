"""Runs on the kernel's soft-RoCE where time and chance are ours: the same bytes, every time."""

import hashlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from guest_kernel import WEFT, needs_guest

ROOT = Path(__file__).resolve().parent.parent
BUSY = "while True: pass"


pytestmark = needs_guest


def weft(*args, cwd=ROOT, kernel=None):
    env = {name: value for name, value in os.environ.items() if name != "WEFT_CLOCK"}
    if kernel is not None:
        env["WEFT_GUEST_KERNEL"] = str(kernel)
    return subprocess.run([WEFT, *args], cwd=cwd, env=env, timeout=400, capture_output=True,
                          text=True, check=False)


def outputs(folder, scenario, *args, backend="rxe", cwd=None):
    """SHA-256 of everything that a run writes for programs."""
    names = ("json", "events", "pcap")
    done = weft("run", "--backend", backend, "--clock", "virtual", *args, f"--json={folder}/json",
                "--events", folder / "events", "--pcap", folder / "pcap",
                ROOT / "scenarios" / scenario, cwd=cwd or folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


def folders(tmp_path, n):
    made = [tmp_path / f"{i}" for i in range(n)]
    for folder in made:
        folder.mkdir()
    return made


@pytest.mark.parametrize("backend", ["rxe", "soft"])
@pytest.mark.parametrize("scenario,job", [
    ("basic/pair.yaml", "{all_reduce: {bytes: 1MiB}}"),
    ("basic/triangle.yaml", "{all_reduce: {bytes: 256KiB}}"),
    ("basic/ipv6.yaml", "{all_reduce: {bytes: 64KiB}}"),
    ("partial/line-3-relay.yaml", "{all_to_all: {bytes: 64KiB}}"),
    ("partial/ring-4.yaml", "{all_reduce: {bytes: 256KiB}}"),
    ("faults/twin-flap.yaml", "{all_reduce: {bytes: 1MiB}}")],
    ids=["pair", "triangle", "ipv6", "line-3-relay", "ring-4", "twin-flap"])
def test_a_run_is_the_same_to_the_byte(tmp_path, scenario, job, backend):
    """Idle, and beside two busy loops from another directory."""
    first, second = folders(tmp_path, 2)
    smaller = ("--set", f"jobs=[{job}]", "--set", "expect={data: exact}")
    if "flap" in scenario:
        smaller += ("--set", "faults.0.at=jobs+50us")
    idle = outputs(first, scenario, *smaller, backend=backend)
    loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2)]
    try:
        assert outputs(second, scenario, *smaller, backend=backend, cwd=ROOT / "docs") == idle
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.mark.parametrize("backend", ["rxe", "soft"])
def test_a_seed_decides(tmp_path, backend):
    first, second, third = folders(tmp_path, 3)
    one = outputs(first, "basic/pair.yaml", "--seed", "1", backend=backend)
    two = outputs(second, "basic/pair.yaml", "--seed", "2", backend=backend)
    assert all(one[name] != two[name] for name in one)
    assert outputs(third, "basic/pair.yaml", "--seed", "1", backend=backend) == one


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_run_on_soft_passes_without_a_story(seed):
    """No line is written between posts then: thousands of looks at the clock follow one another."""
    done = weft("run", "--backend", "soft", "--clock", "virtual", "--seed", str(seed),
                ROOT / "scenarios" / "basic" / "pair.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


OBSERVED = ("--set", "jobs=[{all_reduce: {bytes: [8, 64KiB, 1MiB]}}]", "--set", "expect={data: exact}")


def times_of(tmp_path, scenario, backend, *args):
    """The times of a run's rows, and of the set-up of its connections, in ns."""
    done = weft("run", "--backend", backend, "--clock", "virtual", *OBSERVED, f"--json={tmp_path}/json", *args,
                ROOT / "scenarios" / scenario)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((tmp_path / "json").read_text())
    return ([row["time_ns"] for row in document["jobs"]], [row["setup_ns"] for row in document["connections"]])


# In a ring of four, programs give way to one another often: whatever runs besides them changes their order.
@pytest.mark.parametrize("scenario", ["basic/pair.yaml", "basic/triangle.yaml", "partial/ring-4.yaml"],
                         ids=["pair", "triangle", "ring-4"])
@pytest.mark.parametrize("backend", ["rxe", "soft"])
def test_an_observer_takes_no_time(tmp_path, scenario, backend):
    """The thousands of calls of an event log are free; a capture runs each 5 ms, and nothing of a job changes."""
    alone = times_of(tmp_path, scenario, backend)
    assert times_of(tmp_path, scenario, backend, "--events", tmp_path / "events") == alone
    assert (tmp_path / "events").read_text().count("\n") > 500
    assert times_of(tmp_path, scenario, backend, "--pcap", tmp_path / "pcap") == alone


def test_a_capture_of_programs_takes_no_time(tmp_path):
    """80 ms of calls in a row, with a fetch each 5 ms: a call would take 1 us, a frame's stamp takes 1 ns."""
    command = ("begin=$(date +%s%N); dd if=/dev/zero of=/dev/null bs=1 count=20000 2>/dev/null; "
               "end=$(date +%s%N); echo $((end - begin))")
    times = []
    for flags in ((), ("--pcap", tmp_path / "pcap")):
        done = weft("exec", *flags, ROOT / "scenarios" / "basic" / "pair.yaml", "--", "sh", "-c", command)
        assert done.returncode == 0, done.stderr
        times.append([int(line.split()[1]) for line in sorted(done.stdout.splitlines())])
    for alone, captured in zip(*times):
        assert alone > 80e6 and abs(captured - alone) < 1000


FREE = """
import ctypes, os, sys, time
call, word, null = ctypes.CDLL(None).syscall, ctypes.c_int(int(sys.argv[1])), os.open("/dev/null", os.O_WRONLY)
if len(sys.argv) == 2:
    assert call(158, 0x756d0001, ctypes.byref(word)) == 0  # arch_prctl, ARCH_UM_FREE_CALLS
def took(n):
    begin = time.monotonic_ns()
    for _ in range(n):
        os.write(null, b"x")
    return (time.monotonic_ns() - begin) // 1000
print(took(1000), flush=True)
if os.fork() == 0:
    print(took(1000), flush=True)
    if len(sys.argv) == 2:
        os.execv(sys.executable, [sys.executable, __file__, "1", "not again"])
    os._exit(0)
os.wait()
word.value = 0
print(took(1000), flush=True)
"""


def test_calls_are_free_while_a_thread_says_so(tmp_path):
    """Neither those of its child nor of what that executes."""
    (tmp_path / "free.py").write_text(FREE)
    done = weft("guest", "--clock", "virtual", "--", sys.executable, tmp_path / "free.py", "1")
    assert done.returncode == 0, done.stderr
    free, *others = map(int, done.stdout.split())
    assert free == 0 and len(others) == 5 and all(1000 <= us <= 1110 for us in others)


def test_the_replay_line_names_the_seed_of_the_file(tmp_path):
    """Without --seed the guest's chance is that of the scenario's seed, as the line says."""
    first, second = folders(tmp_path, 2)
    said = outputs(first, "basic/pair.yaml")
    seed = json.loads((first / "json").read_text())["seed"]
    assert outputs(second, "basic/pair.yaml", "--seed", seed)["events"] == said["events"]


def test_waiting_takes_no_time_in_a_guest():
    done = weft("guest", "--clock", "virtual", "--time-limit", "120", "--",
                "sh", "-c", "date -u +%s; sleep 86400; date -u +%s")
    begin, end = map(int, done.stdout.split())
    assert 1767225600 < begin < 1767225700 and end - begin == 86400


def test_chance_in_a_guest_comes_from_its_seed():
    ask = ("guest", "--clock", "virtual", "--")
    command = ("sh", "-c", "cat /proc/sys/kernel/random/boot_id; head -c 32 /dev/urandom | od -An -tx1; "
               "cat /proc/self/maps; cat /proc/cmdline /proc/cpuinfo; env")
    one = weft(*ask, *command)
    assert one.returncode == 0 and one.stdout.count("\n") > 20
    assert weft(*ask, *command).stdout == one.stdout
    assert weft("guest", "--seed", "2", *ask[1:], *command).stdout != one.stdout


def test_what_came_before_does_not_decide_a_program_s_chance():
    """Neither what the guest drew before, nor what ran there."""
    ask = f"{WEFT} exec {ROOT}/scenarios/basic/pair.yaml -- sh -c 'od -An -tx1 -N16 /dev/urandom'"
    done = weft("guest", "--clock", "virtual", "--", "sh", "-c",
                f"{ask}; head -c 5000 /dev/urandom >/dev/null; {ask}; head -c 77 /dev/urandom >/dev/null; {ask}")
    assert done.returncode == 0, done.stderr
    first, *others = [sorted(done.stdout.splitlines()[i:i + 2]) for i in (0, 2, 4)]
    assert others == [first, first]
    assert first[0].split(": ")[1] != first[1].split(": ")[1]


def test_a_flag_of_the_run_does_not_decide_when_programs_run(tmp_path):
    scenario = tmp_path / "programs.yaml"
    program = "od -An -tx1 -N16 /dev/urandom; date +%s.%N"
    scenario.write_text(f"""
name: programs
topology:
  nodes: {{titanic: {{ports: [p0]}}, iceberg: {{ports: [p0]}}}}
  links: [{{endpoints: ["titanic:p0", "iceberg:p0"], subnet: 192.168.1.0/24}}]
jobs: [{{exec: {{titanic: "{program}", iceberg: "{program}"}}}}]
""")
    outputs_of = []
    for flags in ((), ("--quiet",)):
        done = weft("run", "--backend", "rxe", "--clock", "virtual", *flags, f"--json={tmp_path}/json", scenario)
        assert done.returncode == 0, done.stderr
        job, = json.loads((tmp_path / "json").read_text())["jobs"]
        outputs_of.append([ran["output"] for ran in job["programs"]])
    assert outputs_of[0] == outputs_of[1] and len(set(outputs_of[0])) == 2


@pytest.fixture(scope="module", name="loops")
def fixture_loops(tmp_path_factory):
    program = tmp_path_factory.mktemp("loops") / "loops"
    subprocess.run(["cc", "-O1", "-o", program, ROOT / "ci" / "guest" / "loops.c", "-lpthread"],
                   check=True)
    return program


@pytest.mark.parametrize("kind,least,most", [
    ("thread", 1000, 1200), ("process", 2000, 2200), ("lock", 3000, 3200),
    ("turns", 0, 100), ("memory", 0, 10), ("float", 0, 10), ("clock", 5000, 5100),
    ("minute", 60000000, 60010000), ("work", 10000, 400000), ("compute", 0, 10), ("counted", 1000, 1200),
    ("code", 1000, 1400), ("exec", 0, 300)])
def test_a_loop_without_calls_ends(loops, kind, least, most):
    """In the guest's time: of what is waited for, and none where it computes."""
    ask = ("guest", "--clock", "virtual", "--time-limit", "300", "--", loops, kind)
    done = weft(*ask)
    assert done.returncode == 0, done.stderr
    assert least <= int(done.stdout) <= most
    assert weft(*ask).stdout == done.stdout


@pytest.mark.parametrize("kind,what,function", [
    ("ever", "spins, and nothing else happens", "wait_for_ever"),
    ("counts", "computes without a call, so the clock stands still", "count_for_ever")])
def test_a_process_that_keeps_the_clock_is_named(loops, kind, what, function):
    done = weft("guest", "--clock", "virtual", "--time-limit", "40", "--", loops, kind)
    assert done.returncode == 124
    assert "weft: guest: busy: process " in done.stderr and f"{loops}+0x" in done.stderr
    assert f"{what}; that is {function}+0x" in done.stderr
    line = done.stderr.split("; addr2line -fe ")[1].split(" names the line")[0]
    assert subprocess.run(["addr2line", "-fe", *line.split()], capture_output=True, text=True,
                          check=True).stdout.startswith(f"{function}\n")


@pytest.mark.parametrize("args", [("--backend", "sim", "--clock", "real"),
                                  ("--backend", "verbs", "--clock", "virtual")])
def test_a_clock_that_a_backend_has_not_is_refused(args):
    done = weft("run", *args, "scenarios/basic/pair.yaml")
    assert done.returncode == 2
    assert f"--clock {args[3]}: backend {args[1]} keeps" in done.stderr


def test_a_kernel_without_virtual_time_is_named(tmp_path):
    kernel = tmp_path / "kernel"
    kernel.write_text("#!/bin/sh\nexit 1\n")
    kernel.chmod(0o755)
    done = weft("run", "--backend", "rxe", "--clock", "virtual", "scenarios/basic/pair.yaml",
                kernel=kernel)
    assert done.returncode == 3
    assert "this guest's kernel keeps real time only: make rxe-guest, or --clock real" in done.stderr


def test_a_guest_in_real_time_has_no_virtual_one():
    done = weft("guest", "--clock", "real", "--", WEFT, "run", "--backend", "rxe", "--clock",
                "virtual", ROOT / "scenarios/basic/pair.yaml")
    assert done.returncode == 3
    assert "weft guest --clock virtual" in done.stderr


def test_a_run_on_rxe_keeps_virtual_time_unless_it_is_asked_not_to():
    small = "jobs.0.all_reduce.bytes=64KiB"
    for asked, kept in (((), "virtual"), (("--clock", "real"), "real")):
        done = weft("run", "--backend", "rxe", "--json=-", "-q", "--set", small, *asked,
                    "--set", "expect={data: exact}", "scenarios/basic/pair.yaml")
        assert done.returncode == 0, done.stderr
        assert f" --clock {kept} " in json.loads(done.stdout)["replay"]


@pytest.mark.parametrize("backend", ["rxe", "soft"])
def test_a_swarm_repeats_whatever_number_of_guests_runs_it(backend, tmp_path):
    """Also what a row's replay line runs has the row's end."""
    ask = ("swarm", "--backend", backend, ROOT / "scenarios/basic/pair.yaml", "--seeds", "1..3",
           "--set", "jobs.0.all_reduce.bytes=64KiB", "-q")
    done = [weft(*ask, "--jobs", jobs, cwd=tmp_path) for jobs in ("1", "2")]
    assert [one.returncode for one in done] == [0, 0], done[0].stderr
    assert done[0].stdout == done[1].stdout
    rows = [json.loads(line) for line in done[0].stdout.splitlines()]
    assert [(row["seed"], row["backend"], row["result"]) for row in rows] == [
        (str(seed), backend, "pass") for seed in (1, 2, 3)]
    assert len({row["sim_time_ns"] for row in rows}) == 3
    words = shlex.split(rows[1]["replay"])
    again = json.loads(weft(*words[1:], "--json=-", "-q", cwd=tmp_path).stdout)
    assert again["sim_time_ns"] == rows[1]["sim_time_ns"]
    assert list(tmp_path.iterdir()) == []


def test_processes_are_judged_by_what_they_report(tmp_path):
    """Invariants that need no second run and nothing of a simulated NIC."""
    scenario = tmp_path / "limited.yaml"
    scenario.write_text("""
name: limited
topology:
  nodes: {titanic: {ports: [p0], memlock: 64KiB}, iceberg: {ports: [p0]}}
  links: [{endpoints: ["titanic:p0", "iceberg:p0"], subnet: 192.168.1.0/24}]
jobs: [{all_reduce: {bytes: 64KiB}}]
expect: {result: any, invariants: all}
""")
    for backend, setting, broken in (("soft", (), ["recovery"]),
                                     ("soft", ("--set", "topology.nodes.titanic.memlock=1GiB"), []),
                                     ("rxe", ("--set", "topology.nodes.titanic={ports: [p0]}"), [])):
        done = weft("run", "--backend", backend, "--clock", "virtual", "--json=-", "-q", *setting, scenario)
        assert done.returncode == (1 if broken else 0), done.stderr
        said = {line["expect"]: line["ok"] for line in json.loads(done.stdout)["expectations"]}
        assert said == {"result: any": True, **{
            f"invariant: {name}": name not in broken for name in ("data", "ends", "recovery", "explained")}}


@pytest.mark.parametrize("backend", ["rxe", "soft"])
def test_a_swarm_draws_what_a_backend_has(tmp_path, backend):
    """ci/test_swarm.py looks at more of the files that are drawn."""
    done = weft("swarm", "--backend", backend, "--space", "all", "--seeds", "1..4", "-q", cwd=tmp_path)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["result"] for row in rows] == ["pass"] * 4, rows


# The kernel would remove IPv6 addresses with the carrier: seed 27 cuts a cable that has them for 4 us.
def test_a_port_keeps_its_ipv6_addresses_without_carrier():
    done = weft("swarm", "--space", "all", "--seeds", "27..27", "--backend", "soft")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_swarm_in_guests_makes_its_first_failure_small(tmp_path):
    scenario = tmp_path / "killed.yaml"
    scenario.write_text("""
name: killed
topology:
  nodes: {titanic: {ports: [p0]}, iceberg: {ports: [p0]}}
  links: [{endpoints: ["titanic:p0", "iceberg:p0"], subnet: 192.168.1.0/24}]
jobs: [{all_reduce: {bytes: 64KiB}}]
faults: [{at: jobs+1us, on: iceberg, kind: kill}]
expect: {data: exact}
""")
    done = weft("swarm", "--backend", "rxe", "--shrink", scenario, "--seeds", "5..5", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    row = json.loads(done.stdout)
    assert row["findings"] == ["peer.dead"]
    assert done.stderr.strip().splitlines()[-2].endswith(
        "weft run killed-seed-5.yaml --backend rxe"), done.stderr
    small = weft("run", "--backend", "rxe", "killed-seed-5.yaml", "--json=-", "-q", cwd=tmp_path)
    assert [found["code"] for found in json.loads(small.stdout)["findings"]] == row["findings"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed-seed-5.yaml", "killed.yaml"]


@pytest.mark.parametrize("backend", ["rxe", "soft"])
def test_a_swarm_says_what_a_backend_has_not(tmp_path, backend):
    done = weft("swarm", "--backend", backend, "-q", ROOT / "scenarios/faults/black-hole.yaml", "--seeds", "1..1",
                cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    row = json.loads(done.stdout)
    assert (row["result"], row["failed"]) == (
        "error", [{"expect": "the run ends", "got": f"{backend}: backend {backend} has no path_limit: titanic"}])


def test_a_swarm_says_what_it_needs(tmp_path):
    ask = ("swarm", "scenarios/basic/pair.yaml", "--seeds", "1..2", "--backend")
    refused = weft(*ask, "verbs")
    assert refused.returncode == 2
    assert "--backend: expected sim, soft or rxe, got 'verbs'" in refused.stderr
    missing = weft(*ask, "rxe", kernel=tmp_path / "none")
    assert missing.returncode == 3 and not missing.stdout
    assert "WEFT_GUEST_KERNEL is no program" in missing.stderr
