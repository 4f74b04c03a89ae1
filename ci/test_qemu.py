"""The wire, again, on an unmodified Debian 6.12 kernel in QEMU: what is true there was true before
Linux 7.1 too, and is no peculiarity of User Mode Linux. Same outcomes as in test_rxe and
test_wire_faults; times are chosen by a run that measures how fast this machine is."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from guest_kernel import ROOT, WEFT, assert_on_the_wire, environment, is_sanitized, ordinary_user, readable_folder

PAIR = "scenarios/basic/pair.yaml"
TRIANGLE = "scenarios/basic/triangle.yaml"
SMALL = ["--set", "jobs.0.all_reduce.bytes=1MiB",
         "--set", "expect.bus_bandwidth.bytes=1MiB"]
SECOND_NS = 1_000_000_000
RETRY_EXC_ERR = 12
GIVEN_UP = {5, 2, RETRY_EXC_ERR}  # WR_FLUSH_ERR, LOC_QP_OP_ERR: whose own port went down
# From the fault to the end of all processes. All retries are 2 s at most, then the other host gets
# a notice; translated on a busy machine everything else takes ten times as long as it should.
PATIENCE_NS = 60 * SECOND_NS

asked = subprocess.run([ROOT / "ci" / "qemu-guest", "--path"], capture_output=True, text=True,
                       check=False)
GUEST = Path(asked.stdout.strip()).parent
pytestmark = pytest.mark.skipif(
    asked.returncode != 0 or not os.environ.get("WEFT_TEST_QEMU"),
    reason="SKIP qemu guest: takes minutes and QEMU; enable with: make test-qemu")


@pytest.fixture(scope="module", name="place")
def fixture_place():
    """A folder that an ordinary user can read, with the program, the guest, scenarios."""
    if is_sanitized(WEFT):
        pytest.skip("SKIP qemu guest: only a sanitized build is there; enable with: make all")
    parts = [GUEST / part for part in ("linux", "vmlinuz", "initramfs", "accel")]
    with readable_folder("weft-test-qemu.", *parts) as folder:
        yield folder


def weft(place, *args, code=0):
    """Output of a command that runs in a guest, as an ordinary user, within minutes."""
    done = subprocess.run(
        [place / "weft", *map(str, args)], cwd=place, text=True, timeout=240, check=False,
        env=environment(place / "linux"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, **ordinary_user())
    assert done.returncode == code, (done.returncode, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout, done.stderr


def run_json(place, *args, backend="rxe"):
    return json.loads(weft(place, "run", "--backend", backend, *args, "--json")[0])


@pytest.fixture(scope="module", name="pace")
def fixture_pace(place):
    """A second after everything is connected, at the earliest, and how long 1 MiB takes."""
    document = run_json(place, PAIR)
    return {"at_ns": SECOND_NS + 3 * document["sim_time_ns"],
            "run_ns": document["jobs"][0]["time_ns"]}


# --- what works ---


def test_it_is_the_unmodified_kernel(place):
    out, _ = weft(place, "guest", "--", "uname", "-rv")
    assert out.startswith("6.12.107+deb13-amd64 ") and "Debian 6.12.107-1" in out


@pytest.mark.parametrize("path, extra, n_connections", [(PAIR, [], 2), (TRIANGLE, SMALL, 6)])
def test_basic_scenarios_pass_as_an_ordinary_user(place, path, extra, n_connections):
    document = run_json(place, path, *extra)
    assert document["result"] == "pass"
    assert document["backend"] == "rxe"
    assert document["findings"] == []
    assert [job["nwrong"] for job in document["jobs"]] == [0]
    assert len(document["connections"]) == n_connections
    assert_on_the_wire(document)


def test_ports_and_gids_are_those_of_the_simulated_fabric(place):
    def connections(backend):
        document = run_json(place, TRIANGLE, *SMALL, "--set", "expect={}", backend=backend)
        return sorted([c[key] for key in ("from", "to", "local_port", "remote_port", "local_gid",
                                          "remote_gid", "gid_type", "path_mtu", "qps")]
                      for c in document["connections"])

    assert connections("rxe") == connections("sim")


def test_nothing_remains_in_the_namespace_of_all(place):
    """Rules, interfaces and devices of the run are gone; the local table is first again."""
    (place / "show").write_text("""
        ip rule; ip -6 rule; ip route show table all; ls /sys/class/infiniband /sys/class/net
        find /run/netns -type f""")
    out, _ = weft(place, "guest", "--", "sh", "-c",
                  f"mkdir /run/netns; . ./show >/run/before; ./weft run --backend rxe -q {PAIR} && "
                  ". ./show | diff /run/before - && echo same")
    assert out == "same\n"


# --- what a bad cable does ---

SCENARIO = """
name: wire
topology:
  nodes: {titanic: {ports: [p0]}, iceberg: {ports: [p0]}}
  links:
    - {endpoints: ["titanic:p0", "iceberg:p0"], subnet: 192.168.101.0/24, %s}
jobs:
  - all_reduce: {bytes: %s, repeat: %u}
faults: [%s]
expect: %s
"""
GOOD = "up: true"
FOREVER = 1_000_000


def run(place, cable, job, faults, expect):
    (place / "wire.yaml").write_text(SCENARIO % (cable, *job, faults, expect))
    return run_json(place, "wire.yaml")


@pytest.mark.parametrize("impairment", ["loss: 1%", "delay: 10ms"])
def test_a_bad_cable_slows_and_data_stays_exact(place, impairment):
    document = run(place, impairment, ("64KiB", 10), "", "{data: exact, findings: []}")
    assert [job["nwrong"] for job in document["jobs"]] == [0]
    assert_on_the_wire(document)
    if "delay" in impairment:
        assert document["jobs"][0]["time_ns"] >= 10_000_000


def test_a_fault_that_comes_and_goes_in_full_flight_is_survived(place, pace):
    """Few frames need seven tries; the job lasts until long after."""
    n_runs = 2 * pace["at_ns"] // pace["run_ns"]
    fault = 'on: "titanic:p0", kind: loss, share: 10%, for: 1s'
    document = run(place, GOOD, ("1MiB", n_runs), f"{{at: {pace['at_ns']}ns, {fault}}}",
                   "{data: exact, findings: []}")
    assert document["sim_time_ns"] > pace["at_ns"] + SECOND_NS
    assert [job["nwrong"] for job in document["jobs"]] == [0]


def broken(place, pace, fault, expect):
    """The document of a job without end that a fault ended, in bounded time."""
    document = run(place, GOOD, ("1MiB", FOREVER), f"{{at: {pace['at_ns']}ns, {fault}}}", expect)
    assert document["sim_time_ns"] < pace["at_ns"] + PATIENCE_NS
    return document


def test_a_dead_peer_is_named(place, pace):
    document = broken(place, pace, "on: iceberg, kind: kill",
                      "{result: fail, findings: [peer.dead]}")
    assert [finding["where"]["peer"] for finding in document["findings"]] == ["iceberg"]


@pytest.mark.parametrize("end", ["titanic", "iceberg"])
def test_a_link_that_goes_down_is_named(place, pace, end):
    document = broken(place, pace, f'on: "{end}:p0", kind: down',
                      "{result: fail, findings: [link.down]}")
    assert document["symptom"]["wc_status"] in GIVEN_UP
    [finding] = document["findings"]
    assert "down" in (finding["evidence"]["local_state"], finding["evidence"]["remote_state"])


def test_a_cable_that_loses_everything_ends_in_bounded_time(place, pace):
    """Both ports are up. The counters of both devices may show that frames were lost."""
    document = broken(place, pace, 'on: "titanic:p0", kind: loss, share: 100%', "{result: fail}")
    assert document["symptom"]["wc_status"] == RETRY_EXC_ERR
    [finding] = document["findings"]
    assert finding["code"] in ("link.lossy", "undetermined")
    assert finding["evidence"]["local_state"] == finding["evidence"]["remote_state"] == "up"


# --- what is refused ---


def test_what_the_kernel_cannot_express_is_said(place):
    (place / "wire.yaml").write_text(SCENARIO % ("path_limit: 1500", "64KiB", 1, "", "{}"))
    _, err = weft(place, "run", "--backend", "rxe", "wire.yaml", code=3)
    assert "backend rxe has no path_limit" in err


def test_a_router_needs_a_namespace_of_its_own(place):
    router = SCENARIO.replace("titanic: {ports: [p0]}",
                              "titanic: {ports: [p0], sysctl: {ip_forward: 1}}")
    assert router != SCENARIO
    (place / "wire.yaml").write_text(router % (GOOD, "64KiB", 1, "", "{}"))
    _, err = weft(place, "run", "--backend", "rxe", "wire.yaml", code=3)
    assert "backend rxe has no ip_forward before Linux 7.1: titanic" in err
