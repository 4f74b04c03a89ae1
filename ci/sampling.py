"""Which part of a heavy family of tests a run takes: an eighth, chosen by the commit, or all.

WEFT_SAMPLE is a number in text, usually of the commit's hash; without it everything runs. The same
commit always takes the same part, and over several commits every case has its turn.
"""

import os
import subprocess
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUARTER = 4  # of spans of seeds
EIGHTH = 8   # of named cases, as suite_takes() in C


def of_commit():
    """The sample of the commit that is checked out, or "0" where there is no git."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    return str(int(done.stdout[:8], 16)) if done.returncode == 0 else "0"


def number():
    """The sample's number, or None where all is taken."""
    text = os.environ.get("WEFT_SAMPLE", "")
    return int(text) if text else None


def span(n):
    """Return first and count of those of `n` numbered cases that this run takes: a quarter, or all."""
    sample = number()
    if sample is None:
        return 0, n
    first = n * (sample % QUARTER) // QUARTER
    return first, n * (sample % QUARTER + 1) // QUARTER - first


def is_turn_of(name, n=EIGHTH):
    """Whether this run takes a test that is heavy by itself: one run in n does, or all."""
    sample = number()
    return sample is None or zlib.crc32(name.encode()) % n == sample % n


def part(cases, n=EIGHTH):
    """Those of `cases` that this run takes: every n-th, from where the sample says."""
    cases = list(cases)
    sample = number()
    if sample is None:
        return cases
    return cases[sample % n::n] or cases[:1]
