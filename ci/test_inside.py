"""The inside of hosts: topology documents of scenarios, this machine, recorded ones."""

import json
import os
import re
import subprocess
import tarfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import sampling

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
            ("<other/>", "x.xml:1:1: expected a system of version 1"),
            ("<system version='1'>\n<cpu numaid='0' arch='arm64'/></system>",
             "x.xml:1:1: there are fewer GPUs than processes")):
        document.write_text(text)
        said = weft("validate", path, code=2).stderr
        assert f"{path}:4:42: topology: {tmp_path}/{wanted}" in said, said
        assert said == weft("run", path, code=2).stderr
    document.unlink()
    assert f"{path}:4:42: topology: cannot read" in weft("run", path, code=2).stderr


def test_a_document_can_be_checked_by_itself(tmp_path):
    assert weft("validate", SPARK).stdout == f"{SPARK}: ok\n"
    document = tmp_path / "x.xml"
    document.write_text("<system version='1'>\n<cpu arch='arm64'/></system>")
    assert f"{document}:2:1: cpu: 'numaid' is missing" in weft("validate", document, code=2).stderr


def test_a_document_has_a_gpu_for_every_process(tmp_path):
    (tmp_path / "spark.xml").write_text(SPARK.read_text())
    said = weft("show", pair(tmp_path, "spark.xml", ", ranks: 2"), code=2).stderr
    assert "spark.xml:3:1: there are fewer GPUs than processes" in said


# --- recorded machines ---------------------------------------------------------------------
# A machine is a list of PCI paths with what sysfs shows of them. The oracle below makes the
# expected document from the list alone: the way up of each device, every second port left out.

SM = {0x2330: 90, 0x20b2: 80, 0x2e12: 121}


class Machine:
    def __init__(self, cpuinfo, nodes):
        self.cpuinfo, self.nodes, self.pci, self.rdma, self.modules = cpuinfo, nodes, {}, [], []

    def add(self, place, kind, speed="32.0 GT/s PCIe", width=16, numa=0, device=0x1021):
        code = {"bridge": "0x060400", "gpu": "0x030200", "nic": "0x020000"}[kind]
        vendor = {"bridge": "0x1000", "gpu": "0x10de", "nic": "0x15b3"}[kind]
        self.pci[place] = {"class": code, "vendor": vendor, "device": f"0x{device:04x}",
                           "subsystem_vendor": vendor, "subsystem_device": "0x0001",
                           "max_link_speed": speed, "max_link_width": str(width),
                           "numa_node": str(numa), "kind": kind}
        return place

    def write(self, root):
        def put(path, text):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        put(root / "proc/cpuinfo", self.cpuinfo)
        for node, cpumap in self.nodes.items():
            put(root / f"sys/devices/system/node/node{node}/cpumap", cpumap)
        bus = root / "sys/bus/pci/devices"
        bus.mkdir(parents=True)
        for place, facts in self.pci.items():
            for name, text in facts.items():
                put(root / "sys/devices" / place / name, text)
            (bus / place.split("/")[-1]).symlink_to(f"../../../devices/{place}")
        for name, place, port, state, rate in self.rdma:
            device = root / "sys/class/infiniband" / name
            put(device / "sys_image_guid", "0011:2233:4455:6677")
            put(device / f"ports/{port}/state", state)
            put(device / f"ports/{port}/rate", rate)
            if place is not None and not (device / "device").exists():
                (device / "device").symlink_to(f"../../../devices/{place}")
        for module in self.modules:
            put(root / "sys/module" / module / "refcnt", "0")
        return root


def rate_of(text):
    return float(text.split()[0]) if text[:1].isdigit() else float("inf")


def pci_attributes(machine, place):
    facts = machine.pci[place]
    above = machine.pci.get(place.rsplit("/", 1)[0], {})
    slot = above.get("max_link_speed", "")
    slower = slot if rate_of(slot) < rate_of(facts["max_link_speed"]) else facts["max_link_speed"]
    width = min(int(facts["max_link_width"]), int(above.get("max_link_width", 0)))
    keys = ("class", "vendor", "device", "subsystem_vendor", "subsystem_device")
    return {"busid": place.split("/")[-1], **{key: facts[key] for key in keys},
            "link_speed": slower, "link_width": str(width)}


def cpu_attributes(machine, numa):
    facts = dict(line.split("\t: ") for line in machine.cpuinfo.splitlines())
    out = {"host_hash": "0", "numaid": str(numa)}
    if numa in machine.nodes:
        out["affinity"] = machine.nodes[numa]
    if "vendor_id" not in facts:
        return {**out, "arch": "arm64"}
    family = int(facts["cpu family"])
    family = family if family < 15 else 15 + 16 * (family - 15)
    return {**out, "arch": "x86_64", "vendor": facts["vendor_id"], "familyid": str(family),
            "modelid": facts["model"]}


def way_up(place):
    """The places that NCCL keeps, from the CPU down: the device and every second port above."""
    parts = place.split("/")[1:]
    return [f"{place.split('/')[0]}/" + "/".join(parts[:i]) for i in range(len(parts), 0, -2)][::-1]


def expected(machine):
    """As nested lists [tag, attributes, children]."""
    gpus = sorted((p for p, facts in machine.pci.items() if facts["kind"] == "gpu"),
                  key=lambda p: p.split("/")[-1])
    active = [r for r in sorted(machine.rdma) if "ACTIVE" in r[3]]
    gdr = bool(machine.modules)
    root = ["system", {"version": "1"}, []]

    def below(parent, place):
        for child in parent[2]:
            if child[1].get("busid") == place.split("/")[-1]:
                return child
        child = ["pci", pci_attributes(machine, place), []]
        parent[2].append(child)
        return child

    def reach(tree, place):
        way = way_up(place)
        numa = machine.pci[way[0]]["numa_node"]
        at = next((c for c in tree[2] if c[1]["numaid"] == numa), None)
        if at is None:
            at = ["cpu", cpu_attributes(machine, int(numa)), []]
            tree[2].append(at)
        for step in way:
            fresh = below(at, step)
            at[2].sort(key=lambda c: c[1].get("busid", ""))
            at = fresh
        return at

    def describe(rank):
        tree = ["system", {"version": "1"}, []]
        if rank is not None:
            facts = machine.pci[gpus[rank]]
            sm = SM[int(facts["device"], 16)]
            reach(tree, gpus[rank])[2].append(
                ["gpu", {"dev": str(rank), "sm": str(sm), "rank": str(rank),
                         "gdr": "0" if sm == 121 else "1"}, []])
        else:
            tree[2] += [["cpu", cpu_attributes(machine, n), []] for n in sorted(machine.nodes)]
        for dev, (name, place, port, _, rate) in enumerate(active):
            at = reach(tree, place) if place is not None else tree[2][0]
            nic = next((c for c in at[2] if c[0] == "nic"), None)
            if nic is None:
                nic = ["nic", {}, []]
                at[2].append(nic)
            before = [r for r in active if r[1] == place and r[0] < name]
            nic[2].append(["net", {
                "name": name, "dev": str(dev), "latency": "0",
                "speed": str(int(float(rate.split()[0]) * 1000)),
                "port": str(port + (len(before) if place is not None else 0)),
                "guid": "0x7766554433221100", "maxconn": "131072",
                "gdr": "1" if gdr and place is not None else "0"}, []])
        return tree

    def fuse(to, more):
        for child in more[2]:
            same = next((c for c in to[2] if c[:2] == child[:2]), None)
            if same is None:
                to[2].append(child)
            else:
                fuse(same, child)

    for rank in range(len(gpus)) if gpus else [None]:
        fuse(root, describe(rank))
    return root


def nested(element):
    return [element.tag, dict(element.attrib), [nested(child) for child in element]]


def spark():
    machine = Machine("processor\t: 0\nCPU implementer\t: 0x41", {0: "fffff"})
    for domain in ("0000", "0002"):
        machine.add(f"pci{domain}:00/{domain}:00:00.0", "bridge")
        for function in (0, 1):
            place = machine.add(f"pci{domain}:00/{domain}:00:00.0/{domain}:01:00.{function}",
                                "nic", width=4)
            prefix = "rocep1s0f" if domain == "0000" else "roceP2p1s0f"
            machine.rdma.append((f"{prefix}{function}", place, 1, "4: ACTIVE",
                                 "200 Gb/sec (2X NDR)"))
    machine.add("pci000f:00/000f:00:00.0", "bridge")
    machine.add("pci000f:00/000f:00:00.0/000f:01:00.0", "gpu", "2.5 GT/s PCIe", device=0x2e12)
    return machine


def two_sockets():
    machine = Machine("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t: 1",
                      {0: "0000ffff", 1: "ffff0000"})
    machine.modules.append("nvidia_peermem")
    for socket, host in ((0, "0000:20"), (1, "0000:a0")):
        first = int(host.split(":")[1], 16)
        up = f"pci{host}/{host}:01.1/0000:{first + 1:02x}:00.0"
        machine.add(f"pci{host}/{host}:01.1", "bridge", "16.0 GT/s PCIe", 16, socket)
        machine.add(up, "bridge", "16.0 GT/s PCIe", 16, socket, 0xc010)
        for slot in range(3):
            port = f"{up}/0000:{first + 2:02x}:{slot:02x}.0"
            machine.add(port, "bridge", "16.0 GT/s PCIe", 8 if slot == 1 else 16, socket)
            place = f"{port}/0000:{first + 5 - slot:02x}:00.0"
            if slot < 2:
                machine.add(place, "gpu", "16.0 GT/s PCIe", 16, socket, 0x20b2)
            else:
                machine.add(place, "nic", "16.0 GT/s PCIe", 16, socket)
                machine.rdma.append((f"mlx5_{socket}", place, 1,
                                     "4: ACTIVE", "200 Gb/sec (4X HDR)"))
    machine.rdma.append(("mlx4_0", machine.rdma[0][1], 1, "1: DOWN", "10 Gb/sec (4X SDR)"))
    machine.rdma.append(("rxe0", None, 1, "4: ACTIVE", "2.5 Gb/sec (1X SDR)"))
    return machine


def without_gpus():
    machine = Machine("processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t: 85",
                      {0: "ff"})
    place = machine.add("pci0000:00/0000:00:05.0", "nic", "", 0, -1)
    machine.rdma.append(("mlx5_0", place, 1, "4: ACTIVE", "100 Gb/sec (4X EDR)"))
    return machine


def test_a_recorded_machine_is_described_as_nccl_would(tmp_path):
    for name, machine in (("spark", spark()), ("sockets", two_sockets()), ("bare", without_gpus())):
        root = machine.write(tmp_path / name)
        document = weft("paths", "--root", root, "--xml").stdout
        assert nested(ElementTree.fromstring(document)) == expected(machine), name


def test_its_document_goes_out_and_in_unchanged(tmp_path):
    for name, machine in (("spark", spark()), ("sockets", two_sockets())):
        root = machine.write(tmp_path / name)
        path = tmp_path / f"{name}.xml"
        path.write_text(weft("paths", "--root", root, "--xml").stdout)
        assert weft("paths", path, "--xml").stdout == path.read_text()
        for flags in (["--dump"], ["--info"], ["--json"], ["--nranks", "12", "--nccl", "2.28"]):
            assert weft("paths", path, *flags).stdout == weft("paths", "--root", root,
                                                              *flags).stdout
    said = weft("paths", "--root", tmp_path / "spark", "--explain", "GPU0", "NET2").stdout
    assert "GPU/0-f01000 to NET/0-2" in said
    assert "PHB" in said


def stub_of(document):
    """The document as a cloud ships it: without what is on the functions."""
    root = ElementTree.fromstring(document)
    for pci in root.iter("pci"):
        for below in [*pci.findall("gpu"), *pci.findall("nic")]:
            pci.remove(below)
    return ElementTree.tostring(root, encoding="unicode")


def test_a_stub_is_completed_from_a_machine(tmp_path):
    root = two_sockets().write(tmp_path / "sockets")
    whole, stub = weft("paths", "--root", root, "--xml").stdout, tmp_path / "stub.xml"
    stub.write_text(stub_of(whole))
    done = weft("paths", stub, "--root", root, "--xml")
    assert "a stub without GPUs, completed with" in done.stderr
    assert nested(ElementTree.fromstring(done.stdout)) == nested(ElementTree.fromstring(whole))
    assert weft("paths", stub, "--root", root).stdout == weft("paths", "--root", root).stdout
    other = spark().write(tmp_path / "spark")
    assert "the machine has no GPU at a bus id" in weft("paths", stub, "--root", other, code=2).stderr
    (tmp_path / "whole.xml").write_text(whole)
    said = weft("paths", tmp_path / "whole.xml", "--root", root, code=2).stderr
    assert "has GPUs of its own, so there is nothing to take" in said


def elements(root, name):
    return [element.attrib.get("busid", element.attrib.get("numaid")) for element in root.iter(name)]


def test_a_stub_gets_what_only_the_machine_has_and_loses_what_only_it_has(tmp_path):
    """As NCCL adds functions from /sys, and removes those that it has no GPU or port for."""
    root = two_sockets().write(tmp_path / "sockets")
    whole = ElementTree.fromstring(weft("paths", "--root", root, "--xml").stdout)
    stub = ElementTree.fromstring(stub_of(ElementTree.tostring(whole, encoding="unicode")))
    stub.remove(stub[1])  # all of the second socket
    switch = stub.find("cpu/pci")
    lost = [pci for pci in switch.iter("pci") if pci.get("class").startswith("0x02")]
    for pci in lost:
        switch.remove(pci)
    for pci in switch.iter("pci"):
        pci.attrib.pop("link_speed")
    ElementTree.SubElement(switch, "pci", busid="0000:77:00.0", **{"class": "0x030200"})
    (tmp_path / "stub.xml").write_text(ElementTree.tostring(stub, encoding="unicode"))
    done = weft("paths", tmp_path / "stub.xml", "--root", root, "--xml")
    assert "completed with 4 GPUs and 4 NICs of the machine" in done.stderr
    assert "stub.xml: 4 functions of" in done.stderr and "are not in it, and were added" in done.stderr
    made = ElementTree.fromstring(done.stdout)
    assert sorted(elements(made, "pci")) == sorted(elements(whole, "pci"))
    assert elements(made, "cpu") == elements(whole, "cpu")
    plain = weft("paths", tmp_path / "stub.xml", "--root", root, "--nographs").stdout
    assert sorted(plain.splitlines()) == sorted(weft("paths", "--root", root, "--nographs").stdout.splitlines())


def test_a_stub_of_bus_ids_is_completed_from_a_machine(tmp_path):
    root = two_sockets().write(tmp_path / "sockets")
    gpus = [pci.get("busid") for pci in ElementTree.fromstring(
        weft("paths", "--root", root, "--xml").stdout).iter("pci") if pci.find("gpu") is not None]
    (tmp_path / "stub.xml").write_text("<system version='1'><cpu numaid='0'>" + "".join(
        f"<pci busid='{bus}'/>" for bus in [*gpus, "0000:77:00.0"]) + "</cpu></system>")
    done = weft("paths", tmp_path / "stub.xml", "--root", root)
    assert "completed with 4 GPUs and 4 NICs of the machine" in done.stderr
    assert "local GPUs 4 " in done.stdout


def test_a_scenario_takes_a_stub(tmp_path):
    (tmp_path / "spark.xml").write_text(stub_of(SPARK.read_text()))
    weft("run", pair(tmp_path, "spark.xml"))


@pytest.mark.heavy
def test_a_machine_without_gpus_has_its_other_paths(tmp_path):
    root = without_gpus().write(tmp_path / "bare")
    done = weft("paths", "--root", root)
    assert "has no GPU" in done.stderr
    assert "PATH CPU/0-ffffffffffffff NET/0-0" in done.stdout
    weft("paths", "--root", root, "--info")
    weft("paths", "--root", root, "--json")


def test_this_machine_can_be_described():
    document = weft("paths", "--local", "--xml").stdout
    tree = ElementTree.fromstring(document)
    assert tree.tag == "system" and tree.find("cpu") is not None
    assert weft("paths", "--xml").stdout == document
    assert "SYSTEM after load" in weft("paths").stdout


# --- which NIC NCCL asks for what -----------------------------------------------------------
# What NCCL 2.25.1 itself chose for two machines alike is in the golden dumps: its ring's NETs, and
# the NET and proxy of every pair of ranks.

GOLDEN = ROOT / "ci/golden/nccl-paths.tar.xz"


def golden_choices(dump):
    """{channel: (first, last)} of the ring, and {(rank, peer, channel): (net, proxy)}."""
    graphs = dump.split("## GRAPHS")[1].split("INFO Pattern")[1]
    ring = {}
    for line in graphs.splitlines()[1:]:
        nets = re.findall(r"NET/0-([0-9a-f]+)", line)
        if nets:
            ring[int(re.match(r"INFO +(\d+) :", line)[1])] = tuple(int(n, 16) for n in nets)
    pairs = {}
    for rank, peer, rest in re.findall(r"NETDEV rank (\d+) -> peer (\d+) :(.*)", dump):
        for channel, net, proxy in re.findall(r"ch(\d+)\(rc0 dev(\d+) id\S+ proxy(\d+)\)", rest):
            pairs[int(rank), int(peer), int(channel)] = (int(net), int(proxy))
    return ring, pairs


def two_alike(document):
    """A scenario of two hosts that are `document`, whose NETs are the ports; None if its numbers
    are not in order, so that ranks and ports would be others."""
    tree = ElementTree.fromstring(document)
    gpus = [g.attrib for g in tree.iter("gpu")]
    nets = sorted((n.attrib for n in tree.iter("net") if "dev" in n.attrib),
                  key=lambda n: int(n["dev"]))
    in_order = ([int(g.get("rank", -1)) for g in gpus] == list(range(len(gpus)))
                and [int(g["dev"]) for g in gpus] == list(range(len(gpus)))
                and [int(n["dev"]) for n in nets] == list(range(len(nets)))
                and len({n["name"] for n in nets}) == len(nets) > 0 and 0 < len(gpus) <= 8
                and len(tree.findall("cpu[@host_hash]")) == 0)
    if not in_order:
        return None
    ports = ", ".join(f'"{n["name"]}"' for n in nets)
    links = "\n".join(f'    - {{endpoints: ["a:{n["name"]}", "b:{n["name"]}"], '
                      f'subnet: 10.{i // 250}.{i % 250}.0/30}}' for i, n in enumerate(nets))
    return (f"name: alike\ntopology:\n  management: {{subnet: 192.168.0.0/24}}\n"
            f"  defaults: {{ports: [{ports}], gpus: {len(gpus)}, gpu: {{topology: x.xml}}}}\n"
            f"  nodes: {{a: {{}}, b: {{}}}}\n  links:\n{links}\n")


def compare(tmp_path, document, dump):
    """True: all as NCCL chose; None: cannot be compared."""
    scenario = two_alike(document)
    gpus = len(re.findall(r"^NODE \d+ GPU/", dump.split("## PATHS")[0], re.M))
    kept = len(re.findall(r"^NODE \d+ GPU/", dump.split("SYSTEM after trim")[1], re.M))
    if scenario is None or kept != gpus or "ERROR" in dump:
        return None
    (tmp_path / "x.xml").write_text(document)
    path = tmp_path / "s.yaml"
    path.write_text(scenario)
    asked = json.loads(weft("show", path, "--json").stdout)["nccl"]
    ring, pairs = golden_choices(dump)
    if asked["connections"] is None or not ring:
        return asked["connections"] is None and not ring
    got = {channel: {} for channel in ring}
    for ask in asked["connections"]:
        # The second host uses the crossing channels of a pair the other way round: what
        # this host does is NCCL's own.
        if ask["kind"] == "ring" and ask["from"] < gpus:
            got[ask["channel"]]["out"] = ask["send"]["nic"]
        elif ask["kind"] == "ring":
            got[ask["channel"]]["in"] = ask["receive"]["nic"]
        elif ask["from"] < gpus:
            wanted = pairs[ask["from"], ask["to"], ask["channel"]]
            if (ask["send"]["nic"], ask["send"]["proxy_rank"]) != wanted:
                return False
    return len(ring) == asked["channels"] and all(
        got[c] == {"in": first, "out": last} for c, (first, last) in ring.items())


# Ranks put their descriptions together, so that below a switch a NIC comes before the GPUs of
# later ranks; the dump is of the file as it is written, where it comes last. Channels then come
# in another order.
OTHER_ORDER = {"pxn_nvs_half_nics"}


@pytest.mark.heavy
def test_what_nccl_asks_is_what_it_asked(tmp_path):
    judged = {}
    with tarfile.open(GOLDEN) as archive:
        files = {Path(m.name).name: m for m in archive.getmembers() if m.isfile()}
        names = sorted(name[:-4] for name in files
                       if name.endswith(".xml") and f"{name[:-4]}.paths.txt" in files)
        for name in sampling.part(names, sampling.QUARTER):
            texts = [archive.extractfile(files[f"{name}{ending}"]).read().decode()
                     for ending in (".xml", ".paths.txt")]
            if "## GRAPHS" in texts[1]:
                judged[name] = compare(tmp_path, *texts)
    assert {name for name, equal in judged.items() if equal is False} == OTHER_ORDER & set(judged)
    assert sum(equal is True for equal in judged.values()) >= (30 if sampling.number() is None else 5)


def test_spark_triangle_is_asked_for_cables_that_lead_elsewhere():
    asked = json.loads(weft("show", "scenarios/basic/spark-triangle.yaml", "--json").stdout)["nccl"]
    rings = [c for c in asked["connections"] if c["kind"] == "ring"]
    assert asked["channels"] == 2 and not asked["merges_nics"]
    for channel, nic, port in ((0, 0, "c0.0"), (1, 2, "c0.1")):
        of = [c for c in rings if c["channel"] == channel]
        assert [(c["from"], c["to"]) for c in of] == [(0, 1), (1, 2), (2, 0)]
        for c in of:
            assert c["send"]["nic"] == c["receive"]["nic"] == nic
            assert c["send"]["ports"] == c["receive"]["ports"] == [port]
            assert c["send"]["leads_to"] == [c["to_host"]] and not c["is_wired"]
    text = weft("show", "scenarios/basic/spark-triangle.yaml").stdout
    assert "NCCL will ask NIC 0 (c0.0) to reach carpathia; that cable goes to iceberg" in text
    assert "0 of 30 connections are asked of a NIC whose cable leads there" in text


def test_a_document_decides_over_the_template():
    asked = json.loads(weft("show", "scenarios/topology/spark-triangle.yaml", "--json").stdout)
    rings = [c for c in asked["nccl"]["connections"] if c["kind"] == "ring"]
    assert asked["nccl"]["channels"] == 4
    assert [c["send"]["nic"] for c in rings] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    weft("run", "scenarios/topology/spark-triangle.yaml")


def test_net_ib_merges_the_ports_of_a_card():
    triangle = "scenarios/basic/triangle.yaml"
    apart = json.loads(weft("show", triangle, "--json").stdout)["nccl"]
    merged = json.loads(weft("show", triangle, "--policy", "nccl-2.25", "--json").stdout)["nccl"]
    assert {tuple(c["send"]["ports"]) for c in apart["connections"]} == {("p0",), ("p1",)}
    assert {tuple(c["send"]["ports"]) for c in merged["connections"]} == {("p0", "p1")}
    text = weft("show", triangle, "--policy", "nccl-2.25").stdout
    assert ("NCCL will ask NIC 2 (p0+p1) to reach iceberg; the cable of p0 goes to iceberg:p1, "
            "where NCCL waits at p0, the cable of p1 goes to carpathia") in text
    # With that setting it uses single ports, and the run fails at the one that it chose.
    settings = ["--set", "topology.defaults.env={NCCL_IB_MERGE_NICS: 0}", "--policy", "nccl-2.25"]
    single = json.loads(weft("show", triangle, *settings, "--json").stdout)["nccl"]
    assert {tuple(c["send"]["ports"]) for c in single["connections"]} == {("p0",), ("p1",)}
    run = json.loads(weft("run", triangle, *settings, "--set", "expect={result: fail}", "--json").stdout)
    assert run["symptom"]["errno"] == 110
    # What keeps ports apart by another name gives the very same run.
    level = ["--set", "topology.defaults.env={NCCL_NET_MERGE_LEVEL: LOC}", "--policy", "nccl-2.25"]
    same = json.loads(weft("run", triangle, *level, "--set", "expect={result: fail}", "--json").stdout)
    assert same["trace_hash"] == run["trace_hash"]


def test_two_hosts_wired_alike_are_asked_rightly():
    asked = json.loads(weft("show", "scenarios/basic/pair.yaml", "--json").stdout)["nccl"]
    assert asked["connections"] and all(c["is_wired"] for c in asked["connections"])
    weft("run", "scenarios/basic/pair.yaml", "--policy", "nccl-2.25")


def test_ranks_of_one_host_ask_no_nic(tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text("name: one\ntopology:\n  nodes: {a: {gpus: 2}, b: {ranks: 0}}\n")
    assert json.loads(weft("show", path, "--json").stdout)["nccl"]["connections"] is None
