"""Fault cases with the kernel's soft-RoCE, in virtual time but for one: they end as on sim."""

import json
import subprocess

import pytest

from fault_cases import REAL_BOUND_S, RXE
from fault_page import ROOT, sets_elsewhere
from guest_kernel import WEFT, needs_guest

# A hundred thousand looks at the clock in a row are taken for a wait there (docs/virtual-time.md).
IN_REAL_TIME = ("calls/c57-event-storm",)


@needs_guest
@pytest.mark.parametrize("name", RXE)
def test_the_same_on_rxe(name):
    path = f"scenarios/{name}.yaml"
    sets = [word for text in sets_elsewhere(path) for word in ("--set", text)]
    clock = "real" if name in IN_REAL_TIME else "virtual"
    done = subprocess.run([WEFT, "run", "--backend", "rxe", "--clock", clock, path, *sets],
                          cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=REAL_BOUND_S, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1500:]


TRIANGLE = """
name: one-way
topology:
  nodes: {a: {ports: [p0, p1]}, b: {ports: [p0, p1]}, c: {ports: [p0, p1]}}
  links:
    - {endpoints: ["a:p0", "b:p1"], subnet: 192.168.101.0/24}
    - {endpoints: ["b:p0", "c:p1"], subnet: 192.168.102.0/24}
    - {endpoints: ["c:p0", "a:p1"], subnet: 192.168.103.0/24}
jobs:
  - all_reduce: {bytes: 16MiB, repeat: 20}
faults:
  - {at: jobs+5ms, on: "END->", kind: loss, share: 100%}
"""


@needs_guest
@pytest.mark.parametrize("end", ["a:p0", "b:p1"])
@pytest.mark.parametrize("policy, severity", [("weft", "warning"), ("nccl-2.30-subnet-aware", "error")])
def test_a_cable_that_loses_one_direction_is_named(tmp_path, policy, severity, end):
    """The kernel counts neither damaged nor too long packets. Weft goes around the cable. NCCL stalls until
    the neighbour entry of the end that hears nothing has expired, whose host then drops what it counts as sent."""
    scenario, observations = tmp_path / "s.yaml", tmp_path / "observations.json"
    scenario.write_text(TRIANGLE.replace("END", end))
    ran = subprocess.run([WEFT, "run", "--quiet", "--backend", "rxe", "--policy", policy, scenario,
                          "--observations", observations], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                         timeout=REAL_BOUND_S, check=False)
    assert ran.returncode == (0 if policy == "weft" else 1), ran.stdout[-3000:] + ran.stderr[-1500:]
    judged = subprocess.run([WEFT, "diagnose", "--json", observations], capture_output=True, text=True,
                            timeout=REAL_BOUND_S, check=False)
    found = [(finding["code"], finding["severity"], {finding["where"]["host"], finding["where"]["peer"]})
             for finding in json.loads(judged.stdout)["findings"]]
    assert found == [("link.one_way", severity, {"a", "b"})], judged.stdout


@needs_guest
@pytest.mark.parametrize("impairment, codes", [("loss", ["link.lossy"] * 3), ("corrupt", [])])
def test_lost_frames_that_a_job_survives_are_a_warning(tmp_path, impairment, codes):
    """rxe counts no damaged packets. The netdevs' counters show that the lost ones did not arrive."""
    observations = tmp_path / "observations.json"
    ran = subprocess.run([WEFT, "run", "--quiet", "--backend", "rxe", "--clock", "virtual",
                          "scenarios/faults/loss.yaml", "--set",
                          f"topology.defaults={{ports: [p0, p1], {impairment}: 0.1%}}",
                          "--observations", observations], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True,
                         text=True, timeout=REAL_BOUND_S, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-1500:]
    judged = subprocess.run([WEFT, "diagnose", "--json", observations], capture_output=True, text=True,
                            timeout=REAL_BOUND_S, check=False)
    assert [finding["code"] for finding in json.loads(judged.stdout)["findings"]] == codes, judged.stdout
