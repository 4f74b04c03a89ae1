"""What goes wrong on a real wire, each as its finding: over the kernel's soft-RoCE in a guest."""

import json
import subprocess

import pytest

from guest_kernel import KERNEL, environment, needs_guest, ordinary_user, readable_folder

RETRY_EXC_ERR = 12
# WR_FLUSH_ERR, or LOC_QP_OP_ERR on Linux 6.1: what rdma_rxe completes with when its own host
# did not take a packet, because its port is down.
OWN_LINK_DOWN = {5, 2}
SECOND_NS = 1_000_000_000
# Seven times of 4.096 us * 2^16, as software is waited for, and the guest's ticks of 10 ms.
TIMEOUT_NS = 4096 << 16
RETRIES_NS = 6 * TIMEOUT_NS
# All from the fault on. What a port or a stream reports; and what nothing does, until retries have run
# out.
LIMIT_NS = 2 * SECOND_NS
FAILOVER_NS = 3 * SECOND_NS  # how long a flow over software looks for another way
RETRIED_NS = 7 * TIMEOUT_NS + FAILOVER_NS + SECOND_NS // 2
# After a fault that no port reports: one to two seconds of silence before a sign of life is asked
# for, its retries, and what a flow looks for another way.
SILENT_NS = RETRIED_NS + 2 * SECOND_NS
# The kernel keeps a queue pair for as long as its packets wait for a neighbour: three requests,
# a second apart.
BOUND_NS = RETRIED_NS + 4 * SECOND_NS

pytestmark = needs_guest

SCENARIO = """
name: wire-fault
topology:
  nodes: {titanic: {ports: [p0]}, iceberg: {ports: [p0]}}
  links:
    - {endpoints: ["titanic:p0", "iceberg:p0"], subnet: 192.168.101.0/24}
jobs:
  - all_reduce: {bytes: %s, repeat: %u}
faults: [%s]
expect: %s
"""
LONG = ("1MiB", 40)


@pytest.fixture(scope="module", name="place")
def fixture_place():
    """A folder that an ordinary user can read, with the program and its guest's kernel."""
    with readable_folder("weft-test-wire.", KERNEL) as folder:
        (folder / "out").mkdir()
        (folder / "out").chmod(0o777)
        yield folder


def run(place, job, faults, expect, backend="rxe"):
    """The document of a run that met its expectations, what each host saw, and when the (first) fault
    came. `faults`: the one that comes 1 ms into the jobs, or several with their times. All
    times are virtual, so that they are the same on any machine."""
    flow = [f"at: jobs+1ms, {faults}"] if isinstance(faults, str) else faults
    (place / "fault.yaml").write_text(
        SCENARIO % (*job, ", ".join(f"{{{fault}}}" for fault in flow), expect))
    seen, story = place / "out" / "seen.json", place / "out" / "story"
    done = subprocess.run(
        [place / "weft", "run", "--backend", backend, "--clock", "virtual", "fault.yaml", "--json",
         "--observations", seen, "--events", story],
        cwd=place, env=environment(place / "linux"), timeout=120,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **ordinary_user())
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    lines = [line.split(" ") for line in story.read_text().splitlines()]
    at_ns = min(int(line[0]) for line in lines if line[3] == "fault")
    hosts = json.loads(seen.read_text())["hosts"]
    return json.loads(done.stdout), {host["name"]: host for host in hosts}, at_ns


def own_failures(hosts):
    """(host, completion status, when) of what hosts met themselves, the first first."""
    found = [(host["name"], error["wc_status"], error["at_ns"])
             for host in hosts.values() for error in host["errors"] if not error["hearsay"]]
    return sorted(found, key=lambda failure: failure[2])


@pytest.mark.parametrize("end", ["titanic", "iceberg"])
def test_a_link_that_goes_down_is_named(place, end):
    """The end whose port was taken down gives up at once. The carrier of a veth is shared: the
    other end's port goes down as well, and what it still sends either meets that, or waits for a
    neighbour that the kernel has forgotten, until its retries run out."""
    document, hosts, fault_ns = run(place, LONG, f'on: "{end}:p0", kind: down',
                                    "{result: fail, findings: [link.down]}")
    failures = own_failures(hosts)
    assert failures
    for host, wc_status, at_ns in failures:
        assert 0 <= at_ns - fault_ns < RETRIED_NS
        assert wc_status in OWN_LINK_DOWN or (
            host != end and wc_status == RETRY_EXC_ERR and at_ns - fault_ns > RETRIES_NS), failures
    assert document["symptom"]["wc_status"] == failures[0][1]
    assert document["sim_time_ns"] - fault_ns < BOUND_NS
    [finding] = document["findings"]
    assert finding["code"] == "link.down"
    assert finding["where"]["host"] in {host for host, _, _ in failures}
    assert finding["evidence"]["local_state"] == finding["evidence"]["remote_state"] == "down"


def test_a_dead_peer_is_named(place):
    document, hosts, fault_ns = run(place, LONG, "on: iceberg, kind: kill",
                                    "{result: fail, findings: [peer.dead]}")
    assert [finding["where"]["peer"] for finding in document["findings"]] == ["iceberg"]
    [error] = hosts["titanic"]["errors"]  # it saw the stream end, and did not wait for retries
    assert 0 <= error["at_ns"] - fault_ns < SECOND_NS
    assert document["sim_time_ns"] - fault_ns < LIMIT_NS


@pytest.mark.parametrize("end, code", [("titanic:p0", "link.lossy"), ("titanic:p0->", "link.one_way"),
                                       ("iceberg:p0->", "link.one_way")])
def test_a_cable_that_loses_everything_ends_in_bounded_time(place, end, code):
    """Both ports are up. The counters of both devices, and what their netdevs received, show where."""
    document, hosts, fault_ns = run(place, LONG, f'on: "{end}", kind: loss, share: 100%', "{result: fail}")
    assert document["symptom"]["wc_status"] == RETRY_EXC_ERR
    for _, wc_status, at_ns in own_failures(hosts):
        assert wc_status == RETRY_EXC_ERR
        assert RETRIES_NS < at_ns - fault_ns < SILENT_NS
    assert document["sim_time_ns"] - fault_ns < SILENT_NS
    [finding] = document["findings"]
    assert finding["code"] == code
    assert finding["evidence"]["local_state"] == finding["evidence"]["remote_state"] == "up"


def test_a_cable_that_loses_some_is_survived(place):
    document, _, _ = run(place, ("64KiB", 200), 'on: "titanic:p0", kind: loss, share: 1%',
                      "{data: exact}")
    assert document["result"] == "pass"
    # What is lost and repeated may be reported, where it is counted.
    assert all("survived" in finding["evidence"] for finding in document["findings"])
    assert [job["nwrong"] for job in document["jobs"]] == [0]


def test_a_slow_cable_slows_and_data_stays_exact(place):
    """From the beginning."""
    document, _, _ = run(place, ("1MiB", 50), ['at: 0s, on: "titanic:p0", kind: delay, delay: 10ms'],
                      "{data: exact}")
    assert document["result"] == "pass" and document["findings"] == []
    assert [job["nwrong"] for job in document["jobs"]] == [0]
    assert document["jobs"][0]["time_ns"] >= 10_000_000


@pytest.mark.parametrize("backend", ["rxe", "soft"])
@pytest.mark.parametrize("down, up", [
    ("titanic:p0->", "titanic:p0"), ("titanic:p0<-", "titanic:p0"), ("titanic:p0->", "iceberg:p0"),
    ("titanic:p0->", "titanic:p0->"), ("iceberg:p0<-", "titanic:p0->"), ("titanic:p0->", None)])
def test_a_direction_that_is_down_carries_again_after_up(place, backend, down, up):
    """An `up` of the cable or of the direction, at either end, or the end of the `down` itself. Frames
    are lost for a time that retries outlast. Nothing arrives if it is not ended: the job fails then."""
    long = "" if up else ", for: 20ms"
    faults = [f'at: jobs+1ms, on: "{down}", kind: down{long}']
    faults += [f'at: jobs+21ms, on: "{up}", kind: up'] if up else []
    document, hosts, fault_ns = run(place, LONG, faults, "{data: exact}", backend=backend)
    assert document["result"] == "pass" and own_failures(hosts) == []
    assert document["sim_time_ns"] - fault_ns > 20_000_000


@pytest.mark.parametrize("up", ["titanic:p0", "titanic:p0<-"])
def test_an_up_ends_a_down_and_nothing_else(place, up):
    """All frames of one direction are lost by another fault; or it is that direction which stays down."""
    faults = [f'at: jobs+1ms, on: "titanic:p0->", kind: {"down" if up[-1] == "-" else "loss, share: 100%"}',
              f'at: jobs+2ms, on: "{up}", kind: up']
    document, _, _ = run(place, LONG, faults, "{result: fail}")
    assert document["symptom"]["wc_status"] == RETRY_EXC_ERR


def test_a_cable_that_changes_in_full_flight_loses_nothing(place):
    """rdma_rxe gives a queue pair up when its own host drops a packet: what makes a cable worse or
    better must not be put in or taken out while it is in use."""
    faults = [f'at: jobs+{i}ms, for: 500us, on: "titanic:p0", kind: delay, delay: 100us'
              for i in range(1, 41)]
    document, hosts, fault_ns = run(place, ("1MiB", 400), faults, "{data: exact}")
    assert document["result"] == "pass"
    assert own_failures(hosts) == []
    assert document["sim_time_ns"] > fault_ns + 10_000_000  # ten of them came while it was under way
    assert [link["drops"] for link in document["links"]] == [0, 0]
