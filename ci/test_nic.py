"""Every quirk of a device has a scenario in scenarios/nic that shows it.

Each passes as it is; without the quirk, or where the program does not know it, what it expects
does not come: a scenario that passes either way would show nothing.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT_FAST", os.environ.get("WEFT", str(ROOT / "build" / "weft")))
OVERRIDE = "topology.defaults.profile_override."
# What takes the quirk out of a device, and which expectation then fails.
WITHOUT = {
    "rxe-endless-retry": (["retry_cnt_7_is_endless=false"], "time: at least 60s"),
    "hip08-flush-on-poll": (["flush_on_poll=false"], "counter flushes_held: at least 1"),
    "hip08-rnr-storm": (["min_rnr_timer_forced=0"], "counter rnr_naks_sent: at least 300"),
    "hip08-timeout-ignored": (["timeout_max=31"], "result: fail"),
    "hns-general-err": (["general_err_nth=0"], "counter general_errs: at least 3"),
    "hip08-slow-dereg": (["dereg_is_serialised=false"], "counter deregs_queued: at least 1"),
    "hns-mailbox-stall": (["mailbox_stall_nth=0"], "time: at least 600ms"),
    "hns-mailbox-timeout": (["mailbox_stall=100ms"], "result: fail"),
    "hns-inline-lowered": (["inline_lowered=false"], "result: pass"),
    "rxe-retry-lowered": (["--policy", "nccl-2.25"], "symptom: wc_status 12"),
}
# What would have to change in the program: mutants show that these notice.
ALWAYS = {"hns-empty-sq", "rxe-mtu-rule", "synth2port-crossed", "minimal-pair"}


def names():
    return sorted(path.stem for path in (ROOT / "scenarios" / "nic").glob("*.yaml"))


def run(name, *args):
    done = subprocess.run([WEFT, "run", f"scenarios/nic/{name}.yaml", "--json", *args], cwd=ROOT,
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1), (done.returncode, done.stderr[-2000:])
    return done.returncode, json.loads(done.stdout)


def test_every_scenario_is_judged_here():
    assert set(names()) == set(WITHOUT) | ALWAYS


@pytest.mark.parametrize("name", names())
def test_it_shows_its_quirk(name):
    code, document = run(name)
    assert code == 0, document["expectations"]


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_without_the_quirk_it_does_not(name):
    changes, expectation = WITHOUT[name]
    if changes[0].startswith("--"):
        args = changes
    else:
        args = [word for change in changes for word in ("--set", OVERRIDE + change)]
    code, document = run(name, *args)
    failed = [line["expect"] for line in document["expectations"] if not line["ok"]]
    assert code == 1 and expectation in failed, (failed, document["expectations"])


def test_the_lesser_mtu_is_used():
    _, document = run("rxe-mtu-rule")
    assert {connection["path_mtu"] for connection in document["connections"]} == {2048}
    _, document = run("rxe-mtu-rule", "--set", "topology.defaults.profile=rxe")
    assert {connection["path_mtu"] for connection in document["connections"]} == {4096}


def test_crossed_ports_are_each_ends_own():
    _, document = run("synth2port-crossed")
    ways = {(c["local_port"], c["remote_port"]) for c in document["connections"]}
    assert ways == {("p0", "p0/2"), ("p0/2", "p0")}


def test_counters_and_times_are_judged():
    for expect, said in (("counters: {no_such: {at_most: 0}}",
                          ("counter no_such: at most 0", "backend sim has no such counter")),
                         ("counters: {retransmits: {at_least: 1, at_most: 2}}",
                          ("counter retransmits: at least 1 at most 2", "0"))):
        code, document = run("minimal-pair", "--set", f"expect={{{expect}}}")
        line = document["expectations"][-1]
        assert code == 1 and (line["expect"], line["got"]) == said and not line["ok"]
    code, document = run("minimal-pair", "--set", "expect={time: {at_least: 1s, at_most: 2s}}")
    assert code == 1
    assert [line["ok"] for line in document["expectations"]][-2:] == [True, False]
