"""docs/dgx-spark.md: its commands run, its figures are what the program says, its netplan files give
the addresses that the scenarios have, and its cables are the scenarios' cables."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT_FAST", str(ROOT / "build" / "weft"))
TEXT = (ROOT / "docs/dgx-spark.md").read_text()
MESHES = {2: "pair", 3: "triangle", 4: "ring-4"}
# What only a Spark has: NICs, netplan, mpirun. Everything else in the text is run.
ON_A_SPARK = {"sudo", "ip", "ping", "rdma", "ulimit", "export", "unset", "mpirun", "ci/deps", "scp", "git"}


def commands():
    found = re.findall(r"(<!-- on a Spark -->\n)?```sh\n(.*?)```", TEXT, re.DOTALL)
    here = [line for mark, body in found if not mark for line in body.splitlines()]
    there = [line for mark, body in found if mark for line in body.splitlines()]
    return here, there


HERE, THERE = commands()


def table(after):
    """Rows below the first table after `after`, without its head; cells without quotes."""
    lines = iter(TEXT.split(after, 1)[1].splitlines())
    rows = []
    for line in lines:
        if line.startswith("|"):
            rows.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
        elif rows:
            break
    return rows[2:]


PORTS = {netdev: port for _, port, netdev, _, _ in table("which we call twins")}


def scenario(name):
    return yaml.safe_load((ROOT / f"scenarios/spark/{name}.yaml").read_text())


def addresses(mesh):
    """{(host, port): address with prefix} that the scenario gives: .1 at the first end."""
    result = {}
    for link in mesh["topology"]["links"]:
        for twin, subnet in enumerate(link["subnets"]):
            network = subnet.removesuffix(".0/24")
            for last, end in enumerate(link["endpoints"], 1):
                host, cage = end.split(":")
                result[host, f"{cage}.{twin}"] = f"{network}.{last}/24"
    return result


def run(command):
    return subprocess.run(["bash", "-c", command.replace("weft ", f"{shlex.quote(WEFT)} ", 1)],
                          cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
                          stdin=subprocess.DEVNULL, env={**os.environ, "NO_COLOR": "1"})


@pytest.mark.heavy
@pytest.mark.parametrize("command", HERE)
def test_command(command):
    assert command.startswith("weft ")
    ran = run(command)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]


def test_what_is_not_run_needs_a_spark():
    joined = "\n".join(THERE).replace("\\\n", " ").splitlines()
    assert len(joined) >= 10
    for line in joined:
        words = line.split()
        assert words[0] in ON_A_SPARK or words[:2] in (
            ["weft", "plugin"], ["weft", "plugin-check"], ["weft", "doctor"]) or (
                words[:2] == ["weft", "run"] and words[-2:] == ["--backend", "verbs"])


@pytest.mark.parametrize("mesh", MESHES.values())
def test_netplan_gives_the_addresses_of_the_scenario(mesh):
    wanted = addresses(scenario(mesh))
    given = {}
    for file in sorted((ROOT / "docs/netplan").glob(f"{mesh}-spark-?.yaml")):
        host = file.stem.removeprefix(f"{mesh}-")
        for netdev, settings in yaml.safe_load(file.read_text())["network"]["ethernets"].items():
            assert settings["mtu"] == 9000 and settings["dhcp4"] is False
            given[host, PORTS[netdev]], = settings["addresses"]
    assert given == wanted
    assert len({address.rsplit(".", 1)[0] for address in wanted.values()}) == len(wanted) // 2


def test_every_netplan_file_belongs_to_a_mesh():
    names = {file.stem for file in (ROOT / "docs/netplan").glob("*")}
    assert names == {f"{mesh}-spark-{host + 1}" for n, mesh in MESHES.items() for host in range(n)}
    shown = TEXT.split("<!-- file: docs/netplan/triangle-spark-1.yaml -->\n```yaml\n")[1]
    assert shown.split("```")[0] == (ROOT / "docs/netplan/triangle-spark-1.yaml").read_text()


def test_cables_are_crossed_and_those_of_the_text():
    for n, cables in table("**P0 to P1, on every cable.**"):
        documented = {tuple(f"{host}:{cage.lower()}" for host, cage in map(str.split, cable.split(" to ")))
                      for cable in cables.split(", ")}
        links = {tuple(link["endpoints"]) for link in scenario(MESHES[int(n)])["topology"]["links"]}
        assert documented == links
        assert all(a.endswith(":p0") and b.endswith(":p1") for a, b in links)


def test_subnets_are_those_of_the_text():
    links = scenario("ring-4")["topology"]["links"]
    assert [row[1:] for row in table("which gives RDMA a path MTU of 4096")] == [
        link["subnets"] for link in links]


@pytest.mark.heavy
@pytest.mark.parametrize("row", table("<!-- figures -->"), ids=lambda row: f"{row[0]} {row[1]}")
def test_figures(row):
    size = {"all_reduce": "16MiB", "all_to_all": "4MiB"}[row[1]]
    columns = [[], ["--policy", "nccl-2.25"], ["--policy", "nccl-2.30-subnet-aware"],
               ["--policy", "nccl-2.30-subnet-aware", "--set",
                'topology.defaults.env={NCCL_IB_MERGE_NICS: "0"}']]
    measured = []
    for column in columns:
        ran = subprocess.run(
            [WEFT, "run", f"scenarios/spark/{MESHES[int(row[0])]}.yaml", "--json", *column, "--set",
             f"jobs=[{{{row[1]}: {{bytes: {size}}}}}]", "--set", "expect={}"], cwd=ROOT, text=True,
            capture_output=True, check=False, timeout=120)
        document = json.loads(ran.stdout)
        measured.append(document["jobs"][0]["bus_bw_gBps"] if document["result"] == "pass"
                        else document["findings"][0]["code"])
    for is_so, shown in zip(measured, row[2:], strict=True):
        if isinstance(is_so, str):
            assert is_so == shown
        else:  # whole GB/s; a step of a plan more or less is no news
            assert abs(is_so - int(shown)) < 1


def test_files_that_are_named_are_there():
    for name in re.findall(r"`((?:scenarios|docs|ci)/[^`]+\.[a-z]+)`", TEXT):
        assert (ROOT / name).exists(), name
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", TEXT):
        assert (ROOT / "docs" / target).exists(), target
