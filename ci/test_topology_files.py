"""Topology files as people have them: each is read as it is meant, or called by what it is, and `weft
validate` says the same of it as `weft paths` (docs/paths.md)."""

import json
import re
import subprocess
from collections import Counter

import pytest

from sampling import part
from test_cli import FAST
from topology_files import KINDS, draw

N_FILES = 661
# Azure's NCv4: GPUs alone at their CPUs, with an NVLink to themselves and links without a speed.
LONE_GPU = """<system version="1">
  <cpu numaid="%d" affinity="00ffffff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">
    <pci busid="0001:00:00.0" class="0x030200" link_speed="" link_width="0">
      <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0001:00:00.0" count="12" tclass="0x030200"/></gpu>
    </pci>
    <nic><net name="eth0" dev="0" speed="100000" port="0" latency="0.0" guid="0x0" maxconn="65536" gdr="0"/></nic>
  </cpu>
</system>
"""


def paths(path, *flags):
    return subprocess.run([FAST, "paths", "--nographs", *flags, path], capture_output=True, text=True,
                          timeout=60, check=False)


def bus(text):
    return f"{int(text.replace(':', '').replace('.', ''), 16):x}"


def judge(made, path):
    done = paths(path, "--json", "--nocomm")
    if made.refused is not None:
        assert done.returncode == 2 and re.search(re.escape(str(path)) + ".*" + made.refused, done.stderr), (
            made.kind, done.returncode, done.stderr)
        return
    assert done.returncode == paths(path).returncode == 0, (made.kind, done.stderr)
    assert (made.said is None) == (done.stderr == "") and (made.said or "") in done.stderr, done.stderr
    document = json.loads(done.stdout)
    nodes = Counter(node["type"] for node in document["nodes"])
    assert (nodes["GPU"], nodes["NET"]) == (made.gpus, made.nets), (made.kind, nodes)
    found = {(path["from"], path["to"]): path["type"] for path in document["paths"]}
    near = {(a.split("-")[1], b) for (a, b), kind in found.items()
            if a.startswith("GPU") and b.startswith("NET") and kind in ("PIX", "PXB")}
    # Below each switch a GPU is near to every port.
    for gpu in {gpu for gpu, _ in made.pairs}:
        nics = sum(1 for own, _ in made.pairs if own == gpu)
        assert sum(1 for own, _ in near if own == bus(gpu)) >= nics, (gpu, near)


@pytest.mark.heavy
def test_every_file_is_read_or_called_by_its_name(tmp_path):
    drawn = {}
    for seed in part(range(N_FILES)):
        path = tmp_path / f"{seed}.xml"
        drawn[path] = draw(seed, path)
        judge(drawn[path], path)
    checked = subprocess.run([FAST, "validate", "--json", *drawn], capture_output=True, text=True, timeout=120,
                             check=False)
    valid = {entry["file"]: entry["valid"] for entry in json.loads(checked.stdout)["files"]}
    for path, made in drawn.items():
        assert valid[str(path)] == (made.refused is None), (made.kind, checked.stderr)
        said = [line for line in checked.stderr.splitlines() if line.startswith(f"{path}:")]
        assert made.refused is None or paths(path).stderr.splitlines() == said
    if len(drawn) == N_FILES:
        kinds = Counter(made.kind for made in drawn.values())
        assert len(kinds) == 9 and min(kinds.values()) >= N_FILES // len(KINDS), kinds


def test_a_dump_of_any_machine_of_a_job_is_read(tmp_path):
    """Its ranks begin where those of the machine before end, and the paths are those of its first."""
    text = LONE_GPU % 0
    found = []
    for rank in (0, 1, 7):
        path = tmp_path / f"{rank}.xml"
        path.write_text(text.replace('rank="0"', f'rank="{rank}"'))
        done = paths(path, "--nranks", "8")
        assert done.returncode == 0 and done.stderr == ""
        found.append([line for line in done.stdout.splitlines() if line.startswith(("PATH", "LINK"))])
        done = paths(path)
        assert done.returncode == 0
        assert done.stdout.startswith(f"# nranks {rank + 1} local GPUs 1 rank(me) {rank} comm set\n")
    assert found[0] and found[0] == found[1] == found[2]
