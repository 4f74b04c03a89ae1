"""What failed in a stage of the gate, kept for its report.

.ci/run sets WEFT_FAILURES to a file and WEFT_STAGE to the stage's name. Each script of a stage appends
a line of JSON for every failure; ci/gate prints them last and writes them to build/ci/verdict.json.
Without WEFT_FAILURES nothing is kept.
"""

import json
import os

MAX_WORDS = 4000


def keep(test, words, again, kind="failed"):
    """Adds a failure.

    `test` names it, `words` is what it printed last, `again` is the command that repeats just that
    from the root of the tree, with its seed and environment. `kind` is "failed", or "flaky" for a
    wire test that passed when it was repeated alone."""
    path = os.environ.get("WEFT_FAILURES")
    if not path:
        return
    row = {"stage": os.environ.get("WEFT_STAGE", ""), "test": test, "kind": kind,
           "words": words[-MAX_WORDS:], "again": again}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def read(path):
    """The failures of a file, in the order in which they were kept."""
    try:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []
