"""A few random settings of every cause, judged by `weft diagnose` from observations alone."""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import finding_causes as causes  # noqa: E402

WEFT = os.environ.get("WEFT_FAST", os.environ.get("WEFT", "build/weft"))


def test_every_cause_is_named():
    done = subprocess.run([sys.executable, "ci/findings", "--weft", WEFT, "--seed", "20261121",
                           "--count", "2"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "findings: PASS" in done.stdout


def test_a_corrupted_packet_is_always_one_that_is_compared():
    """Seed 533333428 drew packets that no result depends on, twenty times in a row."""
    done = subprocess.run([sys.executable, "ci/findings", "--weft", WEFT, "--seed", "533333428",
                           "--count", "25", "--cause", "data_wrong"],
                          capture_output=True, text=True, check=False)
    assert re.search(r"^data_wrong +25 +0 +0 +0 *$", done.stdout, re.M), done.stdout + done.stderr


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
