"""Scenarios over the Linux kernel's soft-RoCE, in a guest kernel, as an ordinary user."""

import json
import os
import re
import signal
import struct
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from guest_kernel import (KERNEL, PROVIDERS, assert_on_the_wire, environment, needs_guest, needs_providers,
                          ordinary_user, readable_folder)

PAIR = "scenarios/basic/pair.yaml"
TRIANGLE = "scenarios/basic/triangle.yaml"
SMALL = ["--set", "jobs.0.all_reduce.bytes=1MiB",
         "--set", "expect.bus_bandwidth.bytes=1MiB"]

pytestmark = [needs_guest, needs_providers]


@pytest.fixture(scope="module", name="place")
def fixture_place():
    with readable_folder("weft-test-rxe.", KERNEL) as folder:
        yield folder


def dispose(disposition):
    """What SIGINT does to a child, whatever it does to us: a shell's background jobs ignore it."""
    return lambda: signal.signal(signal.SIGINT, disposition)


def start(place, *args, on_sigint=signal.SIG_DFL):
    return subprocess.Popen(
        [place / "weft", *map(str, args)], cwd=place, env=environment(place / "linux"), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=dispose(on_sigint), **ordinary_user())


def weft(place, *args, code=0, timeout=120):
    process = start(place, *args)
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == code, (process.returncode, out[-3000:], err[-3000:])
    return out, err


def run_json(place, *args, **kwargs):
    out, _ = weft(place, "run", "--backend", "rxe", *args, "--json", **kwargs)
    return json.loads(out)


def guests(place):
    """Processes that run our copy of the guest's kernel; others may test beside us."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "exe") == str(place / "linux"):
                found.add(int(process.name))
        except OSError:
            continue
    return found


def folders(place):
    """Scratch folders of guests that our copy of the program made."""
    return {link.parent for link in Path("/tmp").glob("weft-guest.*/init")
            if os.path.islink(link) and os.readlink(link) == str(place / "weft")}


@pytest.fixture(autouse=True)
def nothing_remains(place):
    yield
    assert folders(place) == set()
    wait_for(lambda: guests(place) == set())  # the kernel's helpers die after it


def wait_for(condition):
    """Or hangs: two minutes are far more than a busy machine needs."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("path, extra, n_connections", [(PAIR, [], 2), (TRIANGLE, SMALL, 6)])
def test_basic_scenarios_pass_as_an_ordinary_user(place, path, extra, n_connections):
    document = run_json(place, path, *extra)
    assert document["result"] == "pass"
    assert document["backend"] == "rxe"
    assert document["trace_hash"] is None
    assert [job["nwrong"] for job in document["jobs"]] == [0]
    assert len(document["connections"]) == n_connections
    assert_on_the_wire(document)


def test_up_to_64_mib_is_exact_in_the_memory_a_guest_has(place):
    document = run_json(place, TRIANGLE, "--set", "jobs.0.all_reduce.bytes=[8,64KiB,4MiB,64MiB]",
                        "--set", "expect={data: exact}")
    assert document["result"] == "pass"
    assert [job["size_bytes"] for job in document["jobs"]] == [8, 1 << 16, 1 << 22, 1 << 26]
    assert [job["nwrong"] for job in document["jobs"]] == [0] * 4
    assert_on_the_wire(document)


def test_ports_and_gids_are_those_of_the_simulated_fabric(place):
    def connections(backend):
        out, _ = weft(place, "run", "--backend", backend, TRIANGLE, *SMALL, "--set",
                      "expect={}", "--json")
        return sorted(
            [[c[key] for key in ("from", "to", "local_port", "remote_port", "local_gid",
                                 "remote_gid", "gid_type", "path_mtu", "qps")]
             for c in json.loads(out)["connections"]])

    assert connections("rxe") == connections("sim")


# Which ranks reach each other over whom, and over how many rails.
@pytest.mark.parametrize("path, relayed, n_direct", [
    ("partial/line-3", {("h0", "h2"), ("h2", "h0")}, 4),
    ("partial/line-3-relay", {("h0", "h2"), ("h2", "h0")}, 0),
    ("partial/ring-4", set(), 8),
    ("basic/twin-triangle", set(), 12),
    ("basic/four-ranks", set(), 12),
])
def test_meshes_of_other_shapes_and_exact_data(place, path, relayed, n_direct):
    document = run_json(place, f"scenarios/{path}.yaml")
    assert document["result"] == "pass"
    assert document["jobs"] and {job["nwrong"] for job in document["jobs"]} == {0}
    via = {(c["from_host"], c["to_host"]): c["via"] for c in document["connections"] if c["via"]}
    assert len([c for c in document["connections"] if not c["via"]]) == n_direct
    if relayed:
        assert via == {pair: ["h1"] for pair in relayed}
    elif path == "partial/ring-4":  # opposite corners, over either of their neighbours
        assert {tuple(sorted(pair)) for pair in via} == {("h0", "h2"), ("h1", "h3")}
    else:
        assert not via
    assert_on_the_wire(document)


@pytest.mark.parametrize("boot, path", [("neighbours", "basic/four-ranks"),
                                        ("neighbours", "partial/line-3-relay"),
                                        ("static", "basic/triangle"),
                                        ("static", "partial/line-3")])
def test_without_a_management_network(place, boot, path):
    document = run_json(place, f"scenarios/{path}.yaml", "--set", "topology.management=none",
                        "--set", f"boot={boot}", "--set",
                        "jobs=[{all_reduce: {bytes: [8, 1MiB]}}]", "--set", "expect={data: exact}")
    assert document["result"] == "pass"
    assert [job["nwrong"] for job in document["jobs"]] == [0, 0]
    assert_on_the_wire(document)


def test_without_the_provider_a_finding_names_it(place):
    out, _ = weft(place, "guest", "--", "sh", "-c",
                  "".join(f"mount -t tmpfs none {folder} && " for folder in PROVIDERS) +
                  f"exec ./weft run --backend rxe {PAIR} --json", code=1)
    document = json.loads(out)
    assert {finding["code"] for finding in document["findings"]} == {"host.no_device"}
    assert set(name for name, value in document["counters"].items() if value) == set()


def assert_nothing_of_ours(words):
    """In the words of ls /run/netns /sys/class/infiniband /sys/class/net; weft cleanup, in a guest."""
    own = {"dummy0", "lo", "sit0", "bond0", "bonding_masters"}
    assert [word for word in words if word not in own] == [
        "/run/netns:", "/sys/class/infiniband:", "/sys/class/net:", "0", "removed"]


KILLED = """
name: killed
topology:
  nodes: {titanic: {ports: [p0, p1]}, iceberg: {ports: [p0, p1]}, carpathia: {ports: [p0, p1]}}
  links:
    - {endpoints: ["titanic:p0", "iceberg:p1"], subnet: 192.168.101.0/24}
    - {endpoints: ["iceberg:p0", "carpathia:p1"], subnet: 192.168.100.0/24}
    - {endpoints: ["carpathia:p0", "titanic:p1"], subnet: 192.168.102.0/24}
jobs:
  - all_reduce: {bytes: 4MiB, repeat: 200}
faults:
  - {at: 1s, on: iceberg, kind: kill}
expect:
  result: fail
  findings: [peer.dead]
"""


@pytest.mark.parametrize("at", ["0s", "50ms", "150ms", "250ms", "350ms", "450ms", "600ms", "800ms",
                                "1s", "1500ms"])
def test_a_killed_host_is_named_and_nothing_remains(place, at):
    (place / "killed.yaml").write_text(KILLED)
    out, _ = weft(place, "guest", "--", "sh", "-c",
                  f"./weft run --backend rxe killed.yaml --set faults.0.at={at} --json; "
                  "echo; ls /run/netns /sys/class/infiniband /sys/class/net; ./weft cleanup")
    document, rest = out.split("\n}\n", 1)
    document = json.loads(document + "\n}")
    assert document["result"] == "pass", document["expectations"]
    assert [f["where"]["peer"] for f in document["findings"]] == ["iceberg"]
    # No limit passed: the others got a notice of the end, or saw the streams end.
    assert "did not come" not in document["symptom"]["text"]
    if at == "0s":
        assert "ended before it came" in document["symptom"]["text"]
    assert_nothing_of_ours(rest.split())


def events_of(place, backend, scenario):
    """(time, host, object, event, {key: value}) of each line of the story."""
    out, _ = weft(place, "run", "--backend", backend, scenario, "--events", "-", "-q")
    for line in out.splitlines():
        at, host, what, event, *rest = line.split(" ")
        yield int(at), host, what, event, dict(pair.split("=", 1) for pair in rest)


def test_the_processes_tell_one_story(place):
    """The same work requests and jobs as on the simulated fabric, in the order of time."""
    logged = {}
    for backend in ("sim", "rxe"):
        logged[backend] = events = list(events_of(place, backend, PAIR))
        times = [event[0] for event in events]
        assert times == sorted(times) and times[0] >= 0

    def counts(backend, event, *keys):
        found = Counter((host, *(values.get(key) for key in keys))
                        for _, host, _, name, values in logged[backend] if name == event)
        assert found
        return found

    for event, keys in (("start", ("bytes", "algorithm")), ("done", ("bytes", "wrong")),
                        ("up", ("from",)), ("gathered", ("ranks",))):
        assert counts("rxe", event, *keys) == counts("sim", event, *keys), event
    # A queue's receives are posted again a batch at a time, so at the end up to a batch is
    # missing, and how many is a matter of when it was polled. WRITEs of no bytes mark the end of a
    # queue that is drained, which the end does that hears of the other's close. All others are as many.
    posted = {backend: counts(backend, "post", "opcode", "bytes") for backend in logged}
    for backend in logged:
        posted[backend] = Counter({key: n for key, n in posted[backend].items()
                                   if key[1:] != ("RDMA_WRITE", "0") and key[1] != "RECV"})
    assert posted["rxe"] == posted["sim"]
    arrived = {backend: counts(backend, "complete", "opcode", "status") for backend in logged}
    key = ("RECV_RDMA_WITH_IMM", "SUCCESS")
    for host in ("titanic", "iceberg"):
        assert arrived["rxe"][host, *key] == arrived["sim"][host, *key] > 0
    # Whatever was posted came back, but for the same number of unsignaled sends.
    lost = {backend: Counter(event[1] for event in events if event[3] == "post")
            for backend, events in logged.items()}
    for backend, events in logged.items():
        lost[backend].subtract(event[1] for event in events if event[3] == "complete")
    assert lost["rxe"] == lost["sim"]
    polled = counts("rxe", "complete", "status")
    assert {(host, "SUCCESS") for host in ("titanic", "iceberg")} <= set(polled)


def test_a_killed_host_has_told_its_part(place):
    (place / "killed.yaml").write_text(KILLED.replace("at: 1s", "at: titanic sent 20MiB"))
    events = list(events_of(place, "rxe", "killed.yaml"))
    [fault] = [event for event in events if event[3] == "fault"]
    assert fault[1:] == ("iceberg", "host", "fault", {"kind": "kill"})
    logged = {host: {event[3] for event in events if event[1] == host}
              for host in ("titanic", "iceberg", "carpathia")}
    assert "post" in logged["iceberg"] and "error" not in logged["iceberg"]
    assert "error" in logged["titanic"] and "error" in logged["carpathia"]


def frames_of(path):
    """(interface, time, outgoing, bytes) of each packet of a pcapng file."""
    data = path.read_bytes()
    interfaces = []
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        body = data[at + 8:at + length - 4]
        if kind == 1:  # interface description; if_name is its first option
            code, n = struct.unpack_from("<HH", body, 8)
            assert code == 2
            interfaces.append(body[12:12 + n].decode())
        elif kind == 6:
            interface, high, low, n, whole = struct.unpack_from("<IIIII", body)
            assert n == whole
            flags, = struct.unpack_from("<I", body, 20 + (n + 3) // 4 * 4 + 4)
            yield interfaces[interface], high << 32 | low, flags == 2, body[20:20 + n]
        at += length


def test_a_capture_has_every_frame_of_every_port(place):
    folder = place / "captures"
    folder.mkdir()
    folder.chmod(0o777)
    document = run_json(place, PAIR, "--pcap", folder / "pair.pcapng")
    frames = list(frames_of(folder / "pair.pcapng"))
    times = [frame[1] for frame in frames]
    assert times == sorted(times)
    assert 0 <= times[0] and times[-1] <= document["sim_time_ns"] + 1_000_000_000
    roce = [(port, out, data) for port, _, out, data in frames
            if data[12:14] == b"\x08\x00" and data[23] == 17 and data[36:38] == b"\x12\xb7"]
    found = Counter(f"roce_frames.{port.replace(':', '.')}" for port, _, _ in roce)
    counted = {name: value for name, value in document["counters"].items()
               if name.startswith("roce_frames.") and not name.endswith(".mgmt0")}
    assert found == counted and document["counters"]["capture_lost"] == 0
    # What leaves one end of the cable comes in at the other, byte for byte.
    sent = Counter(data for port, out, data in roce if port == "titanic:p0" and out)
    came = Counter(data for port, out, data in roce if port == "iceberg:p0" and not out)
    assert sent == came and sent


LOSSY = """
name: lossy
topology:
  nodes: {titanic: {ports: [p0]}, iceberg: {ports: [p0]}}
  links:
    - {endpoints: ["titanic:p0", "iceberg:p0"], subnet: 192.168.101.0/24, %s}
jobs:
  - all_reduce: {bytes: 64KiB}
"""


@pytest.mark.parametrize("impairment", ["loss: 1%", "delay: 10ms", "rate: 100Mbps"])
def test_netem_slows_and_drops_and_data_stays_exact(place, impairment):
    (place / "lossy.yaml").write_text(LOSSY % impairment)
    document = run_json(place, "lossy.yaml")
    assert document["result"] == "pass"
    assert_on_the_wire(document)
    if impairment == "delay: 10ms":
        assert document["jobs"][0]["time_ns"] >= 10_000_000


def test_what_the_kernel_cannot_express_is_said(place):
    (place / "lossy.yaml").write_text(LOSSY % "path_limit: 1500")
    _, err = weft(place, "run", "--backend", "rxe", "lossy.yaml", code=3)
    assert "backend rxe has no path_limit" in err


FOR_EVER = ["--set", "jobs.0.all_reduce.repeat=100000"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("when", ["booting", "running"])
def test_interrupted_it_leaves_nothing(place, number, when):
    process = start(place, "run", "--backend", "rxe", PAIR, *FOR_EVER)
    if when == "booting":
        wait_for(lambda: folders(place))
    else:
        assert process.stdout.readline().startswith("pair")  # said in the guest
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert folders(place) == set()


def test_an_interrupt_that_is_ignored_is_ignored(place):
    """As under nohup, and in the background of a shell."""
    process = start(place, "run", "--backend", "rxe", PAIR, on_sigint=signal.SIG_IGN)
    assert process.stdout.readline().startswith("pair")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


def test_interrupted_on_its_own_kernel_it_takes_the_world_down(place):
    """As root on a kernel with soft-RoCE: the guest's. Both hosts run when the signal comes."""
    out, err = weft(place, "guest", "--time-limit", "60", "--", "sh", "-c",
                    f"./weft run --backend rxe {PAIR} {' '.join(FOR_EVER)} >/dev/null & "
                    "until [ $(grep -alz '^node$' /proc/[0-9]*/cmdline | wc -l) = 2 ]; do "
                    "kill -0 $! || { echo it ended before both hosts ran; exit 99; }; "
                    "sleep 0.05; done; "
                    "kill -TERM $!; wait $!; echo $?; "
                    "ls /run/netns /sys/class/infiniband /sys/class/net; ./weft cleanup")
    assert out.split()[0] == "130", (out, err)
    assert_nothing_of_ours(out.split()[1:])


def test_cleanup_removes_what_a_killed_run_left(place):
    process = start(place, "run", "--backend", "rxe", PAIR, "--set",
                    "jobs.0.all_reduce.repeat=100000")
    wait_for(lambda: guests(place))
    process.kill()
    process.communicate(timeout=30)
    wait_for(lambda: guests(place) == set())  # a guest dies with its owner
    assert len(folders(place)) == 1
    out, _ = weft(place, "cleanup")
    assert re.fullmatch(r"[1-9]\d* removed\n", out)  # and what others' runs have left
    assert folders(place) == set()


def test_a_guest_has_a_time_limit(place):
    _, err = weft(place, "guest", "--time-limit", "2", "--", "sleep", "60", code=124)
    assert "not done within 2 s" in err


def test_a_guest_has_the_memory_of_the_machine_or_what_is_asked_for(place):
    def total_mib(**extra):
        done = subprocess.run([place / "weft", "guest", "--", "grep", "MemTotal", "/proc/meminfo"],
                              cwd=place, env={**environment(place / "linux"), **extra}, text=True, timeout=60,
                              capture_output=True, check=True, stdin=subprocess.DEVNULL, **ordinary_user())
        return int(done.stdout.split()[1]) / 1024

    half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE") / 2 ** 21
    expected = min(max(half, 1024), 4096)
    assert 0.9 * expected < total_mib() <= expected
    assert 0.8 * 256 < total_mib(WEFT_GUEST_MEMORY="256") <= 256


def test_without_a_guest_it_says_how_to_get_one(place):
    env = {**environment(place / "linux"), "XDG_CACHE_HOME": "/nonexistent"}
    del env["WEFT_GUEST_KERNEL"]
    done = subprocess.run([place / "weft", "run", "--backend", "rxe", PAIR], cwd=place, env=env,
                          capture_output=True, text=True, check=False, timeout=60, **ordinary_user())
    assert done.returncode == 3
    assert "make rxe-guest" in done.stderr
