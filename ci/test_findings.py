"""A few random settings of every cause, judged by `weft diagnose` from observations alone."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import failures  # noqa: E402
import finding_causes as causes  # noqa: E402
import finding_matrix as matrix  # noqa: E402
import finding_places as places  # noqa: E402
import sampling  # noqa: E402

WEFT = os.environ.get("WEFT_FAST", os.environ.get("WEFT", "build/weft"))


def findings(*arguments):
    """Run ci/findings. Its failures are those of the test, so it does not keep them itself."""
    env = {key: value for key, value in os.environ.items() if key != "WEFT_FAILURES"}
    return subprocess.run([sys.executable, "ci/findings", "--weft", WEFT, *map(str, arguments)],
                          capture_output=True, text=True, check=False, env=env)


def test_every_cause_is_named():
    first, n = sampling.span(4)
    done = findings("--seed", 20261121, "--first", first, "--count", n)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-2] == "findings: PASS"
    assert re.match(r"\d+ passed, 0 failed, 0 skipped$", done.stdout.splitlines()[-1])


# Seeds that a night's random settings once failed for, with how often a fault must be drawn again.
ONCE_FAILED = {
    # It drew packets that no result depends on, twenty times in a row.
    "data_wrong": (533333428, 0, 25, 0),
    # It drew a job of 8.6 ms and a cable that drops at 8.95 ms, so there was nothing to find.
    "link_survived_drop": (82659305, 8, 1, 1),
}


@pytest.mark.parametrize("cause", ONCE_FAILED)
def test_what_failed_once_is_named(cause):
    seed, first, count, redraws = ONCE_FAILED[cause]
    done = findings("--cause", cause, "--seed", seed, "--first", first, "--count", count)
    assert re.search(rf"^{cause} +{count} +0 +0 +{redraws} *$", done.stdout, re.M), \
        done.stdout + done.stderr


@pytest.mark.parametrize("case", sampling.part(matrix.ONCE_WRONG), ids=lambda case: "-".join(map(str, case[:3])))
def test_a_setting_of_the_matrix_that_was_wrong_once(case):
    judged = places.Judged(Path(WEFT).resolve(), 0, 0, {"case": list(case)}).judge()
    assert judged.verdict == matrix.ONCE_WRONG[case], judged.explain()


def test_a_case_is_run_once():
    case = next(iter(matrix.ONCE_WRONG))
    done = findings("--matrix", "--case", json.dumps(case))
    assert "1 settings: 1 right" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("case", sampling.part(matrix.ONCE_LATE), ids=lambda case: "-".join(map(str, case[:3])))
def test_a_setting_of_the_matrix_that_was_late_once(case):
    judged = places.Judged(Path(WEFT).resolve(), 0, 0, {"case": list(case)}).judge()
    assert judged.verdict == "right" and not judged.is_late(), judged.explain()


@pytest.mark.parametrize("cause, moment, limit_s", [
    ("gid_deleted", "probe", 0), ("cut", "hello", 5), ("cut", "mid-row", 1.536), ("lossy", "before start", 9),
    ("lossy", "hello", 9),
    ("corrupting", "facts", 6), ("lossy", "rtr", 6), ("corrupting", "probe", 6), ("lossy", "mid-row", 1.536),
    ("silent", "probe", 5), ("stopped", "rendezvous", 900), ("stopped", "probe", 30), ("memlock", "before start", 0),
    ("stopped", "mid-row", 60), ("stopped", "between jobs", 60), ("misnumbered", "before start", 0),
])
def test_the_limits_of_causes(cause, moment, limit_s):
    assert matrix.limit_s(cause, moment, "pair") == limit_s


def test_in_a_mesh_an_address_may_be_away_for_longer():
    assert matrix.limit_s("gid_deleted", "probe", "line") == 5
    assert matrix.limit_s("misnumbered", "before start", "star") == 5
    assert matrix.limit_s("gid_deleted", "mid-row", "line") == 0


def test_a_mesh_with_data_has_the_longest_outage():
    assert matrix.limit_s("cut", "mid-row", "star") == 8 * 0.067 + 5 + 1
    assert matrix.limit_s("paused", "first row", "line") == 3.95 + 5 + 1
    assert matrix.limit_s("cut", "mid-row", "twins") == 1.536
    assert matrix.limit_s("device_gone", "mid-row", "star") == 0


def test_over_the_cables_an_address_to_listen_on_is_waited_for():
    assert matrix.limit_s("unnumbered", "before start", "switch", is_unmanaged=True) == 1.3
    assert matrix.limit_s("gid_deleted", "mid-row", "pair", is_unmanaged=True) == 0


@pytest.mark.parametrize("kind, addressing, policy, may", [
    ("pair", "/24", "weft", True), ("pair", "/24", "nccl-2.25", False), ("star", "ipv6", "weft", None)])
def test_some_meshes_have_no_management_network(kind, addressing, policy, may):
    """Of stars, those whose centre has more IPv6 addresses than fit into a handle have one."""
    seen = set()
    for number in range(matrix.UNMANAGED, matrix.UNMANAGED + 60):
        setting = matrix.Setting(0, 0, {"case": ["cut", kind, "rtr", policy, addressing, number]})
        is_large = len(setting.healthy().hosts) > 5
        assert not (is_large and addressing == "ipv6" and setting.is_unmanaged())
        seen.add(setting.is_unmanaged())
    assert seen == ({False} if may is False else {False, True})


def test_in_a_mesh_an_attempt_shows_that_an_outage_lasts():
    assert matrix.limit_s("swapped", "before start", "ring") == 7.3
    assert matrix.limit_s("silent", "probe", "ring") == 6
    assert matrix.limit_s("swapped", "before start", "pair") == 5


@pytest.mark.parametrize("phase, is_late", [("boot", False), ("rtr", True)])
def test_only_a_rendezvous_that_failed_has_its_patience(phase, is_late):
    judged = places.Judged(Path(WEFT).resolve(), 0, 0, {"case": [
        "arp_ignored", "star", "before start", "weft", "/24", 1052100869]})
    judged.observations = json.dumps({"hosts": [{"name": "a", "errors": [{"phase": phase, "at_ns": 1}]}]})
    judged.took_s, judged.limit_s = 600, 900 if judged.has_failed_in("boot") else 0
    assert judged.is_late() == is_late


def test_settings_of_the_matrix():
    """One of each mesh, code and place: behind a relay, behind a switch, at either end."""
    first, n = sampling.span(12)
    done = findings("--matrix", "--seed", 11, "--first", first, "--count", n)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"^{n} settings: .* 0 place, 0 cause, 0 alarm, 0 broken; seed 11$", done.stdout, re.M)


@pytest.mark.parametrize("code, host, port, peer, want", [
    ("link.down", "b", "p1", "c", "right"), ("link.down", "c", "p0", "b", "right"),
    ("link.down", "b", "p0", "c", "place"), ("link.down", "a", "p0", "b", "place"),
    ("link.down", "b", "p1", "a", "place"), ("link.down", None, None, None, "place"),
    ("link.lossy", "b", "p1", "c", "cause"), ("conn.timeout", "c", None, "a", "cause"),
    ("undetermined", "a", None, "c", "undetermined")])
def test_the_judge_of_the_matrix(code, host, port, peer, want):
    """The cable from b:p1 to c:p0 was cut; a is innocent."""
    planted = matrix.Planted({"link.down"}, matrix.Place("b:p1", "c:p0", peers={"b", "c"}))
    finding = {"code": code, "where": {"host": host, "port": port, "peer": peer}}
    assert places.verdict([finding], [planted], True) == want
    innocent = {"code": "conn.timeout", "where": {"host": "c", "port": None, "peer": "a"}}
    assert places.verdict([finding, innocent], [planted], True) == "cause"
    assert places.verdict([], [planted], True) == "undetermined"
    assert places.verdict([], [planted], False) == "quiet"


@pytest.mark.parametrize("because, want", [
    ("link.down", "right"), ("link.lossy", "cause"), ("undetermined", "undetermined"), (None, "cause")])
def test_a_rail_that_was_left_out_is_judged_by_its_cause(because, want):
    planted = matrix.Planted({"link.down"}, matrix.Place("b:p1", "c:p0", peers={"b", "c"}))
    finding = {"code": "link.left_out", "where": {"host": "b", "port": "p1", "peer": "c"},
               "evidence": {"because": because} if because else {}}
    assert places.verdict([finding], [planted], False) == want


def test_of_two_causes_one_is_named_and_never_a_third():
    cut = matrix.Planted({"link.down"}, matrix.Place("b:p1", "c:p0", peers={"b", "c"}))
    killed = matrix.Planted({"peer.dead"}, matrix.Place("a"))
    down, dead, timeout = (
        {"code": code, "where": {"host": "b", "port": port, "peer": peer}} for code, port, peer in (
            ("link.down", "p1", "c"), ("peer.dead", None, "a"), ("conn.timeout", None, "c")))
    for found, want in ([down], "right"), ([dead], "right"), ([down, dead], "right"), ([down, timeout], "cause"):
        assert places.verdict(found, [cut, killed], True) == want
    dead["where"]["peer"] = "c"
    assert places.verdict([dead], [cut, killed], True) == "place"


@pytest.mark.parametrize("host, n_out, n_in, want", [
    ("b", 90, 0, "right"), ("c", 0, 90, "right"), ("b", 0, 90, "place"), ("c", 90, 0, "place"), ("b", 3, 3, "right")])
def test_the_direction_of_lost_frames_is_judged(host, n_out, n_in, want):
    """Only what b sends is lost."""
    planted = matrix.Planted({"link.one_way"}, matrix.Place("b:p1", "c:p0", peers={"b", "c"}, sender="b"))
    finding = {"code": "link.one_way", "where": {"host": host, "port": None, "peer": None},
               "evidence": {"frames_lost_out": n_out, "frames_lost_in": n_in}}
    assert places.verdict([finding], [planted], True) == want


def test_what_a_number_draws_stays_the_same():
    """Cases of numbers below REORDERED keep the order of ranks that they had."""
    case = ["lossy", "line", "facts", "weft", "/24", 5]
    for number, n_same in ((5, 20), (matrix.REORDERED + 5, 0)):
        orders = [matrix.Setting(0, 0, {"case": [*case[:5], number + i]}).healthy() for i in range(20)]
        assert sum(mesh.ranks == mesh.hosts for mesh in orders) >= n_same
    assert any(mesh.ranks != mesh.hosts for mesh in orders)


@pytest.mark.parametrize("policy, by_s", [("weft", 2), ("nccl-2.25", 901)])
def test_no_route_to_the_rendezvous_is_said_at_once(policy, by_s, tmp_path):
    """A program with times of its own keeps them; the finding is the same."""
    links = [{"endpoints": [f"h{i}:p0", f"h{(i + 1) % 4}:p1"], "subnet": f"192.168.{i}.0/24"} for i in range(4)]
    document = {"name": "unroutable", "policy": policy, "boot": "rendezvous", "jobs": [{"barrier": None}],
                "topology": {"defaults": {"ports": ["p0", "p1"]}, "links": links,
                             "nodes": {"h0": {"known_as": "192.168.0.1"}, "h1": {}, "h2": {}, "h3": {}}},
                "expect": {"result": "fail", "findings": ["conn.no_route"]}}
    (tmp_path / "unroutable.yaml").write_text(json.dumps(document))
    done = subprocess.run([WEFT, "run", "-q", tmp_path / "unroutable.yaml", "--observations", tmp_path / "OBS.json"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    hosts = json.loads((tmp_path / "OBS.json").read_text())["hosts"]
    for host in hosts[2:]:
        error, = host["errors"]
        assert error["errno"] == 101
        assert (by_s - 1) * 1_000_000_000 <= error["at_ns"] <= by_s * 1_000_000_000


@pytest.mark.parametrize("n_foreign", [0, 4])
def test_an_address_that_came_back_was_missing_all_the_same(n_foreign, tmp_path):
    """It is back by the time the host is observed; its GID was looked up before. Slots that cannot be
    read may stand before it, as on real NICs."""
    document = {"name": "comes-back", "policy": "nccl-2.25", "jobs": [{"all_reduce": {"bytes": 8}}],
                "topology": {"nodes": {"h0": {"ports": ["p0"]}, "h1": {
                    "ports": ["p0"], "profile_override": {"foreign_gids": n_foreign}}},
                    "links": [{"endpoints": ["h0:p0", "h1:p0"], "subnet": "192.168.0.0/24"}]},
                "faults": [{"at": "34us", "for": "1ms", "on": "h1:p0", "kind": "addr_del",
                            "address": "192.168.0.2"}],
                "expect": {"result": "fail", "findings": ["addr.missing"]}}
    path = tmp_path / "comes-back.yaml"
    path.write_text(json.dumps(document))
    done = subprocess.run([WEFT, "run", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("cause, moment, policy, took_s, want", [
    ("cut", "mid-row", "weft", 3.5, False), ("cut", "mid-row", "weft", 3.6, True),
    ("cut", "mid-row", "weft", None, False), ("cut", "mid-row", "nccl-2.25", 95.0, False),
    ("late", "before start", "weft", 902.0, False),
    ("late", "before start", "weft", 902.1, True), ("stopped", "rendezvous", "weft", 901.0, False),
    ("stopped", "probe", "weft", 33.0, True), ("silent", "hello", "weft", 7.0, False),
    ("silent", "mid-row", "weft", 7.0, True)])
def test_a_finding_is_late_by_its_causes_own_limit(cause, moment, policy, took_s, want):
    judged = places.Judged(WEFT, 1, 0, {"case": (cause, "pair", moment, policy, "/24", 1)})
    judged.took_s = took_s
    assert judged.is_late() == want


@pytest.mark.parametrize("boot", ["rendezvous", "neighbours"])
@pytest.mark.parametrize("code, host, nodes, faults, at_s", [
    ("conn.no_route", 2, {"h0": {"known_as": "192.168.0.1"}}, [], 1),
    ("conn.loopback", 1, {"h0": {"known_as": "127.0.0.1"}}, [], 1),
    ("peer.dead", 3, {}, [{"on": "h3", "kind": "kill", "at": "0s"}], 0),
    ("host.permission", 1, {}, [{"on": "h1", "kind": "verb_error", "verb": "alloc_pd", "errno": 13}], 0),
    ("conn.filtered", 0, {"h0": {"firewall": {"input_drop": ["tcp:29500"]}}}, [], 30),
    ("peer.late", 2, {"h2": {"start": "1000s"}}, [], 900)])
def test_ranks_hear_of_one_that_will_not_come(boot, code, host, nodes, faults, at_s, tmp_path):
    """All of them end a second after the one that cannot come, or 2 s after one that is not there."""
    if boot == "neighbours" and code.startswith("conn."):
        return  # it has no address to call
    links = [{"endpoints": [f"h{i}:p0", f"h{(i + 1) % 4}:p1"], "subnet": f"192.168.{i}.0/24"} for i in range(4)]
    document = {"name": "will-not-come", "boot": boot, "jobs": [{"barrier": None}], "faults": faults,
                "topology": {"defaults": {"ports": ["p0", "p1"]}, "links": links,
                             "nodes": {f"h{i}": nodes.get(f"h{i}", {}) for i in range(4)}},
                "expect": {"result": "fail", "findings": [code]}}
    (tmp_path / "m.yaml").write_text(json.dumps(document))
    done = subprocess.run([WEFT, "run", "-q", tmp_path / "m.yaml", "--observations", tmp_path / "OBS.json"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for observed in json.loads((tmp_path / "OBS.json").read_text())["hosts"]:
        at = [error["at_ns"] / 1e9 for error in observed["errors"]] if observed["observed"] else []
        late_s = 101 if (code, observed["name"]) == ("peer.late", f"h{host}") else 0
        assert all(at_s - 0.01 <= each - late_s <= at_s + 2 for each in at), (observed["name"], at)


@pytest.mark.heavy
def test_forgotten_evidence_leads_to_no_other_cause():
    """Seed 743564966 named a timeout too where it was unknown whether a failure was hearsay."""
    done = findings("--cause", "host_permission", "--seed", 743564966, "--count", 1, "--forget")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d{3,} pieces of evidence of 1 causes .*: 0 led to another", done.stdout, re.M)


def test_a_setting_that_is_judged_wrong_is_kept_with_its_command(tmp_path):
    """The program here runs as it should and finds nothing at all."""
    program, kept = tmp_path / "weft", tmp_path / "failures"
    program.write_text("#!/bin/sh\n"
                       "[ \"$1\" != diagnose ] || { echo '{\"findings\": []}'; exit 0; }\n"
                       f"exec {Path(WEFT).resolve()} \"$@\"\n")
    program.chmod(0o755)
    env = {**os.environ, "WEFT_FAILURES": str(kept), "WEFT_STAGE": "night"}
    done = subprocess.run([sys.executable, "ci/findings", "--weft", program, "--seed", "1", "--first", "4",
                           "--count", "1", "--cause", "host_memlock", "--cause", "no_fault"],
                          capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-2:] == ["findings: FAIL", "1 passed, 1 failed, 0 skipped"]
    again = "ci/findings --cause host_memlock --seed 1 --first 4 --count 1"
    assert f"  again: {again}" in done.stdout.splitlines()
    assert failures.read(kept) == [{
        "stage": "night", "test": "findings: host_memlock", "kind": "failed", "again": again,
        "words": "wrong: host_memlock 4: nothing "}]


def test_a_fault_after_the_job_is_drawn_again():
    """Seed 82659305 drew a job of 8.6 ms and a cable that drops at 8.95 ms: nothing to find."""
    done = subprocess.run([sys.executable, "ci/findings", "--weft", WEFT, "--seed", "82659305",
                           "--first", "8", "--count", "1", "--cause", "link_survived_drop"],
                          capture_output=True, text=True, check=False)
    assert re.search(r"^link_survived_drop +1 +0 +0 +1 *$", done.stdout, re.M), \
        done.stdout + done.stderr


def test_the_judge_sees_nothing_but_observations():
    for path in sorted(Path("src/diag").glob("*.[ch]")):
        for included in re.findall(r'^\s*#\s*include\s+["<]([^">]+)[">]', path.read_text(), re.M):
            assert included.split("/")[0] in {"base", "io", "diag"} or "/" not in included, \
                f"{path} includes {included}"
            assert included != "io/world.h", f"{path}: faults are part of a world"


def test_every_code_has_a_row_or_a_reason():
    codes = set(re.findall(r"^\| \[`([a-z0-9_.]+)`\]", Path("docs/findings.md").read_text(), re.M))
    drawn = set().union(*(function(random.Random(1))[1] for function in causes.CAUSES.values()))
    page = Path("docs/field.md").read_text().split("## Findings that no random setting draws")[1]
    excused = set(re.findall(r"^\| `([a-z0-9_.]+)` \|", page, re.M))
    assert len(drawn) >= 40
    assert drawn | excused == codes - {"undetermined"}
    assert not drawn & excused
