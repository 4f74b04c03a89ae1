"""Every quirk of a device has a scenario in scenarios/nic that shows it.

Each passes as it is; without the quirk, or where the program does not know it, what it expects
does not come: a scenario that passes either way would show nothing.
"""

import json
import os
import random
import re
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
    "rxe-gid-deleted": (["gid_checked_per_packet=false"], "result: fail"),
    "rxe-retry-lowered": (["--policy", "nccl-2.25"], "symptom: wc_status 12"),
}
# What would have to change in the program: mutants show that these notice.
ALWAYS = {"hns-pair", "hns-empty-sq", "rxe-mtu-rule", "synth2port-crossed", "minimal-pair",
          "gpu-sees-late", "writes-out-of-order"}


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


# ---- weft show --nic ----

PAGE = ROOT / "docs" / "nic.md"
SHOWN = ["scenarios/nic/hns-pair.yaml", "--nic", "a:p0"]


def show(*args, code=0):
    done = subprocess.run([WEFT, "show", *args], cwd=ROOT, capture_output=True, text=True,
                          timeout=300, check=False, env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == code, (done.returncode, done.stderr[-2000:])
    return done


def without_times(text):
    """When a verb began depends on every layer of the program; what it did depends on none."""
    return re.sub(r"^ *[0-9]+\.[0-9]{3}us", "", text, flags=re.MULTILINE)


def test_the_page_shows_what_the_command_prints():
    """`WEFT_NIC_WRITE=1 pytest ci/test_nic.py` writes the page anew."""
    text = PAGE.read_text()
    begin = text.index("```text\n") + len("```text\n")
    end = text.index("```", begin)
    printed = show(*SHOWN).stdout
    if os.environ.get("WEFT_NIC_WRITE"):
        PAGE.write_text(text[:begin] + printed + text[end:])
    else:
        assert without_times(printed) == without_times(text[begin:end])
    assert max(map(len, printed.splitlines())) <= 122 and printed.count("\n") <= 90


def verbs_of(*args):
    return json.loads(show(*args, "--json").stdout)


def step(verb, what):
    return next(s["facts"] for s in verb["steps"] if s["what"] == what)


def test_a_connection_is_told_verb_by_verb():
    document = verbs_of(*SHOWN)
    assert document["profile"] == "hns-hip08" and document["result"] == "pass"
    verbs = document["verbs"]
    names = [verb["verb"] for verb in verbs]
    assert names[0] == "alloc_pd" and names[-1] == "dealloc_pd"
    # What is made is given back.
    for kind, undone in (("create_cq", "destroy_cq"), ("create_qp", "destroy_qp"),
                         ("reg_mr", "dereg_mr"), ("alloc_pd", "dealloc_pd")):
        made = sorted(verb["object"] for verb in verbs if verb["verb"] == kind)
        assert made and made == sorted(v["object"] for v in verbs if v["verb"] == undone)
    assert [verb["ended_ns"] for verb in verbs] == sorted(verb["ended_ns"] for verb in verbs)
    qps = [verb for verb in verbs if verb["verb"] == "create_qp"]
    for number, verb in enumerate(qps):
        qpn = step(verb, "QPN")
        assert qpn["qpn"] == qpn["id"] << 3 | qpn["bank"]
        assert qpn["bank"] >> 1 == qpn["cq_bank"] == qpn["send_cqn"] & 3
        # Two records each, one after another in one page.
        assert step(verb, "SQ doorbell record")["offset"] == hex(8 * number)
        assert step(verb, "RQ doorbell record")["offset"] == hex(8 * number + 4)
        assert not any(s["what"] == "mailbox" for s in verb["steps"])
    commands = {verb["change"]: step(verb, "mailbox")["op"] for verb in verbs
                if verb["verb"] == "modify_qp"}
    assert commands == {"RESET to INIT": "0x19", "INIT to RTR": "0x1a", "RTR to RTS": "0x1b",
                        "RTS to ERR": "0x1e"}


@pytest.mark.parametrize("profile, what", [("mlx5", "command"), ("rxe", "pool"),
                                           ("hns-hip09", "mailbox")])
def test_other_devices_are_told_in_their_own_words(profile, what):
    document = verbs_of(*SHOWN, "--set", f"topology.defaults.profile={profile}")
    assert any(s["what"] == what for verb in document["verbs"] for s in verb["steps"])


def test_a_stall_and_a_refusal_are_told():
    document = verbs_of("scenarios/nic/hns-mailbox-timeout.yaml", "--nic", "titanic:p0")
    refused = [verb for verb in document["verbs"] if verb["errno"] == 16]
    assert refused and document["result"] == "pass"  # as the scenario expects
    assert step(refused[0], "waited")["ns"] == 10_000_000_000


def test_a_set_up_waits_for_a_slow_device(tmp_path):
    """Every nth command of one host takes up to 9 s: the pair or triangle is set up all the same."""
    rng = random.Random(1119)
    for _ in range(16):
        hosts = ["titanic", "iceberg", "carpathia"][:rng.choice([2, 3])]
        slow = rng.choice(hosts)
        override = {"mailbox_stall_nth": rng.randint(4, 9),
                    "mailbox_stall": f"{rng.choice([2, 4, 5, 6, 9])}s"}
        scenario = {
            "name": "slow-device",
            "topology": {
                "defaults": {"ports": ["p0", "p1"], "profile": "hns-hip09"},
                "nodes": {host: {"profile_override": override} if host == slow else {}
                          for host in hosts},
                "links": [{"endpoints": [f"{a}:p0", f"{b}:p1"], "subnet": f"192.168.{i}.0/24"}
                          for i, (a, b) in enumerate(zip(hosts, hosts[1:] + hosts[:len(hosts) - 2]))]},
            "jobs": [{"all_reduce": {"bytes": "1MiB"}}],
            "expect": {"result": "pass"}}
        path = tmp_path / "slow.yaml"
        path.write_text(json.dumps(scenario), encoding="utf-8")
        done = subprocess.run([WEFT, "run", path], cwd=ROOT, capture_output=True, text=True,
                              timeout=300, check=False)
        assert done.returncode == 0, (scenario, done.stdout[-3000:], done.stderr)


def test_what_cannot_be_shown_is_said():
    assert "has no host 'x'; the hosts: a, b\n" in show(SHOWN[0], "--nic", "x:p0", code=2).stderr
    assert "host a has no port 'p9'; its ports: p0\n" in show(SHOWN[0], "--nic", "a:p9", code=2).stderr
    assert "'a' is a host; write HOST:PORT; its ports: p0\n" in show(SHOWN[0], "--nic", "a", code=2).stderr
    assert "cannot look into a NIC" in show(*SHOWN, "--backend", "rxe", code=3).stderr
    assert "goes with --nic" in show(SHOWN[0], "--seed", "3", code=2).stderr


def test_looking_changes_nothing():
    """The run that is looked at is the run: its times are those of `weft run`."""
    _, document = run("hns-pair")
    last = max(verb["ended_ns"] for verb in verbs_of(*SHOWN)["verbs"])
    assert last <= document["sim_time_ns"]
