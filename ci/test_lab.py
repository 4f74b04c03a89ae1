"""weft exec: any programs in the hosts of a scenario, over the kernel's soft-RoCE in a guest."""

import functools
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from guest_kernel import WEFT, needs_guest

ROOT = Path(__file__).resolve().parent.parent
PAIR, TRIANGLE, TWINS, LINE = (ROOT / "scenarios" / name for name in (
    "basic/pair.yaml", "basic/triangle.yaml", "basic/twin-triangle.yaml", "partial/line-3.yaml"))
NO_TIME_STAMPS = "weft: guest: this machine lets programs read its own time stamp counter"


pytestmark = needs_guest


def needs(*programs):
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"SKIP lab program: {program} is not installed; enable with: ci/deps lab")


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")
            or name in ("WEFT_GUEST_KERNEL", "WEFT_GUEST_MEMORY", "WEFT_BUILD")}


def exec_in(*args, cwd=ROOT, env=None):
    """(exit status, stdout, stderr without what this machine's hypervisor does)."""
    done = subprocess.run([WEFT, "exec", "--time-limit", "200", *args], cwd=cwd, timeout=400,
                          env={**clean_environment(), **(env or {})}, capture_output=True, text=True,
                          check=False)
    errors = [line for line in done.stderr.splitlines() if not line.startswith(NO_TIME_STAMPS)]
    return done.returncode, done.stdout, "\n".join(errors)


@functools.cache
def has_own_time_stamps():
    """False where programs read the machine's own counter, so that what measures by it never repeats."""
    done = subprocess.run([WEFT, "exec", PAIR, "titanic", "--", "true"], cwd=ROOT, timeout=400,
                          env=clean_environment(), capture_output=True, text=True, check=False)
    return NO_TIME_STAMPS not in done.stderr


def needs_time_stamps():
    if not has_own_time_stamps():
        pytest.skip("SKIP time stamps: this machine lets programs read its own time stamp counter")


def lines_of(host, text):
    return [line.removeprefix(f"{host}: ") for line in text.splitlines() if line.startswith(f"{host}: ")]


@pytest.mark.parametrize("scenario,ports", [
    (TRIANGLE, {"titanic": 2, "iceberg": 2, "carpathia": 2}),
    (TWINS, {"titanic": 4, "iceberg": 4, "carpathia": 4}),
    (LINE, {"h0": 1, "h1": 2, "h2": 1})])
def test_a_host_has_its_own_devices_only(scenario, ports):
    """For libibverbs, in /dev and in /sys; and its own name, and a /dev/shm of its own."""
    needs("ibv_devices")
    code, out, errors = exec_in(scenario, "--", "sh", "-c", """
        hostname; ibv_devices | awk '/-p/ { print $1 }'; ls /sys/class/infiniband | cat
        ls /dev/infiniband | grep -c uverbs; ls /dev/shm | wc -l; echo > /dev/shm/{host}""")
    assert (code, errors) == (0, "")
    for host, n in ports.items():
        own = [f"{host}-p{i}" for i in range(n)]
        said = lines_of(host, out)
        assert said[0] == host
        assert sorted(said[1:1 + n]) == own and said[1 + n:1 + 2 * n] == own
        assert said[1 + 2 * n:] == [str(n), "0"]


def test_hosts_know_each_other_by_name():
    """By the management address, from everywhere; without that network by an address of a cable."""
    code, out, _ = exec_in(LINE, "--", "sh", "-c", "for h in h0 h1 h2; do getent hosts $h; done")
    assert code == 0
    for host in ("h0", "h1", "h2"):
        assert [line.split() for line in lines_of(host, out)] == [
            ["10.0.0.1", "h0"], ["10.0.0.2", "h1"], ["10.0.0.3", "h2"]]
    code, out, _ = exec_in("--set", "topology.management=none", LINE, "--", "sh", "-c",
                           "for h in h0 h1 h2; do getent hosts $h; done")
    assert code == 0
    found = {host: dict(reversed(line.split()) for line in lines_of(host, out))
             for host in ("h0", "h1", "h2")}
    assert found["h0"]["h1"] == "10.1.0.2" and found["h2"]["h1"] == "10.1.1.1"
    assert found["h1"]["h0"] == "10.1.0.1" and found["h1"]["h2"] == found["h0"]["h2"] == "10.1.1.2"


@pytest.mark.parametrize("scenario,server,client,device,peer_device,address", [
    (TRIANGLE, "titanic", "iceberg", "{device}", "{device}", "{address}"),
    (TRIANGLE, "iceberg", "carpathia", "{device}", "{device:iceberg}", "{address:iceberg}"),
    (TWINS, "titanic", "iceberg", "{device:iceberg:p3}", "{device:titanic:p1}", "{address:titanic:p1}"),
    (LINE, "h1", "h2", "{device:h2}", "{device}", "{address}")])
def test_a_ping_pong_between_hosts_is_the_same_to_the_byte(scenario, server, client, device, peer_device,
                                                           address, tmp_path):
    needs("ibv_rc_pingpong")
    ask = (scenario, server, "--", "ibv_rc_pingpong", "-g", "1", "-n", "100", "-d", device, ":",
           client, "--", "ibv_rc_pingpong", "-g", "1", "-n", "100", "-d", peer_device, address)
    one = exec_in(*ask)
    assert one[0] == 0, one
    for host in (server, client):
        assert re.search(r"^100 iters in .* usec/iter$", "\n".join(lines_of(host, one[1])), re.M)
    assert exec_in(*ask) == one
    # The figures are means, in which nothing is left of what a seed adds to a call.
    captures = [tmp_path / seed for seed in ("1", "77")]
    for path in captures:
        assert exec_in("--seed", path.name, "--pcap", path, *ask)[0] == 0
    assert captures[0].read_bytes() != captures[1].read_bytes()


def test_perftest_runs_between_hosts():
    """In this machine's time: where it lets programs read its time stamp counter, perftest's loops
    around that end in no other."""
    needs("ib_send_lat")
    code, out, errors = exec_in("--clock", "real", PAIR, "titanic", "--", "ib_send_lat", "-F", "-n", "100",
                                "-x", "1", "-d", "{device}", ":", "iceberg", "--", "ib_send_lat", "-F",
                                "-n", "100", "-x", "1", "-d", "{device}", "{address}")
    assert code == 0, out + errors
    assert any(re.match(r" 2 +100 ", line) for line in lines_of("iceberg", out)), out


def test_rdma_cm_connects_hosts():
    needs("rping")
    code, out, errors = exec_in(PAIR, "titanic", "--", "rping", "-s", "-a", "{address:titanic:p0}", "-C",
                                "3", "-v", ":", "iceberg", "--", "rping", "-c", "-a", "{address}", "-C",
                                "3", "-v")
    assert code == 0, out + errors
    assert sum("ping data" in line for line in lines_of("iceberg", out)) == 3


@pytest.mark.parametrize("command,code", [
    (("true",), 0), (("sh", "-c", "exit 7"), 7), (("sh", "-c", "kill -9 $$"), 137),
    (("sh", "-c", "kill -TERM $$"), 143), (("./no-such-program",), 127), (("/etc",), 126)])
def test_the_exit_status_of_one_is_its_own(command, code):
    assert exec_in(PAIR, "titanic", "--", *command)[0] == code


def test_one_writes_as_if_it_ran_here(tmp_path):
    """Both streams, bytes that are no lines, working directory, environment, nothing to read."""
    code, out, errors = exec_in(PAIR, "iceberg", "--", "sh", "-c", "pwd; cat; echo $NCCL_DEBUG; "
                                "printf 'no end'; echo to stderr >&2", cwd=tmp_path,
                                env={"NCCL_DEBUG": "INFO"})
    assert (code, out, errors) == (0, f"{tmp_path}\nINFO\nno end", "to stderr")


def test_the_first_that_failed_counts_and_the_others_are_ended():
    """SIGTERM ends the sleep, too, which some shells report of a command in the foreground."""
    code, out, errors = exec_in(PAIR, "--", "sh", "-c", """
        [ {host} = iceberg ] && exit 5
        trap 'echo asked; exit 9' TERM
        while :; do sleep 1 & wait; done""")
    assert code == 5 and lines_of("titanic", out) == ["asked"]
    assert errors.splitlines() == [
        "weft exec: iceberg: exit status 5",
        "weft exec: titanic still ran 10 s after the failure, and is ended",
        "weft exec: titanic: exit status 9"]


def test_who_will_not_end_is_killed():
    code, _, errors = exec_in("--patience", "3", PAIR, "titanic", "--", "sh", "-c",
                              "trap '' TERM; while :; do sleep 1; done", ":", "iceberg", "--", "false")
    assert code == 1
    assert errors.splitlines()[1:] == [
        "weft exec: titanic still ran 3 s after the failure, and is ended",
        "weft exec: titanic: signal 9 (Killed)"]


def test_after_a_failure_nothing_more_is_started():
    code, out, errors = exec_in(PAIR, "titanic", "--", "sh", "-c", "exit 4", ":", "iceberg", "--", "echo", "x")
    assert (code, out) == (4, "")
    assert "weft exec: iceberg was not started: titanic had failed" in errors


def test_each_command_begins_a_second_after_the_one_before():
    code, out, _ = exec_in(TRIANGLE, "titanic", "--", "date", "+%s", ":", "iceberg", "--", "date", "+%s", ":",
                           "carpathia", "--", "date", "+%s")
    times = [int(line.split()[1]) for line in out.splitlines()]
    assert code == 0 and [at - times[0] for at in times] == [0, 1, 2]


def test_placeholders_and_the_environment_of_hosts():
    code, out, _ = exec_in("--set", "topology.nodes.h1.env={NCCL_DEBUG: WARN}", LINE, "--", "sh", "-c",
                           "echo {rank} {host} {address:h1:p0} ${NCCL_DEBUG-none} ${host-none} {{host}}")
    assert code == 0
    assert sorted(out.splitlines()) == [f"h{i}: {i} h{i} 10.1.0.2 {'WARN' if i == 1 else 'none'} none {{host}}"
                                        for i in range(3)]


@pytest.mark.parametrize("args,said", [
    ((PAIR,), '"--" is missing before the command'),
    (("--", "true"), "a scenario's file is missing"),
    ((PAIR, "titanik", "--", "true"), "no such host: titanik; did you mean 'titanic'? (the hosts are titanic"),
    ((PAIR, "titanic", "--"), 'a command is missing behind "--"'),
    ((PAIR, "--", "x", "{adress}"), "{adress}: no such placeholder; there are {host} {rank} {peer}"),
    (("--pcap", "-", PAIR, "--", "true"), "stdout is the commands'"),
    (("--clock", "wall", PAIR, "--", "true"), "expected virtual or real")])
def test_mistakes_are_known_before_a_guest_starts(args, said):
    code, out, errors = exec_in(*args, env={"WEFT_GUEST_KERNEL": "/bin/false"})
    assert (code, out) == (2, "") and said in errors, errors


@pytest.mark.parametrize("sets,said", [
    (("topology.nodes.titanic.memlock=1MiB",), "has no memlock: titanic"),
    (('faults=[{at: jobs, on: "titanic:p0", kind: down}]',), "fault 1 (down) comes at a moment of a job"),
    (("faults=[{at: 1ms, on: titanic, kind: verb_error, verb: create_qp, errno: 12}]",),
     "fault 1 (verb_error) is made within Weft's own processes")])
def test_what_programs_cannot_have_is_refused(sets, said):
    options = [word for one in sets for word in ("--set", one)]
    code, _, errors = exec_in(*options, PAIR, "--", "true", env={"WEFT_GUEST_KERNEL": "/bin/false"})
    assert code == 3 and said in errors, errors


def test_without_a_guest_it_says_how_to_build_one(tmp_path):
    code, _, errors = exec_in(PAIR, "--", "true", env={"XDG_CACHE_HOME": str(tmp_path),
                                                       "WEFT_GUEST_KERNEL": ""})
    assert code == 3 and "make rxe-guest" in errors


# A program that answers datagrams, and one that sends eight of them, one a second, and prints the answers.
ANSWERS = """
import socket
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end.bind(("", 7))
while True:
    word, peer = end.recvfrom(99)
    end.sendto(word, peer)
    if word == b"7":
        break
"""
ASKS = """
import socket, sys, time
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end.settimeout(0.5)
for number in range(8):
    until = time.monotonic() + 1
    try:
        end.sendto(b"%d" % number, (sys.argv[1], 7))
        while int(end.recv(99)) != number:
            pass
        print(number, flush=True)
    except OSError:
        pass
    time.sleep(until - time.monotonic())
"""


@pytest.mark.parametrize("fault,came", [
    ("on: 'titanic:p0', kind: loss, share: 100%, for: 2s", "014567"),
    ("on: 'iceberg:p0', kind: down, for: 1500ms", "0134567"),
    ("on: titanic, kind: stop, for: 2700ms", "014567")])
def test_a_fault_meets_programs(tmp_path, fault, came):
    """Its time counts from when the last command starts; the same each time, in the capture too."""
    ask = ("--set", f"faults=[{{at: 1500ms, {fault}}}]", PAIR, "titanic", "--", sys.executable, "-c",
           ANSWERS, ":", "iceberg", "--", sys.executable, "-c", ASKS, "{address}")
    captures = [tmp_path / name for name in ("first", "second")]
    first, second = (exec_in("--pcap", capture, *ask) for capture in captures)
    assert first == second and first[0] == 0, first
    assert "".join(lines_of("iceberg", first[1])) == came
    assert captures[0].stat().st_size > 1000
    assert captures[0].read_bytes() == captures[1].read_bytes()


def test_a_host_that_is_killed_has_not_failed():
    code, out, errors = exec_in("--set", "faults=[{at: 5s, on: titanic, kind: kill}]", PAIR, "--", "sh", "-c",
                                "sleep 10 & sleep 10; echo {host} goes on")
    assert (code, out) == (0, "iceberg: iceberg goes on\n")
    assert errors == "weft exec: titanic: signal 9 (Killed), a fault of the scenario"


def test_a_fault_that_never_came_is_named():
    code, _, errors = exec_in("--set", 'faults=[{at: 5s, on: "titanic:p0", kind: down}]', PAIR, "--", "true")
    assert code == 0 and "fault 1 (down) did not come: the programs were over before" in errors


# ---- findings ----

WRONG_DEVICE = (TRIANGLE, "titanic", "--", "ibv_rc_pingpong", "-g", "1", "-d", "titanic-p0", ":", "iceberg", "--",
                "ibv_rc_pingpong", "-g", "1", "-d", "iceberg-p0", "{address:titanic}")


def test_a_program_that_fails_ends_with_its_finding(tmp_path):
    """On stderr, after all output; captures, output, times and the exit status do not change by it."""
    needs("ibv_rc_pingpong")
    runs = [exec_in("--patience", "1", "--pcap", tmp_path / f"{i}.pcap", *WRONG_DEVICE, env={"WEFT_FINDINGS": value})
            for i, value in enumerate(("exit", "", "off"))]
    assert runs[0] == runs[1]
    code, out, errors = runs[0]
    output, _, finding = errors.partition("\n\n")
    assert runs[2] == (code, out, output)
    assert code == 1 and finding.startswith("error route.wrong_nic at iceberg:p0 → titanic\n"), errors
    assert "weft explain route.wrong_nic" in finding and "\nerror" not in finding
    assert len({(tmp_path / f"{i}.pcap").read_bytes() for i in range(3)}) == 1


def test_one_program_alone_ends_with_its_finding():
    """Its output is not tagged."""
    needs("ibv_rc_pingpong")
    code, _, errors = exec_in(TRIANGLE, "titanic", "--", "ibv_rc_pingpong", "-d", "none")
    assert code == 1 and errors.startswith("IB device none not found\n\nerror host.no_device at titanic\n"), errors


@pytest.mark.parametrize("faults", ["", '{at: 0s, on: "titanic:p0", kind: down}'])
@pytest.mark.parametrize("command,code", [("sleep 1; exit 3", 3), ("timeout 1 sleep 9", 124)])
def test_a_program_that_fails_for_a_reason_of_its_own_has_no_finding(faults, command, code):
    """One that had nothing to do with RDMA: not even if a cable is down."""
    needs("timeout")
    got, out, errors = exec_in("--set", f"faults=[{faults}]", PAIR, "--", *(
        ("sh", "-c", command) if ";" in command else command.split()))
    assert (got, out) == (code, "")
    assert errors.splitlines() == [f"weft exec: {host}: exit status {code}" for host in ("titanic", "iceberg")]


@pytest.mark.parametrize("fault,found", [('on: "titanic:p0", kind: down', "link.down"),
                                         ("on: titanic, kind: kill", "peer.dead")])
def test_a_fault_that_ended_programs_is_the_finding(fault, found):
    needs("ibv_rc_pingpong")
    command = ("timeout", "20", "ibv_rc_pingpong", "-g", "1", "-e", "-n", "100000", "-d", "{device}")
    code, _, errors = exec_in("--patience", "1", "--set", f"faults=[{{at: 3ms, {fault}}}]", PAIR,
                              "titanic", "--", *command, ":", "iceberg", "--", *command, "{address}")
    assert code != 0 and f"\n\nerror {found} at " in errors, errors


def guests_of(folder):
    """A descriptor of each process whose command line names the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if str(folder) in (entry / "cmdline").read_bytes().decode(errors="replace"):
                found.append(os.pidfd_open(int(entry.name)))
        except (OSError, ValueError):
            continue
    return found


def await_ends(descriptors):
    for descriptor in descriptors:
        assert select.select([descriptor], [], [], 60)[0], "a process of the guest is left"
        os.close(descriptor)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, None])
def test_nothing_is_left(tmp_path, number):
    """Neither of an end by a signal nor of an end in peace, with orphans in the hosts: no process, no
    mount, no namespace, nothing in /dev/shm; a killed one leaves its folder to the next."""
    def state():
        return (Path("/proc/mounts").read_text(), sorted(os.listdir("/dev/shm")),
                sorted(os.listdir("/run/netns")) if Path("/run/netns").is_dir() else [])
    before = state()
    command = "setsid sleep 86400 & echo up; " + ("" if number is None else "sleep 86000")
    with subprocess.Popen([WEFT, "exec", "--clock", "real", PAIR, "titanic", "--", "sh", "-c", command],
                          cwd=ROOT, env={**clean_environment(), "TMPDIR": str(tmp_path)}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout.readline() == "up\n"
        guests = guests_of(tmp_path)
        assert guests or number is None
        if number is not None:
            running.send_signal(number)
        assert running.wait(timeout=100) == (0 if number is None else -number)
    await_ends(guests)
    assert not guests_of(tmp_path)
    assert state() == before
    if number is signal.SIGKILL:
        assert len(list(tmp_path.iterdir())) == 1
        assert exec_in(PAIR, "--", "true", env={"TMPDIR": str(tmp_path)})[0] == 0
    assert not list(tmp_path.iterdir())
