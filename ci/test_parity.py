"""The same scenario on two backends gives the same story.

Compared are connections (ports, GIDs, type, path MTU, queue pairs, route), what each queue of
each queue pair completed and in which order, what was moved and verified, the symptom, and the
codes of findings; never times. A difference is allowed only if ci/parity.tsv names it with its
reason, a fact of the device, and says whether it is always there; what a backend refuses stands
there too, in the words of the refusal. Where queues may differ, for a failure comes at another
moment of the job, they still must begin alike.

docs/parity.md is made from the comparison: `WEFT_PARITY_WRITE=1 pytest ci/test_parity.py` writes
it, and without that it must be up to date.
"""

import csv
import json
import os
import subprocess
from pathlib import Path

import pytest

from guest_kernel import WEFT, needs_guest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "parity.md"
BACKENDS = ("sim", "soft", "rxe")
# Small enough for a guest; what a scenario shows is in its topology and its faults.
SMALL = ["--set", "jobs=[{all_reduce: {bytes: [8, 64KiB, 1MiB]}}]"]
CHANGES = {
    "scenarios/basic/pair.yaml": SMALL,
    "scenarios/basic/triangle.yaml": [*SMALL, "--set", "expect={}"],
    "scenarios/faults/cable-down.yaml": ["--set", "jobs=[{all_reduce: {bytes: 1MiB, repeat: 40}}]"],
    "scenarios/faults/twin-flap.yaml": ["--set", "jobs=[{all_reduce: {bytes: 1MiB, repeat: 400}}]"],
}
PARTIAL = ("line-3", "line-3-relay", "ring-4")  # of meshes where some ranks share no cable
# Scenarios with a fault that ends the job, which the basic ones have not: (file, what is set).
LONG = "jobs=[{all_reduce: {bytes: 1MiB, repeat: 400}}]"
FAILING = {
    "pair, a cable down for good": '{on: "titanic:p0", kind: down, at: 10ms}',
    "pair, a cable that loses all": '{on: "titanic:p0", kind: loss, share: 100%, at: 10ms}',
    "pair, a host killed": "{on: iceberg, kind: kill, at: 10ms}",
}
CHANGES.update({name: ["--set", LONG, "--set", "expect={result: fail}", "--set", f"faults=[{fault}]"]
                for name, fault in FAILING.items()})
# The same as two of these, and faults of the scenarios' own: nothing but that the job fails.
ENDING = ("scenarios/faults/cable-gone.yaml", "scenarios/faults/silent-one-way.yaml")
CHANGES.update({path: ["--set", LONG, "--set", "expect={result: fail}"] for path in ENDING})


# A virtual millisecond after the start may be before the job elsewhere, or after it. These faults
# come at a moment of the job.
MID_JOB = {"scenarios/faults/cable-down.yaml": "jobs+1ms", "scenarios/faults/twin-flap.yaml": "jobs+10ms",
           **{name: "jobs+10ms" for name in (*FAILING, *ENDING)}}
CHANGES_THERE = {(name, backend): ["--set", f"faults.0.at={moment}"]
                 for name, moment in MID_JOB.items() for backend in ("soft", "rxe")}
# Backend soft runs on this machine, whose kernel need not have what impairs cables: there only
# faults of cables that go down, and of hosts.
SOFT_FAULTS = ("scenarios/faults/cable-down.yaml", "scenarios/faults/twin-flap.yaml",
               "scenarios/faults/cable-gone.yaml", "scenarios/faults/mtu-mismatch.yaml",
               "pair, a cable down for good", "pair, a host killed")
ITEMS = ("result", "connections", "completions", "jobs", "symptom", "findings")
BEGINNINGS = "beginnings"  # of the queues that both have; nothing may be named here
# A connection that loses one of several cables divides messages among the others from that moment
# on, and the moment within the job differs between backends.
DIVIDED_ANEW = {"scenarios/faults/twin-flap.yaml"}
REFUSED = "refused"  # the item of a scenario that a backend cannot express


def scenarios():
    files = sorted(str(path.relative_to(ROOT)) for folder in ("basic", "faults")
                   for path in ROOT.glob(f"scenarios/{folder}/*.yaml"))
    return files + [f"scenarios/partial/{name}.yaml" for name in PARTIAL] + list(FAILING)


def backends_of(path):
    is_whole = path.startswith(("scenarios/basic/", "scenarios/partial/"))
    return [b for b in BACKENDS if b != "soft" or is_whole or path in SOFT_FAULTS]


def document(path, backend):
    """The document, or the words with which the backend refused."""
    file = "scenarios/basic/pair.yaml" if path in FAILING else path
    done = subprocess.run(
        [WEFT, "run", file, *CHANGES.get(path, []), *CHANGES_THERE.get((path, backend), []),
         "--backend", backend, *(["--clock", "virtual"] if backend == "rxe" else []), "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "WEFT_SOFT_LAYOUT": "namespaces"})
    if done.returncode == 3:
        return done.stderr.splitlines()[0].split(f"{file}: ", 1)[1]
    # 1: not as the scenario expects, which is a difference like others.
    assert done.returncode in (0, 1), (path, backend, done.stdout[-1500:], done.stderr[-1500:])
    account = json.loads(done.stdout)
    # A fault that is over before the job, or after it, compares nothing.
    assert [warning for warning in account["warnings"] if warning.startswith("fault ")] == [], (path, backend)
    return account


def story(doc):
    """What two backends must agree on, without times."""
    keys = ("from_host", "to_host", "rail", "local_port", "remote_port", "local_gid",
            "remote_gid", "gid_type", "path_mtu", "qps", "transport", "via")
    queue = ("host", "peer", "role", "epoch", "rail", "qp", "queue", "count", "digest", "first")
    symptom = doc["symptom"] or {}
    return {
        "result": doc["result"],
        "connections": sorted(([c[k] for k in keys] for c in doc["connections"]), key=str),
        "completions": sorted([c[k] for k in queue] for c in doc["completions"]),
        "jobs": [[j["job"], j["size_bytes"], j["algorithm"], j["nwrong"]] for j in doc["jobs"]],
        "symptom": [symptom.get("errno"), symptom.get("wc_status")],
        "findings": sorted({f["code"] for f in doc["findings"]
                            if "survived" not in f["evidence"]}),
    }


def allowed():
    with open(ROOT / "ci" / "parity.tsv", encoding="utf-8") as file:
        rows = csv.DictReader((line for line in file if not line.startswith("#")), delimiter="\t")
        return {(r["scenario"], r["backend"], r["item"]): (r["when"], r["reason"]) for r in rows}


def beginnings(one, other):
    """How queues that both have begin differently, as far as both go and neither fails."""
    # The order of several connections with a peer is a matter of time.
    firsts = []
    for account in (one, other):
        several = {(*row[:3], *row[4:7]) for row in account["completions"] if row[3] > 0}
        firsts.append({tuple(row[:7]): row[9] for row in account["completions"]
                       if (*row[:3], *row[4:7]) not in several})
    wrong = []
    for queue in sorted(set(firsts[0]) & set(firsts[1])):
        pairs = zip(firsts[0][queue], firsts[1][queue])
        for mine, theirs in pairs:
            if mine.endswith("_ERR") or theirs.endswith("_ERR"):
                break
            if mine != theirs:
                wrong.append((*queue, mine, theirs))
                break
    return wrong


def comparable(item, account):
    """Without the epoch of a queue: which of two connections of a host with two ranks ended first,
    and so has the lower number, is a matter of time. So is which buffer of a relay a message finds
    free, and with it through which queue pair its pieces go: there, only how many."""
    if item != "completions":
        return account[item]
    is_relayed = any(connection[-1] for connection in account["connections"])
    return sorted([*row[:3], *row[4:8 if is_relayed else None]] for row in account[item])


def differences(stories):
    """{(scenario, backend, item): (on sim, there)} of all that is not as on sim."""
    found = {}
    for (path, backend), account in stories.items():
        reference = stories[path, "sim"]
        if isinstance(account, str):
            found[path, backend, REFUSED] = ("runs", account)
            continue
        for item in ITEMS:
            if comparable(item, account) != comparable(item, reference):
                both = (reference[item], account[item])
                if isinstance(account[item], list):  # what differs is easier to read
                    both = tuple([x for x in one if x not in other]
                                 for one, other in (both, both[::-1]))
                found[path, backend, item] = both
        wrong = beginnings(reference, account)
        if wrong and (path, backend, "completions") in found and path not in DIVIDED_ANEW:
            found[path, backend, BEGINNINGS] = wrong
    return found


def unnamed(found, reasons):
    """Differences that the table does not name, and named ones that are none."""
    wrong = [(key, both) for key, both in found.items()
             if key not in reasons or key[2] == BEGINNINGS
             or (key[2] == REFUSED and reasons[key][1] != both[1])]
    return wrong + [(key, "named, but there is no difference")
                    for key, (when, _) in reasons.items() if key not in found and when == "always"]


def summary(item, account):
    value = account[item]
    if item == "connections":
        mtu = max((row[8] for row in value if row[8] is not None), default=0)
        return f"{len(value)}, path MTU {mtu}" if value else "none"
    if item == "completions":
        return "by queue" if value else "none"  # how many is a matter of plans, not of backends
    if item == "jobs":
        return f"{len(value)} rows, {sum(row[3] or 0 for row in value)} wrong"
    if item == "symptom":
        return f"errno {value[0]}" if value[0] else f"status {value[1]}" if value[1] else "none"
    return ", ".join(value) if isinstance(value, list) and value else str(value or "none")


HEAD = """# Parity

The same scenario on different backends: `=` where the story is the same as on `sim`.
Completions are the work completions of every queue, compared one by one and in order
([cli.md](cli.md)); where a relay takes part, how many of each queue. Made by
`ci/test_parity.py`; what differs, and why, is in `ci/parity.tsv`: anything that is not
named there fails the test.
""".splitlines()


def head():
    return [*HEAD, "", "| scenario | backend | " + " | ".join(ITEMS) + " |", "|---|---|" + "---|" * len(ITEMS)]


def row_begin(path, backend):
    return f"| {path if path in FAILING else f'`{path}`'} | {backend} | "


def notes(reasons):
    """The reasons of all rows, in the order of the page. A row that is refused has none."""
    found = []
    for path in scenarios():
        for backend in backends_of(path):
            for item in ITEMS if (path, backend, REFUSED) not in reasons else ():
                _, reason = reasons.get((path, backend, item), (None, None))
                if reason and reason not in found:
                    found.append(reason)
    return found


def row(path, backend, account, reasons, noted):
    if isinstance(account, str):
        cells = [f"refused: {account}"] + ["-"] * (len(ITEMS) - 1)
    elif backend == "sim":
        cells = [summary(item, account) for item in ITEMS]
    else:
        cells = []
        for item in ITEMS:
            when, reason = reasons.get((path, backend, item), (None, None))
            verb = "differs" if when == "always" else "may differ"
            cells.append(f"{verb} ({noted.index(reason) + 1})" if reason else "=")
    return row_begin(path, backend) + " | ".join(cells) + " |"


def write_page(rows):
    """The page with these rows, {begin of a row: row}, instead of those that it has."""
    old = {text[:text.index("| ", text.index("| ", 2) + 2) + 2]: text
           for text in PAGE.read_text(encoding="utf-8").splitlines() if text.startswith("| ")}
    lines = head()
    for path in scenarios():
        for backend in backends_of(path):
            begin = row_begin(path, backend)
            lines += [rows.get(begin) or old[begin]] if begin in rows or begin in old else []
    reasons = notes(allowed())
    lines += [""] * bool(reasons) + [f"{i}. {note}" for i, note in enumerate(reasons, 1)]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


@needs_guest
@pytest.mark.parametrize("path", scenarios())
def test_backends_tell_the_same_story(path):
    reasons = {key: reason for key, reason in allowed().items() if key[0] == path}
    stories = {}
    for backend in backends_of(path):
        account = document(path, backend)
        stories[path, backend] = account if isinstance(account, str) else story(account)
    assert unnamed(differences(stories), reasons) == []
    rows = [row(*key, account, reasons, notes(allowed())) for key, account in stories.items()]
    if os.environ.get("WEFT_PARITY_WRITE"):
        write_page({row_begin(*key): text for key, text in zip(stories, rows)})
    begins = tuple(row_begin(*key) for key in stories)
    assert [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(begins)] == rows


def test_the_page_has_all_rows_and_notes():
    begins = [row_begin(path, backend) for path in scenarios() for backend in backends_of(path)]
    reasons = notes(allowed())
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert lines[:len(head())] == head()
    body = lines[len(head()):]
    assert all(line.startswith(begin) for line, begin in zip(body, begins))
    assert body[len(begins):] == [""] * bool(reasons) + [f"{i}. {note}" for i, note in enumerate(reasons, 1)]
    assert {key[0] for key in allowed()} <= set(scenarios())


def test_only_what_is_named_may_differ():
    def queue(qp, digest, first="RDMA_WRITE"):
        return ["titanic", "iceberg", "connector", 0, 0, qp, "send", 1, digest, [first]]

    account = {"result": "pass", "connections": [], "jobs": [], "symptom": [None, None],
               "findings": ["link.down"], "completions": [queue(0, "aa"), queue(1, "bb")]}
    other = {**account, "completions": [queue(0, "aa"), queue(1, "cc")]}
    third = {**account, "completions": [queue(0, "aa"), queue(1, "cc", "RDMA_READ")]}
    stories = {("a", "sim"): account, ("a", "rxe"): other, ("b", "sim"): account, ("b", "rxe"): "no loss"}
    found = differences(stories)
    assert found == {
        ("a", "rxe", "completions"): ([queue(1, "bb")], [queue(1, "cc")]),
        ("b", "rxe", "refused"): ("runs", "no loss")}
    reasons = {("a", "rxe", "completions"): ("always", "why"),
               ("b", "rxe", "refused"): ("always", "no loss")}
    assert unnamed(found, reasons) == []
    assert [key for key, _ in unnamed(found, {})] == list(found)
    assert unnamed(found, {**reasons, ("b", "rxe", "refused"): ("always", "no delay")}) == [
        (("b", "rxe", "refused"), ("runs", "no loss"))]
    assert unnamed(found, {**reasons, ("a", "rxe", "jobs"): ("always", "why")}) == [
        (("a", "rxe", "jobs"), "named, but there is no difference")]
    assert unnamed(found, {**reasons, ("a", "rxe", "jobs"): ("sometimes", "why")}) == []
    # Whatever is named, what both did before a failure is the same.
    assert unnamed(differences({**stories, ("a", "rxe"): third}), reasons) == [
        (("a", "rxe", "beginnings"),
         [("titanic", "iceberg", "connector", 0, 0, 1, "send", "RDMA_WRITE", "RDMA_READ")])]
    assert row("a", "rxe", other, reasons, ["why"]) == "| `a` | rxe | = | = | differs (1) | = | = | = |"
