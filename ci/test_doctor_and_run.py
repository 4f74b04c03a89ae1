"""`weft doctor FILE` and `weft run FILE` say the same of the mistakes that a file has before its run."""

import json
import subprocess

import pytest

from test_doctor import ROOT, WEFT, doctor

FOLDERS = ("net", "field", "spark")
FILES = sorted(str(path.relative_to(ROOT / "scenarios"))[:-len(".yaml")]
               for folder in FOLDERS for path in (ROOT / "scenarios" / folder).glob("*.yaml"))
FAULT = "a fault of the file, which the doctor ignores"
TRAFFIC = "only packets show it"
LIMIT = "only a call to the device or the kernel shows it"
JOB = "it depends on what a job connects"
# Codes of the run that the doctor does not have, and why.
ONLY_RUN = {
    "field/s15-ring-of-4-tree": ({"mesh.no_cable"}, JOB),
    "field/s16-rank-order": ({"mesh.rank_order"}, JOB),
    "field/s17-transit-blocked": ({"route.forward_blocked"}, TRAFFIC),
    "field/s19-slow-lane": ({"route.slow_lane"}, TRAFFIC),
    "field/s20-loopback-head": ({"conn.loopback"}, "only the rendezvous shows it"),
    "field/s24-index-drift": ({"gid.fixed_index"}, FAULT),
    "field/s26-stale-index": ({"gid.stale_index", "link.down"}, FAULT),
    "field/s30-macvlan": ({"gid.no_netdev"}, LIMIT),
    "field/s32-black-hole": ({"link.black_hole"}, TRAFFIC),
    "field/s33-receiver-late": ({"peer.receiver_late"}, FAULT),
    "field/s34-no-flow-control": ({"link.lossy"}, TRAFFIC),
    "field/s35-port-flap": ({"link.down"}, FAULT),
    "field/s37-bad-cable": ({"link.corrupting"}, TRAFFIC),
    "field/s39-stranger": ({"conn.timeout"}, FAULT),
    "field/s40-firewall": ({"conn.filtered"}, TRAFFIC),
    "field/s44-long-qp-number": ({"conn.qpn_truncated"}, LIMIT),
    "field/s45-skewed-start": ({"peer.late"}, "processes, of which the doctor starts none"),
    "field/s46-rank-0-died": ({"peer.dead"}, FAULT),
    "field/s48-no-device-memory": ({"host.kernel_memory"}, LIMIT),
    "field/s49-device-not-openable": ({"host.permission"}, LIMIT),
    "field/s51-queue-pair-limit": ({"device.qp_limit"}, LIMIT),
    "field/s52-device-caps": ({"device.rejected"}, LIMIT),
    "net/arp-next-path": ({"link.left_out"}, "the run names what it left out; the doctor names why"),
    "net/bond-alone": ({"link.down"}, FAULT),
    "net/bond-failover": ({"link.down"}, FAULT),
    "net/firewall-rxe": ({"host.firewall_roce"}, TRAFFIC),
    "net/flap-moves-gid": ({"link.down"}, FAULT),
    "net/lossy-switch": ({"link.lossy"}, TRAFFIC),
    "net/path-mtu-relay": ({"link.black_hole"}, TRAFFIC),
    "net/path-mtu-twin": ({"link.black_hole"}, TRAFFIC),
    "net/paused-set-up": ({"link.pause_storm"}, FAULT),
    "net/port-at-13gbps": ({"link.slow"}, TRAFFIC),
    "net/relay-cut-off": ({"link.down"}, FAULT),
    "net/relay-silence": ({"link.down", "link.pause_storm"}, FAULT),
    "net/relay-verb": ({"link.left_out"}, FAULT),
    "net/management-lost": ({"host.management_down"}, FAULT),
    "net/rendezvous-elsewhere": ({"conn.foreign_address"}, "only the rendezvous shows it"),
    "net/rendezvous-out-of-reach": ({"conn.no_route"}, "only the rendezvous shows it"),
    "net/stale-gid": ({"gid.missing"}, FAULT),
    "net/stale-gid-rxe": ({"gid.missing"}, FAULT),
    "net/two-ports-one-card": ({"host.pcie_shared"}, JOB),
    "net/vlan-twin-behind-a-relay": ({"link.left_out"}, FAULT),
}
# Codes of the doctor that the run does not have, and why.
ONLY_DOCTOR = {
    "field/s22-gid-versions": ({"gid.fixed_index"}, "the setting because of which the types differ"),
    "field/s25-index-zero": ({"gid.fixed_index"}, "the setting because of which the GID is link-local"),
    "field/s33-receiver-late": ({"plugin.setting"}, "a setting of the file's policy, another plugin"),
    "net/address-late": ({"addr.missing"}, "a fault adds the address"),
    "net/arp-flux-fixed": ({"route.gid_collision"}, "a warning: it works as long as the cables are alike"),
    "net/arp-next-path": ({"link.vlan_mismatch"}, "the run names what it left out, and this as the cause"),
    "net/only-address-late": ({"addr.missing"}, "a fault adds the address"),
    "net/paired-by-position": ({"route.link_local"}, "a second mistake, to which this job does not come"),
    "net/rendezvous-out-of-reach": ({"route.wrong_nic"}, "a second mistake, to which this job does not come"),
}


def run(file):
    ran = subprocess.run([WEFT, "run", "-q", "--json", f"scenarios/{file}.yaml"], cwd=ROOT, capture_output=True,
                         text=True, check=False, timeout=120)
    return json.loads(ran.stdout)


def codes(document):
    return {finding["code"] for finding in document["findings"] if finding["severity"] != "info"}


@pytest.mark.parametrize("file", FILES)
def test_doctor_and_run_say_the_same(file):
    document, ran = doctor(f"scenarios/{file}.yaml"), run(file)
    before, after = codes(document), codes(ran)
    known = {finding["code"] for finding in document["findings"]}
    assert after - known == ONLY_RUN.get(file, (set(),))[0]
    assert before - after == ONLY_DOCTOR.get(file, (set(),))[0]
    # Policy weft goes round the cable, with a warning.
    if ran["policy"] != "weft" and "error" in {finding["severity"] for finding in document["findings"]}:
        assert "error" in {finding["severity"] for finding in ran["findings"]}


def test_every_difference_is_of_a_file_that_exists():
    assert set(ONLY_RUN) | set(ONLY_DOCTOR) <= set(FILES)
