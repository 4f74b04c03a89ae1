"""What README.md and the pages for beginners ask people to type works, and shows what is printed.

Every line of a fenced `sh` block is run, in order, in the root of the tree, unless the comment
above the block says `not run by ci/test_readme.py: why`. A comment `exit status N` above it expects
that status of each line. A `yaml` or `c` block below a comment `file: PATH` is written there first. A `text`
block below a comment `output of: COMMAND`, or `output of, exit status N: COMMAND`, must be what
COMMAND prints, where a line `...` stands for any lines. With WEFT_UPDATE_README=1 lines that differ
are replaced instead. ci/test_howto.py does the same with the pages whose commands run in a guest.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", "docs/tutorial.md", "docs/howto-ci.md", "docs/howto-errno.md",
         "docs/howto-extend.md"]
WEFT = os.environ.get("WEFT_FAST", str(ROOT / "build" / "weft"))
BLOCK = re.compile(r"(?:<!-- (?P<comment>[^\n]*) -->\n)?```(?P<kind>\w+)\n(?P<body>.*?)\n```$",
                   re.DOTALL | re.MULTILINE)
OUTPUT_OF = re.compile(r"output of(?:, exit status (?P<status>\d+))?: (?P<command>.*)")
STATUS = re.compile(r"exit status (?P<status>\d+)")


def blocks(page, kind):
    """(comment, body) of the page's fenced blocks of this kind."""
    return [(match["comment"] or "", match["body"])
            for match in BLOCK.finditer((ROOT / page).read_text()) if match["kind"] == kind]


def commands_of(page):
    """(page, command, exit status)."""
    for comment, body in blocks(page, "sh"):
        if "not run by" not in comment:
            match = STATUS.fullmatch(comment)
            status = int(match["status"]) if match else 0
            yield from ((page, line, status) for line in body.splitlines()
                        if line and not line.startswith("#"))


def outputs_of(page):
    """(page, command, exit status, what the page shows)."""
    for comment, body in blocks(page, "text"):
        match = OUTPUT_OF.fullmatch(comment)
        if match:
            yield page, match["command"], int(match["status"] or 0), body


COMMANDS = [case for page in PAGES for case in commands_of(page)]
OUTPUTS = [case for page in PAGES for case in outputs_of(page)]


def write_files(pages):
    """Writes the files that readers are asked to write, below build/."""
    for page in pages:
        for comment, body in blocks(page, "yaml") + blocks(page, "c"):
            if comment.startswith("file: "):
                path = ROOT / comment.removeprefix("file: ")
                assert path.is_relative_to(ROOT / "build")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(body + "\n")


@pytest.fixture(scope="module", autouse=True)
def pages_files():
    write_files(PAGES)


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
            following = shown[index + 1].split()[:1] if index + 1 < len(shown) else None
            while at < len(printed) and printed[at].split()[:1] != following:
                at += 1
            result.append("...")
        elif at < len(printed):
            result.append(printed[at])
            at += 1
    return result + printed[at:]


@pytest.mark.parametrize("page,command,status", COMMANDS,
                         ids=[f"{page} {command}" for page, command, _ in COMMANDS])
def test_command(page, command, status):
    result = run(command)
    assert result.returncode == status, result.stdout[-2000:] + result.stderr[-2000:]


def check_output(page, command, status, shown):
    result = run(command)
    assert result.returncode == status, result.stderr
    printed = [line.rstrip() for line in result.stdout.rstrip().split("\n")]
    now = "\n".join(squeeze(shown.split("\n"), printed))
    if os.environ.get("WEFT_UPDATE_README") and now != shown:
        (ROOT / page).write_text((ROOT / page).read_text().replace(shown, now))
        return
    assert now == shown


@pytest.mark.parametrize("page,command,status,shown", OUTPUTS,
                         ids=[f"{page} {command}" for page, command, _, _ in OUTPUTS])
def test_output(page, command, status, shown):
    check_output(page, command, status, shown)


@pytest.mark.parametrize("page", PAGES)
def test_page_has_something_to_type(page):
    assert any(case[0] == page for case in COMMANDS)


def check_links(page):
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text()):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), target


EVERY_PAGE = sorted(str(page.relative_to(ROOT)) for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# What pages name that is an example, or the kernel's.
EXAMPLES = {"ci/corpus/x/", "rdma_vlan_dev_real_dev"}
# Files and functions of this tree, as pages write them; files of NCCL end in .cc.
OWN_FILE = re.compile(r"(?:src|sim|backends|ci|docs|scenarios)/[a-z0-9_./-]+(?<!\.cc)")
OWN_NAME = re.compile(r"(?:weft|io|sim|conn|boot|xfer|flow|rdma|host|diag|mesh|coll|run|plugin|engine|soft|lab|linux"
                      r"|verbs|rxe|hostmem|world|transport|ipc|scenario|topo)_[a-z0-9_]*[a-z0-9]")


@pytest.fixture(scope="module", name="words")
def fixture_words():
    """The words of all sources and scripts, and the names of their files."""
    words = set()
    for folder in ("src", "sim", "backends", "ci"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".c", ".h", ".py", ".def", "") and file.is_file():
                words |= {file.stem, *re.findall(r"\w+", file.read_text(errors="replace"))}
    return words


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_links_lead_somewhere(page):
    check_links(page)


@pytest.mark.parametrize("page", [page for page in EVERY_PAGE if page != "CHANGELOG.md"])
def test_files_and_functions_exist(page, words):
    quoted = set(re.findall(r"`([^`\n]+)`", (ROOT / page).read_text())) - EXAMPLES
    assert not {text for text in quoted if OWN_FILE.fullmatch(text)
                and not (ROOT / text).exists() and not (ROOT / f"{text}.c").exists()}
    assert not {text for text in quoted if OWN_NAME.fullmatch(text.removesuffix("()"))
                and text.removesuffix("()") not in words}
