"""What a finding advises works: each remedy is applied to a scenario that shows the
finding, among them its example, and the run passes. What only a machine shows is mended before the
doctor. A finding without a row fails."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT_FAST") or os.environ.get("WEFT", "build/weft")
FIELD, NET, FAULTS = "scenarios/field", "scenarios/net", "scenarios/faults"

WEFT_POLICY = ["policy=weft"]
UNMERGED = ['topology.defaults.env={NCCL_IB_MERGE_NICS: "0"}']
SUBNET_AWARE = ["policy=nccl-2.30-subnet-aware", *UNMERGED]  # NCCL_IB_SUBNET_AWARE_ROUTING=1
# The fault stands for a cable, program, driver or limit, and is what the remedy mends.
MENDED = ["faults=[]"]
NO_ENV = ["topology.defaults.env={}"]
LONG = "jobs=[{all_reduce: {bytes: 16MiB, repeat: 20}}]"


def subnets(*nets):
    return [f"topology.links.{i}.subnet={net}" for i, net in enumerate(nets)]


def fault(text):
    return [LONG, f"faults=[{{at: 5ms, {text}}}]"]


# Finding, scenario, what breaks it (nothing if the scenario is broken), what the remedy changes.
REMEDIES = [
    ("route.wrong_nic", f"{FIELD}/s01-triangle-stock.yaml", [], WEFT_POLICY),
    ("route.wrong_nic", f"{FIELD}/s01-triangle-stock.yaml", [], SUBNET_AWARE),
    ("route.wrong_nic", f"{NET}/all-devices-and-a-pc.yaml", [], WEFT_POLICY),
    ("route.wrong_nic", f"{NET}/all-devices-and-a-pc.yaml", [],
     ["policy=nccl-2.30-subnet-aware",
      'topology.defaults.env={NCCL_IB_HCA: "p0.0,p1.0,p0.1,p1.1", NCCL_IB_MERGE_NICS: "0"}']),
    ("route.no_facing_port", f"{NET}/misnumbered-end.yaml", [],
     ["topology.nodes.iceberg.addresses={p0: [10.7.2.1/24], p1: [10.7.1.2/24]}"]),
    ("addr.no_facing_port", f"{NET}/misnumbered-twin.yaml", [],
     ["topology.nodes.spark-2.addresses={p0.0: [192.168.2.1/24], p0.1: [192.168.3.1/24], "
      "p1.0: [192.168.0.2/24], p1.1: [192.168.1.2/24]}"]),
    ("route.gid_collision", f"{FIELD}/s04-twins-same-subnet.yaml", [],
     ["topology.links.1.subnet=192.168.1.0/24", *SUBNET_AWARE]),
    ("link.down", f"{FIELD}/s35-port-flap.yaml", [], MENDED),
    ("link.mtu_mismatch", f"{FIELD}/s31-mtu-after-reboot.yaml", [], ["topology.links.0.mtu=9000"]),
    ("link.black_hole", f"{FIELD}/s32-black-hole.yaml", [], ["topology.links.0.path_limit=9216"]),
    ("link.black_hole", f"{FIELD}/s32-black-hole.yaml", [], ["topology.links.0.mtu=1500"]),
    ("gid.type_mismatch", f"{FIELD}/s22-gid-versions.yaml", [],
     ['topology.nodes.titanic.env={NCCL_IB_GID_INDEX: "3"}']),
    ("gid.missing", f"{NET}/stale-gid-rxe.yaml", [], MENDED),
    ("gid.peer_address", f"{NET}/peer-address.yaml", [],
     ['topology.links.0.addresses=["192.168.0.0/31", "192.168.0.1/31"]']),
    ("neigh.no_answer", f"{NET}/swapped-cables.yaml", [],
     ['topology.links.1.endpoints=["iceberg:p0", "carpathia:p1"]',
      'topology.links.2.endpoints=["carpathia:p0", "titanic:p1"]']),
    ("host.bond_peers", f"{FIELD}/s21-bond-to-two-peers.yaml", [],
     ["topology.nodes.titanic={ports: [p0, p1], addresses: {p0: [192.168.0.1/24], p1: [192.168.1.1/24]}}",
      "topology.nodes.carpathia.addresses={p0: [192.168.1.3/24]}"]),
    ("peer.dead", f"{FIELD}/s46-rank-0-died.yaml", [], MENDED),
    ("peer.silent", f"{FIELD}/s46-rank-0-died.yaml", fault("on: titanic, kind: stop"), MENDED),
    ("conn.timeout", f"{FIELD}/s39-stranger.yaml", [], MENDED),
    ("host.memlock", f"{FIELD}/s47-memlock.yaml", [], ["topology.nodes.titanic={}"]),
    ("host.no_device", f"{FIELD}/s46-rank-0-died.yaml",
     ["faults=[]", "topology={nodes: {titanic: {ports: [p0]}, iceberg: {ports: [p0]}, olympic: {gpus: 1}}, "
      'links: [{endpoints: ["titanic:p0", "iceberg:p0"], subnet: 192.168.0.0/24}]}'],
     ["topology={nodes: {titanic: {ports: [p0]}, iceberg: {ports: [p0, p1]}, olympic: {ports: [p0]}}, "
      'links: [{endpoints: ["titanic:p0", "iceberg:p0"], subnet: 192.168.0.0/24}, '
      '{endpoints: ["iceberg:p1", "olympic:p0"], subnet: 192.168.1.0/24}]}', *WEFT_POLICY]),
    ("mesh.rank_order", f"{FIELD}/s16-rank-order.yaml", [],
     ["ranks=[titanic, iceberg, carpathia, olympic]"]),
    ("route.listener_blind", f"{FIELD}/s02-uncrossed-triangle.yaml", [], WEFT_POLICY),
    ("route.listener_blind", f"{FIELD}/s02-uncrossed-triangle.yaml", [],
     ['topology.links.0.endpoints=["titanic:p0", "iceberg:p1"]',
      'topology.links.1.endpoints=["iceberg:p0", "carpathia:p1"]']),
    ("route.prefix_collision", f"{FIELD}/s03-prefix-collision.yaml", [],
     subnets("10.0.0.0/24", "10.0.4.0/24", "10.0.8.0/24")),
    ("route.crossed_planes", f"{FIELD}/s11-plane-order.yaml", [],
     ['topology.links.0.endpoints=["titanic:p0", "iceberg:p0"]',
      'topology.links.1.endpoints=["titanic:p1", "iceberg:p1"]']),
    ("route.merged_nic", f"{FIELD}/s09-merged-nic.yaml", [], WEFT_POLICY),
    ("route.merged_nic", f"{NET}/all-devices-and-a-pc.yaml", ["policy=nccl-2.30-subnet-aware"],
     ['topology.defaults.env={NCCL_IB_HCA: "p0.0,p1.0,p0.1,p1.1", NCCL_IB_MERGE_NICS: "0"}']),
    ("route.link_local", f"{FIELD}/s05-link-local-both.yaml", [],
     ["topology.links.0.addresses=[192.168.0.1/24, 192.168.0.2/24]",
      "topology.links.1.addresses=[192.168.1.1/24, 192.168.1.2/24]", *SUBNET_AWARE]),
    ("mesh.no_cable", f"{FIELD}/s15-ring-of-4-tree.yaml", [], WEFT_POLICY),
    ("addr.missing", f"{FIELD}/s38-address-lost.yaml", [],
     ["topology.nodes.iceberg={addresses: {p0: [192.168.0.2/24]}}"]),
    ("addr.prefix_mismatch", f"{NET}/one-address-twice.yaml",
     ["topology.nodes.titanic.addresses={p0: [10.8.0.1/30]}",
      "topology.nodes.iceberg.addresses={p0: [10.8.0.100/24]}", "topology.links.0.overlap=allowed"],
     ["topology.nodes.titanic.addresses={p0: [10.8.0.1/24]}"]),
    ("addr.duplicate", f"{NET}/one-address-twice.yaml", [],
     ["topology.nodes.iceberg.addresses={p0: [10.8.0.2/24]}"]),
    ("addr.changed", f"{NET}/stale-gid-rxe.yaml",
     ["policy=nccl-2.25", *fault('on: "titanic:p0", kind: addr_change, address: 192.168.0.77/24')],
     MENDED),
    ("gid.fixed_index", f"{FIELD}/s23-shared-index.yaml", [], NO_ENV),
    ("gid.link_local", f"{FIELD}/s25-index-zero.yaml", [], ["topology.nodes.titanic={}"]),
    ("gid.type_mismatch", f"{FIELD}/s22-gid-versions.yaml",
     ['topology.nodes.iceberg={}', 'topology.nodes.titanic.env={NCCL_IB_ROCE_VERSION_NUM: "1"}'],
     ["topology.nodes.titanic={}"]),
    ("gid.link_local", f"{FIELD}/s25-index-zero.yaml",
     ["topology.nodes.titanic.env={NCCL_IB_ADDR_FAMILY: AF_INET6}"], ["topology.nodes.titanic={}"]),
    ("gid.link_local", f"{FIELD}/s25-index-zero.yaml",
     ["topology.nodes.titanic.env={NCCL_IB_ADDR_RANGE: 10.99.0.0/16}"],
     ["topology.nodes.titanic.env={NCCL_IB_ADDR_RANGE: 192.168.0.0/16}"]),
    ("gid.no_ipv4", f"{FIELD}/s27-only-ipv6.yaml", [],
     ["policy=nccl-2.30-subnet-aware",
      'topology.defaults.env={NCCL_IB_ADDR_FAMILY: AF_INET6, NCCL_IB_MERGE_NICS: "0"}']),
    ("gid.no_ipv4", f"{FIELD}/s27-only-ipv6.yaml", [],
     [*subnets("192.168.0.0/24", "192.168.2.0/24", "192.168.4.0/24"), *SUBNET_AWARE]),
    ("gid.no_netdev", f"{FIELD}/s30-macvlan.yaml", [], MENDED),
    ("link.flapping", f"{FIELD}/s35-port-flap.yaml",
     fault('on: "titanic:p0", kind: down, for: 50ms, every: 52ms, times: 2000'), MENDED),
    ("link.one_way", f"{FAULTS}/silent-one-way.yaml", [], MENDED),
    ("link.lossy", f"{FIELD}/s34-no-flow-control.yaml", [], ["topology.links.0.loss=0%"]),
    ("link.corrupting", f"{FIELD}/s37-bad-cable.yaml", [], MENDED),
    ("link.pause_storm", f"{FIELD}/s35-port-flap.yaml", fault('on: "titanic:p0", kind: pause'), MENDED),
    ("link.pause_storm", f"{NET}/paused-set-up.yaml", [], MENDED),
    ("link.vlan_mismatch", f"{NET}/vlan-mismatch.yaml", [], ["topology.links.0.vlan=100"]),
    ("neigh.arp_ignored", f"{FIELD}/s46-rank-0-died.yaml",
     ["faults=[]", "topology.nodes={titanic: {sysctl: {arp_ignore: 8}}, iceberg: {sysctl: {arp_ignore: 8}}}"],
     ["topology.nodes={titanic: {sysctl: {arp_ignore: 1}}, iceberg: {sysctl: {arp_ignore: 1}}}"]),
    ("host.rp_filter", f"{FIELD}/s08-rp-filter.yaml", [],
     ["topology.nodes.iceberg.sysctl={rp_filter: 0}"]),
    ("host.firewall_roce", f"{NET}/firewall-rxe.yaml", [], ["topology.nodes.iceberg={}"]),
    ("conn.filtered", f"{FIELD}/s40-firewall.yaml", [], ["topology.nodes.titanic={}"]),
    ("peer.late", f"{FIELD}/s45-skewed-start.yaml", [], ["topology.nodes.iceberg.start=100s"]),
    ("peer.receiver_late", f"{FIELD}/s33-receiver-late.yaml", [], NO_ENV),
    ("host.kernel_memory", f"{FIELD}/s48-no-device-memory.yaml", [], MENDED),
    ("host.permission", f"{FIELD}/s49-device-not-openable.yaml", [], MENDED),
    ("device.qp_limit", f"{FIELD}/s51-queue-pair-limit.yaml", [], MENDED),
    ("device.rejected", f"{FIELD}/s52-device-caps.yaml", [], MENDED),
    ("device.failed", "scenarios/nic/hns-mailbox-timeout.yaml", [],
     ["topology.defaults.profile_override={}"]),
    ("host.pcie_narrow", f"{FIELD}/s36-narrow-slot.yaml", [], ["topology.nodes.titanic={}"]),
    ("host.ipc_refused", "scenarios/inside/ipc-refused-2.yaml", [], [*MENDED, "expect={data: exact}"]),
    ("link.slow", f"{NET}/port-at-13gbps.yaml", [], MENDED),
    ("host.pcie_shared", f"{NET}/two-ports-one-card.yaml", [], ['topology.defaults.env={NCCL_IB_HCA: "c0.0,c1.1"}']),
    ("link.left_out", f"{NET}/arp-next-path.yaml", [], ["topology.links.0.vlan=10"]),
    ("conn.qpn_truncated", f"{FIELD}/s44-long-qp-number.yaml", [], WEFT_POLICY),
    ("route.slow_lane", f"{FIELD}/s19-slow-lane.yaml", [],
     ['topology.defaults.env={NCCL_IB_HCA: "p1"}']),
    ("route.slow_lane", f"{FIELD}/s19-slow-lane.yaml", [], WEFT_POLICY),
    ("route.merged_one_end", f"{FIELD}/s12-function-beside-function.yaml", [],
     ['topology.nodes.titanic.env={NCCL_IB_MERGE_NICS: "0"}']),
    ("conn.loopback", f"{FIELD}/s20-loopback-head.yaml", [], ["topology.defaults={ports: [p0]}"]),
    ("route.forward_off", f"{NET}/transit-off.yaml", [],
     ["topology.nodes.iceberg.sysctl={ip_forward: 1}"]),
    ("route.forward_off", f"{NET}/transit-off.yaml", [], WEFT_POLICY),
    ("route.forward_blocked", f"{FIELD}/s17-transit-blocked.yaml", [],
     ["topology.nodes.iceberg.firewall={}"]),
    ("route.forward_blocked", f"{FIELD}/s17-transit-blocked.yaml", [], WEFT_POLICY),
    ("gid.stale_index", f"{FIELD}/s26-stale-index.yaml", [], WEFT_POLICY),
    ("host.hca_list", f"{NET}/list-of-another-host.yaml", [], NO_ENV),
    ("host.hca_list", f"{NET}/list-of-another-host.yaml", [],
     ['topology.nodes.iceberg={env: {NCCL_IB_HCA: "c1.0,c1.1"}}']),
    ("host.hca_list", f"{NET}/list-of-one-port.yaml", [],
     ['topology.nodes.carpathia.env={NCCL_IB_HCA: "=p0,p1"}']),
    ("conn.foreign_address", f"{NET}/rendezvous-elsewhere.yaml", [], ["topology.nodes.titanic={}"]),
    ("host.management_down", f"{NET}/management-lost.yaml", [], MENDED),
    ("conn.no_route", f"{NET}/rendezvous-out-of-reach.yaml", [],
     ["topology.nodes.titanic={}", *WEFT_POLICY]),
]

# What the doctor finds in the settings of this machine, and what its remedy makes of them.
PLUGIN = str(Path(WEFT).resolve().parent)
SETTINGS = [
    ("plugin.not_chosen", {"NCCL_NET_PLUGIN": "none"}, {"NCCL_NET_PLUGIN": "mesh"}),
    ("plugin.not_chosen", {"NCCL_NET": "IB"}, {"NCCL_NET": ""}),
    ("plugin.not_found", {"NCCL_NET_PLUGIN": "mesh", "LD_LIBRARY_PATH": "/"}, {"LD_LIBRARY_PATH": PLUGIN}),
    ("plugin.setting", {"NCCL_MESH_TIMEOUT_MS": "14"}, {"NCCL_MESH_TIMEOUT_MS": None, "NCCL_MESH_TIMEOUT": "14"}),
    ("host.no_interface", {"NCCL_SOCKET_IFNAME": "none-such0"}, {"NCCL_SOCKET_IFNAME": "lo"}),
]

# Nothing that a scenario can change: why.
NOT_IN_A_SCENARIO = {
    "conn.auth_failed": "all members of a scenario share one secret",
    "conn.malformed": "no setting of the job: the stranger has to go",
    "conn.refused": "the peer's process has to run: a scenario's members are always started",
    "conn.version": "all members of a scenario are of this version",
    "data.access_refused": "an error of a program, which needs the guest (ci/test_programs.py)",
    "data.receive_unusable": "an error of a program, which needs the guest (ci/test_programs.py)",
    "data.request_invalid": "an error of a program, which needs the guest (ci/test_programs.py)",
    "data.wrong": "no setting may lead to it: it is reported",
    "host.fd_limit": "a simulated process has no limit of descriptors",
    "host.no_gpu": "of a real driver",
    "peer.deadlock": "of programs, which need the guest (ci/test_programs.py)",
    "plugin.not_registered": "an error of the program that calls the plugin",
    "undetermined": "the cause is not known",
}


def run(file, changes):
    words = [word for change in changes for word in ("--set", change)]
    done = subprocess.run([WEFT, "run", file, "--json", "--set", "expect={}", *words], cwd=ROOT,
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def test_every_finding_has_a_row():
    listed = subprocess.run([WEFT, "explain"], cwd=ROOT, capture_output=True, text=True, check=True)
    codes = {line.split()[0] for line in listed.stdout.splitlines()}
    rows = {code for code, *_ in [*REMEDIES, *SETTINGS]}
    assert not rows & set(NOT_IN_A_SCENARIO)
    assert rows | set(NOT_IN_A_SCENARIO) == codes


def test_each_example_of_a_finding_has_a_row():
    sections = (ROOT / "docs/findings.md").read_text().split("\n## `")[1:]
    shown = {(section.split("`")[0], example[1]) for section in sections
             if (example := re.search(r"^\*\*Example\.\*\* `weft run (\S+)`", section, re.M))}
    assert len(shown) > 40
    assert shown - {(code, file) for code, file, *_ in REMEDIES} == {
        ("data.wrong", "scenarios/faults/corrupt-unseen.yaml")}


@pytest.mark.parametrize("code, breaks, does", SETTINGS, ids=[f"{row[0]}-{i}" for i, row in enumerate(SETTINGS)])
def test_the_remedy_mends_the_settings(code, breaks, does):
    base = {key: value for key, value in os.environ.items() if not key.startswith("NCCL_")}
    found = []
    for settings in (breaks, {**breaks, **does}):
        given = {key: value for key, value in settings.items() if value is not None}
        done = subprocess.run([WEFT, "doctor", "--json"], cwd=ROOT, capture_output=True, text=True, check=False,
                              timeout=60, env={**base, "WEFT_DEVICES": "none_such", "LD_LIBRARY_PATH": PLUGIN, **given})
        found.append({finding["code"] for finding in json.loads(done.stdout)["findings"]
                      if finding["severity"] != "info"})
    assert code in found[0] and code not in found[1]


@pytest.mark.heavy
@pytest.mark.parametrize("code, file, breaks, does", REMEDIES,
                         ids=[f"{code}-{Path(file).stem}-{i}"
                              for i, (code, file, *_) in enumerate(REMEDIES)])
def test_the_remedy_mends_the_run(code, file, breaks, does):
    assert code in {finding["code"] for finding in run(file, breaks)["findings"]}
    mended = run(file, [*breaks, *does])
    assert mended["result"] == "pass", (mended["symptom"], mended["findings"])
    assert code not in {finding["code"] for finding in mended["findings"]}
