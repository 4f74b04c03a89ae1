"""src/diag/findings.awk: text of findings.txt that is wrong is refused by its line; what is right becomes C."""

import ast
import os
import re
import subprocess
from pathlib import Path

import pytest

DIAG = Path(__file__).resolve().parent.parent / "src/diag"
GOOD = """# A comment.

code: a.b
severity: error
cause: one cause
remedy:
  two lines
  of one remedy
decide: x "y" \\n & z
reference: r
explanation:
  First paragraph,
  two lines.

  Second: with a colon.
"""

# name: what is replaced, by what, the line of the message and its words
WRONG = {
    "unknown field": ("reference: r", "referense: r", 10, "unknown field 'referense'"),
    "a field twice": ("reference: r", "cause: r", 10, "'cause' twice in one entry"),
    "a field is missing": ("reference: r\n", "", 3, "a.b: 'reference' is missing"),
    "an empty field": ("reference: r", "reference:", 10, "'reference' is empty"),
    "no such severity": ("error", "fatal", 4, "expected one of error warning info got 'fatal'"),
    "no such place": ("severity: error", "severity: error\nplace: cables", 5,
                      "expected one of cable end ports host peer got 'cables'"),
    "an entry without its code": ("code: a.b\n", "", 3, "an entry begins with 'code:'"),
    "text before any field": ("# A comment.", "  text", 1, "continues no field"),
    "a line without blanks": ("  of one", "of one", 8, "expected 'field: text', or two blanks and text"),
    "two blanks": ("one cause", "one  cause", 5, "blanks at the end, two blanks or a tab"),
    "a blank at the end": ("one cause", "one cause ", 5, "blanks at the end, two blanks or a tab"),
}


def table(text):
    return subprocess.run(["awk", "-f", DIAG / "findings.awk", "-"], input=text, capture_output=True, text=True,
                          check=False, env={**os.environ, "LC_ALL": "C"})


def test_good_text_becomes_c():
    done = table(GOOD)
    assert (done.returncode, done.stderr) == (0, "")
    strings = {name: ast.literal_eval(literal)
               for name, literal in re.findall(r'^ +\.(\w+) = (".*")\}?,$', done.stdout, re.M)}
    assert strings == {"code": "a.b", "cause": "one cause", "remedy": "two lines of one remedy",
                       "decide": 'x "y" \\n & z', "reference": "r",
                       "explanation": "First paragraph, two lines.\n\nSecond: with a colon."}
    assert re.findall(r"\.(?:severity|place) = (\w+)", done.stdout) == ["DIAG_ERROR", "DIAG_AT_CABLE"]
    assert "[DIAG_A_B] = {" in done.stdout


@pytest.mark.parametrize("case", WRONG)
def test_wrong_text_is_refused_by_its_line(case):
    old, new, line, words = WRONG[case]
    assert GOOD.count(old) >= 1
    done = table(GOOD.replace(old, new, 1))
    assert done.returncode == 1
    assert re.fullmatch(rf"-?:{line}: {re.escape(words)}\n", done.stderr), done.stderr


def test_entries_stand_in_the_order_of_the_codes(tmp_path):
    """The compiler refuses two entries that have changed places, and a code without an entry."""
    text = (DIAG / "findings.txt").read_text()
    head, *entries = re.split(r"(?m)^(?=code: )", text)
    swapped = [entries[1], entries[0], *entries[2:]]
    for changed, words in ((entries, None), (swapped, "route.wrong_nic is not where enum diag_code has it"),
                           (entries[:-1], "a code of enum diag_code has no entry")):
        (tmp_path / "table.c").write_text(table(head + "".join(changed)).stdout)
        done = subprocess.run(["gcc", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-fsyntax-only", f"-I{DIAG.parent}",
                               tmp_path / "table.c"],
                              capture_output=True, text=True, check=False)
        assert done.returncode == (0 if words is None else 1)
        assert words is None or words in done.stderr
