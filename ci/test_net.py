"""scenarios/net: how addresses, VLANs and settings of the host's IP stack decide RoCE's fate."""

import json
import os
import random
import struct
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WEFT = os.environ.get("WEFT_FAST", os.environ.get("WEFT", str(ROOT / "build" / "weft")))
FOLDER = ROOT / "scenarios" / "net"


def run(name, *args):
    done = subprocess.run([WEFT, "run", FOLDER / f"{name}.yaml", *args], cwd=ROOT,
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def timed(name, *args):
    """(ns, (host, object, event, {key: value})) of each line."""
    for line in run(name, "-q", "--events", "-", *args).splitlines():
        at, host, what, event, *rest = line.split(" ")
        yield int(at), (host, what, event, dict(pair.split("=", 1) for pair in rest))


def story(name, *args):
    for _, event in timed(name, *args):
        yield event


def found(name):
    return {(finding["code"], finding["where"]["host"], finding["where"]["port"],
             finding["evidence"]["remote_port"], finding["severity"])
            for finding in json.loads(run(name, "--json"))["findings"]}


def test_a_cable_that_is_numbered_apart_is_named_by_its_ends():
    assert found("misnumbered-end") == {
        ("route.no_facing_port", "titanic", "p0", "p1", "warning")}
    assert found("misnumbered-twin") == {
        ("addr.no_facing_port", "spark-1", "p0.0", "p1.0", "warning"),
        ("addr.no_facing_port", "spark-2", "p1.0", "p0.0", "warning")}


def test_ports_that_are_paired_by_position_are_named_beside_those_that_face_each_other():
    finding, = json.loads(run("paired-by-position", "--json"))["findings"]
    evidence = finding["evidence"]
    assert (finding["where"]["host"], finding["where"]["port"]) == ("spark-2", "f0.0")
    assert (evidence["local_facing_port"], evidence["remote_facing_port"]) == ("f1.1", "f1.1")


@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_each_ends_as_it_says(name):
    document = json.loads(run(name, "--json"))
    assert document["result"] == "pass", document["expectations"]


def test_a_bonds_backup_port_lacks_no_address():
    """One of a bond's ports has the GIDs of its address, the others have none."""
    assert found("bond-pair") == set()


AT_FAULT = [("foreign-slot", "iceberg", "p0"), ("slot-of-other-family", "iceberg", "p0"),
            ("misnumbered-end", None, {"titanic": "p0", "iceberg": "p1"}), ("one-address-twice", None, "p0"),
            ("paused-set-up", "titanic", "p0")]


@pytest.mark.parametrize("name, host, port", AT_FAULT, ids=lambda value: str(value))
@pytest.mark.parametrize("is_reversed", [False, True], ids=["as written", "reversed"])
def test_the_end_at_fault_heads_the_finding(name, host, port, is_reversed):
    """Whichever end detected the failure, and in whatever order the hosts are."""
    ranks = ["carpathia"] if name == "misnumbered-end" else []
    ranks = [*ranks, "iceberg", "titanic"] if is_reversed else ["titanic", "iceberg", *ranks]
    document = json.loads(run(name, "--json", "--set", f"ranks=[{', '.join(ranks)}]", "--set",
                              "expect.connections=[]"))
    finding, = document["findings"]
    where = finding["where"]
    assert {where["host"], where["peer"]} == {"titanic", "iceberg"}
    assert host is None or where["host"] == host
    assert where["port"] == (port if isinstance(port, str) else port[where["host"]])


def test_flux_sends_to_a_port_that_has_not_the_address():
    """The neighbour learns the MAC of the wrong port, whose device knows no such queue pair."""
    events = list(story("arp-flux"))
    learnt = {(host, what, values["ip"]): values["mac"] for host, what, event, values in events
              if event == "neigh" and values["state"] == "reachable"}
    # 192.168.0.4 is iceberg:p0's; asked over titanic:p0, at whose far end p1 is.
    assert learnt["titanic", "p0", "192.168.0.4"].endswith("0002")
    made = {values["remote_qpn"]: host for host, _, event, values in events if event == "to_rtr"}
    dropped = [(host, values["why"], values["qpn"]) for host, what, event, values in events
               if event == "drop"]
    assert dropped and {why for _, why, _ in dropped} == {"unknown_qp"}
    assert all(made[qpn] != host for host, _, qpn in dropped)


def test_with_the_settings_nobody_answers_for_another():
    learnt = [(what, values["ip"]) for host, what, event, values in story("arp-flux-filtered")
              if host == "titanic" and event == "neigh" and values["state"] == "reachable"]
    assert ("p0", "192.168.0.4") not in learnt


def frames_of(path):
    """The bytes of each packet of a pcapng file."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 6:
            n, = struct.unpack_from("<I", data, at + 8 + 12)
            yield data[at + 28:at + 28 + n]
        at += length


def test_the_addresses_of_a_vlan_are_dialed():
    rails = {(rail["local_gid"], rail["remote_gid"])
             for rail in json.loads(run("vlan-alone", "--json"))["connections"]}
    assert ("192.168.1.1", "192.168.1.2") in rails
    assert ("link.left_out", "titanic", "p1") in {item[:3] for item in found("vlan-twin-behind-a-relay")}


@pytest.mark.parametrize("boot", ["neighbours", "static"])
def test_the_addresses_of_bonds_are_dialed(boot):
    """The second port of titanic's first bond is in use, because the first has no carrier."""
    document = json.loads(run("bond-alone", "--json", "--set", f"boot={boot}"))
    ports = {(rail["from_host"], rail["local_port"]) for rail in document["connections"]}
    assert document["result"] == "pass"
    assert ports == {("titanic", "p1"), ("titanic", "p2"), ("iceberg", "p3"), ("iceberg", "p0"),
                     ("carpathia", "p0"), ("carpathia", "p2")}


def test_all_of_a_vlan_is_tagged(tmp_path):
    capture = tmp_path / "vlan.pcapng"
    run("vlan-pair", "-q", "--pcap", capture, "--set", "jobs.0.all_reduce.bytes=8",
        "--set", "expect={result: pass}")
    inner = set()
    for frame in frames_of(capture):
        assert frame[12:14] == b"\x81\x00"
        tag, ethertype = struct.unpack_from(">HH", frame, 14)
        assert tag & 0xfff == 100
        inner.add((ethertype, frame[18 + 9] if ethertype == 0x0800 else None))
    assert inner == {(0x0806, None), (0x0800, 6), (0x0800, 17)}  # ARP, TCP, RoCE


def test_a_host_between_forwards(tmp_path):
    """Seen on both cables, with a hop less on the second."""
    capture = tmp_path / "transit.pcapng"
    run("transit", "-q", "--pcap", capture, "--set", "jobs.0.all_reduce.bytes=8",
        "--set", "expect={result: pass}")
    ways = {frame[14 + 12:14 + 20] + frame[14 + 8:14 + 9] for frame in frames_of(capture)
            if frame[12:14] == b"\x08\x00" and frame[14 + 9] == 17}
    titanic, carpathia = bytes([10, 0, 1, 1]), bytes([10, 0, 2, 2])
    assert ways == {there + bytes([hops]) for there in (titanic + carpathia, carpathia + titanic)
                    for hops in (64, 63)}


@pytest.mark.parametrize("change, why", [
    ("topology.nodes.iceberg.firewall={forward: drop}", "forward_policy"),
    ("topology.nodes.iceberg.sysctl.ip_forward=0", "unknown_qp"),
    ("topology.nodes.iceberg.sysctl={ip_forward: 1, rp_filter: 1}", None),
    ("topology.links.1.mtu=1500", "mtu"),
])
def test_what_stops_it_in_between(change, why):
    sets = ["--set", change, "--set", "jobs.0.all_reduce.bytes=8", "--set",
            f"expect={{result: {'fail' if why else 'pass'}}}"]
    if change.startswith("topology.links"):  # the ends think that 9000 bytes pass
        sets += ["--set", "topology.links.1.mtu={'iceberg:p1': 1500, 'carpathia:p0': 9000}"]
    dropped = {values["why"] for host, _, event, values in story("transit", *sets)
               if event == "drop" and host == "iceberg"}
    assert dropped == ({why} if why else set())


def test_tags_cost_what_they_weigh():
    """Four bytes of 4178 on the wire, and nothing else differs."""
    sets = ["--json", "--set", "jobs.0.all_reduce.bytes=16MiB", "--set", "expect={result: pass}",
            "--set", "payload=timing"]
    tagged = json.loads(run("vlan-pair", *sets))["jobs"][0]["bus_bw_gBps"]
    plain = json.loads(run("stale-gid", *sets, "--set", "faults=[]"))["jobs"][0]["bus_bw_gBps"]
    assert 4176 / 4182 < tagged / plain < 4179 / 4182


def test_a_gid_in_use_stays_with_its_queue_pairs_and_is_nobody_elses():
    events = list(story("stale-gid"))
    assert [values for _, _, event, values in events if event == "gid"] == [
        {"ip": "192.168.0.1", "change": "deleted", "slots": "2"}]  # v1 and v2
    deleted = [event for _, _, event, _ in events].index("gid")
    assert "done" in [event for _, _, event, _ in events[deleted:]]


def lowered(name, *args):
    """{(host, path): [(vanished, next)]}, and when."""
    found, when = {}, []
    for at, (host, what, event, values) in timed(name, *args):
        if event == "mtu_lowered":
            step = (int(values["vanished"]), int(values["next"]))
            steps = found.setdefault((host, what), [])
            if step not in steps:
                steps.append(step)
            when.append(at)
    return found, when


def test_the_path_mtu_is_halved_until_it_passes():
    found, when = lowered("path-mtu-twin")
    steps = [(4096, 2048), (2048, 1024)]
    assert found == {("titanic", "path:p1"): steps, ("iceberg", "path:p1"): steps}
    # Each size is asked for twice, three tries of 100 ms each, with 200 ms between.
    assert max(when) < 2 * (2 * 300e6 + 200e6) + 10e6
    document = json.loads(run("path-mtu-twin", "--json"))
    assert {(c["local_port"], c["path_mtu"]) for c in document["connections"]} == {
        ("p0", 4096), ("p1", 1024)}
    finding, = document["findings"]
    assert (finding["severity"], finding["evidence"]["vanished_mtu"],
            finding["evidence"]["path_mtu"]) == ("warning", 2048, 1024)


def test_a_path_is_asked_again_before_its_mtu_is_lowered():
    events = [(at, host, event, values) for at, (host, what, event, values) in timed("path-mtu-twin")
              if what == "path:p1"]
    for host in ("titanic", "iceberg"):
        firsts = {}
        for at, whose, event, values in events:
            size = values.get("late") or values["vanished"]
            if whose == host:
                firsts.setdefault((size, event), at)
        assert list(firsts) == [("4096", "mtu_suspected"), ("4096", "mtu_lowered"),
                                ("2048", "mtu_suspected"), ("2048", "mtu_lowered")]
        for size in ("4096", "2048"):
            assert firsts[size, "mtu_lowered"] - firsts[size, "mtu_suspected"] >= 500e6


def test_late_probes_lower_nothing():
    found, _ = lowered("path-mtu-late")
    assert found == {}
    suspected = {(host, what, values["late"])
                 for _, (host, what, event, values) in timed("path-mtu-late")
                 if event == "mtu_suspected"}
    assert suspected == {("titanic", "path:p0", "4096"), ("iceberg", "path:p0", "4096")}
    document = json.loads(run("path-mtu-late", "--json"))
    assert {c["path_mtu"] for c in document["connections"]} == {4096}
    assert document["findings"] == []


@pytest.mark.parametrize("limit, mtu, tries", [(2200, 2048, 1), (800, 512, 3), (400, 256, 4)])
def test_what_passes_is_used(limit, mtu, tries):
    sets = ["--set", f"topology.links.1.path_limit={limit}"]
    found, _ = lowered("path-mtu-twin", *sets)
    assert {len(steps) for steps in found.values()} == {tries}
    document = json.loads(run("path-mtu-twin", "--json", *sets))
    assert {c["path_mtu"] for c in document["connections"]} == {4096, mtu}


def test_no_other_program_looks_for_a_path_mtu():
    found, _ = lowered("path-mtu-twin", "--policy", "nccl-2.25", "--set", "expect={result: fail}")
    assert found == {}


def test_a_relay_finds_the_path_mtu_of_its_own_cable():
    found, _ = lowered("path-mtu-relay")
    steps = [(4096, 2048), (2048, 1024)]
    assert found == {("iceberg", "path:p1"): steps, ("carpathia", "path:p0"): steps}
    made = json.loads(run("path-mtu-relay", "--json"))["connections"]
    assert {(c["from_host"], c["to_host"]): c["path_mtu"] for c in made if not c["via"]} == {
        ("titanic", "iceberg"): 4096, ("iceberg", "titanic"): 4096,
        ("iceberg", "carpathia"): 1024, ("carpathia", "iceberg"): 1024}


def test_the_next_path_is_tried_when_nobody_answers():
    """The acceptor asked for its neighbour first, so the sender only hears that it timed out."""
    events = list(story("arp-next-path"))
    ended = [(index, what.split(":")[2], values["phase"])
             for index, (_, what, event, values) in enumerate(events)
             if event == "failed" and values.get("from") == "connect_qps"]
    assert sorted(ended_as[1:] for ended_as in ended) == [
        ("acceptor", "rtr"), ("acceptor", "rtr"), ("connector", "peer"), ("connector", "peer")]
    up = [index for index, (_, _, event, values) in enumerate(events)
          if event == "up" and values.get("from") == "probe"]
    assert len(up) == 4 and max(index for index, _, _ in ended) < min(up)


PLAIN = ["--set", "expect={result: pass}", "--set",
         "topology.links.0={endpoints: [titanic:p0, iceberg:p0], subnet: 192.168.0.0/24}"]


@pytest.mark.parametrize("end", ["titanic:p0->", "iceberg:p0->", "titanic:p1->", "iceberg:p1->"])
def test_a_cable_that_is_dumb_one_way_is_left_out(end):
    """An end that cannot resolve its neighbour notifies the sender of the rail: its own queues are ready."""
    fault = f"faults=[{{on: '{end}', kind: loss, share: 100%}}]"
    document = json.loads(run("arp-next-path", "--json", *PLAIN, "--set", fault))
    used = {"p0", "p1"} - {end[-4:-2]}
    assert {c["local_port"] for c in document["connections"]} == used
    assert [f["code"] for f in document["findings"]] == ["link.left_out"]


def test_what_a_rail_was_left_out_for_is_named():
    finding, = json.loads(run("arp-next-path", "--json"))["findings"]
    assert (finding["code"], finding["severity"]) == ("link.left_out", "warning")
    assert (finding["where"]["port"], finding["evidence"]["because"]) == ("p0", "link.vlan_mismatch")
    assert finding["evidence"]["survived"] == 1
    warning, = [line for line in run("arp-next-path").splitlines() if line.startswith("warning")]
    assert warning.startswith("warning link.left_out at iceberg:p0")
    assert warning.endswith("(because link.vlan_mismatch: weft explain link.vlan_mismatch); the job went on")


def test_a_rail_that_was_left_out_is_tried_again():
    """A second after set-up, once by each flow; the rail is well by then, and the finding is gone."""
    events = [(at, host, what, event, values) for at, (host, what, event, values) in timed("arp-late")]
    tried = [(at, host, what, values) for at, host, what, event, values in events if event == "trial"]
    assert [(host, what) for _, host, what, _ in tried] == [("titanic", "flow:0>1"), ("iceberg", "flow:1>0")]
    for at, _, _, values in tried:
        assert values == {"rails": "1", "of": "2", "failed": "0"} and 2e9 < at < 2.1e9
    returned = [at for at, _, _, event, values in events
                if event == "handover"]
    assert len(returned) == 4 and min(returned) > tried[0][0]  # both ends of two flows
    assert json.loads(run("arp-late", "--json"))["findings"] == []


def test_a_rail_without_carrier_at_set_up_joins_when_it_has_one():
    """20 ms after its port came up, once by each flow: no pause of a rail that failed."""
    events = list(timed("carrier-late"))
    came = [(at, host) for at, (host, what, event, _) in events if what == "p1" and event == "port_up"]
    assert came == [(1.5e9, "titanic"), (1.5e9, "iceberg")]
    tried = [(at, host, what, values) for at, (host, what, event, values) in events if event == "trial"]
    assert [(host, what) for _, host, what, _ in tried] == [("titanic", "flow:0>1"), ("iceberg", "flow:1>0")]
    for at, _, _, values in tried:
        assert values == {"rails": "1", "of": "2", "failed": "0"} and at == 1.52e9
    returned = [at for at, (_, _, event, values) in events
                if event == "handover"]
    assert len(returned) == 4 and min(returned) > tried[0][0]  # both ends of two flows
    assert json.loads(run("carrier-late", "--json"))["findings"] == []


def test_a_late_rail_of_a_host_with_many_ports_joins():
    """A port beyond the 16th is looked at, too."""
    ports = ", ".join(f"p{i}" for i in range(18))
    sets = ["--set", f"topology.defaults.ports=[{ports}]", "--set", "faults.0.on=titanic:p17",
            "--set", 'topology.links.1.endpoints=["titanic:p17", "iceberg:p17"]']
    tried = [(host, what) for host, what, event, _ in story("carrier-late", *sets) if event == "trial"]
    assert tried == [("titanic", "flow:0>1"), ("iceberg", "flow:1>0")]


@pytest.mark.parametrize("name,teller", [("address-late", ("titanic", "flow:1>0")),
                                         ("peer-port-late", ("iceberg", "flow:0>1"))])
def test_an_end_that_hears_of_no_event_is_told_of_a_late_port(name, teller):
    """Only one end sees what came: its own flow tries after 20 ms, the other's when the notice is in."""
    events = list(timed(name))
    late = [(at, (host, what), values) for at, (host, what, event, values) in events if event == "late_port"]
    assert late == [(1.5e9, teller, {"port": "p1"})]
    tried = [(at, host, what, values) for at, (host, what, event, values) in events if event == "trial"]
    sees, hears = teller[0], ({"titanic", "iceberg"} - {teller[0]}).pop()
    assert [host for _, host, _, _ in tried] == [sees, hears]
    assert tried[0][0] == 1.52e9 < tried[1][0] < 1.53e9
    assert [values for _, _, _, values in tried] == [{"rails": "1", "of": "2", "failed": "0"}] * 2
    returned = [at for at, (_, _, event, values) in events
                if event == "handover"]
    assert len(returned) == 4 and min(returned) > tried[0][0]  # both ends of two flows
    assert json.loads(run(name, "--json"))["findings"] == []


def test_a_peers_port_that_never_has_carrier_is_not_tried():
    sets = ["--set", "faults.0={on: \"iceberg:p1\", kind: down}", "--set", "jobs.0.all_reduce.bytes=20MiB",
            "--set", "expect={result: pass, findings: []}"]
    assert [event for _, _, event, _ in story("peer-port-late", *sets) if event in ("trial", "late_port")] == []


def test_a_rail_that_never_has_carrier_is_not_tried():
    sets = ["--set", "faults.0={on: \"titanic:p1\", kind: down}", "--set", "jobs.0.all_reduce.bytes=20MiB",
            "--set", "expect={result: pass, findings: []}"]
    assert [event for _, _, event, _ in story("carrier-late", *sets) if event == "trial"] == []


def test_a_rail_that_stays_dumb_is_tried_ever_more_rarely():
    """A trial takes a second to fail; 2, 4, 8 s later comes the next."""
    sets = ["--set", "faults.0.for=60s", "--set", "jobs.0.all_reduce.bytes=150MiB",
            "--set", "expect={result: pass, findings: [link.left_out]}"]
    tried = [(at, values["failed"]) for at, (host, _, event, values) in timed("arp-late", *sets)
             if event == "trial" and host == "titanic"]
    assert [failed for _, failed in tried[:4]] == ["0", "1", "2", "3"]
    pauses = [later - earlier for (earlier, _), (later, _) in zip(tried, tried[1:])]
    assert all(0 < pause / 1e9 - 1 - 2 ** (n + 1) < 0.1 for n, pause in enumerate(pauses))


def test_a_gid_that_moved_is_found_again():
    """GIDs are sent by value: a set-up whose GID is gone begins again, and finds it in another slot."""
    events = list(story("gid-moved"))
    changes = [(values["ip"], values["change"]) for host, _, event, values in events
               if event == "gid" and host == "titanic"][-3:]
    assert changes == [("192.168.0.1", "deleted"), ("192.168.7.1", "added"),
                       ("192.168.0.1", "added")]
    used = {values["sgid_index"] for host, _, event, values in events
            if event == "to_rts" and host == "titanic"}
    assert used == {"5"}  # 3 before
    assert {values["phase"] for host, _, event, values in events
            if event == "failed" and values.get("from") != "up" and host == "titanic"} <= {"port"}


def test_a_slot_that_another_takes_under_rtr_is_noticed():
    """No queue pair of titanic is used with the other's GID: set-up begins again with its own."""
    events = [(what, event, values) for host, what, event, values in story("gid-taken")
              if host == "titanic"]
    used = [(what, values["sgid_index"]) for what, event, values in events if event == "to_rts"]
    assert len(used) == 4 and {index for _, index in used} == {"5"}


def test_who_only_hears_that_the_job_ends_says_what_its_relay_met():
    """No flow of iceberg's own passes the cable; its neighbours close, or say that its relay gave up."""
    words = [values["text"] for host, _, event, values in story("relay-cut-off")
             if event == "error" and host == "iceberg"]
    assert len(words) == 1 and words[0].split(":")[0] in ("data", "port"), words


@pytest.mark.parametrize("boot", ["neighbours", "static"])
@pytest.mark.parametrize("host", ["titanic", "iceberg"])
def test_an_address_to_listen_on_may_come_late(boot, host):
    """At any moment of the first 1.25 s."""
    rng = random.Random(f"{boot} {host}")
    address = "192.168.0.1" if host == "titanic" else "192.168.0.2"
    for at in [rng.randint(0, 1_250_000_000) for _ in range(8)]:
        nodes = ", ".join(f"{name}: {{addresses: {{p0: [192.168.0.{i + 1}/24]}}}}"
                          for i, name in enumerate(["titanic", "iceberg"]))
        fault = (f"{{at: 0ns, for: {1 + at}ns, on: \"{host}:p0\", kind: addr_del, "
                 f"address: {address}}}")
        document = json.loads(run("only-address-late", "--json", "--set", f"boot={boot}", "--set",
                                  f"topology.nodes={{{nodes}}}", "--set", f"faults.0={fault}",
                                  "--set", "expect={result: pass, findings: []}"))
        assert document["result"] == "pass", (at, document["symptom"], document["findings"])


@pytest.mark.parametrize("port,address", [("titanic:p0", "10.1.0.1"), ("titanic:p1", "10.1.1.1"),
                                          ("titanic:p2", "10.1.2.1"), ("iceberg:p0", "10.1.0.2"),
                                          ("carpathia:p0", "10.1.1.2")])
@pytest.mark.parametrize("away", ["1us", "1ms", "100ms", "1200ms"])
def test_a_handle_without_management_has_the_address_of_every_cable(port, address, away):
    fault = f'{{at: 0us, for: {away}, on: "{port}", kind: addr_del, address: {address}}}'
    document = json.loads(run("address-late-unmanaged", "--json", "--set", f"faults.0={fault}", "--set",
                              "expect={result: pass, findings: []}"))
    assert document["sim_time_ns"] < 2e9


def test_who_fails_back_finds_the_gid_that_a_flap_moved():
    """A second after the flap, because the neighbour was not asked for while the cable was dark."""
    events = [(what, event, values) for host, what, event, values in story("flap-moves-gid")
              if host == "titanic"]
    tried = next(i for i, (_, event, _) in enumerate(events) if event == "trial")
    used = [{values["sgid_index"] for what, event, values in part
             if event == "to_rts" and what.startswith("qp:p0:")}
            for part in (events[:tried], events[tried:])]
    assert used == [{"3"}, {"6"}]  # queue pairs of the dropped rail still hold a slot


def test_a_peer_that_does_not_listen_yet_is_dialled_again():
    """Every second at the most, as long as patience lasts; and found at the next attempt."""
    done = subprocess.run([WEFT, "run", FOLDER.parent / "field" / "s42-not-listening-yet.yaml", "--policy",
                           "weft", "--set", "topology.nodes={titanic: {start: 20s}, iceberg: {}}", "-q",
                           "--events", "-"], cwd=ROOT, capture_output=True, text=True, timeout=120,
                          check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    at = [int(line.split(" ")[0]) for line in done.stdout.splitlines()
          if " boot tcp rank=1 attempt=" in line]
    assert len(at) > 20 and 20e9 <= at[-1] < 21.2e9
    assert all(later - earlier < 1.2e9 for earlier, later in zip(at, at[1:]))
