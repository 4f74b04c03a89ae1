"""weft paths against what NCCL's own host graph code computed (ci/golden/nccl-paths.tar.xz).

The dumps were made by NCCL 2.25.1 and 2.28.9 without a GPU, from topologies written for Weft:
MANIFEST.tsv has the arguments and settings of each of 2.25.1; NAME.v2.28.9.paths.txt was made with
those of NAME.paths.txt. Rows that cut a topology (--gpus, --fuse, --canon) are left out: these are
options of the program that made the dumps.
"""

import csv
import functools
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from sampling import part

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.path.abspath(os.environ.get("WEFT", str(ROOT / "build" / "weft")))
FAST = os.path.abspath(os.environ.get("WEFT_FAST", WEFT))  # for the dumps: searches are long
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


def paths(*args, settings="", code=0, cwd=None, program=WEFT):
    env = {key: value for key, value in os.environ.items() if not key.startswith("NCCL_")}
    env.update(setting.split("=", 1) for setting in settings.split())
    done = subprocess.run([program, "paths", *map(str, args)], capture_output=True, text=True,
                          timeout=120, check=False, env=env, cwd=cwd)
    assert done.returncode == code, (args, done.returncode, done.stderr[-2000:])
    return done


def sections(text):
    """{name: lines} without comments, and without where in NCCL's source an error passed."""
    found = {}
    lines = []
    for line in text.splitlines():
        if line.startswith("## "):
            name = line[3:].split(" (")[0]
            lines = found.setdefault(name, [])
        elif line and not line.startswith(("#", "WARN", "INFO ../src", "ERROR")):
            lines.append(line.rstrip())
    return found


def rules_of(row):
    return "2.28" if ".v2.28.9." in row["dump"] else "2.25"


@pytest.mark.parametrize("xml", part(sorted({row["xml"] for row in ROWS})))
def test_as_nccl(folder, xml):
    """Every NODE, LINK, PATH, query, ring and tree of every dump of a topology, line by line."""
    for row in (row for row in ROWS if row["xml"] == xml):
        wanted = (folder / row["dump"]).read_text()
        done = paths(folder / xml, "--nccl", rules_of(row), "--dump", *row["args"].split(),
                     settings=row["env"], code=1 if row["rc"] == "3" else 0, program=FAST)
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


# As clouds ship them: functions only. NCCL adds GPUs and ports from what it finds on the machine.
STUB = """<system version="1">
  <cpu numaid="0"%s>
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0002:00:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>
      <pci busid="0101:00:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"/>
    </pci>
    <pci busid="ffff:ff:02.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0001:00:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>
      <pci busid="0100:00:00.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="16"/>
    </pci>
  </cpu>
</system>
"""
AMD = ' arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49"'


@pytest.mark.heavy
@pytest.mark.parametrize("cpu,says", [(AMD, "link;"), ("", "link, CPUs as Intel's Skylake;")])
def test_a_stub_is_completed_by_default(tmp_path, cpu, says):
    path = tmp_path / "stub.xml"
    path.write_text(STUB % cpu)
    done = paths(path)
    said = "a stub without GPUs, completed by default: 2 GPUs by bus id (sm 90, GPUDirect, no NVLink), 2 NETs"
    assert f"{path}: {said}" in done.stderr and says in done.stderr
    assert "GPU/0-100000 dev 0 rank 0 sm 90 gdr 1" in done.stdout
    assert "GPU/0-200000 dev 1 rank 1 sm 90 gdr 1" in done.stdout
    # Each GPU is nearest to the port behind its own switch.
    for gpu, net in (("GPU/0-100000", "NET/0-0"), ("GPU/0-200000", "NET/0-1")):
        assert " PIX" in path_line(done.stdout, f"{gpu} {net}")
    assert paths(path, "-q").stderr == ""
    checked = subprocess.run([WEFT, "validate", path], capture_output=True, text=True, check=False, timeout=60)
    assert checked.returncode == 0 and f"{path}: ok, {said}" in checked.stdout
    whole = tmp_path / "whole.xml"
    whole.write_text(paths(path, "--xml").stdout)
    done_again = paths(whole)
    assert done_again.stdout == done.stdout and done_again.stderr == ""


def test_a_stub_of_bus_ids_is_completed_by_default(tmp_path):
    """As AWS ships it for g5.48xlarge: the rest is what NCCL finds on the machine."""
    path = tmp_path / "g5.xml"
    path.write_text("<!-- remark -->\n<system version='1'>\n  <cpu numaid='0'>\n    <pci busid='0000:00:16.0'/>\n"
                    "    <pci busid='0000:00:17.0'/>\n  </cpu>\n  <cpu numaid='1'>\n    <pci busid='0000:00:1a.0'/>\n"
                    "  </cpu>\n</system>\n")
    done = paths(path)
    assert ("a stub without GPUs, completed by default: 3 GPUs by bus id (sm 80, GPUDirect, no NVLink), 0 NETs at the "
            "rate of their PCIe link, CPUs as Intel's Skylake, PCIe links as 8 GT/s x16, functions without a class as "
            "GPUs; weft paths FILE --root DIR") in done.stderr
    assert "GPU/0-160 dev 0 rank 0 sm 80 gdr 1" in done.stdout and "LINK PCI 12 -> CPU/0-1" in done.stdout


def test_gpus_without_a_rank_get_one(tmp_path, pair):
    """NCCL sets the ranks of the job that it runs, and what else a GPU lacks."""
    path = tmp_path / "template.xml"
    path.write_text(re.sub(r'<gpu dev="0" .*/>', '<gpu/>', re.sub(r' rank="\d"', "", PAIR)))
    done = paths(path)
    assert ("a stub whose GPUs have no rank, completed by default: 2 GPUs by bus id (where missing: sm 80, "
            "GPUDirect), 0 NETs") in done.stderr
    assert done.stdout == paths(pair).stdout


def test_a_dump_of_some_gpus_is_no_stub(tmp_path):
    """NCCL leaves GPUs without a rank out; a dump that has one GPU is of a job with one."""
    path = tmp_path / "one.xml"
    path.write_text((STUB % AMD).replace('0002:00:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>',
                    '0002:00:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">'
                    '<gpu dev="0" sm="80" rank="0" gdr="1"/></pci>'))
    done = paths(path)
    assert done.stderr == "" and "local GPUs 1 " in done.stdout


# What is no topology of NCCL's, and how it is called.
FOREIGN = {
    "RCCL": ('<system version="2">\n  <cpu numaid="0"/>\n</system>', "1:1: RCCL's topology"),
    "RCCL 1": ('<system version="1"><cpu numaid="0"><pci busid="0000:01:00.0" class="0x038000"><gpu dev="0" sm="94" '
               'gcn="942" rank="0" gdr="1"/></pci></cpu></system>', "1:1: RCCL's topology (GPUs with gcn or xgmi)"),
    "graphs": ('<graphs version="1"/>', "1:1: channels of NCCL (NCCL_GRAPH_FILE)"),
    "hwloc 2": ('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'
                '<topology version="2.0">\n</topology>', ": hwloc's XML (lstopo)"),
    "hwloc": ('<topology version="2.0"/>', "1:1: hwloc's XML (lstopo)"),
    "a large hwloc": (f'<topology version="2.0">{"<object/>" * 200}</topology>', "1:1: hwloc's XML (lstopo)"),
    "SimAI": ("44 8 4 8 64 H100\n32 33 34\n0 32 2880Gbps 0.000025ms 0\n", "1:1: a topology of SimAI or ns-3"),
    "ns-3": ("6 2 5\n4 5\n0 4 100Gbps 1us 0\n", "1:1: a topology of SimAI or ns-3"),
    "numbers": ("6 2\n", "1:1: not XML"),
    "no GPU": ('<system version="1"><cpu numaid="0" arch="arm64"/></system>', ": no GPU has a rank"),
}


@pytest.mark.heavy
@pytest.mark.parametrize("kind", sorted(FOREIGN))
def test_other_topologies_are_named(tmp_path, kind):
    text, words = FOREIGN[kind]
    path = tmp_path / "other.xml"
    path.write_text(text)
    said = paths(path, code=2).stderr
    assert f"{path}:{words}" in said or (words.startswith(": ") and words in said), said
    checked = subprocess.run([WEFT, "validate", path], capture_output=True, text=True, check=False, timeout=60)
    assert checked.returncode == 2 and checked.stderr.removeprefix("weft: ") == said.removeprefix("weft: ")


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
            (PAIR.replace('version="1"', 'version="2"'), "s.xml:1:1: RCCL's topology (a system of version 2)"),
            (PAIR.replace('version="1"', 'version="3"'), "s.xml:1:1: expected a system of version"),
            (PAIR.replace("</system>", ""), "s.xml:13:1: not XML: no element found"),
            (PAIR.replace("<system", "<!DOCTYPE a [<!ENTITY b 'c'>]>\n<system"),
             "a document type is not supported"),
            ("", "s.xml:1:1: not XML"),
            ("<system version='1'/>", "a system without a cpu")):
        (tmp_path / "s.xml").write_text(text)
        assert words in paths("s.xml", code=2, cwd=tmp_path).stderr
    with open(tmp_path / "huge.xml", "wb") as file:
        file.truncate((16 << 20) + 1)
    for name in ("huge.xml", "/dev/zero"):
        assert f"{name}:1:1: longer than 16 MiB" in paths(name, code=2, cwd=tmp_path).stderr
    assert "expected 2.25 or 2.28, got '3'" in paths(pair, "--nccl", "3", code=2).stderr
    assert "--rank: expected one of the ranks" in paths(pair, "--rank", "2", code=2).stderr
    assert "--nranks: expected" in paths(pair, "--nranks", "0", code=2).stderr
    assert "--shmdev: expected RANK=0x.." in paths(pair, "--shmdev", "5", code=2).stderr
    for numbers in ("", "0", "0,0", "0,99", "99,0"):
        assert ("--p2poff: expected the numbers of two of the GPUs, as A,B, got '%s'" % numbers
                in paths(pair, "--p2poff", numbers, code=2).stderr)
    for ranks in ("", "0,2"):
        assert "--nogdr: expected ranks" in paths(pair, "--nogdr", ranks, code=2).stderr
    for version in ("3", "13", "v8", ""):
        assert "--netversion: expected a number from 4 to 12" in paths(pair, "--netversion", version, code=2).stderr
    assert "weft paths: --root: /ghost/sys: No such file" in paths("--root", "/ghost", code=2).stderr
    assert "weft paths: --root: /ghost/sys: No such file" in paths(pair, "--root", "/ghost", code=2).stderr
    assert "ghost.xml: No such file" in paths("ghost.xml", code=2).stderr
    assert "usage: weft paths" in paths(pair, pair, code=2).stderr  # no file: this machine
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


INFO = """NCCL INFO === System : maxBw 10.0 totalBw 80.0 ===
NCCL INFO CPU/0-0 (1/1/2)
NCCL INFO + PCI[24.0] - NIC/0-31000
NCCL INFO               + NET[12.5] - NET/0-0 (0/506b4b0300a10000/1/12.500000)
NCCL INFO + SYS[10.0] - CPU/0-1
NCCL INFO CPU/0-1 (1/1/2)
NCCL INFO + PCI[24.0] - GPU/0-99000 (0)
NCCL INFO               + NVL[80.0] - GPU/0-bd000
NCCL INFO + PCI[24.0] - GPU/0-bd000 (1)
NCCL INFO               + NVL[80.0] - GPU/0-99000
NCCL INFO + SYS[10.0] - CPU/0-0
NCCL INFO ==========================================
NCCL INFO GPU/0-99000 :GPU/0-99000 (0/5000.0/LOC) GPU/0-bd000 (1/80.0/NVL) CPU/0-0 (2/10.0/SYS) \
CPU/0-1 (1/24.0/PHB) NET/0-0 (4/10.0/SYS) \n"""


def test_what_nccl_would_log(folder):
    """As NCCL printed it for the same topology, and the lines of GPUDirect with their numbers."""
    xml = folder / "seed_2gpu_nvl_far_nic.xml"
    text = paths(xml, "--info", "--nranks", "4").stdout
    assert text.startswith(INFO.replace("\\\n", ""))
    assert text.splitlines()[14] == (
        "NCCL INFO NET/0-0 :GPU/0-99000 (4/10.0/SYS) GPU/0-bd000 (4/10.0/SYS) "
        "CPU/0-0 (2/12.5/PHB) CPU/0-1 (3/10.0/SYS) NET/0-0 (0/5000.0/LOC) ")
    assert "NCCL INFO GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 7 > 4)\n" in text
    assert "(distance 9 > 5)" in paths(xml, "--info", "--nccl", "2.28").stdout
    near = folder / "dgx1_v100_hcm.xml"
    assert ("NCCL INFO GPU Direct RDMA Enabled for GPU 0 / HCA 0 (distance 3 <= 4), read 0\n"
            in paths(near, "--info", "--nranks", "16").stdout)
    assert all(len(line) <= 1023 + len("NCCL INFO ")
               for line in paths(folder / "dgxa100_8nic.xml", "--info").stdout.splitlines())


def test_why_a_path_is_as_it_is(folder):
    text = paths(folder / "dgx1_v100_hcm.xml", "--nranks", "16", "--explain", "GPU0",
                 "NET1").stdout
    found, relayed, direct = (text.index(words) for words in (
        "  found        PHB, 5 hops, 12 GB/s: PCI(12)->PCI/0-2000 ",
        "  PXN          PXN, 4 hops, 12 GB/s: NVL(20)->GPU/0-a000 ",
        "  GPUDirect    on: PIX is no farther than PXB (NCCL_NET_GDR_LEVEL)"))
    assert found < relayed < direct < text.index("in the end\n  PXN, 4 hops")
    changes = text.split("what would change it\n")[1]
    assert "  NCCL_PXN_DISABLE=1         PHB, 5 hops, 12 GB/s: PCI(12)->PCI/0-2000 " in changes
    assert "  NCCL_NET_GDR_READ=0        PXN, " in changes
    assert "NCCL_SHM_DISABLE" not in changes
    # What is said to change it does.
    after = paths(folder / "dgx1_v100_hcm.xml", "--nranks", "16", settings="NCCL_PXN_DISABLE=1")
    assert path_line(after.stdout, "GPU/0-6000 NET/0-1").split()[3:6] == ["5", "12", "PHB"]


def test_why_not(folder):
    spark = folder / "spark_gb10_fn_split.xml"
    text = paths(spark, "--nccl", "2.28", "--nranks", "3", "--explain", "0", "0").stdout
    assert "GPUDirect    off: GPU and NIC do not support it" in text
    assert "  C2C          P2C, 3 hops, 12 GB/s" in text
    assert "no setting would change it" in text
    assert "no such node: GPU7" in paths(spark, "--explain", "GPU7", "0", code=2).stderr
    assert "no such GPU, NET, CPU or NVS: 9" in paths(spark, "--explain", "0", "9",
                                                       code=2).stderr
    assert "usage" in paths(spark, "--explain", "0", code=2).stderr


def test_the_document(folder):
    """--json says what --dump says."""
    xml = folder / "pxn_nvs_half_nics.xml"
    document = json.loads(paths(xml, "--nranks", "16", "--json").stdout)
    text = sections(paths(xml, "--nranks", "16").stdout)
    assert (document["schema_version"], document["nccl"], document["nranks"]) == (1, "2.25", 16)
    assert [f"PATH {path['from']} {path['to']} {len(path['hops'])} {path['bw_gBps']:g} "
            f"{path['type']} :" + "".join(f" {hop['link']}({hop['bw_gBps']:g})->{hop['to']}"
                                          for hop in path["hops"])
            for path in document["paths"]] == sorted(
                text["PATHS after trim and recompute"],
                key=lambda line: ORDER.index(line.split()[1].split("/")[0]))
    checks = [line for line in text["QUERIES"] if line.startswith("CHECKGDR")]
    assert [(int(pair["receive"]), int(pair["send"]))
            for pair in document["gpudirect"]] == [
                (int(line.split("recv(write) ")[1][0]), int(line.split("send(read) ")[1][0]))
                for line in checks]


ORDER = ["GPU", "PCI", "NVS", "CPU", "NIC", "NET"]
