"""What the pages about programs in a mesh ask people to type works, in a guest, and shows what is printed.

ci/test_readme.py says how the pages are read.
"""

import re
import shutil
from pathlib import Path

import pytest

from guest_kernel import needs_guest
from test_readme import ROOT, check_links, check_output, commands_of, outputs_of, run, write_files

pytestmark = needs_guest

PAGES = ["docs/howto-verbs.md", "docs/howto-mpi.md", "docs/howto-nccl.md", "docs/howto-hang.md"]
COMMANDS = [case for page in PAGES for case in commands_of(page)]
OUTPUTS = [case for page in PAGES for case in outputs_of(page)]
PROGRAM = re.compile(r"\b(ibv_\w+pingpong|ib_\w+_(?:bw|lat)|rping|ucx_perftest|mpirun)\b")


@pytest.fixture(scope="module", autouse=True)
def pages_files():
    write_files(PAGES)


def needs_programs_of(command):
    """Skips a command with a program that is not here, itself or in its scenario."""
    files = re.findall(r"scenarios/\S+\.yaml", command)
    text = command + "".join((ROOT / file).read_text().partition("jobs:")[2] for file in files)
    for program in PROGRAM.findall(text):
        if shutil.which(program) is None:
            pytest.skip(f"SKIP lab program: {program} is not installed; enable with: ci/deps lab")
    if "mpi4py" in text and not Path("/usr/lib/python3/dist-packages/mpi4py").exists():
        pytest.skip("SKIP lab program: mpi4py is not installed; enable with: ci/deps lab")


@pytest.mark.parametrize("page,command,status", COMMANDS,
                         ids=[f"{page} {command}" for page, command, _ in COMMANDS])
def test_command(page, command, status):
    needs_programs_of(command)
    result = run(command)
    assert result.returncode == status, page + result.stdout[-2000:] + result.stderr[-2000:]


@pytest.mark.parametrize("page,command,status,shown", OUTPUTS,
                         ids=[f"{page} {command}" for page, command, _, _ in OUTPUTS])
def test_output(page, command, status, shown):
    needs_programs_of(command)
    check_output(page, command, status, shown)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    check_links(page)
