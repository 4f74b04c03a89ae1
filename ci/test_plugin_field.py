"""What docs/plugin-design.md says of the field: which test shows that a known mistake is not here, and
what NCCL makes of the ways in which a plugin may describe its devices."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT_FAST") or os.environ.get("WEFT", "build/weft")
PORTS = [("0000:01:00.0", "rocep1s0f0"), ("0000:01:00.1", "rocep1s0f1"),
         ("0002:01:00.0", "roceP2p1s0f0"), ("0002:01:00.1", "roceP2p1s0f1")]


def rows_of(mark):
    """Cells of the table behind `<!-- mark -->`."""
    text = (ROOT / "docs/plugin-design.md").read_text().split(f"<!-- {mark} -->\n\n")[1]
    lines = text.split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


MISTAKES = rows_of("mistakes")


def is_there(test):
    """PATH: NAME, a test of Check's or pytest's that runs; or a bad plugin."""
    path, _, name = test.partition(": ")
    text = (ROOT / path).read_text()
    if not name:
        return path.startswith("ci/bad-plugins/")
    if path.endswith(".py"):
        return f"def {name}(" in text and name.startswith("test_")
    return f"START_TEST({name})" in text and re.search(rf"tcase_add_\w+\(\s*\w+,\s*{name}\b|"
                                                       rf"{{?{name}[,}}]", text) is not None


@pytest.mark.parametrize("mistake, shown", MISTAKES, ids=[row[0][:40] for row in MISTAKES])
def test_a_known_mistake_has_a_test(mistake, shown):
    tests = re.findall(r"`([^`]+)`", shown)
    assert tests and mistake
    assert [test for test in tests if not is_there(test)] == []


def test_all_known_mistakes_are_listed():
    """Seventeen, and four that were mended in the field before."""
    assert len(MISTAKES) == 17 + 4


def spark(function, speed):
    """A host as NCCL writes down what a plugin says: four ports, the GPU on a coherent link."""
    def net(i):
        return (f'<nic><net name="{PORTS[i][1]}" dev="{i}" latency="0" speed="{speed}" port="1" '
                f'guid="0x{16 + i:x}" maxconn="65536" gdr="0"/></nic>')

    def pci(busid, inner):
        return (f'<pci busid="{busid}" class="0x020000" vendor="0x15b3" device="0x1021" '
                f'link_speed="32.0 GT/s PCIe" link_width="4">{inner}</pci>')

    nets = [net(i) for i in range(4)]
    if function == "its own":
        nets = [pci(PORTS[i][0], nets[i]) for i in range(4)]
    elif function.startswith("function 0"):
        nets = [pci(PORTS[i][0], nets[i].replace("</nic>", "") + nets[i + 1].replace("<nic>", ""))
                for i in (0, 2)]
    return (f'<system version="1"><cpu numaid="0" affinity="ffffffff" arch="arm64">{"".join(nets)}'
            '<pci busid="000f:01:00.0" class="0x030200" link_speed="2.5 GT/s PCIe" link_width="16">'
            '<gpu dev="0" sm="121" rank="0" gdr="0"><c2c bw="43125" count="8"/></gpu></pci>'
            '</cpu></system>\n')


@pytest.mark.parametrize("function, speed, to_port, rings",
                         [(*row[:3], row[3:]) for row in rows_of("choices")])
def test_what_nccl_computes_from_a_choice(function, speed, to_port, rings, tmp_path):
    document = tmp_path / "host.xml"
    document.write_text(spark(function, speed))
    env = {name: value for name, value in os.environ.items() if not name.startswith("NCCL_")}
    for release, wanted in zip(("2.25", "2.28"), rings):
        printed = subprocess.run([WEFT, "paths", "--nccl", release, "--nranks", "3", str(document)],
                                 cwd=ROOT, capture_output=True, text=True, check=True, env=env).stdout
        paths = re.findall(r"^PATH GPU/\S+ NET/0-\d \d+ (\S+) ", printed, re.M)
        assert set(paths[-4:]) == {to_port}
        n, bandwidth = re.search(r"^GRAPH ring nChannels (\d+) bwIntra (\S+)", printed, re.M).groups()
        assert f"{n} x {float(bandwidth):g} GB/s" == wanted
