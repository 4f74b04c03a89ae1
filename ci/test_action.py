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


# ---- without the guest's kernel ----

def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


# Stands in for `weft run`: prints its words and a command of GitHub's, writes a document, and fails under `off`.
RUNS = """\
[ "$1" = run ] || exec "$REAL" "$@"
for word; do case $word in --json=*) echo '{"findings": [{"code": "link.down"}]}' >"${word#--json=}" ;; esac; done
echo "$*"
echo "  ::error::x"
case $* in *kind:\\ off*) exit 1 ;; esac
"""
OFF = 'off: {at: 0s, on: "a:p0", kind: off}\n'


def judge(workspace, scenario="theirs.yaml", **given):
    """ci/action/test with a `weft run` that runs nothing: (exit status, output, summary)"""
    program(workspace / "bin" / "weft", RUNS)
    summary = workspace / ".summary"
    summary.write_text("")
    env = {"PATH": f"{workspace}/bin:{os.environ['PATH']}", "REAL": str(Path(WEFT).resolve()),
           "GITHUB_STEP_SUMMARY": str(summary), "ACTION_SCENARIO": scenario,
           **{f"ACTION_{name.upper()}": text for name, text in given.items()}}
    done = subprocess.run([ROOT / "ci" / "action" / "test"], cwd=workspace, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, summary.read_text()


@pytest.mark.parametrize("given,said", [
    ({"require": "plian"}, "require: expected all or plain, got: plian"),
    ({"faults": OFF + "nonsense"}, 'not a line "NAME: {FAULT}": nonsense'),
    ({"faults": OFF + OFF}, f"two runs would be called off: {OFF.strip()}"),
    ({"faults": "plain: {}"}, "two runs would be called plain: plain: {}"),
    ({"faults": "../x: {}"}, 'not a line "NAME: {FAULT}": ../x: {}'),
    ({"scenario": "alone.yaml"}, "alone.yaml has no cable for the faults that are the default: give others"),
    ({"scenario": "no-such.yaml"}, "no-such.yaml: cannot read: No such file or directory")])
def test_a_wrong_input_is_refused_before_the_first_run(tmp_path, given, said):
    (tmp_path / "theirs.yaml").write_text(SCENARIO)
    (tmp_path / "alone.yaml").write_text(re.sub("links: .*", "links: []", SCENARIO))
    assert judge(tmp_path, **given) == (2, said + "\n", "")
    assert not (tmp_path / "weft-results").exists()


def test_a_fault_is_at_a_host_and_not_at_its_switch(tmp_path):
    (tmp_path / "theirs.yaml").write_text("""\
name: theirs
topology:
  nodes: {a: {ports: [p0]}, b: {ports: [p0]}}
  switches: {sw0: {ports: 2}}
  links: [{endpoints: ["sw0:0", "b:p0"], addresses: [10.1.0.2/24]}, {endpoints: ["a:p0", "sw0:1"]}]
jobs: [{all_reduce: {bytes: 1}}]
""")
    assert judge(tmp_path)[0] == 0
    assert 'on: "b:p0", kind: loss' in (tmp_path / "weft-results" / "loss.txt").read_text()


def test_inputs_are_words_and_no_commands(tmp_path):
    name = "$(touch bad) `touch bad`; touch bad \"'.yaml"
    (tmp_path / name).write_text(SCENARIO)
    code, said, summary = judge(tmp_path, name, folder="a $(touch bad)", faults="x: {on: $(touch bad)`touch bad`;}\n")
    assert code == 0, said
    assert not (tmp_path / "bad").exists() and not (tmp_path / "a $(touch bad)" / "bad").exists()
    recorded = (tmp_path / "a $(touch bad)" / "x.txt").read_text()
    assert recorded.startswith(f"run --backend rxe {name} --set faults=[{{on: $(touch bad)`touch bad`;}}] ")
    assert "`" not in summary and summary.startswith("### ??touch bad? ?touch bad?? touch bad ??.yaml\n")


def test_what_programs_print_is_no_command_of_github(tmp_path):
    (tmp_path / "theirs.yaml").write_text(SCENARIO)
    code, said, summary = judge(tmp_path, faults=OFF)
    assert code == 1 and "::error::x" in said and "| off | **failed** (1) | link.down |" in summary
    assert not [line for line in said.splitlines() if line.strip().startswith("::")]
    assert judge(tmp_path, faults=f"\n  {OFF}\n", require="plain")[0] == 0


def installed(tmp_path, **more):
    """What ci/action/install does with a checkout that builds nothing: (its words, outputs, PATH)"""
    source, log = tmp_path / "source", tmp_path / "log"
    program(source / "ci" / "deps", f'echo "deps $1" >>"{log}"\n')
    program(source / "ci" / "rxe-guest", f'echo "{tmp_path}/cache/uml-0/linux"; exit 1\n')
    program(tmp_path / "bin" / "make", f'echo "make $* ${{BUILD-}}${{CFLAGS-}}${{MAKEFLAGS-}}" >>"{log}"\n')
    (source / "VERSION").write_text("9.9\n")
    log.write_text("")
    subprocess.run([ROOT / "ci" / "action" / "install"], check=True, timeout=60, cwd=tmp_path,
                   env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "ACTION_SOURCE": "source",
                        "GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_PATH": str(tmp_path / "path"),
                        "RUNNER_TEMP": str(tmp_path / "temp"), **more})
    outputs = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
    path = tmp_path / "path"
    return log.read_text().splitlines(), outputs, path.read_text() if path.exists() else ""


def test_weft_is_installed_for_the_job_only_and_without_its_variables(tmp_path):
    words, outputs, path = installed(tmp_path, BUILD="Release", CFLAGS="-DTHEIRS", MAKEFLAGS="k")
    assert words == ["deps guest", "deps lab", f"make -C source -j{len(os.sched_getaffinity(0))} all ",
                     f"make -C source install PREFIX={tmp_path}/temp/weft "]
    assert path == f"{tmp_path}/temp/weft/bin\n"
    system = dict(re.findall(r'^(ID|VERSION_ID)="?([^"\n]*)"?$', Path("/etc/os-release").read_text(), re.MULTILINE))
    assert outputs == {"kernel": f"{tmp_path}/cache/uml-0",
                       "key": f"weft-{system['ID']}-{system.get('VERSION_ID', 'rolling')}-{os.uname().machine}-uml-0"}


@pytest.mark.parametrize("version,builds", [("9.9", False), ("9.9.1", True), ("19.9", True)])
def test_a_weft_of_the_same_version_is_used(tmp_path, version, builds):
    program(tmp_path / "bin" / "weft", f"echo weft {version}\n")
    words, outputs, path = installed(tmp_path)
    assert bool(words) == builds == bool(path) and outputs["kernel"] == f"{tmp_path}/cache/uml-0"


@pytest.mark.parametrize("is_old", [False, True])
def test_packages_are_few_and_old_lists_are_renewed(tmp_path, is_old):
    """The lists of a runner's image name packages that its mirror has no more."""
    log = tmp_path / "log"
    program(tmp_path / "id", "echo 0\n")
    program(tmp_path / "dpkg", "echo amd64\n")
    program(tmp_path / "dpkg-query", "exit 1\n")
    program(tmp_path / "apt-cache", "exit 0\n")
    program(tmp_path / "apt-get", f"""\
case $* in *--print-uris*) exit 0 ;; *update*) touch {tmp_path}/new ;; esac
echo "$*" >>"{log}"
case $* in install*) {f'[ -e {tmp_path}/new ] || {{ echo "404  Not Found"; exit 100; }}' if is_old else ''} ;; esac
""")
    done = subprocess.run([ROOT / "ci" / "deps", "guest"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, text=True,
                          capture_output=True, timeout=60, check=False)
    calls = log.read_text().splitlines()
    assert done.returncode == 0 and done.stdout.endswith("ci/deps: done\n")
    assert [call.split()[0] for call in calls] == (["install", "update", "install"] if is_old else ["install"])
    assert ("404  Not Found" in done.stderr) == is_old and calls[0] == calls[-1]
    assert {"gcc", "libelf-dev", "bison", "ibverbs-providers"} <= set(calls[0].split())
    assert not {"clang", "tshark", "cppcheck", "fish"} & set(calls[0].split())


def test_the_action_is_what_github_takes():
    """Inputs are in no script, which GitHub would put them into; what names exist; a cache of the right kernel."""
    steps = ACTION["runs"]["steps"]
    for step in steps:
        assert "${{" not in step.get("run", "")
        for script in re.findall(r"\$GITHUB_ACTION_PATH/([\w-]+)", step.get("run", "")):
            assert os.access(ROOT / "ci" / "action" / script, os.X_OK), script
        for name in re.findall(r"inputs\.([\w-]+)", str(step)):
            assert name in ACTION["inputs"]
        for name in re.findall(r"steps\.([\w-]+)", str(step)):
            assert name in [other.get("id") for other in steps[:steps.index(step)]]
    restore, save = (next(step for step in steps if f"cache/{verb}@" in step.get("uses", ""))
                     for verb in ("restore", "save"))
    assert restore["with"] == save["with"]
    page = (ROOT / "docs" / "howto-ci.md").read_text()
    assert all(f"| `{name}` |" in page for name in ACTION["inputs"])
