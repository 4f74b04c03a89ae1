"""What goes wrong on a real wire, each as its finding: over the kernel's soft-RoCE in a guest."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Sanitizers reserve more address space than a guest has.
WEFT = os.environ.get("WEFT_FAST", str(ROOT / "build" / "weft"))
RETRY_EXC_ERR = 12
# WR_FLUSH_ERR, or LOC_QP_OP_ERR on Linux 6.1: a device whose own port went down. Retries of
# the other end that ran out may be told first.
GIVEN_UP = {5, 2, RETRY_EXC_ERR}
BOUND_NS = 10_000_000_000

asked = subprocess.run([ROOT / "ci" / "rxe-guest", "--path"], capture_output=True, text=True,
                       check=False)
KERNEL = asked.stdout.strip()
pytestmark = pytest.mark.skipif(
    asked.returncode != 0, reason="SKIP rxe guest: no guest kernel; enable with: make rxe-guest")

SCENARIO = """
name: wire-fault
topology:
  nodes: {titanic: {ports: [p0]}, iceberg: {ports: [p0]}}
  links:
    - {endpoints: ["titanic:p0", "iceberg:p0"], subnet: 192.168.101.0/24}
jobs:
  - all_reduce: {bytes: %s, repeat: %u}
faults:
  - {at: 1s, %s}
expect: %s
"""
LONG = ("1MiB", 400)  # longer than the second after which the fault comes


@pytest.fixture(scope="module", name="place")
def fixture_place():
    """A folder that an ordinary user can read, with the program and its guest's kernel."""
    if b"__asan_init" in Path(WEFT).read_bytes():
        pytest.skip("SKIP rxe guest: only a sanitized build is there; enable with: make all")
    folder = Path(tempfile.mkdtemp(prefix="weft-test-wire."))
    shutil.copy(WEFT, folder / "weft")
    shutil.copy(KERNEL, folder / "linux")
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def run(place, job, fault, expect):
    """The document of a run that met its expectations, within a minute."""
    (place / "fault.yaml").write_text(SCENARIO % (*job, fault, expect))
    env = {name: value for name, value in os.environ.items() if not name.startswith("WEFT")}
    user = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.getuid() == 0 else {}
    done = subprocess.run(
        [place / "weft", "run", "--backend", "rxe", "fault.yaml", "--json"], cwd=place,
        env={**env, "WEFT_GUEST_KERNEL": str(place / "linux"), "HOME": "/"}, timeout=60,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **user)
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    return json.loads(done.stdout)


@pytest.mark.parametrize("port", ["titanic:p0", "iceberg:p0"])
def test_a_link_that_goes_down_is_named(place, port):
    document = run(place, LONG, f'on: "{port}", kind: down',
                   "{result: fail, findings: [link.down]}")
    assert document["symptom"]["wc_status"] in GIVEN_UP
    assert document["sim_time_ns"] < BOUND_NS
    [finding] = document["findings"]
    assert finding["code"] == "link.down"
    assert "down" in (finding["evidence"]["local_state"], finding["evidence"]["remote_state"])


def test_a_dead_peer_is_named(place):
    document = run(place, LONG, "on: iceberg, kind: kill",
                   "{result: fail, findings: [peer.dead]}")
    assert [finding["where"]["peer"] for finding in document["findings"]] == ["iceberg"]
    assert document["sim_time_ns"] < BOUND_NS


def test_a_cable_that_loses_everything_ends_in_bounded_time(place):
    """Both ports are up, so nothing decides between causes: that is what it says."""
    document = run(place, LONG, 'on: "titanic:p0", kind: loss, share: 100%',
                   "{result: fail}")
    assert document["symptom"]["wc_status"] == RETRY_EXC_ERR
    assert document["sim_time_ns"] < BOUND_NS
    [finding] = document["findings"]
    assert finding["code"] == "undetermined"
    assert finding["evidence"]["local_state"] == finding["evidence"]["remote_state"] == "up"


@pytest.mark.parametrize("fault", ["loss, share: 1%", "delay, delay: 10ms"])
def test_a_bad_cable_slows_and_data_stays_exact(place, fault):
    job = ("64KiB", 200) if "loss" in fault else LONG
    document = run(place, job, f'on: "titanic:p0", kind: {fault}', "{data: exact}")
    assert document["result"] == "pass"
    assert document["findings"] == []
    assert [job["nwrong"] for job in document["jobs"]] == [0]
    if "delay" in fault:  # most of the runs came after the fault, so the median has it
        assert document["jobs"][0]["time_ns"] >= 10_000_000
