"""Nodes on several machines: the commands of docs/scale-out.md, as they stand there, and what comes
of them when a rank dies. The machines are the namespaces of ci/machines."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# The fast build: what is asked here is how processes meet, not memory.
WEFT = Path(os.environ.get("WEFT_FAST", os.environ.get("WEFT", str(ROOT / "build" / "weft"))))
HOSTS = ["titanic", "iceberg", "carpathia"]


def has_machines():
    return subprocess.run([ROOT / "ci/machines", "true"], capture_output=True,
                          check=False).returncode == 0


needs_machines = pytest.mark.skipif(
    not has_machines(),
    reason="SKIP machines: this user may not make network namespaces; enable with: run as root")


has_mpirun = shutil.which("mpirun") is not None
needs_mpirun = pytest.mark.skipif(
    not has_mpirun, reason="SKIP mpirun: there is none; enable with: apt-get install openmpi-bin")
MPI = {"NO_COLOR": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


needs_srun = pytest.mark.skipif(
    shutil.which("srun") is None,
    reason="SKIP srun: there is none; enable with: apt-get install slurm-wlm libpmix-dev")


@pytest.fixture
def place(tmp_path):
    """A folder with `weft` in its bin/ and a small triangle.yaml."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "weft").symlink_to(WEFT.resolve())
    text = (ROOT / "scenarios/basic/triangle.yaml").read_text()
    text = text[:text.index("jobs:")]
    (tmp_path / "triangle.yaml").write_text(
        text + "jobs:\n  - all_reduce: {bytes: [8, 64KiB]}\nexpect: {data: exact}\n")
    return tmp_path


def blocks():
    """Each block's lines: (machine, command)."""
    text = (ROOT / "docs/scale-out.md").read_text()
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        lines = re.sub(r"\\\n\s*", "", block).splitlines()
        yield [re.fullmatch(r"(\w+)\$ (.*)", line).groups() for line in lines]


def together(place, name, lines):
    """A script's part: runs the lines at once; what each printed is in NAME.i.out and .err, and its
    exit status in NAME.i.code."""
    for i, (machine, command) in enumerate(lines):
        out = f"{name}.{i}"
        (place / f"{out}.sh").write_text(command + "\n")
        yield (f"(on {machine} timeout 60 bash {out}.sh >{out}.out 2>{out}.err; "
               f"echo $? >{out}.code) &")
    yield "wait"


def run_machines(place, script, **environment):
    (place / "script.sh").write_text("\n".join(script))
    done = subprocess.run([ROOT / "ci/machines", "bash", "script.sh"], cwd=place, timeout=150,
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": f"{place}/bin:{os.environ['PATH']}",
                               **environment})
    assert done.returncode == 0, done.stderr


def ended(place, name, i):
    read = [(place / f"{name}.{i}.{what}").read_text() for what in ("code", "out", "err")]
    return int(read[0]), read[1], read[2]


@needs_machines
def test_the_commands_of_the_page(place):
    """Blocks one after the other, the lines of each at once."""
    script = []
    all_blocks = [lines for lines in blocks()
                  if not re.search(r"mpirun|srun|ssh", lines[0][1])]
    assert len(all_blocks) >= 5
    for i, lines in enumerate(all_blocks):
        script += together(place, f"block{i}", lines)
    run_machines(place, script)
    for i, lines in enumerate(all_blocks):
        for j, (machine, command) in enumerate(lines):
            code, out, err = ended(place, f"block{i}", j)
            assert code == 0, f"{machine}$ {command}\n{out}{err}"
            if "weft node" in command and j > 0:
                assert out == "", f"only rank 0 prints the result: {command}"
        if "weft node" in lines[0][1] and "--json" not in lines[0][1]:
            assert "PASS" in ended(place, f"block{i}", 0)[1]
    document = json.loads((place / "result.json").read_text())
    assert document["result"] == "pass" and document["backend"] == "soft"
    assert {(c["from_host"], c["to_host"]) for c in document["connections"]} == {
        (a, b) for a in HOSTS for b in HOSTS if a != b}
    assert [job["nwrong"] for job in document["jobs"]] == [0, 0]
    assert {c["host"] for c in document["completions"]} == set(HOSTS)


@needs_machines
@needs_mpirun
def test_the_commands_with_mpirun(place):
    """PMIx gives the ranks, and where rank 0 is, on one machine and on three."""
    lines = [line for block in blocks() for line in block if "mpirun" in line[1]]
    assert len(lines) == 2
    script = []
    for i, line in enumerate(lines):
        script += together(place, f"mpi{i}", [line])
    run_machines(place, script, **MPI)
    for i, line in enumerate(lines):
        code, out, err = ended(place, f"mpi{i}", 0)
        assert code == 0, f"{line[1]}\n{out}{err}"
        assert out.count("PASS site on soft") == 1


@needs_srun
@pytest.mark.parametrize("how", ["pmix", "none"])
def test_the_commands_with_srun(place, how):
    """By PMIx, and by what srun says to each of its tasks. This machine is titanic."""
    (_, line), = [line for block in blocks() for line in block if f"--mpi={how}" in line[1]]
    with socket.create_server(("127.0.0.1", 0)) as free:
        line = line.replace("titanic:29500", f"localhost:{free.getsockname()[1]}")
    done = subprocess.run([ROOT / "ci/slurm", *shlex.split(line)], cwd=place, timeout=150,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": f"{place}/bin:{os.environ['PATH']}"})
    if done.returncode == 77:
        pytest.skip("SKIP srun: no Slurm with PMIx starts here; "
                    "enable with: apt-get install slurm-wlm libpmix-dev")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASS site on soft") == 1


# ---- doctor ----

def doctors(place, *flags, before=()):
    """Iceberg has an unknown setting."""
    command = "weft doctor --nranks 3 --rendezvous titanic:29500 --backend soft " + " ".join(flags)
    lines = [("titanic", f"{command} --rank 0 --json=doctor.json"),
             ("iceberg", f"NCCL_MESH_NONSENSE=1 {command} --rank 1"),
             ("carpathia", f"{command} --rank 2")]
    run_machines(place, [*before, *together(place, "doctor", lines)])
    ends = [ended(place, "doctor", i) for i in range(3)]
    assert ends[1][1] == ends[2][1] == "", "only rank 0 prints"
    return [code for code, _, _ in ends], json.loads((place / "doctor.json").read_text()), ends


@needs_machines
def test_machines_that_look_at_themselves_together(place):
    codes, document, _ = doctors(place, "--join")
    assert codes == [0, 0, 0]
    assert [host["name"] for host in document["hosts"]] == HOSTS
    assert {(cable["from"], cable["from_port"], cable["to"], cable["to_port"])
            for cable in document["cables"]} >= {
        ("titanic", "p0", "iceberg", "p1"), ("iceberg", "p0", "carpathia", "p1"),
        ("titanic", "p1", "carpathia", "p0")}
    assert not [f for f in document["findings"] if f["severity"] == "error"]
    assert [f["where"]["host"] for f in document["findings"] if f["code"] == "plugin.setting"] == [
        "iceberg"]


@needs_machines
def test_what_only_two_ends_together_know(place):
    codes, document, _ = doctors(place, "--join", before=["on iceberg ip link set p0 mtu 1500"])
    assert codes == [0, 0, 0]  # it works, slower
    wrong, = [f for f in document["findings"] if f["code"] == "link.mtu_mismatch"]
    assert {wrong["where"]["host"], wrong["where"]["peer"]} == {"iceberg", "carpathia"}


@needs_machines
def test_what_cannot_work_is_not_tried(place):
    """Every process exits with it, and the document is the doctor's."""
    codes, document, _ = doctors(place, "--qualify", before=[
        "on iceberg ip addr flush dev p0", "on iceberg ip addr add 192.168.100.2/24 dev p0"])
    assert codes == [1, 1, 1] and "result" not in document
    assert {f["code"] for f in document["findings"] if f["severity"] == "error"} == {
        "addr.duplicate"}


@needs_machines
def test_a_mesh_is_qualified_by_traffic(place):
    codes, document, ends = doctors(place, "--qualify", "--set",
                                    "'jobs=[{all_reduce: {bytes: 64KiB}}]'")
    assert codes == [0, 0, 0], ends
    assert document["result"] == "pass"
    assert [job["nwrong"] for job in document["jobs"]] == [0]


# ---- from one machine ----

def from_one(place, *args, before="", after="", launch="ssh {host} WEFT_NIC=soft {command}"):
    """`weft run --backend verbs` on titanic: exit status, stdout, stderr."""
    command = " ".join(["weft run triangle.yaml --backend verbs", *map(shlex.quote, args)])
    run_machines(place, together(place, "one", [
        ("titanic", f"{before}export WEFT_LAUNCH={shlex.quote(launch)}; {command} {after}")]))
    return ended(place, "one", 0)


@needs_machines
def test_the_command_that_starts_all(place):
    """As on the page; the machines have simulated NICs, and reach each other by ssh."""
    lines = [line for block in blocks() for line in block if "ssh" in line[1]]
    assert len(lines) == 1
    run_machines(place, together(place, "all", lines))
    code, out, err = ended(place, "all", 0)
    assert code == 0, out + err
    assert "PASS triangle on verbs" in out


# Their clocks are thousands of seconds apart, where the kernel can do that.
CLOCKS = "" if subprocess.run(["unshare", "--time", "--user", "true"], capture_output=True,
                              check=False).returncode else (
    "unshare --time --monotonic $(printf {host} | wc -c)000")


@needs_machines
def test_the_documents_of_machines_with_clocks_of_their_own(place):
    launch = f"on {{host}} {CLOCKS} env WEFT_NIC=soft sh -c {{command}}"
    code, out, err = from_one(place, "-q", "--json", "--events", "story", "--observations", "seen",
                              "--set", "jobs=[{all_to_all: {bytes: 64KiB, repeat: 5}}]",
                              launch=launch)
    assert code == 0, out + err
    document = json.loads(out)
    assert document["backend"] == "verbs" and document["trace_hash"] is None
    assert {(c["from_host"], c["to_host"]) for c in document["connections"]} == {
        (a, b) for a in HOSTS for b in HOSTS if a != b}
    assert {(c["local_port"], c["remote_port"]) for c in document["connections"]} == {
        ("p0", "p1"), ("p1", "p0")}
    story = [line.split(" ", 3) for line in (place / "story").read_text().splitlines()]
    times = [int(line[0]) for line in story]
    assert times == sorted(times) and 0 < times[-1] < 60_000_000_000
    assert {line[1] for line in story} >= set(HOSTS)
    assert {host["name"] for host in json.loads((place / "seen").read_text())["hosts"]} == set(HOSTS)


LONG = "jobs=[{all_reduce: {bytes: 64KiB, repeat: 100000}}]"


@needs_machines
def test_a_machine_that_dies_is_named(place):
    code, out, err = from_one(place, "--set", LONG, "--set", "expect={}", "--set",
                              "faults=[{at: 1s, on: iceberg, kind: kill}]")
    assert code == 1, out + err
    assert "peer.dead" in out and "iceberg" in out


@needs_machines
def test_nobody_goes_on_without_who_started_them(place):
    """However it ends: each member's standard input ends with it."""
    here = ("pid=$!; until [ $(pgrep -cx weft) = 4 ]; do kill -0 $pid || "
            "{ echo 'it ended before its three members were there' >&2; exit 99; }; sleep 0.05; done; "
            "kill -9 $pid; ")
    gone = "until ! pgrep -x weft >/dev/null; do sleep 0.05; done"
    code, out, err = from_one(place, "--set", LONG, "--set", "expect={}", after=f"& {here} {gone}")
    assert code == 0, out + err


@needs_machines
def test_a_machine_without_devices_is_named(place):
    code, _, err = from_one(place, launch="ssh {host} {command}")
    assert code == 3 and "lacks what it needs (exit status 3)" in err, err
    assert re.search(r"(titanic|iceberg|carpathia): start: (this kernel has no RDMA devices|"
                     r"no RDMA device)", err)


NODE = "weft node --scenario triangle.yaml --rendezvous 10.9.0.1:29500 --backend soft --name "


# Ends a command's line: kills the command as soon as its jobs run, or says that they never did.
KILLED_IN_ITS_JOBS = """ --events story & victim=$!
until grep -qs to=jobs story; do
    kill -0 $victim || { echo "it ended before its jobs ran" >&2; exit 99; }
    sleep 0.05
done
kill -9 $victim"""


def assert_killed_in_its_jobs(place, i):
    code, out, err = ended(place, "kill", i)
    assert code == 0, f"exit status {code}\n{out}{err}"


@needs_machines
def test_a_rank_that_dies_is_named_in_the_result(place):
    """Iceberg is killed as soon as its jobs run: the rest end by themselves, with one result."""
    long = " --set 'jobs=[{all_reduce: {bytes: 64KiB, repeat: 100000}}]'"
    lines = [("titanic", f"{NODE}titanic{long} -q --json=result.json"),
             ("iceberg", f"{NODE}iceberg{long}{KILLED_IN_ITS_JOBS}"),
             ("carpathia", f"{NODE}carpathia{long}")]
    run_machines(place, together(place, "kill", lines))
    assert_killed_in_its_jobs(place, 1)
    assert ended(place, "kill", 0)[0] == 1
    code, out, err = ended(place, "kill", 2)
    assert code == 1 and out == "" and "no common result" not in err
    document = json.loads((place / "result.json").read_text())
    assert document["result"] == "fail"
    assert [finding["code"] for finding in document["findings"]] == ["peer.dead"]
    assert "iceberg" in json.dumps(document["findings"][0])


@needs_machines
def test_without_rank_0_nobody_waits_for_long(place):
    long = " --set 'jobs=[{all_reduce: {bytes: 64KiB, repeat: 100000}}]'"
    lines = [("titanic", f"{NODE}titanic{long}{KILLED_IN_ITS_JOBS}"),
             ("iceberg", f"{NODE}iceberg{long}"), ("carpathia", f"{NODE}carpathia{long}")]
    run_machines(place, together(place, "kill", lines))
    assert_killed_in_its_jobs(place, 0)
    for i in (1, 2):
        code, _, err = ended(place, "kill", i)
        assert code == 1 and "no common result: boot: rank 0" in err


@needs_machines
def test_a_process_says_by_signal_whom_it_waits_for(place):
    """First a rank that has not started, then one that is stopped in its jobs."""
    long = " --set 'jobs=[{all_reduce: {bytes: 64KiB, repeat: 100000}}]'"
    ask = "until grep -q '%s' said; do kill -USR1 $me || exit 99; sleep 0.1; done"
    lines = [("titanic", f"{NODE}titanic{long} 2>said & me=$!\n"
              "sleep 0.2; until grep -qs 'state boot' said; do kill -USR1 $me || exit 99; sleep 0.1; done\n"
              + ask % "^titanic waits for rank 2 to take part in a round$" + "\ntouch may-start\n"
              "until [ -e stopped ]; do sleep 0.05; done\n"
              + ask % "^titanic waits for iceberg to send" + "\ntouch answered; kill -9 $me"),
             ("iceberg", f"{NODE}iceberg{long} --events story & me=$!\n"
              "until grep -qs to=jobs story; do kill -0 $me || exit 99; sleep 0.05; done\n"
              "kill -STOP $me; touch stopped; until [ -e answered ]; do sleep 0.05; done; kill -9 $me"),
             ("carpathia", "until [ -e may-start ]; do sleep 0.05; done\n"
              f"{NODE}carpathia{long} & me=$!\nuntil [ -e answered ]; do sleep 0.05; done; kill -9 $me")]
    run_machines(place, together(place, "ask", lines))
    said = (place / "said").read_text()
    assert [ended(place, "ask", i)[0] for i in range(3)] == [0, 0, 0], said
    assert re.search(r"^titanic: in state jobs for \d+ s$", said, re.MULTILINE), said
    assert "titanic waits for carpathia to connect" not in said


CABLES = "weft node --scenario triangle.yaml --set topology.management=none --backend soft --name "


@needs_machines
@pytest.mark.parametrize("dead", ["titanic", "iceberg"])
def test_over_cables_alone_the_first_that_lives_tells_the_result(place, dead):
    long = " --set 'jobs=[{all_reduce: {bytes: 64KiB, repeat: 100000}}]' -q --json="
    lines = [(host, f"{CABLES}{host}{long}{host}.json") for host in HOSTS]
    i = HOSTS.index(dead)
    lines[i] = (dead, f"{lines[i][1]}{KILLED_IN_ITS_JOBS}")
    run_machines(place, together(place, "kill", lines))
    assert_killed_in_its_jobs(place, i)
    first, other = [host for host in HOSTS if host != dead]
    for host in (first, other):
        code, _, err = ended(place, "kill", HOSTS.index(host))
        assert code == 1 and "no common result" not in err, err
    assert not (place / f"{other}.json").exists(), "one of them writes it"
    document = json.loads((place / f"{first}.json").read_text())
    assert document["result"] == "fail"
    dead_ends = [finding for finding in document["findings"] if finding["code"] == "peer.dead"]
    assert len(dead_ends) == 1 and dead in json.dumps(dead_ends[0])


@needs_machines
def test_over_cables_alone_all_are_judged(place):
    lines = [(host, f"{CABLES}{host} -q --json={host}.json") for host in HOSTS]
    run_machines(place, together(place, "run", lines))
    assert [ended(place, "run", i)[0] for i in range(3)] == [0, 0, 0], ended(place, "run", 0)
    assert json.loads((place / "titanic.json").read_text())["result"] == "pass"
    assert not (place / "iceberg.json").exists()


@needs_machines
def test_an_expected_failure_is_everybodys_success(place):
    """`expect` is judged once, by rank 0, and all exit as it says."""
    failing = (" --set 'expect={result: fail}' --set 'topology.nodes.iceberg.memlock=4KiB'")
    lines = [(host, f"{NODE}{host}{failing}") for host in HOSTS]
    run_machines(place, together(place, "fails", lines))
    assert [ended(place, "fails", i)[0] for i in range(3)] == [0, 0, 0]
    assert "PASS" in ended(place, "fails", 0)[1]


def node(*args, code=2, **environment):
    clean = {name: value for name, value in os.environ.items()
             if name not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
    done = subprocess.run([WEFT, "node", *args], cwd=ROOT, capture_output=True, text=True,
                          timeout=30, check=False, env={**clean, **environment})
    assert done.returncode == code, done.stderr
    return done.stderr


@pytest.mark.parametrize("environment, message", [
    ({}, "which host of the scenario is this?"),
    ({"WEFT_RANK": "0"}, "weft: --rank 0 needs --nranks N as well"),
    ({"WEFT_RANK": "2", "WEFT_NRANKS": "2"}, "weft: --rank: expected 0 to 1 (--nranks 2), got '2'"),
    ({"RANK": "3", "WORLD_SIZE": "3"}, "RANK: expected a rank below the number of ranks, got '3'"),
    ({"RANK": "0", "WORLD_SIZE": "none"}, "WORLD_SIZE: expected the number of ranks, got 'none'"),
    ({"RANK": "-1", "WORLD_SIZE": "3"}, "RANK: expected a rank below the number of ranks, got '-1'"),
    ({"RANK": "0", "WORLD_SIZE": "2"}, "torchrun started 2 ranks, scenarios/basic/triangle.yaml has 3"),
    ({"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "a", "MASTER_PORT": "65536"},
     "MASTER_PORT: expected a TCP port, got '65536'"),
    ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"}, "mpirun started 4 ranks"),
    ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "5"}, "srun started 5 ranks"),
])
def test_what_a_launcher_says_is_checked(environment, message):
    assert message in node("--scenario", "scenarios/basic/triangle.yaml", **environment)


@pytest.mark.parametrize("rendezvous", ["10.0.0.1", ":29500", "10.0.0.1:0", "10.0.0.1:65536",
                                        "no.such.host.invalid:29500"])
def test_a_rendezvous_that_is_none(rendezvous):
    err = node("--scenario", "scenarios/basic/triangle.yaml", "--name", "iceberg", "--rendezvous",
               rendezvous)
    assert err.startswith("weft: --rendezvous: ") and shlex.split(err)


@pytest.mark.parametrize("args, message", [
    ([], "which rank is this? --rank and --nranks"),
    (["--rank", "0", "--nranks", "2"], "weft node: the address of rank 0 is not set; use --rendezvous"),
])
def test_without_a_scenario_it_needs_to_be_told(args, message):
    assert message in node(*args)


def test_a_member_writes_its_event_log_and_its_record_to_stdout():
    """As `weft run --backend verbs --events FILE` starts it: what it lacks here is its name."""
    assert "which host of the scenario is this?" in node(
        "--scenario", "scenarios/basic/triangle.yaml", "--result", "-", "--events", "-")


@pytest.mark.parametrize("verb, args, message", [
    ("node", ["--result", "-", "--json"], "--json and --result both write to stdout"),
    ("node", ["--backend", "rxe"], "--backend: expected verbs or soft, got 'rxe'"),
    ("relayd", ["--backend", "sim", "--scenario", "x"], "--backend: expected verbs or soft, got 'sim'"),
    ("node", ["--scenario", "x", "--netdevs", "lo"], "--netdevs: only without --scenario"),
    ("relayd", ["--seed", "2"], "--seed: only with --scenario; NCCL_MESH_... of the environment are the settings of "
     "a relay for the plugin"),
])
def test_flags_without_an_effect_are_refused(verb, args, message):
    done = subprocess.run([WEFT, verb, *args], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"weft {verb}: {message}\n")


@needs_machines
def test_machines_without_a_cable_are_told_so(place):
    """The management network is theirs, but only one machine may use it for data."""
    lines = [(host, f"weft node --rank {i} --nranks 2 --rendezvous titanic:29500 --backend soft "
                    f"--netdevs p{i}") for i, host in enumerate(["titanic", "carpathia"])]
    run_machines(place, together(place, "apart", lines))
    for i in (0, 1):
        code, _, err = ended(place, "apart", i)
        assert code == 3 and "there is no cable" in err


def test_a_scenario_that_is_given_is_not_saved(tmp_path):
    err = node("--scenario", "scenarios/basic/triangle.yaml", "--name", "titanic", "--save", str(tmp_path / "s.yaml"))
    assert err == "weft node: --save: only a run without --scenario makes one\n"


@needs_machines
def test_a_scenario_that_cannot_be_saved_is_not_run(place):
    """Rank 0 says so, and the others do not find it at the job's rendezvous."""
    lines = [(host, f"weft node --rank {i} --nranks 3 --rendezvous titanic:29500 --backend soft "
                    f"--patience 5 --save /dev/full") for i, host in enumerate(HOSTS)]
    run_machines(place, together(place, "unsaved", lines))
    assert ended(place, "unsaved", 0) == (2, "", "weft: /dev/full: No space left on device\n")
    for i in (1, 2):
        code, out, _ = ended(place, "unsaved", i)
        assert code != 0 and out == ""


@needs_machines
def test_another_secret_is_refused_by_name(place):
    """Iceberg has another, carpathia none: both get an error, and rank 0 goes on waiting."""
    (place / "secret").write_text("0f" * 32 + "\n")
    lines = [("titanic", f"{NODE}titanic --secret secret & rank0=$!\n"
                         "until [ -s iceberg.json ] && [ -s carpathia.json ]; do\n"
                         "kill -0 $rank0 || { echo 'it did not go on waiting' >&2; exit 99; }\n"
                         "sleep 0.05; done\n"
                         "kill $rank0 && wait $rank0"),
             ("iceberg", f"{NODE}iceberg --secret {'f0' * 32} --result iceberg.json"),
             ("carpathia", f"{NODE}carpathia --result carpathia.json")]
    run_machines(place, together(place, "secret", lines))
    assert ended(place, "secret", 0)[0] == 128 + 15, ended(place, "secret", 0)
    for i in (1, 2):
        code, _, err = ended(place, "secret", i)
        assert code == 1 and "auth: the listener does not know the key" in err
        assert "f0f0" not in err


@pytest.mark.parametrize("text", ["0f" * 31, "0f" * 32 + "0", "0g" * 32, "", None])
def test_a_secret_that_is_none(tmp_path, text):
    path = tmp_path / "secret"
    if text is not None:
        path.write_text(text)
    err = node("--scenario", "scenarios/basic/triangle.yaml", "--name", "titanic", "--secret",
               str(path))
    assert err == (f"weft: --secret: {path}: "
                   f"{'No such file or directory' if text is None else 'not 64 hexadecimal digits'}\n")


# What torchrun's agent gives its workers (torch/distributed/elastic/agent/server), and that it keeps
# the port of MASTER_PORT for its own store meanwhile. Only iceberg's was restarted.
AGENT = ('python3 -c "import socket, subprocess, sys; s = socket.create_server((\'\', 29500)); '
         'sys.exit(subprocess.call(sys.argv[1:]))" ')


@needs_machines
def test_under_torchruns_agent(place):
    lines = []
    for i, host in enumerate(HOSTS):
        environment = (f"RANK={i} LOCAL_RANK=0 WORLD_SIZE=3 LOCAL_WORLD_SIZE=1 GROUP_RANK={i} "
                       "GROUP_WORLD_SIZE=3 ROLE_RANK=0 ROLE_NAME=default ROLE_WORLD_SIZE=3 "
                       "MASTER_ADDR=titanic MASTER_PORT=29500 TORCHELASTIC_USE_AGENT_STORE=True "
                       f"TORCHELASTIC_RESTART_COUNT={i % 2} TORCHELASTIC_MAX_RESTARTS=3 "
                       "TORCHELASTIC_RUN_ID=7 ")
        agent = AGENT if i == 0 else ""
        lines.append((host, f"{environment}{agent}weft node --scenario triangle.yaml --backend soft"))
    run_machines(place, together(place, "torch", lines))
    assert [ended(place, "torch", i)[0] for i in range(3)] == [0, 0, 0], ended(place, "torch", 0)
    assert "PASS" in ended(place, "torch", 0)[1]
