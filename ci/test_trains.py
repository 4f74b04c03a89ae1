"""Packet trains change nothing but the time that a run takes: every scenario, with and without.

What nothing here does by itself, interference in the middle of a train, is sim/train_test.c."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from sampling import part

ROOT = Path(__file__).resolve().parent.parent
# Every scenario twice; under sanitizers other files run them.
WEFT = os.environ.get("WEFT_FAST", os.environ.get("WEFT", str(ROOT / "build" / "weft")))
# Their meshes are large; that of the rest is enough to have relays and many rails.
TOO_LARGE = {"ring-256", "ring-256-timing", "full-mesh-16"}
SCENARIOS = sorted(path for path in (ROOT / "scenarios").rglob("*.yaml")
                   if path.stem not in TOO_LARGE and path.parent.name != "programs")


def run(path, *flags):
    """The whole document as text."""
    process = subprocess.run([WEFT, "run", str(path), "--json", *flags], cwd=ROOT,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             timeout=600, check=False)
    assert process.returncode in (0, 1)
    return process.stdout


@pytest.mark.parametrize("path", part(SCENARIOS), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_document_is_the_same(path):
    with_trains = run(path)
    without = run(path, "--no-trains")
    assert json.loads(with_trains)["trace_hash"] is not None
    assert with_trains == without


def test_packet_level_stories_have_every_packet_of_a_train(tmp_path):
    path = ROOT / "scenarios" / "basic" / "pair.yaml"
    story = tmp_path / "story"
    document = run(path, "--events-level", "packet", "--events", str(story))
    frames = sum(" frame " in line for line in story.read_text().splitlines())
    plain = run(path)
    assert json.loads(plain)["trace_hash"] == json.loads(document)["trace_hash"]
    assert frames == json.loads(plain)["counters"]["tx_packets"]
