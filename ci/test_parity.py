"""The same scenario on two backends gives the same story.

Compared are connections (ports, GIDs, type, path MTU, queue pairs, route), what was moved and
verified, the symptom, and the codes of findings; never times. A difference is allowed only if
ci/parity.tsv names it with its reason. docs/parity.md is made from the comparison:
`WEFT_PARITY_WRITE=1 pytest ci/test_parity.py` writes it, and without that it must be up to date.
"""

import csv
import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT_FAST", os.environ.get("WEFT", str(ROOT / "build" / "weft")))
SMALL = ["--set", "jobs=[{all_reduce: {bytes: [8, 64KiB, 1MiB]}}]"]
SCENARIOS = {
    "scenarios/basic/pair.yaml": SMALL,
    "scenarios/basic/triangle.yaml": [*SMALL, "--set", "expect={}"],
    "scenarios/basic/triangle-nccl-2.25.yaml": [],
}
ITEMS = ("result", "connections", "jobs", "symptom", "findings")


def has_guest():
    done = subprocess.run([ROOT / "ci" / "rxe-guest", "--path"], capture_output=True, check=False)
    return done.returncode == 0


needs_guest = pytest.mark.skipif(
    not has_guest(), reason="SKIP rxe guest: no guest kernel is built; enable with: make rxe-guest")


def document(path, backend):
    done = subprocess.run([WEFT, "run", path, *SCENARIOS[path], "--backend", backend, "--json"],
                          cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (path, backend, done.stdout[-1500:], done.stderr[-1500:])
    return json.loads(done.stdout)


def story(doc):
    """What two backends must agree on, without times."""
    keys = ("from_host", "to_host", "rail", "local_port", "remote_port", "local_gid",
            "remote_gid", "gid_type", "path_mtu", "qps", "via")
    symptom = doc["symptom"] or {}
    return {
        "result": doc["result"],
        "connections": sorted([c[k] for k in keys] for c in doc["connections"]),
        "jobs": [[j["job"], j["size_bytes"], j["algorithm"], j["nwrong"]] for j in doc["jobs"]],
        "symptom": [symptom.get("errno"), symptom.get("wc_status")],
        "findings": sorted({f["code"] for f in doc["findings"]}),
    }


def allowed():
    with open(ROOT / "ci" / "parity.tsv", encoding="utf-8") as file:
        rows = csv.DictReader((line for line in file if not line.startswith("#")), delimiter="\t")
        return {(r["scenario"], r["backend"], r["item"]): r["reason"] for r in rows}


def table(stories):
    lines = ["# Parity", "",
             "The same scenario on different backends: `=` where the story is the same as on `sim`.",
             "Made by `ci/test_parity.py`; reasons are in `ci/parity.tsv`.", "",
             "| scenario | backend | " + " | ".join(ITEMS) + " |",
             "|---|---|" + "---|" * len(ITEMS)]
    reasons = allowed()
    for (path, backend), told in stories.items():
        reference = stories[path, "sim"]
        cells = []
        for item in ITEMS:
            same = told[item] == reference[item]
            cells.append(summary(item, told) if backend == "sim" else
                         "=" if same else reasons.get((path, backend, item), "DIFFERENT"))
        lines.append(f"| `{path}` | {backend} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def summary(item, told):
    value = told[item]
    if item == "connections":
        return f"{len(value)}, path MTU {value[0][8]}" if value else "none"
    if item == "jobs":
        return f"{len(value)} rows, {sum(row[3] or 0 for row in value)} wrong"
    if item == "symptom":
        return f"errno {value[0]}" if value[0] else f"status {value[1]}" if value[1] else "none"
    return ", ".join(value) if isinstance(value, list) and value else str(value or "none")


@needs_guest
def test_backends_tell_the_same_story():
    stories, wrong = {}, []
    reasons = allowed()
    for path in SCENARIOS:
        for backend in ("sim", "rxe"):
            stories[path, backend] = story(document(path, backend))
    for (path, backend), told in stories.items():
        for item in ITEMS:
            if told[item] != stories[path, "sim"][item] and (path, backend, item) not in reasons:
                wrong.append((path, backend, item, stories[path, "sim"][item], told[item]))
    assert not wrong
    text = table(stories)
    page = ROOT / "docs" / "parity.md"
    if os.environ.get("WEFT_PARITY_WRITE"):
        page.write_text(text, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == text
