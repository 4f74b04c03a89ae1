"""Transports inside a host: who reaches whom by what and why, on every backend; ends and leftovers."""

import os
import subprocess
from pathlib import Path

import pytest

from inside import run, a_killed_rank_ends_its_neighbours, processes_share_memory, ways
from sampling import part

ROOT = Path(__file__).resolve().parent.parent
WEFT = ROOT / os.environ.get("WEFT", "build/weft")
INSIDE = sorted(path.stem for path in (ROOT / "scenarios/inside").glob("*.yaml"))


@pytest.mark.heavy
@pytest.mark.parametrize("name", INSIDE)
def test_a_host_is_connected_as_its_scenario_says(name):
    document = run(name)
    assert document["result"] == "pass"
    for connection in document["connections"]:
        is_net = connection["transport"] == "net"
        assert connection["reason"]
        assert (connection["local_port"] is None) == (not is_net)
        assert (connection["qps"] is None) == (not is_net)


def test_plans_go_along_the_channels_of_the_search():
    shown = subprocess.run([WEFT, "show", "scenarios/inside/nvswitch-8.yaml", "--plan", "--rank", "0",
                            "--set", "jobs=[{all_reduce: {bytes: 16MiB, algorithm: rings}}]"],
                           cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "channels inside titanic\n  ring 0  0 → 1 → 2 → 3 → 4 → 5 → 6 → 7\n" in shown
    for channel in range(1, 12):
        assert f"\n  ring {channel} " in shown and f"send to 1 channel {channel} " in shown
        assert f"from 7 channel {channel} " in shown
    assert "channel 12" not in shown and "to 2" not in shown
    document = run("nvswitch-8", "--set", "expect={}", "--set",
                   "jobs=[{all_reduce: {bytes: 1MiB, algorithm: rings}}]")
    assert {(c["from"], c["to"]): c["channels"] for c in document["connections"]} == {
        (rank, (rank + 1) % 8): 12 for rank in range(8)}


@pytest.mark.parametrize("name", ["two-sockets-8", "two-hosts-4"])
def test_the_story_repeats(name):
    assert run(name)["trace_hash"] == run(name)["trace_hash"]


def negotiation(name, tmp_path, *arguments):
    story = tmp_path / f"{name}.events"
    run(name, "--events", str(story), *arguments)
    return [line.split(maxsplit=1)[1] for line in story.read_text().splitlines() if " ipc" in line]


def test_the_story_of_a_pair_that_agrees(tmp_path):
    lines = negotiation("nvlink-2", tmp_path)
    for rank in (0, 1):
        steps = [line.split()[4:6] for line in lines if f" rank={rank} " in line]
        assert all(a[1].split("=")[1] == b[0].split("=")[1] for a, b in zip(steps, steps[1:], strict=False))
        assert (steps[0][0], steps[-2][1], steps[-1][1]) == ("from=INIT", "to=OK", "to=BAD")
    assert lines[-1].endswith(" reason=the_peer_is_gone")  # the end, in order
    assert negotiation("one-gpu-2", tmp_path)[-1].endswith(" reason=the_peer_is_gone")
    for name in ("ipc-off-2", "one-gpu-off-2", "no-peer-4"):
        assert negotiation(name, tmp_path) == []
    assert negotiation("ipc-refused-2", tmp_path) == []
    assert negotiation("nvlink-2", tmp_path, "--set", "jobs=[{all_reduce: {bytes: 32KiB}}, {barrier: }]",
                       "--set", "expect={}") == []  # nothing was long


@pytest.mark.parametrize("call, nth, way", [
    ("alloc", 1, "shm"), ("export_memory", 1, "shm"), ("import_memory", 1, "shm"),  # of the ring
    ("export_memory", 2, "p2p"), ("import_memory", 2, "p2p"), ("import_memory", 3, "p2p")])
def test_whatever_a_driver_refuses_once_is_exact(call, nth, way):
    document = run("nvlink-2", "--set", "expect={data: exact}", "--set",
                   f"faults=[{{on: titanic, kind: call_error, call: {call}, nth: {nth}, errno: 12}}]")
    reason = {"p2p": "p2p: path NVL, read by the receiver",
              "shm": "p2p: memory not opened (errno 12); shm: same /dev/shm"}[way]
    assert document["result"] == "pass" and ways(document) == {(0, 1): (way, reason), (1, 0): (way, reason)}


def test_there_is_nothing_behind_shm():
    document = run("ipc-refused-2", "--set", "topology.nodes.titanic.env={NCCL_SHM_DISABLE: \"1\"}",
                   "--set", "expect={result: fail}")
    assert "memory not opened (errno 1)" in document["symptom"]["text"]
    assert "but NCCL_SHM_DISABLE is set" in document["symptom"]["text"]


def test_the_story_of_the_original(tmp_path):
    lines = negotiation("ipc-original-2", tmp_path)
    assert lines[:3] == ["titanic ipc0 state rank=1 from=INIT to=SENT epoch=0",
                         "titanic ipc1 state rank=0 from=INIT to=ACKED epoch=0",
                         "titanic ipc0 state rank=1 from=SENT to=ACKED epoch=0"]
    assert not any("to=OK" in line for line in lines)  # it never gets there


def test_what_moves_inside_a_host_passes_no_nic():
    document = run("nvlink-2")
    assert document["counters"]["tx_packets"] == 0
    assert {connection["transport"] for connection in document["connections"]} == {"p2p"}


def test_a_full_step_and_more_go_through_small_buffers():
    document = run("plain-2", "--set", 'topology.nodes.titanic.env={NCCL_BUFFSIZE: "65536"}')
    assert document["result"] == "pass"


def test_a_host_alone_needs_no_port():
    assert run("plain-2")["connections"][0]["transport"] == "shm"
    # ... but where one is needed all the same, the finding says so.
    document = run("plain-2", "--set", "topology.nodes.titanic.shm=private", code=(1,))
    assert [finding["code"] for finding in document["findings"]] == ["host.no_device"]


# Least shares of the physical bound at 16 MiB: all_reduce, all_gather, all_to_all, broadcast. The bound
# of hosts with NVLink counts PCIe beside it: p2p can reach 77 % and 91 % of it (docs/transports.md).
SHARES = {"plain-2": (0.95, 0.95, 0.95, 0.95), "pcie-4": (0.95, 0.95, 0.85, 0.95),
          "two-sockets-8": (0.92, 0.95, 0.95, 0.95), "two-hosts-4": (0.92, 0.95, 0.95, 0.95),
          "three-hosts-6": (0.92, 0.92, 0.95, 0.9), "nvlink-2": (0.73, 0.72, 0.72, 0.71),
          "nvswitch-8": (0.80, 0.88, 0.88, 0.46)}


@pytest.mark.parametrize("name", part(SHARES))
def test_plans_come_near_the_bound_of_what_is_inside(name):
    kinds = ("all_reduce", "all_gather", "all_to_all", "broadcast")
    # A rank that is done early begins the next job: a barrier keeps it off the links.
    jobs = ", ".join(f"{{{kind}: {{bytes: 16MiB, repeat: 2}}}}, {{barrier: }}" for kind in kinds)
    document = run(name, "--set", f"jobs=[{jobs}]", "--set", "expect={}")
    for job, least in zip(document["jobs"][::2], SHARES[name], strict=True):
        share = job["limit_ns"] / job["time_ns"]
        assert least <= share < 1.01, (job["job"], job["algorithm"], share)


# The real thing: processes, /dev/shm, and the simulated NIC's engine; the kernel's: test_transports_rxe.

@pytest.mark.parametrize("name, n_ranks", [("two-hosts-4", 4), ("three-hosts-6", 6)])
def test_processes_of_a_host_share_memory(name, n_ranks):
    processes_share_memory("soft", name, n_ranks)


def test_a_killed_rank_ends_its_neighbours_and_leaves_nothing():
    a_killed_rank_ends_its_neighbours("soft")
