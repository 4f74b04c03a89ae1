"""The inside of hosts: topology documents of scenarios, this machine, recorded ones."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT", str(ROOT / "build" / "weft"))
SPARK = ROOT / "scenarios/topology/dgx-spark.xml"

PAIR = """name: pair
topology:
  nodes:
    a: {ports: [p0, p1], gpu: {topology: %s}%s}
    b: {ports: [p0, p1]}
  links:
    - {endpoints: ["a:p0", "b:p0"], subnet: 10.1.0.0/30}
    - {endpoints: ["a:p1", "b:p1"], subnet: 10.1.1.0/30}
jobs:
  - all_reduce: {bytes: 64KiB}
"""


def weft(*args, code=0, env=None):
    done = subprocess.run([WEFT, *map(str, args)], cwd=ROOT, capture_output=True, text=True,
                          timeout=120, env={**os.environ, "NO_COLOR": "1", **(env or {})},
                          check=False)
    assert done.returncode == code, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done


def pair(tmp_path, document, more=""):
    path = tmp_path / "pair.yaml"
    path.write_text(PAIR % (document, more))
    return path


def test_a_host_with_a_topology_document_runs(tmp_path):
    (tmp_path / "spark.xml").write_text(SPARK.read_text())
    assert "ok" in weft("validate", pair(tmp_path, "spark.xml")).stdout
    weft("run", pair(tmp_path, "spark.xml"))


def test_what_is_wrong_is_told_with_the_places_in_both_files(tmp_path):
    document = tmp_path / "x.xml"
    path = pair(tmp_path, "x.xml")
    for text, wanted in (
            ("<system version='1'>\n  <cpu numaid='0' arch='arm64'>\n <pci/>", "x.xml:3:8: not XML"),
            ("<other/>", "x.xml:1:1: expected a system with a cpu"),
            ("<system version='1'>\n<cpu numaid='0' arch='arm64'/></system>",
             "x.xml:1:1: there are fewer GPUs than processes")):
        document.write_text(text)
        said = weft("validate", path, code=2).stderr
        assert f"{path}:4:42: topology: {tmp_path}/{wanted}" in said, said
        assert said == weft("run", path, code=2).stderr
    document.unlink()
    assert f"{path}:4:42: topology: cannot read" in weft("run", path, code=2).stderr


def test_a_document_has_a_gpu_for_every_process(tmp_path):
    (tmp_path / "spark.xml").write_text(SPARK.read_text())
    said = weft("show", pair(tmp_path, "spark.xml", ", ranks: 2"), code=2).stderr
    assert "spark.xml:3:1: there are fewer GPUs than processes" in said
