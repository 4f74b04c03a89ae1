"""weft show --policy P: what each program would choose, against the rules as they are written of it.

The oracle below knows scenarios and the rules; it shares no code or table with weft. Which NIC NCCL
finds nearest inside a host is not asked of it (ci/test_paths.py judges that): it is taken from what
the same page says NCCL 2.25 asks of the NICs.
"""

import ipaddress
import json
import os
import random
import subprocess

import pytest

WEFT = os.environ.get("WEFT_FAST", os.environ.get("WEFT", "build/weft"))
POLICIES = ["weft", "nccl-2.25", "nccl-2.30-subnet-aware", "mesh-plugin-2026-01",
            "mooncake-2026-06", "nccl-2.29-port-recovery"]
PATH_MTU = {1500: 1024, 2200: 2048, 4200: 4096, 9000: 4096}
HOSTS = ["titanic", "iceberg", "carpathia", "olympic", "britannic"]


def show(path, policy, *args):
    done = subprocess.run([WEFT, "show", path, "--policy", policy, "--json", *args],
                          capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---- the oracle ----


class Port:
    def __init__(self, name, interface, mtu, profile):
        self.name = name
        self.interface = interface  # address and netmask
        self.mtu = PATH_MTU[mtu]
        # (slot, address or None for fe80::, version): mlx5 has each address as v1 and v2
        versions = [2] if profile == "rxe" else [1, 2]
        entries = [(None, v) for v in versions] + [(interface.ip, v) for v in versions]
        self.gids = [(slot, ip, version) for slot, (ip, version) in enumerate(entries)]


def nccl_gid(port, fixed):
    if fixed is not None:
        return next((gid for gid in port.gids if gid[0] == fixed), port.gids[0])
    return next(gid for gid in port.gids if gid[1] is not None and gid[2] == 2)


def same_24(a, b):
    return ipaddress.ip_interface(f"{a}/24").network == ipaddress.ip_interface(f"{b}/24").network


def matches(nic, gids, fixed):
    own = [nccl_gid(port, fixed)[1] for port in nic]
    # All fe80:: GIDs are in one /64.
    return all(any((ip is None) == (other is None) and (ip is None or same_24(ip, other))
                   for other in gids) for ip in own)


def reselect(nics, given, gids, fixed):
    if matches(given, gids, fixed):
        return given
    return next((nic for nic in nics if matches(nic, gids, fixed)), given)


def nccl(mesh, a, b, nearest, aware):
    """[(port, GID, port, GID, MTU, MTU)] of the queue pairs; a connects."""
    ours, theirs = ([next(p for p in mesh.ports[host] if p.name == name) for name in nearest[host]]
                    for host in (a, b))
    fixed = mesh.fixed
    if aware:
        listener = [nccl_gid(port, fixed)[1] for port in theirs][:2]
        ours = reselect(mesh.nics(a), ours, listener, fixed)
        theirs = reselect(mesh.nics(b), theirs, [nccl_gid(port, fixed)[1] for port in ours], fixed)
    rails = []
    for q in range(max(len(ours), len(theirs))):
        p, r = ours[q % len(ours)], theirs[q % len(theirs)]
        mtu = min(p.mtu, r.mtu)
        rails.append((p, nccl_gid(p, fixed), r, nccl_gid(r, fixed), mtu, mtu))
    return rails


def plugin(mesh, a, b):
    pair = next(((p, r) for r in mesh.ports[b][:6] for p in mesh.ports[a]
                 if r.interface.ip in p.interface.network), None)
    if pair is None:
        return []
    p, r = pair

    def first(port):
        return next(gid for gid in port.gids if gid[1] is not None)
    return [(p, first(p), r, first(r), min(p.mtu, mesh.ports[b][0].mtu), r.mtu)]


def mooncake(mesh, a, b):
    """All addresses of these meshes are in 10/8: fe80:: as RoCE v2 comes first."""
    def opened(host):
        chosen = [(port, next((gid for gid in port.gids if gid[0] == mesh.fixed or
                               mesh.fixed is None and gid[2] == 2), None))
                  for port in mesh.ports[host]]
        return [nic for nic in chosen if nic[1] is not None]
    ours, theirs = opened(a), opened(b)
    if not ours or not theirs:
        return []
    (p, gid), (r, their_gid) = ours[0], theirs[0]
    return [(p, gid, r, their_gid, p.mtu, r.mtu)]


def weft(mesh, a, b):
    facing = [(p, r) for p in mesh.ports[a] for r in mesh.ports[b]
              if r.interface.ip in p.interface.network and p.interface.ip in r.interface.network]
    facing.sort(key=lambda pair: -min(pair[0].mtu, pair[1].mtu))  # stable; rates are equal
    rails, used = [], set()
    for p, r in facing:
        if not {(a, p.name), (b, r.name)} & used:
            used |= {(a, p.name), (b, r.name)}
            gid = [next(g for g in port.gids if g[1] is not None and g[2] == 2) for port in (p, r)]
            mtu = min(p.mtu, r.mtu)
            rails.append((p, gid[0], r, gid[1], mtu, mtu))
    return rails


# ---- random meshes ----


class Mesh:
    def __init__(self, seed):
        rng = random.Random(f"policies {seed}")
        self.n = rng.choice([2, 2, 3, 3, 4, 5])
        self.profile = rng.choice(["mlx5", "mlx5", "rxe", "hns-hip09"])
        self.fixed = rng.choice([None, None, None, 0, 1, 3])
        self.splits = rng.random() < 0.5
        self.names = HOSTS[:self.n]
        self.ports = {name: [] for name in self.names}
        self.links, self.rng = [], rng
        coarse = rng.random() < 0.3  # several links inside one /24
        if self.n == 2:
            pairs = [(0, 1)] * rng.choice([1, 2])
        else:
            pairs = [(i, (i + 1) % self.n) for i in range(self.n)]
        slots = {i: rng.sample([0, 1], 2) for i in range(self.n)}
        chosen = {i: {} for i in range(self.n)}
        for k, (a, b) in enumerate(pairs):
            net = (ipaddress.ip_network(f"10.1.0.{16 * k}/28") if coarse
                   else ipaddress.ip_network(f"10.1.{k}.0/{rng.choice([24, 28, 30])}"))
            mtu = rng.choice(list(PATH_MTU))
            ends = []
            for host, ip in ((a, net[1]), (b, net[2])):
                slot = slots[host].pop()
                chosen[host][slot] = Port(f"p{slot}", ipaddress.ip_interface(
                    f"{ip}/{net.prefixlen}"), mtu, self.profile)
                ends.append(f"{self.names[host]}:p{slot}")
            self.links.append({"endpoints": ends, "subnet": str(net), "mtu": mtu})
        for host, name in enumerate(self.names):
            used = sorted(chosen[host])
            for place, slot in enumerate(used):  # a port without a cable is left out
                port = chosen[host][slot]
                for link in self.links:
                    link["endpoints"] = [f"{name}:q{place}" if end == f"{name}:p{slot}" else end
                                         for end in link["endpoints"]]
                port.name = f"q{place}"
                self.ports[name].append(port)

    def nics(self, host):
        ports = self.ports[host]
        return [[port] for port in ports] if self.splits else [ports]

    def document(self):
        env = {}
        if self.fixed is not None:
            env["NCCL_IB_GID_INDEX"] = str(self.fixed)
        if self.splits:
            env["NCCL_IB_MERGE_NICS"] = "0"
        return {"name": "random", "topology": {
            "defaults": {"profile": self.profile, "env": env},
            "nodes": {name: {"ports": [port.name for port in self.ports[name]]}
                      for name in self.names}, "links": self.links},
                "jobs": [{"all_reduce": {"bytes": 8}}]}


def flat(rail):
    p, ours, r, theirs, mtu, their_mtu = rail
    return (p.name, ours[0], f"RoCE v{ours[2]}", r.name, theirs[0], f"RoCE v{theirs[2]}", mtu,
            their_mtu)


def found(rail):
    return (rail["local_port"], rail["local_gid"]["index"], rail["local_gid"]["type"],
            rail["remote_port"], rail["remote_gid"]["index"], rail["remote_gid"]["type"],
            rail["path_mtu"], rail["remote_path_mtu"])


@pytest.mark.heavy
@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_chooses_as_it_is_written_of_it(policy, tmp_path):
    file = tmp_path / "mesh.yaml"
    n_pairs = 0
    for seed in range(40):
        mesh = Mesh(seed)
        file.write_text(json.dumps(mesh.document()))
        page = show(file, policy)
        nearest = {ask["from_host"]: ask["send"]["ports"]
                   for ask in page["nccl"]["connections"] if ask["channel"] == 0
                   and ask["kind"] == "ring"}
        assert page["choices"]["policy"] == policy
        for pair in page["choices"]["pairs"]:
            a, b = pair["from_host"], pair["to_host"]
            if policy == "weft":
                expected = weft(mesh, a, b)
            elif policy == "mesh-plugin-2026-01":
                expected = plugin(mesh, a, b)
            elif policy == "mooncake-2026-06":
                expected = mooncake(mesh, a, b)
            else:
                expected = nccl(mesh, a, b, nearest, "subnet-aware" in policy)
            assert [found(rail) for rail in pair["rails"]] == [flat(rail) for rail in expected], (
                seed, a, b, mesh.document())
            assert (pair["error"] is None) == bool(expected)
            ends = {frozenset(link["endpoints"]) for link in mesh.links}
            for rail in pair["rails"]:
                joined = frozenset([f"{a}:{rail['local_port']}", f"{b}:{rail['remote_port']}"])
                assert rail["is_wired"] == (joined in ends)
            n_pairs += 1
    assert n_pairs > 150


# ---- what the field met ----


def rules(pair, end="connector"):
    return {rule["what"]: rule["rule"] for rule in pair["why"][end]}


def pair_of(page, a, b):
    return next(pair for pair in page["choices"]["pairs"]
                if (pair["from_host"], pair["to_host"]) == (a, b))


def test_each_rule_has_its_source():
    sources = {"weft": "docs/", "nccl-2.25": "NCCL ", "nccl-2.30-subnet-aware": "NCCL ",
               "mesh-plugin-2026-01": "nccl-mesh-plugin 679a394", "mooncake-2026-06": "Mooncake 30f01bdb",
               "nccl-2.29-port-recovery": "NCCL "}
    for policy, source in sources.items():
        page = show("scenarios/field/s01-triangle-stock.yaml", policy)
        for pair in page["choices"]["pairs"]:
            assert {"gid", "path_mtu"} < {rule["what"] for rule in pair["why"]["connector"]}
            for rule in [*pair["why"]["connector"], *pair["why"]["acceptor"]]:
                assert rule["source"].startswith(source), rule


def test_only_port_recovery_says_which_slot_it_keeps():
    """S26: both ends keep the slot that they find at set-up."""
    for policy in POLICIES:
        pair = pair_of(show("scenarios/field/s26-stale-index.yaml", policy), "titanic", "iceberg")
        for end in ("connector", "acceptor"):
            rule = rules(pair, end).get("recovery", "")
            assert ("5 times, by slot 3 as now" in rule) == (policy == "nccl-2.29-port-recovery")


def test_stock_nccl_leaves_by_the_cable_to_somebody_else():
    """S01: no L2 path from 192.168.0.1 to the address that the listener sent; the right NIC is another."""
    pair = pair_of(show("scenarios/field/s01-triangle-stock.yaml", "nccl-2.25"),
                   "titanic", "carpathia")
    assert [rail["is_wired"] for rail in pair["rails"]] == [False, False]
    assert pair["rails"][0]["cable"] == "p0 goes to iceberg:p1"
    assert "the peer is not asked" in rules(pair)["device"]


def test_the_plugin_takes_the_v1_slot():
    """B7: the first GID of the address, index 2 on mlx5, which is RoCE v1."""
    pair = pair_of(show("scenarios/field/s01-triangle-stock.yaml", "mesh-plugin-2026-01"),
                   "titanic", "iceberg")
    assert pair["rails"][0]["local_gid"] == {"gid": "192.168.0.1", "type": "RoCE v1", "index": 2}
    assert "whatever its RoCE version" in rules(pair)["gid"]


def test_the_plugin_s_ends_differ_in_path_mtu(tmp_path):
    """B11: the acceptor takes its own active MTU, the connector its first NIC's at most."""
    file = tmp_path / "mtu.yaml"
    file.write_text(json.dumps({"name": "mtu", "topology": {
        "nodes": {"titanic": {"ports": ["p0"]}, "iceberg": {"ports": ["p0", "p1"]},
                  "carpathia": {"ports": ["p0"]}},
        "links": [{"endpoints": ["iceberg:p0", "carpathia:p0"], "subnet": "10.0.1.0/24",
                   "mtu": 1500},
                  {"endpoints": ["titanic:p0", "iceberg:p1"], "subnet": "10.0.2.0/24",
                   "mtu": 9000}]}}))
    rail, = pair_of(show(file, "mesh-plugin-2026-01"), "titanic", "iceberg")["rails"]
    assert (rail["path_mtu"], rail["remote_path_mtu"]) == (1024, 4096)


def test_subnet_aware_nccl_tells_whether_it_moved():
    page = show("scenarios/field/s02-uncrossed-triangle.yaml", "nccl-2.30-subnet-aware")
    wired = {(pair["from_host"], pair["to_host"]): all(r["is_wired"] for r in pair["rails"])
             for pair in page["choices"]["pairs"]}
    assert not all(wired.values())  # an odd cycle needs p0-p1 on every cable
    for pair in page["choices"]["pairs"]:
        rule = [why["rule"] for why in pair["why"]["connector"] if why["what"] == "device"][1]
        assert rule.startswith(("kept", "left"))
        if wired[pair["from_host"], pair["to_host"]]:
            assert not rule.startswith("kept: no device")


def test_a_fixed_index_is_taken_whatever_is_there():
    page = show("scenarios/field/s23-shared-index.yaml", "nccl-2.25")
    choices = {rules(pair, end)["gid"] for pair in page["choices"]["pairs"]
               for end in ("connector", "acceptor")}
    assert any(rule.endswith("on this port nothing") for rule in choices)
    assert all(rule.startswith("NCCL_IB_GID_INDEX=") for rule in choices)


def test_people_read_each_rule_once():
    done = subprocess.run([WEFT, "show", "scenarios/field/s01-triangle-stock.yaml", "--policy",
                           "nccl-2.30-subnet-aware"], capture_output=True, text=True, check=True)
    _, chosen = done.stdout.split("what nccl-2.30-subnet-aware would choose\n")
    lines = chosen.split("\n  why\n")[1].split("\n\n")[0].splitlines()
    assert len(lines) == len(set(lines)) and len(lines) < 12


@pytest.mark.parametrize("text, index", [("", 3), ("auto", 0), ("0x2", 2), ("-1", 3), ("1", 1)])
def test_a_setting_is_read_as_nccl_reads_it(text, index, tmp_path):
    """An empty setting is none, what is no number is 0, and numbers may be in any base."""
    file = tmp_path / "pair.yaml"
    file.write_text(json.dumps({"name": "pair", "topology": {
        "defaults": {"ports": ["p0"], "env": {"NCCL_IB_GID_INDEX": text}},
        "nodes": {"titanic": {}, "iceberg": {}},
        "links": [{"endpoints": ["titanic:p0", "iceberg:p0"], "subnet": "10.1.0.0/24"}]}}))
    for pair in show(file, "nccl-2.25")["choices"]["pairs"]:
        assert pair["rails"][0]["local_gid"]["index"] == index


@pytest.mark.parametrize("env, index", [
    ({}, 1), ({"MC_GID_INDEX": "3"}, 3), ({"NCCL_IB_GID_INDEX": "3"}, 3), ({"NCCL_IB_GID_INDEX": ""}, 0),
    ({"MC_GID_INDEX": "3", "NCCL_IB_GID_INDEX": "0"}, 3), ({"MC_GID_INDEX": "-1"}, 1),
    ({"MC_GID_INDEX": "0x3"}, 0), ({"MC_GID_INDEX": "256"}, 1)])
def test_a_setting_is_read_as_mooncake_reads_it(env, index, tmp_path):
    """Its own before NCCL's, in base 10; an empty one is 0, what is no slot is none."""
    file = tmp_path / "pair.yaml"
    file.write_text(json.dumps({"name": "pair", "topology": {
        "defaults": {"ports": ["p0"], "env": env}, "nodes": {"titanic": {}, "iceberg": {}},
        "links": [{"endpoints": ["titanic:p0", "iceberg:p0"], "subnet": "10.1.0.0/24"}]}}))
    for pair in show(file, "mooncake-2026-06")["choices"]["pairs"]:
        assert pair["rails"][0]["local_gid"]["index"] == index


def test_private_addresses_are_worth_no_more_than_link_local_ones():
    """S28: 10/8 is taken for an overlay network, and slot 1 of mlx5, fe80:: as v2, comes before it."""
    page = show("scenarios/field/s28-private-as-overlay.yaml", "mooncake-2026-06")
    for pair in page["choices"]["pairs"]:
        for end in ("connector", "acceptor"):
            assert "count as overlay networks" in rules(pair, end)["gid"]
        assert {rail["local_gid"]["index"] for rail in pair["rails"]} == {1}


@pytest.mark.heavy
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("hca, ports", [("p", "p0 p1"), ("p1", "p1"), ("^p1", "p0"), ('"=p0,p2"', "p0"),
                                        ('","', "p0 p1")])
def test_a_list_of_devices_holds_on_the_page_as_in_the_run(policy, hca, ports):
    scenario = "scenarios/field/s19-slow-lane.yaml"
    setting = ["--set", f"topology.defaults.env={{NCCL_IB_HCA: {hca}}}"]
    page = show(scenario, policy, *setting)
    done = subprocess.run([WEFT, "run", scenario, "--policy", policy, "--json", *setting], text=True,
                          capture_output=True, check=False, timeout=60)  # the finding is s19's
    chosen = {rail["local_port"] for pair in page["choices"]["pairs"] for rail in pair["rails"]}
    used = {connection["local_port"] for connection in json.loads(done.stdout)["connections"]}
    asked = {port for connection in page["nccl"]["connections"]
             for port in connection["send"]["ports"] + connection["receive"]["ports"]}
    assert chosen == used
    if policy.startswith("nccl"):
        assert asked == chosen == set(ports.split())
    else:
        assert page == show(scenario, policy, "--set", "topology.defaults.env={}")
