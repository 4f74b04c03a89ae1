"""What README.md tells people to type works, and what it shows is what the program prints.

Every line of a fenced `sh` block is run, in order, in the root of the tree, unless the comment
above the block says `not run by ci/test_readme.py: why`. A `text` block below a comment
`output of: COMMAND` must be what COMMAND prints, where a line `...` stands for any lines. With
WEFT_UPDATE_README=1 lines that differ are replaced instead.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
WEFT = os.environ.get("WEFT_FAST", str(ROOT / "build" / "weft"))
BLOCK = re.compile(r"(?:<!-- (?P<comment>[^\n]*) -->\n)?```(?P<kind>\w+)\n(?P<body>.*?)\n```$",
                   re.DOTALL | re.MULTILINE)


def blocks(kind):
    return [match for match in BLOCK.finditer(README.read_text()) if match["kind"] == kind]


COMMANDS = [line for match in blocks("sh")
            if "not run by" not in (match["comment"] or "")
            for line in match["body"].splitlines()]
OUTPUTS = [(match["comment"].removeprefix("output of: "), match["body"]) for match in blocks("text")
           if (match["comment"] or "").startswith("output of: ")]


def run(command):
    command = command.replace("build/weft", WEFT)
    return subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True,
                          timeout=300, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, "NO_COLOR": "1"})


def squeeze(shown, printed):
    """`printed` with what `...` stands for in `shown` taken out, by the lines that follow it."""
    result, at = [], 0
    for index, line in enumerate(shown):
        if line == "...":
            following = shown[index + 1].split()[:1]
            while at < len(printed) and printed[at].split()[:1] != following:
                at += 1
            result.append("...")
        elif at < len(printed):
            result.append(printed[at])
            at += 1
    return result + printed[at:]


def test_readme_has_commands_and_output():
    assert len(COMMANDS) >= 5
    assert len(OUTPUTS) >= 1


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command):
    result = run(command)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]


@pytest.mark.parametrize("command,shown", OUTPUTS, ids=[command for command, _ in OUTPUTS])
def test_output(command, shown):
    result = run(command)
    assert result.returncode == 0, result.stderr
    printed = [line.rstrip() for line in result.stdout.rstrip().split("\n")]
    now = "\n".join(squeeze(shown.split("\n"), printed))
    if os.environ.get("WEFT_UPDATE_README") and now != shown:
        README.write_text(README.read_text().replace(shown, now))
        return
    assert now == shown


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README.read_text()):
        if "://" not in target:
            assert (ROOT / target).exists(), target
