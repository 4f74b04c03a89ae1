"""The wire, again, on an unmodified Debian 6.12 kernel in QEMU: what holds there held before Linux 7.1
too, and is no peculiarity of User Mode Linux. The stories are those of test_rxe and
test_wire_faults, word for word."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import test_wire_faults
# The very same stories, with this file's place. pylint: disable=unused-import
from test_rxe import (  # noqa: F401
    PAIR, SMALL, TRIANGLE, assert_on_the_wire, run_json,
    test_ports_and_gids_are_those_of_the_simulated_fabric,
    test_what_the_kernel_cannot_express_is_said, weft)
from test_wire_faults import (  # noqa: F401
    test_a_bad_cable_slows_and_data_stays_exact,
    test_a_cable_that_loses_everything_ends_in_bounded_time,
    test_a_dead_peer_is_named, test_a_link_that_goes_down_is_named)

ROOT = Path(__file__).resolve().parent.parent
# Sanitizers reserve more address space than a guest has.
WEFT = os.environ.get("WEFT_FAST", str(ROOT / "build" / "weft"))

asked = subprocess.run([ROOT / "ci" / "qemu-guest", "--path"], capture_output=True, text=True,
                       check=False)
GUEST = Path(asked.stdout.strip()).parent
pytestmark = pytest.mark.skipif(
    asked.returncode != 0 or not os.environ.get("WEFT_TEST_QEMU"),
    reason="SKIP qemu guest: takes minutes and QEMU; enable with: make test-qemu")


@pytest.fixture(autouse=True)
def fixture_faults_come_later(monkeypatch):
    """Translated code needs a second or two until hosts are connected; jobs last longer."""
    later = test_wire_faults.SCENARIO.replace("{at: 1s,", "{at: 3s,")
    assert later != test_wire_faults.SCENARIO
    monkeypatch.setattr(test_wire_faults, "SCENARIO", later)


@pytest.fixture(scope="module", name="place")
def fixture_place():
    """A folder that an ordinary user can read, with the program, the guest, scenarios."""
    if b"__asan_init" in Path(WEFT).read_bytes():
        pytest.skip("SKIP qemu guest: only a sanitized build is there; enable with: make all")
    folder = Path(tempfile.mkdtemp(prefix="weft-test-qemu."))
    for part in ("linux", "vmlinuz", "initramfs", "accel"):
        shutil.copy(GUEST / part, folder)
    shutil.copy(WEFT, folder / "weft")
    shutil.copytree(ROOT / "scenarios", folder / "scenarios")
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_it_is_the_unmodified_kernel(place):
    out, _ = weft(place, "guest", "--", "uname", "-rv")
    assert out.startswith("6.12.107+deb13-amd64 ") and "Debian 6.12.107-1" in out


@pytest.mark.parametrize("path, extra, n_connections", [(PAIR, [], 2), (TRIANGLE, SMALL, 6)])
def test_basic_scenarios_pass_as_an_ordinary_user(place, path, extra, n_connections):
    document = run_json(place, path, *extra)
    assert document["result"] == "pass"
    assert document["trace_hash"] is None
    assert document["findings"] == []
    assert [job["nwrong"] for job in document["jobs"]] == [0]
    assert len(document["connections"]) == n_connections
    assert_on_the_wire(document)


def test_a_fault_that_ends_leaves_nothing_behind(place):
    """All frames are corrupt for less time than the retries last; then the cable is good again."""
    document = test_wire_faults.run(
        place, ("256KiB", 400), 'on: "titanic:p0", kind: corrupt, share: 100%, for: 150ms',
        "{data: exact}")
    assert document["findings"] == []


ROUTER = """
name: router
topology:
  nodes:
    titanic: {ports: [p0], sysctl: {ip_forward: 1}}
    iceberg: {ports: [p0]}
  links:
    - {endpoints: ["titanic:p0", "iceberg:p0"], subnet: 192.168.101.0/24}
jobs:
  - all_reduce: {bytes: 64KiB}
"""


def test_a_router_needs_a_namespace_of_its_own(place):
    (place / "router.yaml").write_text(ROUTER)
    _, err = weft(place, "run", "--backend", "rxe", "router.yaml", code=3)
    assert "backend rxe has no ip_forward before Linux 7.1: titanic" in err


def test_nothing_remains_in_the_namespace_of_all(place):
    """Rules, interfaces and devices of the run are gone; the local table is first again."""
    out, _ = weft(place, "guest", "--", "sh", "-c",
                  f"./weft run --backend rxe -q {PAIR} && ip rule && ip -6 rule && "
                  "ls /run/netns /sys/class/infiniband /sys/class/net && ./weft cleanup")
    lines = [" ".join(line.split()) for line in out.splitlines() if line]
    assert lines[-11:] == [
        "0: from all lookup local", "32766: from all lookup main", "32767: from all lookup default",
        "0: from all lookup local", "32766: from all lookup main",
        "/run/netns:", "/sys/class/infiniband:", "/sys/class/net:", "lo", "0 removed"][-11:]
