"""`weft doctor`: of scenarios' hosts, whose mistakes are known, and of this machine, whose settings a
test can choose."""

import json
import os
import pwd
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT_FAST", str(ROOT / "build" / "weft"))
FIELD = "scenarios/field"


def doctor(*arguments, **environment):
    base = {k: v for k, v in os.environ.items() if not k.startswith("NCCL_")}
    ran = subprocess.run([WEFT, "doctor", "--json", *arguments], cwd=ROOT, capture_output=True,
                         text=True, check=False, timeout=60, env={**base, **environment})
    document = json.loads(ran.stdout)
    has_error = any(finding["severity"] == "error" for finding in document["findings"])
    assert ran.returncode == (1 if has_error else 0), ran.stderr
    return document


def codes(document, *severities):
    return {finding["code"] for finding in document["findings"]
            if finding["severity"] in (severities or ("error", "warning"))}


@pytest.mark.parametrize("file", ["spark/pair", "spark/triangle", "spark/ring-4", "basic/triangle",
                                  "basic/ipv6", "partial/grid-2x4", "net/bond-pair",
                                  "net/bond-backup"])
def test_a_mesh_that_works_has_nothing_wrong(file):
    assert codes(doctor(f"scenarios/{file}.yaml")) == set()


@pytest.mark.parametrize("file,code", [
    ("../basic/slash-31", "route.prefix_collision"),  # fine, but for NCCL 2.30
    ("s03-prefix-collision", "route.prefix_collision"),
    ("s04-twins-same-subnet", "route.gid_collision"),
    ("s05-link-local-both", "route.link_local"),
    ("s06-flat-subnet", "route.gid_collision"),
    ("s08-rp-filter", "host.rp_filter"),
    ("s21-bond-to-two-peers", "host.bond_peers"),
    ("s23-shared-index", "gid.fixed_index"),
    ("s31-mtu-after-reboot", "link.mtu_mismatch"),
    ("s38-address-lost", "addr.missing"),
    ("s47-memlock", "host.memlock"),
    ("../net/peer-address", "gid.peer_address"),
    ("../net/vlan-mismatch", "link.vlan_mismatch")])
def test_what_is_wrong_before_it_runs_is_found_before_it_runs(file, code):
    assert codes(doctor(f"{FIELD}/{file}.yaml")) == {code}


@pytest.mark.parametrize("length,collides", [
    ("", True), ("24", True), ("31", False), ("0x1f", False), ("99999999999999999999", True)])
def test_subnets_that_nccl_keeps_apart_do_not_collide(length, collides):
    """Each cable has a /31 of one /24."""
    env = f"topology.defaults.env={{NCCL_IB_SUBNET_PREFIX_LEN: '{length}'}}"
    assert codes(doctor("scenarios/basic/slash-31.yaml", "--set", env)) == (
        {"route.prefix_collision"} if collides else set())


@pytest.mark.parametrize("index,is_empty", [
    ("3", False), ("0x3", False), ("99999999999999999999", False), ("03 # of mlx5", False), ("-1", False),
    ("5", True), ("0x5", True), ("5x", True), ("none", True)])  # what is no number is slot 0
def test_a_gid_index_is_read_as_nccl_reads_it(index, is_empty):
    document = doctor("scenarios/basic/pair.yaml", "--set",
                      f"topology.nodes.titanic.env={{NCCL_IB_GID_INDEX: '{index}'}}")
    assert codes(document) == ({"gid.fixed_index"} if is_empty else set())


@pytest.mark.parametrize("index, slot", [("5", "empty"), ("1", "fe80::57:ff:fe00:1")])
def test_an_empty_slot_is_distinguished_from_a_wrong_one(index, slot):
    document = doctor("scenarios/basic/pair.yaml", "--set",
                      f"topology.nodes.titanic.env={{NCCL_IB_GID_INDEX: '{index}'}}")
    evidence, = (finding["evidence"] for finding in document["findings"])
    assert evidence == {"fixed_index": int(index), "fixed_slot": slot, "source": "the scenario"}


def test_a_gid_index_counts_only_for_ports_that_nccl_opens():
    given = ["scenarios/basic/triangle.yaml", "--set", "topology.nodes.titanic.addresses={p0: [10.9.0.1/24]}"]
    env = "topology.nodes.titanic.env={NCCL_IB_GID_INDEX: '5'%s}"
    assert codes(doctor(*given, "--set", env % "")) == {"gid.fixed_index"}
    assert codes(doctor(*given, "--set", env % ", NCCL_IB_HCA: p0")) == set()


@pytest.mark.parametrize("file", ["net/bond-pair", "net/bond-backup"])
def test_a_gid_index_counts_for_one_port_of_a_bond(file):
    env = "topology.defaults.env={NCCL_IB_GID_INDEX: '3'}"
    assert codes(doctor(f"scenarios/{file}.yaml", "--set", env)) == set()


def test_a_machine_that_is_given_twice_is_one(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(doctor("scenarios/basic/pair.yaml")))
    assert codes(doctor(str(path), str(path))) == set()


def test_one_address_on_two_ports():
    links = ('[{endpoints: ["titanic:p0", "iceberg:p0"], addresses: [10.1.0.1/24, 10.1.0.2/24]}, '
             '{endpoints: ["titanic:p1", "iceberg:p1"], addresses: [10.1.0.1/24, 10.1.0.3/24], '
             'overlap: allowed}]')
    ports = "{titanic: {ports: [p0, p1]}, iceberg: {ports: [p0, p1]}}"
    document = doctor("scenarios/basic/pair.yaml", "--set", f"topology.nodes={ports}", "--set",
                      f"topology.links={links}")
    assert {(f["code"], f["where"]["host"]) for f in document["findings"]} == {
        ("addr.duplicate", "titanic"), ("route.gid_collision", "iceberg")}


def places(document):
    return {(finding["code"], finding["where"]["host"], finding["where"]["port"])
            for finding in document["findings"] if finding["severity"] == "error"}


def test_a_cable_that_is_numbered_apart_is_an_error_at_both_ends():
    assert places(doctor("scenarios/net/misnumbered-twin.yaml")) == {
        ("addr.no_facing_port", "spark-1", "p0.0"), ("addr.no_facing_port", "spark-2", "p1.0")}
    # These two hosts have no other cable: the code is that of a run.
    assert places(doctor("scenarios/net/misnumbered-end.yaml")) == {
        ("route.no_facing_port", "titanic", "p0"), ("route.no_facing_port", "iceberg", "p1")}


def test_the_policys_choice_is_judged_before_a_run():
    document = doctor(f"{FIELD}/s01-triangle-stock.yaml")
    assert places(document) == {("route.wrong_nic", host, "p0") for host in ("titanic", "iceberg")}
    assert {finding["evidence"]["policy"] for finding in document["findings"]} == {"nccl-2.25"}
    assert codes(doctor(f"{FIELD}/s01-triangle-stock.yaml", "--set", "policy=weft")) == set()
    assert places(doctor("scenarios/basic/triangle.yaml", "--policy", "nccl-2.25")) == places(document)
    # A cause at a host replaces the warning of the same code there.
    found = doctor(f"{FIELD}/s23-shared-index.yaml")["findings"]
    assert [finding["severity"] for finding in found] == ["error"]


def test_software_devices_are_judged_where_their_cable_leads_elsewhere():
    """The kernel answers for an address of another port of its host, but the device there has no such queue
    pair. Runs say the same."""
    software = ["--set", "topology.defaults.profile=rxe"]
    found = doctor("scenarios/basic/triangle-nccl-2.25.yaml", *software)["findings"]
    ends = {(f["code"], f["where"]["host"], f["where"]["peer"]) for f in found}
    assert ends == {("route.wrong_nic", "titanic", "carpathia"), ("route.wrong_nic", "iceberg", "titanic"),
                    ("route.wrong_nic", "carpathia", "iceberg")}
    # Two cables of two hosts, crossed: each port of one leads to the other host.
    crossed = ["topology.nodes={titanic: {ports: [p0, p1]}, iceberg: {ports: [p0, p1]}}", "policy=nccl-2.25",
               "topology.links=[{endpoints: ['titanic:p0', 'iceberg:p1'], subnet: 10.1.0.0/24}, "
               "{endpoints: ['titanic:p1', 'iceberg:p0'], subnet: 10.1.1.0/24}]"]
    sets = [word for value in crossed for word in ("--set", value)]
    assert codes(doctor("scenarios/basic/pair.yaml", *sets)) == {"route.crossed_planes"}
    for ignore, phase in ((0, "probe"), (1, "rtr")):
        sysctl = ["--set", f"topology.defaults.sysctl.arp_ignore={ignore}"]
        found = doctor("scenarios/basic/pair.yaml", *sets, *software, *sysctl)["findings"]
        assert {(f["code"], f["evidence"]["phase"]) for f in found} == {("route.crossed_planes", phase)}
        ran = subprocess.run([WEFT, "run", "scenarios/basic/pair.yaml", *sets, *software, *sysctl, "--json"], cwd=ROOT,
                             capture_output=True, text=True, check=False)
        assert {(f["code"], f["evidence"]["phase"]) for f in json.loads(ran.stdout)["findings"]} == {
            ("route.crossed_planes", phase)}


def test_under_policy_weft_ports_that_no_rank_uses_are_a_warning():
    sets = ["--set", "policy=weft"]
    document = doctor("scenarios/net/paired-by-position.yaml", *sets)
    assert [(f["code"], f["severity"]) for f in document["findings"] if f["severity"] != "info"] == [
        ("route.link_local", "warning")]
    # Without the numbered ports the others are used.
    only = "topology.nodes.spark-3.addresses={f1.0: [169.254.30.3/16], f1.1: [169.254.31.3/16]}"
    assert ("route.link_local", "spark-2", "f1.0") in places(
        doctor("scenarios/net/paired-by-position.yaml", *sets, "--set", only))
    # A host without a rank, which relays, uses ports that are in no pair of ranks.
    line = "{titanic: {ports: [p0]}, iceberg: {ports: [p0]}, relay: {ports: [p0, p1], ranks: 0}}"
    links = ("[{endpoints: ['titanic:p0', 'relay:p0'], addresses: [169.254.1.1/16, 169.254.1.2/16]}, "
             "{endpoints: ['iceberg:p0', 'relay:p1'], addresses: [169.254.2.1/16, 169.254.2.2/16], overlap: allowed}]")
    assert ("route.link_local", "relay", "p0") in places(
        doctor("scenarios/basic/pair.yaml", "--set", f"topology.nodes={line}", "--set", f"topology.links={links}"))


@pytest.mark.parametrize("forwards,errors", [(0, {"route.forward_off"}), (1, set())])
def test_a_route_ends_at_a_host_that_does_not_forward(forwards, errors):
    assert codes(doctor("scenarios/net/transit-off.yaml", "--set",
                        f"topology.nodes.iceberg.sysctl.ip_forward={forwards}")) == errors


def test_ports_in_one_subnet_that_answer_for_themselves_are_a_warning():
    """They work as long as each cable joins the ports that are paired."""
    collision = {"route.gid_collision"}
    assert codes(doctor("scenarios/net/arp-flux-fixed.yaml"), "warning") == collision
    for host in ("titanic", "iceberg"):
        document = doctor("scenarios/net/arp-flux-fixed.yaml", "--set",
                          f"topology.nodes.{host}={{sysctl: {{arp_ignore: 0, arp_announce: 2}}}}")
        assert codes(document, "error") == codes(document, "warning") == collision


def test_swapped_cables_are_named_at_each_end():
    """The addresses are those of a triangle; two cables are in each other's port of carpathia."""
    addresses = {"titanic": {"p0": ["10.1.1.1/24"], "p1": ["10.1.3.2/24"]},
                 "iceberg": {"p0": ["10.1.2.1/24"], "p1": ["10.1.1.2/24"]},
                 "carpathia": {"p0": ["10.1.3.1/24"], "p1": ["10.1.2.2/24"]}}
    nodes = {host: {"ports": ["p0", "p1"], "addresses": own} for host, own in addresses.items()}
    links = [{"endpoints": ["titanic:p0", "iceberg:p1"]}, {"endpoints": ["iceberg:p0", "carpathia:p0"]},
             {"endpoints": ["carpathia:p1", "titanic:p1"]}]
    document = doctor("scenarios/basic/pair.yaml", "--set", f"topology.nodes={json.dumps(nodes)}",
                      "--set", f"topology.links={json.dumps(links)}")
    assert places(document) == {("neigh.no_answer", "iceberg", "p0"), ("neigh.no_answer", "carpathia", "p0"),
                                ("neigh.no_answer", "carpathia", "p1"), ("neigh.no_answer", "titanic", "p1")}
    leads = {f["where"]["host"] + ":" + f["where"]["port"]: f["evidence"]["cable_leads_to"]
             for f in document["findings"]}
    assert leads["iceberg:p0"] == "carpathia:p0" and leads["titanic:p1"] == "carpathia:p1"


# An address beside the cable's own, as hosts have for a service: its network is the port's own, another
# cable's, and that of a cable elsewhere.
EXTRAS = [f"{{p0: [{address}]}}" for address in (
    "10.255.0.1/32", "192.168.101.77/32", "192.168.102.77/32", "192.168.100.9/32", "'fd00::1/128'")]


@pytest.mark.parametrize("addresses", EXTRAS)
def test_an_address_beside_the_cables_own_is_no_error(addresses):
    given = ["--set", f"topology.nodes.titanic.addresses={addresses}"]
    assert codes(doctor("scenarios/basic/triangle.yaml", *given)) == set()
    ran = subprocess.run([WEFT, "run", "-q", "scenarios/basic/triangle.yaml", *given, "--set",
                          "jobs=[{all_reduce: {bytes: 1MiB}}]", "--set", "expect={}"], cwd=ROOT,
                         capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stdout


def test_a_host_address_that_is_a_ports_only_one_is_an_error():
    document = doctor("scenarios/basic/pair.yaml", "--set", "topology.links.0={endpoints: ['titanic:p0', "
                      "'iceberg:p0'], addresses: [192.168.0.1/32, 192.168.0.2/24]}")
    assert "addr.prefix_mismatch" in codes(document)


def test_a_cage_without_a_cable_is_said_and_no_mistake():
    document = doctor("scenarios/spark/pair.yaml")
    assert codes(document, "info") == {"link.down"}
    assert {host["name"] for host in document["hosts"]} == {"spark-1", "spark-2"}


def here(**environment):
    return codes(doctor(**environment), "error", "warning", "info") - {
        "host.memlock", "host.kernel_memory"}


def test_this_machine_without_a_device_says_so(tmp_path):
    empty = {"HOME": str(tmp_path), "WEFT_DEVICES": "none_such", "LD_LIBRARY_PATH": str(tmp_path)}
    assert here(**empty) == {"host.no_device"}
    assert here(**empty, NCCL_NET_PLUGIN="none") == {"host.no_device", "plugin.not_chosen"}
    assert here(**empty, NCCL_NET="Socket") == {"host.no_device", "plugin.not_chosen"}
    assert here(**empty, NCCL_NET_PLUGIN="mesh") == {"host.no_device", "plugin.not_found"}
    assert here(**empty, NCCL_NET_PLUGIN="") == {"host.no_device"}
    # A plugin named by its path is opened wherever it is.
    assert here(**empty, NCCL_NET_PLUGIN="/opt/libnccl-net-mesh.so") == {"host.no_device"}
    assert here(**empty, NCCL_NET_PLUGIN="/opt/libnccl-net-mesh.so ") == {
        "host.no_device", "plugin.not_found"}
    assert here(**empty, NCCL_MESH_TIMEOUT="14") == {"host.no_device"}
    assert here(**empty, NCCL_MESH_TIMEOUT_MS="14") == {"host.no_device", "plugin.setting"}


def test_a_plugin_that_is_found(tmp_path):
    found = {"HOME": str(tmp_path), "WEFT_DEVICES": "none_such",
             "LD_LIBRARY_PATH": str(Path(WEFT).resolve().parent)}
    assert here(**found, NCCL_NET_PLUGIN="mesh") == {"host.no_device"}
    assert here(**found) == {"host.no_device", "plugin.not_chosen"}  # a hint


def finding_of(document, code):
    return next(json.dumps(f["evidence"]) for f in document["findings"] if f["code"] == code)


def test_settings_in_files_count_where_the_environment_says_nothing(tmp_path):
    conf = tmp_path / "nccl.conf"
    conf.write_text("#NCCL_NET=IB\n# left behind by a script\nNCCL_NET_PLUGIN=none\n")
    named = {"NCCL_CONF_FILE": str(conf), "WEFT_DEVICES": "none_such", "LD_LIBRARY_PATH": "/"}
    document = doctor(**named)
    assert "NCCL_CONF_FILE" in finding_of(document, "plugin.not_chosen")
    assert "NCCL_NET_PLUGIN" in finding_of(document, "plugin.not_chosen")
    assert "plugin.not_chosen" not in here(**named, NCCL_NET_PLUGIN="mesh")
    conf.write_text("NCCL_NET=IB\n")
    assert '"IB"' in finding_of(doctor(**named), "plugin.not_chosen")


def test_an_interface_for_nccls_bootstrap(tmp_path):
    """S20's second half: what NCCL_SOCKET_IFNAME names is on the other machines only."""
    empty = {"WEFT_DEVICES": "none_such", "LD_LIBRARY_PATH": str(tmp_path)}
    for fine in ("lo", "=lo", "none-such0,lo", "^none-such0", "", "x"):
        assert here(**empty, NCCL_SOCKET_IFNAME=fine) == {"host.no_device"}, fine
    for bad in ("none-such0", "=l", "=none-such0,l"):
        assert here(**empty, NCCL_SOCKET_IFNAME=bad) == {"host.no_device", "host.no_interface"}, bad
    assert here(**empty, NCCL_SOCKET_IFNAME="lo", NCCL_SOCKET_FAMILY="AF_INET6") == {
        "host.no_device", "host.no_interface"}  # ::1 is no address to NCCL
    conf = tmp_path / "nccl.conf"
    conf.write_text("NCCL_SOCKET_IFNAME=lo # everywhere the same\n")
    document = doctor(**empty, NCCL_CONF_FILE=str(conf))
    evidence = json.loads(finding_of(document, "host.no_interface"))
    assert "NCCL_CONF_FILE" in json.dumps(evidence) and "lo" in json.dumps(evidence["others"])


@pytest.mark.parametrize("tail", [" # ours", " ", "\r", "#ours"])
def test_what_stands_behind_a_value_is_part_of_it(tmp_path, tail):
    """NCCL's param.cc cuts no remark off: it would look for `libnccl-net-mesh # ours.so`."""
    conf = tmp_path / "nccl.conf"
    conf.write_bytes(f"NCCL_NET_PLUGIN=mesh{tail}\n".encode())
    found = {"NCCL_CONF_FILE": str(conf), "WEFT_DEVICES": "none_such",
             "LD_LIBRARY_PATH": str(Path(WEFT).resolve().parent)}
    assert here(**found) == {"host.no_device", "plugin.not_found"}
    conf.write_text("NCCL_NET_PLUGIN=mesh\n")
    assert here(**found) == {"host.no_device"}


def test_home_is_where_the_user_lives_whatever_the_environment_says(tmp_path):
    (tmp_path / ".nccl.conf").write_text("NCCL_NET_PLUGIN=none\n")
    own = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".nccl.conf"
    sources = json.dumps(doctor(HOME=str(tmp_path), WEFT_DEVICES="none_such")["findings"])
    assert ("~/.nccl.conf" in sources) <= own.exists()


def test_people_see_ports_and_findings():
    ran = subprocess.run([WEFT, "doctor", "scenarios/spark/triangle.yaml"], cwd=ROOT, text=True,
                         capture_output=True, check=True, env={**os.environ, "NO_COLOR": "1"})
    assert "spark-1  p0.0             up   mtu 9000  192.168.0.1/24 (GID 3)\n" in ran.stdout
    assert ran.stdout.endswith("no findings\n")


def test_quiet_prints_failures_and_nothing_else():
    said = [subprocess.run([WEFT, "doctor", "-q", f"scenarios/{file}.yaml"], cwd=ROOT, text=True, capture_output=True,
                           check=False, env={**os.environ, "NO_COLOR": "1"}).stdout
            for file in ("spark/pair", "field/s21-bond-to-two-peers")]
    assert said[0] == ""
    assert said[1].startswith("\nerror host.bond_peers at titanic\n") and "cable " not in said[1]


def split(tmp_path, *arguments):
    """A file for each host of a scenario, as each of these machines would have written it."""
    whole = doctor(*arguments)
    files = []
    for host in whole["hosts"]:
        files.append(tmp_path / f"{host['name']}.json")
        files[-1].write_text(json.dumps({"schema_version": 1, "weft": "x", "hosts": [host]}))
    return whole, [str(file) for file in files]


def ends(cable):
    return frozenset([(cable["from"], cable["from_port"]), (cable["to"], cable["to_port"])])


def test_the_cables_of_a_scenario_are_those_of_its_file():
    """Numbered apart they are there all the same; behind a switch no two hosts share one."""
    cables = doctor("scenarios/net/misnumbered-end.yaml")["cables"]
    assert {ends(cable) for cable in cables} == {
        frozenset([("titanic", "p0"), ("iceberg", "p1")]),
        frozenset([("iceberg", "p0"), ("carpathia", "p1")]),
        frozenset([("carpathia", "p0"), ("titanic", "p1")])}
    cables = doctor(f"{FIELD}/s12-function-beside-function.yaml")["cables"]
    assert {ends(cable) for cable in cables} == {
        frozenset([("titanic", "pf"), ("nic", "0")]), frozenset([("titanic", "pf/2"), ("nic", "1")]),
        frozenset([("iceberg", "p0"), ("nic", "2")])}


def test_files_of_several_machines_show_the_cables(tmp_path):
    whole, files = split(tmp_path, "scenarios/spark/ring-4.yaml")
    joined = doctor(*files)
    assert joined["cables"] == whole["cables"] and len(joined["cables"]) == 8
    assert {"from": "spark-1", "from_port": "p0.0", "to": "spark-2", "to_port": "p1.0"} in \
        joined["cables"]
    assert codes(joined) == set() and doctor(*files[:1])["cables"] == []


def test_ends_that_do_not_agree(tmp_path):
    assert codes(doctor(*split(tmp_path, f"{FIELD}/s31-mtu-after-reboot.yaml")[1])) == {
        "link.mtu_mismatch"}
    links = ('[{endpoints: ["titanic:p0", "iceberg:p0"], addresses: [10.1.0.1/24, 10.1.0.129/25]}]')
    ends = split(tmp_path, "scenarios/basic/pair.yaml", "--set", f"topology.links={links}")[1]
    assert codes(doctor(*ends)) == {"addr.prefix_mismatch"}
    copied = json.loads(Path(ends[0]).read_text(encoding="utf-8"))
    copied["hosts"][0]["name"] = "carpathia"
    (tmp_path / "copied.json").write_text(json.dumps(copied), encoding="utf-8")
    assert codes(doctor(ends[0], str(tmp_path / "copied.json"))) == {"addr.duplicate"}


def test_what_is_no_record_is_refused(tmp_path):
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "none.json").write_text("hosts")
    for name in ("bad", "none", "absent"):
        ran = subprocess.run([WEFT, "doctor", tmp_path / f"{name}.json"], cwd=ROOT, text=True,
                             capture_output=True, check=False)
        assert (ran.returncode, ran.stdout) == (2, "") and f"{name}.json" in ran.stderr
