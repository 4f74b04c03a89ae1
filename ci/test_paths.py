"""weft paths against what NCCL's own host graph code computed (ci/golden/nccl-paths.tar.xz).

The dumps were made by NCCL 2.25.1 and 2.28.9 without a GPU, from topologies written for Weft:
MANIFEST.tsv has the arguments and settings of each of 2.25.1; NAME.v2.28.9.paths.txt was made with
those of NAME.paths.txt. Rows that cut a topology (--gpus, --fuse, --canon) are left out: these are
options of the program that made the dumps.
"""

import csv
import functools
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.path.abspath(os.environ.get("WEFT", str(ROOT / "build" / "weft")))
ARCHIVE = ROOT / "ci" / "golden" / "nccl-paths.tar.xz"


def manifest():
    with tarfile.open(ARCHIVE) as archive:
        text = archive.extractfile("paths/MANIFEST.tsv").read().decode()
        names = {Path(name).name for name in archive.getnames()}
    rows = list(csv.DictReader(text.splitlines(), delimiter="\t"))
    for row in list(rows):
        newer = row["dump"].replace(".paths.txt", ".v2.28.9.paths.txt")
        if newer in names:
            rows.append({**row, "dump": newer})
    return [row for row in rows if not {"--gpus", "--fuse", "--canon"} & set(row["args"].split())]


ROWS = manifest()


@pytest.fixture(scope="module", name="folder")
def unpack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder / "paths"


def paths(*args, settings="", code=0, cwd=None):
    env = {key: value for key, value in os.environ.items() if not key.startswith("NCCL_")}
    env.update(setting.split("=", 1) for setting in settings.split())
    done = subprocess.run([WEFT, "paths", *map(str, args)], capture_output=True, text=True,
                          timeout=120, check=False, env=env, cwd=cwd)
    assert done.returncode == code, (args, done.returncode, done.stderr[-2000:])
    return done


def sections(text):
    """{name: lines} without comments, and without what the search for rings and trees says."""
    found = {}
    lines = []
    for line in text.splitlines():
        if line.startswith("## "):
            name = line[3:].split(" (")[0]
            lines = found.setdefault(name, [])
        elif line and not line.startswith(("#", "WARN", "INFO", "ERROR")):
            lines.append(line.rstrip())
    found.pop("GRAPHS", None)
    return found


def rules_of(row):
    return "2.28" if ".v2.28.9." in row["dump"] else "2.25"


@pytest.mark.parametrize("xml", sorted({row["xml"] for row in ROWS}))
def test_as_nccl(folder, xml):
    """Every NODE, LINK, PATH and query of every dump of a topology, line by line."""
    for row in (row for row in ROWS if row["xml"] == xml):
        wanted = (folder / row["dump"]).read_text()
        done = paths(folder / xml, "--nccl", rules_of(row), "--dump", *row["args"].split(),
                     settings=row["env"], code=1 if row["rc"] == "3" else 0)
        got, golden = sections(done.stdout), sections(wanted)
        assert list(got) == list(golden), row
        for name, lines in golden.items():
            assert got[name] == lines, (row, name)
        if row["rc"] == "3":
            assert done.stdout.splitlines()[-1].startswith("ERROR ")
            assert done.stderr.count("\n") == 1


def test_every_dump_is_looked_at():
    """A row that vanished from the list would go unnoticed otherwise."""
    assert sum(rules_of(row) == "2.25" for row in ROWS) == 470
    assert sum(rules_of(row) == "2.28" for row in ROWS) == 82
    assert sum(row["rc"] == "3" for row in ROWS) >= 4


PAIR = """<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1"/>
      </pci>
      <pci busid="0000:12:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1"/>
      </pci>
    </pci>
  </cpu>
</system>
"""


@pytest.fixture(name="pair")
def write_pair(tmp_path):
    path = tmp_path / "pair.xml"
    path.write_text(PAIR)
    return path


def path_line(text, start, nth=-1):
    return [line for line in text.splitlines() if line.startswith(f"PATH {start} ")][nth]


def test_what_is_wrong_is_said_with_its_place(tmp_path, pair):
    for text, words in (
            (PAIR.replace(' link_width="16">\n        <gpu dev="0"', '>\n        <gpu dev="0"'),
             "s.xml:4:7: pci: 'link_width' is missing"),
            (PAIR.replace(' arch="x86_64"', ""), "s.xml:2:3: cpu: 'arch' is missing"),
            (PAIR.replace('version="1"', 'version="2"'), "s.xml:1:1: expected a system of version"),
            (PAIR.replace("</system>", ""), "s.xml:13:1: not XML: no element found"),
            (PAIR.replace("<system", "<!DOCTYPE a [<!ENTITY b 'c'>]>\n<system"),
             "a document type is not supported"),
            ("", "s.xml:1:1: not XML"),
            ("<system version='1'/>", "a system without a cpu")):
        (tmp_path / "s.xml").write_text(text)
        assert words in paths("s.xml", code=2, cwd=tmp_path).stderr
    assert "expected 2.25 or 2.28, not 3" in paths(pair, "--nccl", "3", code=2).stderr
    assert "--rank: expected one of the ranks" in paths(pair, "--rank", "2", code=2).stderr
    assert "--nranks: expected" in paths(pair, "--nranks", "0", code=2).stderr
    assert "--shmdev: expected RANK=0x.." in paths(pair, "--shmdev", "5", code=2).stderr
    assert "--p2poff: expected" in paths(pair, "--p2poff", "0", code=2).stderr
    assert "ghost.xml: No such file" in paths("ghost.xml", code=2).stderr
    assert "usage: weft paths" in paths(code=2).stderr
    assert "a GPU has rank 1, of 1 ranks" in paths(pair, "--nranks", "1", code=1).stderr


def test_settings_come_from_the_environment(pair):
    way = functools.partial(path_line, start="GPU/0-11000 GPU/0-12000")
    assert way(paths(pair).stdout).split()[5] == "PIX"
    assert way(paths(pair, settings="NCCL_P2P_DISABLE=1").stdout).split()[5] == "PHB"
    assert way(paths(pair, settings="NCCL_P2P_LEVEL=LOC").stdout).split()[5] == "PHB"
    assert way(paths(pair, settings="NCCL_P2P_LEVEL=nonsense").stdout).split()[5] == "PIX"
    both = "NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1"
    assert way(paths(pair, "--nranks", "4", settings=both).stdout).split()[5] == "NET"
    assert "GPU/0-12000" not in paths(pair, "--nranks", "4", settings=both).stdout.split(
        "SYSTEM after trim")[1].split("QUERIES")[0]


# Two GPUs on one socket, the NIC on the other and on no bus: the example of a published walk
# through NCCL's path finding, with the lists that NCCL printed there.
EXAMPLE = """<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="106">
    <nic><net name="mlx5_2" dev="2" speed="200000" guid="0x2" gdr="1"/></nic>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="106">
    <pci busid="0000:99:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="86" rank="0" gdr="1">
        <nvlink target="0000:bd:00.0" count="4" tclass="0x030200"/>
      </gpu>
    </pci>
    <pci busid="0000:bd:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="86" rank="1" gdr="1">
        <nvlink target="0000:99:00.0" count="4" tclass="0x030200"/>
      </gpu>
    </pci>
  </cpu>
</system>
"""
EXAMPLE_PATHS = {
    "GPU/0-99000 GPU/0-bd000": "NVL(48)->GPU/0-bd000",
    "GPU/0-99000 CPU/0-1": "PCI(24)->CPU/0-1",
    "GPU/0-99000 CPU/0-0": "PCI(24)->CPU/0-1 SYS(10)->CPU/0-0",
    "GPU/0-99000 NET/0-2":
        "PCI(24)->CPU/0-1 SYS(10)->CPU/0-0 PCI(5000)->NIC/0-0 NET(25)->NET/0-2",
    "GPU/0-bd000 GPU/0-99000": "NVL(48)->GPU/0-99000",
    "GPU/0-bd000 NET/0-2":
        "PCI(24)->CPU/0-1 SYS(10)->CPU/0-0 PCI(5000)->NIC/0-0 NET(25)->NET/0-2",
    "NET/0-2 GPU/0-99000":
        "NET(25)->NIC/0-0 PCI(5000)->CPU/0-0 SYS(10)->CPU/0-1 PCI(24)->GPU/0-99000",
    "NET/0-2 GPU/0-bd000":
        "NET(25)->NIC/0-0 PCI(5000)->CPU/0-0 SYS(10)->CPU/0-1 PCI(24)->GPU/0-bd000",
    "NET/0-2 CPU/0-1": "NET(25)->NIC/0-0 PCI(5000)->CPU/0-0 SYS(10)->CPU/0-1",
    "NET/0-2 CPU/0-0": "NET(25)->NIC/0-0 PCI(5000)->CPU/0-0",
    "NET/0-2 NET/0-2": "",
}


def test_the_published_example(tmp_path):
    path = tmp_path / "example.xml"
    path.write_text(EXAMPLE)
    text = paths(path, "--nranks", "4").stdout
    for ends, hops in EXAMPLE_PATHS.items():
        assert path_line(text, ends).split(" :")[1].strip() == hops
