"""Which tests depend on real time: reads ci/wire-tests.txt and says what of it a run takes.

A test is named as in that file: a Check program without its build directory, a pytest file, or
`FILE::FUNCTION`, or `FILE::FUNCTION[CASE]`.
"""

import re
from pathlib import Path

LIST = Path(__file__).resolve().parent / "wire-tests.txt"
LINE = re.compile(r"(?P<name>\S.*?)\s+(?P<kind>pure|gate|nightly|virtual|sample)\s+(?P<reason>\S.*)")
# What a run may take (check-run's --tests, and WEFT_TESTS for pytest), as the kinds of its tests.
CHOICES = {"all": ("pure", "gate", "nightly", "virtual", "sample"), "pure": ("pure",),
           "wire": ("gate", "nightly", "virtual", "sample"), "wire-gate": ("gate",),
           "real": ("gate", "nightly"), "virtual": ("virtual", "sample"), "virtual-gate": ("sample",)}


def read(path=LIST):
    """{name: kind} of the list. ValueError names a line that is none."""
    kinds = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.fullmatch(line.strip())
        if match is None or match["name"] in kinds:
            what = "not `NAME KIND REASON`" if match is None else "named twice"
            raise ValueError(f"ci/wire-tests.txt:{number}: {what}: {line}")
        kinds[match["name"]] = match["kind"]
    return kinds


def kind_of(test, kinds):
    """The kind that the most specific line gives a test; "pure" without any."""
    for name in (test, test.partition("[")[0], test.partition("::")[0]):
        if name in kinds:
            return kinds[name]
    return "pure"


def takes(choice, test, kinds):
    return kind_of(test, kinds) in CHOICES[choice]


def takes_any_of(choice, path, kinds):
    """Whether a run of `choice` may take a test of this pytest file or Check program."""
    found = {kind for name, kind in kinds.items() if name.startswith(f"{path}::")}
    return bool(({kind_of(path, kinds)} | found) & set(CHOICES[choice]))


# Check programs with tests that expect to die by a signal.
DYING = ("src/base/reduce_test", "src/base/text_test", "src/base/trace_test")


def needs_forks(program, kinds):
    """Whether each test of a Check program needs a process of its own; else one has them all."""
    return kind_of(program, kinds) != "pure" or program in DYING
