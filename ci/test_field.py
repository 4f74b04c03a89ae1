"""scenarios/field: what users saw, under the program with which they saw it, and under weft.

Every file is run thrice. Under its own policy its `expect` asserts symptom and finding, and again
with the ranks in reverse order, so that both ends of each pair connect; its line
`# weft: works [CODE]` or `# weft: fails CODE` says what policy weft makes of the same mesh.
docs/field.md has a row for each, and one for every failure of the field that is no scenario.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

WEFT = os.environ.get("WEFT_FAST", os.environ.get("WEFT", "build/weft"))
FIELD = sorted(Path("scenarios/field").glob("*.yaml"))
N_FAILURES = 52
# What a run says that fails without an errno or a completion in error, and how the table puts it.
SYMPTOMS = {"probe: nothing passes": "a probe without an answer",
            "probe: small frames pass, full ones do not": "small frames pass, full ones do not",
            "challenge": "a stream without an answer",
            "boot: rank 0 died": "rank 0 died",
            "route: no local port shares a subnet": "no port in a subnet of the peer's"}
STORY_LINES = 50_000  # bounds the work of a run, for which a user waits
SCREEN = 40  # lines of a terminal: the mesh, what happened, where, why, what to type next


def run(*args):
    return subprocess.run([WEFT, "run", *map(str, args)], capture_output=True, text=True,
                          check=False, timeout=60)


def under_weft(text):
    """(works, codes)"""
    line = re.search(r"^# weft: (works|fails)((?: [a-z0-9_.]+)*)$", text, re.M)
    assert line, "no line `# weft: ...`"
    return line[1] == "works", line[2].split()


def row_of(path):
    """Return the cells of the scenario's row in docs/field.md."""
    row = re.search(rf"^\| {path.name[:3].upper()} \|.*$", Path("docs/field.md").read_text(), re.M)
    return [cell.strip() for cell in row[0].strip("|").split("|")]


def symptom_cell(symptom):
    """Return how the table names what a run failed with; None is a run that passed."""
    if symptom is None:
        return "none"
    for key in ("errno", "peer_errno", "wc_status"):
        if symptom[key] is not None:  # either end of a connection may be the first to end the job
            return f"{key.removeprefix('peer_')}: {symptom[key]}"
    return next(cell for start, cell in SYMPTOMS.items() if symptom["text"].startswith(start))


@pytest.mark.parametrize("name, sets, met", [
    ("s27-only-ipv6", [], "its data hangs here, and ends after 34 s with completion status 12"),
    ("s27-only-ipv6", ['topology.defaults.env={NCCL_IB_TIMEOUT: "14"}'], "ends after 0.5 s with"),
    ("s01-triangle-stock", [], "it hangs, and ends after about 95 s with errno 110"),
    ("s25-index-zero", [], None), ("s01-triangle-stock", ["policy=weft"], None)])
def test_what_the_program_itself_does_is_said(name, sets, met):
    """NCCL sends no probe, and repeats a step to RTR that timed out."""
    words = [word for change in sets for word in ("--set", change)]
    symptom = json.loads(run(f"scenarios/field/{name}.yaml", "--json", *words).stdout)["symptom"]
    as_met = (symptom or {}).get("as_met")
    assert as_met is None if met is None else met in as_met


@pytest.mark.parametrize("name, key, said", [
    ("s16-rank-order", "better_order", "titanic iceberg carpathia olympic"),
    ("s39-stranger", "limit", "of set-up, which no setting changes"), ("s23-shared-index", "fixed_slot", "empty")])
def test_a_remedy_has_what_it_speaks_of(name, key, said):
    found = json.loads(run(f"scenarios/field/{name}.yaml", "--json").stdout)["findings"][0]
    assert found["evidence"][key] == said and "--patience" not in found["remedy"]


@pytest.mark.parametrize("path", FIELD, ids=lambda path: path.stem)
def test_as_users_met_it(path, tmp_path):
    text = path.read_text()
    assert "findings: [" in text or "result: fail" not in text, "asserts no finding"
    done = run(path, "--events", tmp_path / "story", f"--json={tmp_path / 'json'}")
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "story").open() as story:
        assert sum(1 for _ in story) <= STORY_LINES
    if "\nsymptom" in done.stdout:
        assert len(done.stdout.splitlines()) <= SCREEN, done.stdout
    assert row_of(path)[3] == symptom_cell(json.loads((tmp_path / "json").read_text())["symptom"])


@pytest.mark.heavy
@pytest.mark.parametrize("path", FIELD, ids=lambda path: path.stem)
def test_the_same_mesh_under_weft(path):
    works, codes = under_weft(path.read_text())
    assert works or codes, "fails without a finding"
    expect = f"expect={{result: {'pass' if works else 'fail'}, findings: [{', '.join(codes)}]}}"
    done = run(path, "--policy", "weft", "--set", expect)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.heavy
@pytest.mark.parametrize("path", FIELD, ids=lambda path: path.stem)
def test_from_the_other_end(path):
    """The ranks in reverse order: who connects listens, and the same is seen and found."""
    document = yaml.safe_load(path.read_text())
    ranks = document.get("ranks", [host for host, node in document["topology"]["nodes"].items()
                                   if node.get("ranks", 1) > 0])
    assert len(ranks) > 1
    done = run(path, "--set", f"ranks=[{', '.join(reversed(ranks))}]")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("policy, moves, returns", [
    ("nccl-2.29-port-recovery", True, "at_most: 0"), ("nccl-2.29-port-recovery", False, "at_least: 2"),
    ("weft", True, "at_least: 2"), ("weft", False, "at_least: 2")])
def test_only_a_kept_slot_that_moved_costs_a_rail(policy, moves, returns):
    """S26: both flows get their rail back, unless its GID has moved and is not looked up again."""
    path = Path("scenarios/field/s26-stale-index.yaml")
    document = yaml.load(path.read_text(), Loader=yaml.BaseLoader)  # `on` is a word
    faults = [fault for fault in document["faults"]
              if moves or not fault.get("kind", "").startswith("addr_")]
    findings = "gid.stale_index" if returns == "at_most: 0" else ""
    done = run(path, "--policy", policy, "--set", f"faults={json.dumps(faults)}", "--set",
               f"expect={{result: pass, findings: [{findings}], "
               f"counters: {{failover_returns: {{{returns}}}}}}}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_table_has_every_failure_of_the_field():
    page = Path("docs/field.md").read_text()
    rows = {row[1]: row[0] for row in re.finditer(r"^\| (S\d\d) \|.*$", page, re.M)}
    assert sorted(rows) == [f"S{n:02d}" for n in range(1, N_FAILURES + 1)]
    for path in FIELD:
        text = path.read_text()
        row = rows[path.name[:3].upper()]
        works, codes = under_weft(text)
        policy = re.search(r"^policy: (.*)$", text, re.M)[1]
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[2] == f"`{policy}`"
        assert path.name in cells[6]
        assert cells[5].split() == ["works" if works else "fails", *codes]
        finding = re.search(r"findings: \[(.*)\]", text)
        assert cells[4] == (f"`{finding[1]}`" if finding else "none")
    named = {path.name[:3].upper() for path in FIELD}
    for name, row in rows.items():
        assert (name in named) == (row.count("|") == 8), f"{name}: is it a scenario or not?"
