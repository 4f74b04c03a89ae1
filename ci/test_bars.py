"""What the project promises about the simulated triangle, as figures."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT_FAST", str(ROOT / "build" / "weft"))
TRIANGLE = "scenarios/basic/triangle.yaml"

# The mlx5 profile and the scenario: 300 ns from doorbell to first bit, 200 ns from last bit to
# execution, 150 ns to a visible completion, 1 us of cable.
NIC_NS = 300 + 200 + 150
CABLE_NS = 1000


def run(*args):
    done = subprocess.run([WEFT, "run", TRIANGLE, "--json", *args], cwd=ROOT, timeout=600,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def wire_ns(payload):
    """One WRITE_WITH_IMM at 100 Gb/s: Ethernet 38, IPv4 20, UDP 8, BTH 12, RETH 16, imm 4, ICRC 4."""
    return (38 + 20 + 8 + 12 + 16 + 4 + payload + 4) * 8 / 100


@pytest.mark.heavy
def test_all_reduce_of_256_mib_reaches_its_share_of_the_bound():
    job = run("--set", "jobs.0.all_reduce.bytes=256MiB")["jobs"][0]
    assert job["nwrong"] == 0
    assert job["bus_bw_gBps"] >= 0.96 * job["limit_gBps"]
    # The bound by hand: 4 S bytes over six directions of 12.5 GB/s x 4096 / 4178.
    assert abs(job["limit_gBps"] - 2 * 12.5 * 4096 / 4178) < 0.01


def test_eight_bytes_take_little_more_than_light_and_nic():
    job = run("--set", "jobs=[{all_reduce: {bytes: 8, repeat: 5}}]", "--set", "expect={}")["jobs"][0]
    bound = CABLE_NS + wire_ns(8) + NIC_NS
    assert bound < job["time_ns"] <= 1.5 * bound


def test_a_longer_cable_costs_its_delay_once():
    times = []
    for delay in ("1us", "2us"):
        job = run("--set", "jobs=[{all_reduce: {bytes: 8, repeat: 5}}]", "--set", "expect={}",
                  "--set", f"topology.defaults.delay={delay}")["jobs"][0]
        times.append(job["time_ns"])
    assert times[1] - times[0] == 1000
