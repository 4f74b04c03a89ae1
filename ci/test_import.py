"""weft import netplan (docs/import.md): the files of docs/netplan give the scenarios of
scenarios/spark, what people have is read as netplan reads it, and what cannot be known is asked."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from test_cli import FAST, ROOT, WEFT

SPARKS = {"pair": 2, "triangle": 3, "ring-4": 4}


def netplan(folder, files, *flags, code=0, program=WEFT):
    """What `weft import netplan` prints of {path: text}, paths below `folder`; messages if code."""
    names = []
    for name, text in files.items():
        host, _, path = name.rpartition("=")
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        names.append(f"{host}={path}" if host else path)
    done = subprocess.run([program, "import", "netplan", *names, *flags], cwd=folder, text=True,
                          capture_output=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert not (done.stdout if code else done.stderr)
    return done.stderr if code else yaml.safe_load(done.stdout)


def ethernets(**ports):
    """A netplan file; a port is its list of addresses, or a map."""
    whole = {name: {"addresses": port} if isinstance(port, list) else port
             for name, port in ports.items()}
    return yaml.safe_dump({"network": {"version": 2, "ethernets": whole}})


def runs(folder, scenario, *flags):
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(scenario, sort_keys=False))
    done = subprocess.run([FAST, "run", "-q", path, *flags], text=True, capture_output=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.heavy
@pytest.mark.parametrize("mesh,n", sorted(SPARKS.items()))
def test_files_of_the_documentation_give_the_scenarios(tmp_path, mesh, n):
    made = netplan(tmp_path, {f"spark-{i}=/{ROOT}/docs/netplan/{mesh}-spark-{i}.yaml":
                              (ROOT / f"docs/netplan/{mesh}-spark-{i}.yaml").read_text()
                              for i in range(1, n + 1)})
    meant = yaml.safe_load((ROOT / f"scenarios/spark/{mesh}.yaml").read_text())
    assert made["topology"] == meant["topology"]
    assert made["jobs"] == meant["jobs"]
    runs(tmp_path, {**made, "expect": meant["expect"]})


A, B = ethernets(e0=["10.1.0.1/24"]), ethernets(e0=["10.1.0.2/24"])
LINK = {"endpoints": ["a:e0", "b:e0"], "subnet": "10.1.0.0/24", "mtu": 1500}
SPARK = {"enp1s0f0np0": ["192.168.0.1/24"], "enP2p1s0f0np0": ["192.168.1.1/24"]}

# Files, flags, and what is expected of the topology: {path of keys: value}.
MADE = {
    "the order of the files says nothing": (
        {"b.yaml": B, "a.yaml": A}, [], {"links": [LINK]}),
    "a port without mtu has the kernel's": (
        {"a.yaml": ethernets(e0={"addresses": ["10.1.0.1/24"], "mtu": 9000}), "b.yaml": B}, [],
        {"links.0.mtu": {"a:e0": 9000, "b:e0": 1500}}),
    "addresses that are not the first and the second": (
        {"a.yaml": ethernets(e0=["10.1.0.77/24"]), "b.yaml": ethernets(e0=["10.1.0.5/24"])}, [],
        {"links.0.addresses": ["10.1.0.5/24", "10.1.0.77/24"], "links.0.endpoints": ["b:e0", "a:e0"]}),
    "a /31": (
        {"a.yaml": ethernets(e0=["10.1.0.4/31"]), "b.yaml": ethernets(e0=["10.1.0.5/31"])}, [],
        {"links.0.subnet": "10.1.0.4/31"}),
    "IPv6": (
        {"a.yaml": ethernets(e0=["fd00:0:0:1::1/64"]), "b.yaml": ethernets(e0=["fd00:0:0:1::2/64"])},
        [], {"links.0.subnet": "fd00:0:0:1::/64"}),
    "both families on one cable": (
        {"a.yaml": ethernets(e0=["10.1.0.1/24", "fd00::1/64", "fe80::1/64"]),
         "b.yaml": ethernets(e0=["10.1.0.2/24", "fd00::2/64"])}, [],
        {"links.0.subnet": "10.1.0.0/24", "nodes.a.addresses": {"e0": ["fd00::1/64", "fe80::1/64"]}}),
    "a /32 beside the cable's address": (
        {"a.yaml": ethernets(e0=["10.1.0.1/24", "10.9.9.1/32"]), "b.yaml": B}, [],
        {"links": [LINK], "nodes.a.addresses": {"e0": ["10.9.9.1/32"]}}),
    "an address with a label": (
        {"a.yaml": ethernets(e0={"addresses": [{"10.1.0.1/24": {"label": "e0:x"}}]}), "b.yaml": B}, [],
        {"links": [LINK]}),
    "an address that stands twice in one file": (
        {"a.yaml": ethernets(e0=["10.1.0.1/24", "10.1.0.1/24"]), "b.yaml": B}, [], {"links": [LINK]}),
    "set-name names the port": (
        {"a.yaml": ethernets(x={"match": {"macaddress": "00:11:22:33:44:55"}, "set-name": "e0",
                                "addresses": ["10.1.0.1/24"]}), "b.yaml": B}, [], {"links": [LINK]}),
    "files of a host are merged by name, not by order": (
        {"a/60-b.yaml": ethernets(e0={"mtu": 9000, "addresses": ["10.9.9.1/32"]}),
         "a/50-a.yaml": ethernets(e0={"mtu": 1500, "addresses": ["10.1.0.1/24"]}),
         "b/etc/netplan/50.yaml": ethernets(e0={"mtu": 9000, "addresses": ["10.1.0.2/24"]})}, [],
        {"links": [{"endpoints": ["a:e0", "b:e0"], "subnet": "10.1.0.0/24"}],
         "nodes.a.addresses": {"e0": ["10.9.9.1/32"]}}),
    "a file in /run hides one in /etc": (
        {"a/etc/netplan/50-a.yaml": ethernets(e0=["10.7.7.1/24"]), "a/run/netplan/50-a.yaml": A,
         "b.yaml": B}, [], {"links": [LINK]}),
    "DHCP, Wi-Fi and what has no address are no ports": (
        {"a.yaml": "network:\n  renderer: networkd\n  ethernets:\n    e0: {addresses: [10.1.0.1/24]}\n"
                   "    eno1: {dhcp4: true}\n    eno2: {dhcp4: no}\n    eno3:\n"
                   "  wifis:\n    wl0: {access-points: {x: {}}}\n", "b.yaml": B}, [],
        {"nodes.a": {"ports": ["e0"]}, "links": [LINK]}),
    "the network of a default route is the management network": (
        {"a.yaml": ethernets(e0=["10.1.0.1/24"], m=["172.16.0.5/24"]),
         "b.yaml": ethernets(e0=["10.1.0.2/24"], m={"addresses": ["172.16.0.6/24"],
                             "routes": [{"to": "default", "via": "172.16.0.1"}]})}, [],
        {"management": {"subnet": "172.16.0.0/24"}, "links": [LINK], "nodes.a": {"ports": ["e0"]}}),
    "gateway4": (
        {"a.yaml": ethernets(e0=["10.1.0.1/24"], m=["172.16.0.5/24"]),
         "b.yaml": ethernets(e0=["10.1.0.2/24"], m={"addresses": ["172.16.0.6/24"],
                             "gateway4": "172.16.0.1"})}, [], {"links": [LINK]}),
    "link-local addresses beside a default route": (
        {"a.yaml": ethernets(e0=["10.1.0.1/24", "fe80::1/64", "169.254.7.1/16"],
                             m={"addresses": ["172.16.0.5/24", "fe80::5/64", "169.254.7.5/16"],
                                "routes": [{"to": "default", "via": "172.16.0.1"}]}),
         "b.yaml": ethernets(e0=["10.1.0.2/24", "fe80::2/64", "169.254.7.2/16"])}, [],
        {"management": {"subnet": "172.16.0.0/24"}, "links": [LINK], "nodes.a.ports": ["e0"]}),
    "addresses of a hosts file": (
        {"a.yaml": ethernets(e0=["10.1.0.1/24"], m=["172.16.0.5/24"]),
         "b.yaml": ethernets(e0=["10.1.0.2/24"], m=["172.16.0.6/24"]),
         }, ["--hosts", "hosts"],
        {"management": {"subnet": "172.16.0.0/24"}, "links": [LINK]}),
    "a link-local address of a hosts file": (
        {"a.yaml": ethernets(e0=["10.1.0.1/24", "fe80::1/64"], m=["172.16.0.5/24", "fe80::9/64"]),
         "b.yaml": ethernets(e0=["10.1.0.2/24", "fe80::2/64"], m=["172.16.0.6/24"])}, ["--hosts", "hosts"],
        {"management": {"subnet": "172.16.0.0/24"}, "links": [LINK]}),
    "a mesh in the default management network": (
        {"a.yaml": ethernets(e0=["10.0.0.1/24"]), "b.yaml": ethernets(e0=["10.0.0.2/24"])}, [],
        {"management": {"subnet": "198.18.0.0/15"}, "links.0.subnet": "10.0.0.0/24"}),
    "three hosts in one network are on a switch": (
        {"a.yaml": A, "b.yaml": B, "c.yaml": ethernets(e0=["10.1.0.3/24"])}, [],
        {"switches": {"sw0": {"ports": 3}},
         "links.2": {"endpoints": ["c:e0", "sw0:2"], "addresses": ["10.1.0.3/24"], "mtu": 1500}}),
    "a switch that was said": (
        {"a.yaml": ethernets(e0=["10.1.0.1/24"], e1=["10.1.0.3/24"]), "b.yaml": B},
        ["--switch", "10.1.0.0/24"], {"switches": {"sw0": {"ports": 3}}}),
    "cables that were said": (
        {"a.yaml": ethernets(e0=["10.1.0.1/24"], e1=["10.1.0.3/24"]),
         "b.yaml": ethernets(e0=["10.1.0.2/24"], e1=["10.1.0.4/24"])},
        ["--cable", "a:e0,b:e1", "--cable", "a:e1,b:e0"],
        {"links.0.endpoints": ["a:e0", "b:e1"], "links.0.overlap": "allowed",
         "links.1.addresses": ["10.1.0.2/24", "10.1.0.3/24"]}),
    "a cable between two networks": (
        {"a.yaml": A, "b.yaml": ethernets(e0=["10.2.0.2/24"])}, ["--cable", "a:e0,b:e0"],
        {"links.0": {"endpoints": ["a:e0", "b:e0"], "mtu": 1500},
         "nodes.a.addresses": {"e0": ["10.1.0.1/24"]}}),
    "self-assigned addresses": (
        {"a.yaml": ethernets(e0={"link-local": ["ipv4"]}), "b.yaml": ethernets(e0={"link-local": ["ipv4"]})},
        ["--cable", "a:e0,b:e0"],
        {"links.0.endpoints": ["a:e0", "b:e0"], "links.0.addresses": ["169.254.1.1/16", "169.254.1.2/16"]}),
    "a network carved from another one": (
        {"a.yaml": ethernets(e0=["10.1.0.1/24"], e1=["10.1.0.9/30"]),
         "b.yaml": ethernets(e0=["10.1.0.2/24"], e1=["10.1.0.10/30"])}, [],
        {"links.0.overlap": "allowed", "links.1.overlap": "allowed"}),
    "a VLAN": (
        {h + ".yaml": yaml.safe_dump({"network": {
            "ethernets": {"e0": {"mtu": 9000}},
            "vlans": {"v": {"id": 100, "link": "e0", "addresses": [f"10.1.0.{i}/24"]}}}})
         for i, h in ((1, "a"), (2, "b"))}, [],
        {"links": [{"endpoints": ["a:e0", "b:e0"], "subnet": "10.1.0.0/24", "vlan": 100}]}),
    "a bond of one port": (
        {"a.yaml": yaml.safe_dump({"network": {"ethernets": {"e0": {}}, "bonds": {
            "bond0": {"interfaces": ["e0"], "addresses": ["10.1.0.1/24"], "mtu": 1500}}}}), "b.yaml": B},
        [], {"nodes.a.bonds": {"bond0": {"ports": ["e0"], "addresses": ["10.1.0.1/24"]}},
             "links.0": {"endpoints": ["a:e0", "b:e0"], "mtu": 1500},
             "nodes.b.addresses": {"e0": ["10.1.0.2/24"]}}),
    "a route over a neighbour": (
        {"a.yaml": ethernets(e0={"addresses": ["10.1.0.1/24"], "routes": [
            {"to": "10.5.0.0/24", "via": "10.1.0.2"}, {"to": "10.6.0.0/24", "via": "9.9.9.9"}]}),
         "b.yaml": B}, [], {"nodes.a.routes": ["10.5.0.0/24 via 10.1.0.2"]}),
    "anchors": (
        {"a.yaml": "network:\n  ethernets:\n    e0: {mtu: &m 9000, addresses: [10.1.0.1/24]}\n"
                   "    e1: {mtu: *m, addresses: [10.2.0.1/24]}\n",
         "b.yaml": ethernets(e0=["10.1.0.2/24"], e1=["10.2.0.2/24"])}, [],
        {"links.1.mtu": {"a:e1": 9000, "b:e1": 1500}}),
    "one twin of a Spark in the wrong network": (
        {"a.yaml": ethernets(**SPARK), "b.yaml": ethernets(
            enp1s0f1np1=["192.168.0.2/24"], enP2p1s0f1np1=["192.168.10.2/24"])}, [],
        {"links.0.endpoints": ["a:p0.0", "b:p1.0"], "links.1.endpoints": ["a:p0.1", "b:p1.1"],
         "nodes.b.addresses": {"p1.1": ["192.168.10.2/24"]}}),
    "both twins of a Spark in one network": (
        {"a.yaml": ethernets(enp1s0f0np0=["10.1.0.1/24"], enP2p1s0f0np0=["10.1.0.3/24"]),
         "b.yaml": ethernets(enp1s0f0np0=["10.1.0.2/24"], enP2p1s0f0np0=["10.1.0.4/24"])}, [],
        {"links.0.endpoints": ["a:p0.0", "b:p0.0"], "links.1.addresses": ["10.1.0.3/24", "10.1.0.4/24"]}),
    "a Spark and a host with plain ports": (
        {"a.yaml": ethernets(**SPARK), "b.yaml": ethernets(e0=["192.168.0.2/24"], e1=["192.168.1.2/24"])},
        [], {"links.0.endpoints": ["a:p0.0", "b:e0"], "links.1.endpoints": ["a:p0.1", "b:e1"],
             "nodes.a.cages": ["p0", "p1"]}),
    "Sparks on a switch": (
        {f"{h}.yaml": ethernets(enp1s0f0np0=[f"10.1.0.{i}/24"], enP2p1s0f0np0=[f"10.1.1.{i}/24"])
         for i, h in enumerate("abc", 1)}, [],
        {"switches": {"sw0": {"ports": 3}, "sw1": {"ports": 3}}, "links.0.endpoints": ["a:p0.0", "sw0:0"]}),
    "names as long as a scenario has": (
        {"h" * 62 + "1=x.yaml": A, "h" * 62 + "2=y.yaml": B}, [],
        {"links.0.endpoints": ["h" * 62 + "1:e0", "h" * 62 + "2:e0"]}),
    "names that a scenario does not have": (
        {"Node_1.lan=x.yaml": A, "b.yaml": B}, [], {"links.0.endpoints": ["node-1-lan:e0", "b:e0"]}),
}


@pytest.mark.parametrize("case", sorted(MADE))
def test_what_people_have_is_read(tmp_path, case):
    files, flags, expected = MADE[case]
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n172.16.0.5 a # us\n\n172.16.0.6\tb\n::1 x\nfe80::9 a\n")
    made = netplan(tmp_path, files, *flags)
    for path, value in expected.items():
        found = made["topology"]
        for key in path.split("."):
            found = found[int(key)] if isinstance(found, list) else found[key]
        assert found == value, (path, made["topology"])


BRIDGE = yaml.safe_dump({"network": {"ethernets": {"e0": {}}, "bridges": {
    "br0": {"interfaces": ["e0"], "addresses": ["10.1.0.1/24"]}}}})
BOND = {h + ".yaml": yaml.safe_dump({"network": {"ethernets": {"e0": {}, "e1": {}}, "bonds": {
    "bond0": {"interfaces": ["e0", "e1"], "addresses": [f"10.1.0.{i}/24"]}}}})
    for i, h in ((1, "a"), (2, "b"))}

# Files, flags, and what messages have: each is asked for in a line of its own.
ASKED = {
    "one host": ({"a.yaml": A}, [], ["network 10.1.0.0/24: only a:e0 is in it", "--without a:e0"]),
    "no network in common": ({"a.yaml": A, "b.yaml": ethernets(e0=["10.2.0.2/24"])}, [],
                             ["network 10.1.0.0/24: only a:e0", "network 10.2.0.0/24: only b:e0"]),
    "two ports of two hosts in one network": (
        {"a.yaml": ethernets(e0=["10.1.0.1/24"], e1=["10.1.0.3/24"]), "b.yaml": B}, [],
        ["network 10.1.0.0/24: a:e0, a:e1, b:e0 are in it", "--switch 10.1.0.0/24"]),
    "two ports of one host alone": (
        {"a.yaml": ethernets(e0=["10.1.0.1/24"], e1=["10.1.0.2/24"])}, [], ["a:e0, a:e1 are in it"]),
    "a third port of a network whose cable was said": (
        {"a.yaml": A, "b.yaml": B, "c.yaml": ethernets(e0=["10.1.0.3/24"])}, ["--cable", "a:e0,b:e0"],
        ["some of them are cabled already"]),
    "a port with two cables": (
        {"a.yaml": ethernets(e0=["10.1.0.1/24", "10.2.0.1/24"]), "b.yaml": B,
         "c.yaml": ethernets(e0=["10.2.0.2/24"])}, [], ["network 10.2.0.0/24: a:e0, c:e0 are in it"]),
    "one address on two hosts": (
        {"a.yaml": A, "b.yaml": A}, [], ["10.1.0.1 is the address of a:e0 and of b:e0"]),
    "one address in two networks": (
        {"a.yaml": A, "b.yaml": ethernets(e0=["10.1.0.1/30"])}, [],
        ["10.1.0.1 is the address of a:e0 and of b:e0"]),
    "self-assigned addresses": (
        {"a.yaml": ethernets(e0={"link-local": ["ipv4"]}), "b.yaml": B}, [],
        ["a:e0: its address is self-assigned"]),
    "bonds of several ports": (BOND, [], ["which ports of a bond"]),
    "a host without a port": ({"a.yaml": A, "b.yaml": ethernets(m={"dhcp4": True})}, [],
                              ["b: no port of the mesh", "only a:e0"]),
    "the file of every desktop": (
        {"a.yaml": "network:\n  version: 2\n  renderer: NetworkManager\n"}, [], ["a: no port of the mesh"]),
    "a bridge": ({"a.yaml": BRIDGE, "b.yaml": B}, [], ["a: no port of the mesh", "only b:e0"]),
    "a cable that names no port": ({"a.yaml": A, "b.yaml": B}, ["--cable", "a:e0,b:e9"],
                                   ["--cable: no file has the port 'b:e9'"]),
    "a cable that is no pair": ({"a.yaml": A, "b.yaml": B}, ["--cable", "a:e0"],
                                ["--cable: expected HOST:PORT,HOST:PORT, got 'a:e0'"]),
    "a cable inside a host": (
        {"a.yaml": ethernets(e0=["10.1.0.1/24"], e1=["10.1.0.3/24"])}, ["--cable", "a:e0,a:e1"],
        ["ports of one host"]),
    "a device that no file has": ({"a.yaml": A, "b.yaml": B}, ["--without", "c:e0"],
                                  ["--without: no file has the device 'c:e0'"]),
    "a switch of nothing": ({"a.yaml": A, "b.yaml": B}, ["--switch", "10.7.0.0/24"], ["--switch: "]),
    "a VLAN without its port": (
        {"a.yaml": "network:\n  vlans:\n    v: {id: 7, addresses: [10.1.0.1/24]}\n", "b.yaml": B}, [],
        ["a:v: a VLAN needs an 'id' and, as 'link'"]),
    "two VLANs of one port": (
        {"a.yaml": "network:\n  ethernets: {e0: {}}\n  vlans:\n    v: {id: 7, link: e0, addresses: "
                   "[10.1.0.1/24]}\n    w: {id: 8, link: e0, addresses: [10.2.0.1/24]}\n", "b.yaml": B},
        [], ["one VLAN on a port"]),
    "a bond of a port that nothing has": (
        {"a.yaml": "network:\n  bonds: {b0: {interfaces: [e9], addresses: [10.1.0.1/24]}}\n", "b.yaml": B},
        [], ["a:b0: 'interfaces' has 'e9', which no file of a has"]),
    "a name that a port cannot have": (
        {"a.yaml": ethernets(**{"e 0": ["10.1.0.1/24"]}), "b.yaml": B}, [], ["a:e 0: a scenario has no"]),
    "whose file it is": ({"50-cloud-init.yaml": A, "b.yaml": B}, [], ["write HOST=50-cloud-init.yaml"]),
    "names that would be one": ({"a_1=x.yaml": A, "a-1=y.yaml": B}, [], ["would be one host 'a-1'"]),
    "names that differ in the 64th character": (
        {"h" * 63 + "1=x.yaml": A, "h" * 63 + "2=y.yaml": B}, [], ["the host's name is longer than 63"]),
    "folders that differ in the 64th character": (
        {"h" * 63 + "1/50-a.yaml": A, "h" * 63 + "2/50-a.yaml": B}, [],
        ["the name of its host has more than 63", "h1/50-a.yaml", "h2/50-a.yaml"]),
    "files that differ in the 64th character": (
        {"h" * 63 + "1.yaml": A, "h" * 63 + "2.yaml": B}, [],
        ["the name of its host has more than 63", "h1.yaml", "h2.yaml"]),
    "a file whose 64th character is of UTF-8": (
        {"h" * 62 + "\u20ac.yaml": A, "b.yaml": B}, [], ["the name of its host has more than 63"]),
    "a hosts file that is none": ({"a.yaml": A, "b.yaml": B}, ["--hosts", "a.yaml"], ["a.yaml:1: expected"]),
    # What is no netplan.
    "an empty file": ({"a.yaml": "", "b.yaml": B}, [], ["a.yaml:1:1: the file is empty"]),
    "another YAML file": ({"a.yaml": "name: x\n", "b.yaml": B}, [], ["a.yaml:1:1: no netplan file"]),
    "no YAML": ({"a.yaml": "network: [\n", "b.yaml": B}, [], ["a.yaml:2:1: not YAML"]),
    "cloud-init's own form": ({"a.yaml": "network:\n  version: 1\n  config: []\n", "b.yaml": B}, [],
                              ["version: expected 2", "unknown key 'config'"]),
    "a typing error in a section": ({"a.yaml": "network: {ethernet: {}}\n", "b.yaml": B}, [],
                                    ["a.yaml:1:11: unknown key 'ethernet' in network; did you mean 'ethernets'?"]),
    "a typing error in a device": ({"a.yaml": "network: {ethernets: {e0: {adresses: [10.1.0.1/24]}}}\n", "b.yaml": B},
                                   [], ["a.yaml:1:28: unknown key 'adresses'; did you mean 'addresses'?"]),
    "an address without a prefix": ({"a.yaml": ethernets(e0=["10.1.0.1"]), "b.yaml": B}, [],
                                    ["expected an address with its prefix"]),
    "an alias of itself": ({"a.yaml": "network: &n {ethernets: *n}\n", "b.yaml": B}, [], ["contains itself"]),
    "too many devices": ({"a.yaml": ethernets(**{f"e{i}": [] for i in range(1100)}), "b.yaml": B}, [],
                         ["more than 1024 devices of one host"]),
    "too many addresses": ({"a.yaml": ethernets(e0=[f"10.1.0.{i}/24" for i in range(1, 66)]), "b.yaml": B}, [],
                           ["addresses: more than 64 of one device"]),
    "too many routes": (
        {"a.yaml": ethernets(e0={"addresses": ["10.1.0.1/24"], "routes": [
            {"to": f"10.5.{i}.0/24", "via": "10.1.0.2"} for i in range(65)]}), "b.yaml": B}, [],
        ["routes: more than 64 of one device"]),
    "a hosts file that is too long": (
        {"a.yaml": A, "b.yaml": B}, ["--hosts", "long"], ["long: more than 4096 lines"]),
    "a list of ports": ({"a.yaml": "network: {ethernets: [e0]}\n", "b.yaml": B}, [], ["ethernets: expected"]),
}


@pytest.mark.parametrize("case", sorted(ASKED))
def test_what_cannot_be_known_is_asked(tmp_path, case):
    files, flags, expected = ASKED[case]
    (tmp_path / "long").write_text("127.0.0.1 localhost\n" * 4096 + "172.16.0.5 a\n")
    said = netplan(tmp_path, files, *flags, code=2)
    for text in expected:
        assert text in said, said
    assert len(said.splitlines()) == len(set(said.splitlines()))


def test_keys_that_say_nothing_of_cables_are_left_alone(tmp_path):
    """Those of netplan's reference for ethernets, none of which is near one that is read."""
    keys = """accept-ra activation-mode critical delay-virtual-functions-rebind dhcp-identifier dhcp4-overrides
        dhcp6-overrides embedded-switch-mode emit-lldp generic-receive-offload generic-segmentation-offload
        ignore-carrier ipv6-address-generation ipv6-address-token ipv6-mtu ipv6-privacy large-receive-offload macaddress
        match nameservers neigh-suppress openvswitch optional optional-addresses ra-overrides receive-checksum-offload
        renderer routing-policy tcp-segmentation-offload tcp6-segmentation-offload transmit-checksum-offload
        virtual-function-count wakeonlan""".split()
    device = ", ".join(f"{key}: x" for key in keys)
    files = {"a.yaml": f"network: {{ethernets: {{e0: {{addresses: [10.1.0.1/24], {device}}}}}}}\n", "b.yaml": B}
    assert netplan(tmp_path, files)["topology"]["links"] == [LINK]


def test_as_much_as_is_read(tmp_path):
    """As many routes of a device, and lines of a hosts file, as one may have."""
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n" * 4095 + "172.16.0.5 a\n")
    routes = [f"10.5.{i}.0/24" for i in range(64)]
    made = netplan(tmp_path, {"a.yaml": ethernets(m=["172.16.0.5/24"], e0={
        "addresses": ["10.1.0.1/24"], "routes": [{"to": to, "via": "10.1.0.2"} for to in routes]}), "b.yaml": B},
        "--hosts", "hosts")
    assert made["topology"]["nodes"]["a"] == {"ports": ["e0"], "routes": [f"{to} via 10.1.0.2" for to in routes]}


def test_each_question_has_an_answer(tmp_path):
    """The words that a message proposes are taken, and end its question."""
    files = {"a.yaml": ethernets(e0=["10.1.0.1/24"], e1=["10.3.0.1/24"]), "b.yaml": B}
    said = netplan(tmp_path, files, code=2)
    made = netplan(tmp_path, files, *re.search(r"(--without) (a:e1)$", said.strip()).groups())
    assert made["topology"]["links"] == [LINK]


def test_a_huge_mesh_is_read_in_a_moment(tmp_path):
    """256 hosts in a ring, and one network that 256 hosts share, as no person would write them."""
    n = 256
    files = {f"h{i}.yaml": ethernets(e0=[f"10.{1 + i // 128}.{i % 128}.1/24"],
                                     e1=[f"10.{1 + (i + 1) % n // 128}.{(i + 1) % n % 128}.2/24"],
                                     e2=[f"172.16.{i // 128}.{1 + i % 128}/16"])
             for i in range(n)}
    made = netplan(tmp_path, files, program=FAST)
    assert len(made["topology"]["links"]) == 2 * n
    assert made["topology"]["switches"] == {"sw0": {"ports": n}}


def test_what_is_made_runs(tmp_path):
    files = {"a.yaml": A, "b.yaml": B}
    runs(tmp_path, netplan(tmp_path, files))
    for case in ("a VLAN", "a bond of one port", "three hosts in one network are on a switch",
                 "a Spark and a host with plain ports", "both families on one cable"):
        runs(tmp_path, netplan(tmp_path, MADE[case][0], *MADE[case][1]))


def from_hosts(text, *flags, code=0):
    """What `weft import hosts -` prints of a file as /etc/hosts; messages if code."""
    done = subprocess.run([WEFT, "import", "hosts", "-", *flags], input=text, text=True, capture_output=True,
                          timeout=120, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert not (done.stdout if code else done.stderr)
    return done.stderr if code else yaml.safe_load(done.stdout)


PAIR = "10.1.0.1 a\n10.1.0.2 b\n"
DEBIAN = "127.0.0.1 localhost\n127.0.1.1 a.lan a\n::1 ip6-localhost\nfe00::0 ip6-localnet\nff02::1 ip6-allnodes\n"
JOINED = {"endpoints": ["a:e0", "b:e0"], "subnet": "10.1.0.0/24"}
# A hosts file, flags, and what is expected of the topology.
NAMED = {
    "a cable": (PAIR, ["--prefix", "24"],
                {"links": [JOINED], "nodes": {"a": {"ports": ["e0"]}, "b": {"ports": ["e0"]}}}),
    "a file of Debian": (DEBIAN + PAIR, ["--prefix", "24"], {"links": [JOINED]}),
    "lines of several hosts' files": (PAIR + "10.1.0.2 b.lan b\n", ["--prefix", "24"], {"links": [JOINED]}),
    "prefixes in the file": ("10.1.0.1/24 a\n10.1.0.2/24 b # of a cable\n", [], {"links": [JOINED]}),
    "IPv6": ("fd00::1 a\nfd00::2 b\n", ["--prefix", "64"], {"links.0.subnet": "fd00::/64"}),
    "a ring": ("10.0.0.1 a\n10.0.0.2 b\n10.0.1.1 b\n10.0.1.2 c\n10.0.2.1 c\n10.0.2.2 a\n", ["--prefix", "24"],
               {"links.0.endpoints": ["a:e0", "b:e0"], "links.1.endpoints": ["b:e1", "c:e0"],
                "links.2.endpoints": ["c:e1", "a:e1"]}),
    "ports with names": ("10.0.0.1 a-left a\n10.0.0.2 b-right b\n10.0.1.2 a-right a\n10.0.1.1 b-left b\n",
                         ["--prefix", "30"],
                         {"links.0.endpoints": ["a:left", "b:right"], "links.1.endpoints": ["b:left", "a:right"]}),
    "both families of a port": ("10.1.0.1 a a-p0\nfd00::1 a a-p0\n10.1.0.2 b b-p0\nfd00::2 b b-p0\n",
                                ["--prefix", "24", "--prefix", "64"], {"links.0.endpoints": ["a:p0", "b:p0"]}),
    "both families of a port whose name comes first": (
        "fd00::1 a-p0 a\n10.1.0.1 a-p0 a\nfd00::2 b-p0 b\n10.1.0.2 b-p0 b\n", ["--prefix", "24", "--prefix", "64"],
        {"nodes.a.ports": ["p0"], "links.0.endpoints": ["a:p0", "b:p0"]}),
    "one line of each host, with the port's name first": (
        "10.1.0.1 a-p0 a\n10.1.0.2 b-p0 b\n", ["--prefix", "24"], {"links.0.endpoints": ["a:p0", "b:p0"]}),
    "the port's name without a domain": (
        "10.0.0.1 a-l.lan a-l a\n10.0.0.2 b-l.lan b-l b\n10.0.1.1 a-r.lan a\n10.0.1.2 b-r b\n", ["--prefix", "24"],
        {"links.0.endpoints": ["a:l", "b:l"], "links.1.endpoints": ["a:r.lan", "b:r"]}),
    "a port named as one without a name would be": (
        "10.0.0.1 a\n10.0.0.2 b\n10.0.1.1 a-e0 a\n10.0.1.2 b\n", ["--prefix", "24"],
        {"links.0.endpoints": ["a:e1", "b:e0"], "links.1.endpoints": ["a:e0", "b:e1"]}),
    "a mark of UTF-8 and ends of lines of Windows": ("\ufeff" + PAIR.replace("\n", "\r\n"), ["--prefix", "24"],
                                                     {"links": [JOINED]}),
    "a file of macOS": ("127.0.0.1\tlocalhost\n255.255.255.255\tbroadcasthost\n::1 localhost\n"
                        "fe80::1%lo0\tlocalhost\n" + PAIR, ["--prefix", "24"], {"links": [JOINED]}),
    "the name without a domain": ("10.0.0.1 a.lan a\n10.0.0.2 b.lan b\n10.0.1.1 a.lan a\n10.0.1.2 b.lan b\n",
                                  ["--prefix", "24"], {"links.1.endpoints": ["a:e1", "b:e1"]}),
    "hosts whose names begin alike": ("10.1.0.1 spark\n10.1.0.2 spark-2\n", ["--prefix", "24"],
                                      {"links.0.endpoints": ["spark:e0", "spark-2:e0"]}),
    "a switch": (PAIR + "10.1.0.3 c\n", ["--prefix", "24"], {"switches": {"sw0": {"ports": 3}}}),
    "without the management network": (
        "172.16.0.1 a\n172.16.0.2 b\n10.1.0.1 a\n10.1.0.2 b\n", ["--prefix", "24", "--without", "e0"],
        {"links.0.endpoints": ["a:e1", "b:e1"]}),
    "Sparks": ("192.168.0.1 s1-enp1s0f0np0 s1\n192.168.1.1 s1-enP2p1s0f0np0 s1\n192.168.0.2 s2-enp1s0f0np0 s2\n"
               "192.168.1.2 s2-enP2p1s0f0np0 s2\n", ["--prefix", "24"], {"links.0.endpoints": ["s1:p0", "s2:p0"]}),
}
# A hosts file, flags, and what the messages have.
UNKNOWN = {
    "prefixes": (PAIR, [], ["give it by --prefix, as in --prefix 24"]),
    "prefixes of both families": (PAIR + "fd00::1 a\n", [], ["--prefix 24", "--prefix 64"]),
    "which addresses are of one host": (
        "10.0.0.1 a-left\n10.0.0.2 b-right\n10.0.1.2 a-right\n10.0.1.1 b-left\n", ["--prefix", "24"],
        ["no two lines have a name in common"]),
    "an address without a name": ("10.1.0.1\n", ["--prefix", "24"], ["-:1: 10.1.0.1 has no name"]),
    "another file": ("network: {}\n", ["--prefix", "24"], ["-:1: expected an address and its names"]),
    "an address without a network": ("10.1.0.1/0 a\n10.1.0.2 b\n", ["--prefix", "24"], ["got '10.1.0.1/0'"]),
    "a byte of no text": ("10.1.0.1 a\n\0" + PAIR, ["--prefix", "24"], ["-:2: a NUL byte in a text file"]),
    "too many names": (PAIR + "10.2.0.1 " + " ".join(f"n{i}" for i in range(17)) + "\n", ["--prefix", "24"],
                       ["-:3: more than 16 names"]),
    "a port's name that is no scenario's": ("10.1.0.1 a-{x} a\n10.1.0.2 b\n", ["--prefix", "24"],
                                            ["a:{x}: a scenario has no such name of a port; give it one in the file"]),
    "too many addresses of a port": (
        "".join(f"10.{i}.0.{k} {host}-p {host}\n" for i in range(65) for k, host in ((1, "a"), (2, "b"))),
        ["--prefix", "24"], ["a:p: more than 64 addresses of one port"]),
    "nothing": (DEBIAN, [], ["no file has an address of the mesh"]),
    "the other end": ("10.1.0.1 a\n10.1.0.2 b\n10.2.0.1 a\n", ["--prefix", "24"], ["only a:e1 is in it"]),
    "an address of two hosts": (PAIR + "10.1.0.2 c\n", ["--prefix", "24"],
                                ["10.1.0.2 is the address of b:e0 and of c:e0"]),
    "names that would be one": ("10.1.0.1 a_1\n10.1.0.2 a-1\n", ["--prefix", "24"],
                                ["would be one host 'a-1' in a scenario; rename one in the file"]),
    "a name that is too long": (PAIR + f"10.1.0.3 {'h' * 64}\n", ["--prefix", "24"], ["has more than 63 characters"]),
    "too much": ("# x\n" * 4096 + PAIR, ["--prefix", "24"], ["-: more than 4096 lines"]),
}


@pytest.mark.parametrize("case", sorted(NAMED))
def test_a_hosts_file_is_read(tmp_path, case):
    text, flags, expected = NAMED[case]
    made = from_hosts(text, *flags)
    for path, value in expected.items():
        found = made["topology"]
        for key in path.split("."):
            found = found[int(key)] if isinstance(found, list) else found[key]
        assert found == value, (path, made["topology"])
    runs(tmp_path, made)


@pytest.mark.parametrize("case", sorted(UNKNOWN))
def test_what_a_hosts_file_does_not_have_is_asked(case):
    text, flags, expected = UNKNOWN[case]
    said = from_hosts(text, *flags, code=2)
    assert all(words in said for words in expected), said


def test_a_complaint_is_printed_once(tmp_path):
    """Each machine has the same file, and an answer can be given twice."""
    for name in ("a", "b"):
        (tmp_path / name).write_text("10.1.0.1\n300.1.1.1 x\n")
    for words, n in ((["a", "a"], 2), (["a", "b"], 4)):
        done = subprocess.run([WEFT, "import", "hosts", *words], cwd=tmp_path, capture_output=True, text=True,
                              check=False, timeout=60)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == n, done.stderr
    said = from_hosts(PAIR, "--prefix", "24", *["--without", "zz"] * 40, code=2)
    assert said == "weft import: --without: no file has the device 'zz'\n"


def test_a_netplan_file_can_come_from_stdin(tmp_path):
    (tmp_path / "b.yaml").write_text(B)
    done = subprocess.run([WEFT, "import", "netplan", "a=-", "b.yaml"], cwd=tmp_path, input=A, text=True,
                          capture_output=True, timeout=60, check=True)
    assert yaml.safe_load(done.stdout)["topology"]["links"] == [LINK]


def test_usage():
    for words, text in (([], "usage: weft import"), (["netplan"], "usage: weft import"),
                        (["ifupdown", "x"], "expected netplan or hosts, got 'ifupdown'"),
                        (["host", "x"], "got 'host'; did you mean 'hosts'?"), (["hosts"], "usage: weft import"),
                        (["netplan", "-"], "write HOST=-"), (["netplan", "a=-", "b=-"], "`-` is given 2 times"),
                        (["hosts", "-", "--hosts", "-"], "`-` is given 2 times"),
                        (["netplan", "x", "--prefix", "24"], "--prefix: netplan files have the prefixes"),
                        (["hosts", "x", "--prefix", "32"], "1 to 31 for IPv4, or 33 to 127 for IPv6, got '32'"),
                        (["netplan", "a="], "'a=' names no file; write HOST=FILE"),
                        (["netplan", "=n1"], "'=n1' names no host; write HOST=FILE"),
                        (["netplan", "/nonexistent"], "/nonexistent: cannot read")):
        done = subprocess.run([WEFT, "import", *words], capture_output=True, text=True, check=False,
                              timeout=60)
        assert done.returncode == 2 and text in done.stderr, done.stderr


def test_the_page_names_every_flag():
    text = (ROOT / "docs" / "import.md").read_text()
    for flag in ("--cable", "--switch", "--without", "--hosts", "--prefix"):
        assert flag in text
    for target in re.findall(r"\]\(([^)#:]+)", text):
        assert (Path(ROOT) / "docs" / target).exists(), target
