"""ci/action: its steps, run as GitHub runs them, for a repository that is not this one."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from guest_kernel import WEFT, needs_guest

ROOT = Path(__file__).resolve().parent.parent
ACTION = yaml.safe_load((ROOT / "ci" / "action" / "action.yml").read_text())
SCENARIO = """\
name: theirs
topology:
  nodes: {a: {ports: [p0]}, b: {ports: [p0]}}
  links: [{endpoints: ["a:p0", "b:p0"], subnet: 10.1.0.0/30}]
jobs:
  - exec:
      a: ibv_rc_pingpong -e -g 1 -d {device} -n 1000
      b: ibv_rc_pingpong -e -g 1 -d {device} -n 1000 {address}
      expect: {output: "^1000 iters in ", within: 20s}
"""
KINDS = ("txt", "json", "xml", "events", "pcapng")


@pytest.fixture(name="prefix", scope="module")
def fixture_prefix(tmp_path_factory):
    """Weft as it is installed."""
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run([ROOT / "ci" / "install", "install"], cwd=ROOT, check=True, capture_output=True, timeout=300,
                   env={**os.environ, "BUILD": str(Path(WEFT).parent), "PREFIX": str(prefix)})
    return prefix


def substitute(text, inputs, outputs):
    """What GitHub makes of ${{ }}."""
    def value(match):
        kind, _, rest = match[1].partition(".")
        return inputs[rest] if kind == "inputs" else outputs[rest.replace(".outputs.", ".")]
    return re.sub(r"\$\{\{ (.*?) \}\}", value, str(text))


def act(workspace, prefix, **given):
    """Runs the steps in a stranger's workspace. (exit status of the first that failed, output, summary)"""
    inputs = {name: spec.get("default", "") for name, spec in ACTION["inputs"].items()} | given
    outputs = {}
    summary = workspace / ".summary"
    summary.write_text("")
    said = ""
    for step in ACTION["runs"]["steps"]:
        if "run" not in step:
            continue  # GitHub's own: the kernel's cache, and artefacts
        assert step["shell"] == "bash"
        output = workspace / ".output"
        output.write_text("")
        env = {"PATH": f"{prefix}/bin:{os.environ['PATH']}", "HOME": os.environ["HOME"],
               "GITHUB_ACTION_PATH": str(ROOT / "ci" / "action"), "GITHUB_OUTPUT": str(output),
               "GITHUB_STEP_SUMMARY": str(summary),
               **{name: substitute(text, inputs, outputs) for name, text in step.get("env", {}).items()}}
        done = subprocess.run(["bash", "-e", "-c", substitute(step["run"], inputs, outputs)], cwd=workspace, env=env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400, check=False)
        said += done.stdout + done.stderr
        if done.returncode != 0:
            return done.returncode, said, summary.read_text()
        for line in output.read_text().splitlines():
            name, _, value = line.partition("=")
            outputs[f"steps.{step['id']}.{name}".removeprefix("steps.")] = value
    return 0, said, summary.read_text()


def needs_pingpong():
    if shutil.which("ibv_rc_pingpong") is None:
        pytest.skip("SKIP lab program: ibv_rc_pingpong is not installed; enable with: ci/deps lab")


@needs_guest
def test_a_stranger_tests_their_programs(tmp_path, prefix):
    """Plain and under three faults, with a result, a capture and an event log of each run."""
    needs_pingpong()
    (tmp_path / "theirs.yaml").write_text(SCENARIO)
    code, said, summary = act(tmp_path, prefix, scenario="theirs.yaml")
    assert code == 0, said
    runs = ("plain", "cut", "loss", "slow")
    assert [f"{name}: passed" for name in runs] == [line for line in said.splitlines() if ": passed" in line]
    assert sorted(path.name for path in (tmp_path / "weft-results").iterdir()) == sorted(
        f"{name}.{kind}" for name in runs for kind in KINDS)
    hashes = {json.loads((tmp_path / "weft-results" / f"{name}.json").read_text())["trace_hash"] for name in runs}
    assert len(hashes) == 4 and all((tmp_path / "weft-results" / f"{name}.pcapng").stat().st_size for name in runs)
    assert all(f"| {name} | passed |" in summary for name in runs)


@needs_guest
@pytest.mark.parametrize("require,expected", [("all", 1), ("plain", 0)])
def test_a_failure_has_its_finding(tmp_path, prefix, require, expected):
    needs_pingpong()
    (tmp_path / "theirs.yaml").write_text(SCENARIO)
    code, said, summary = act(tmp_path, prefix, scenario="theirs.yaml", require=require, folder="kept",
                              faults='off: {at: jobs+3ms, on: "a:p0", kind: down}\n')
    assert code == expected, said
    assert "plain: passed" in said and "off: failed, exit status 1" in said
    assert "| off | **failed** (1) | link.down |" in summary
    assert (tmp_path / "kept" / "off.pcapng").exists() and not (tmp_path / "weft-results").exists()


@pytest.mark.parametrize("given,said", [
    ({"scenario": "no-such.yaml"}, "no-such.yaml"),
    ({"scenario": "theirs.yaml", "faults": "nonsense"}, 'not a line "NAME: {FAULT}": nonsense')])
@needs_guest
def test_mistakes_of_strangers(tmp_path, prefix, given, said):
    (tmp_path / "theirs.yaml").write_text(SCENARIO)
    code, out, _ = act(tmp_path, prefix, **given)
    assert code == 2 and said in out


def test_what_the_action_names_exists():
    for step in ACTION["runs"]["steps"]:
        for script in re.findall(r"\$GITHUB_ACTION_PATH/([\w-]+)", step.get("run", "")):
            assert os.access(ROOT / "ci" / "action" / script, os.X_OK), script
        for name in re.findall(r"inputs\.([\w-]+)", str(step)):
            assert name in ACTION["inputs"]
