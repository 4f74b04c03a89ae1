"""Causes that lie in cables, and in what hosts let in from them, for ci/finding_causes.py."""

import ipaddress

from finding_meshes import HARD_PROFILES, NCCL, Mesh, one_cable, triangle

# ---- the link ----


def link_down(rng):
    mesh = one_cable(rng).long()
    if rng.random() < 0.3 and mesh.policy == "weft":
        mesh.links[0]["up"] = False
    else:
        mesh.fault(at=mesh.when(), on=rng.choice(mesh.links[0]["endpoints"]), kind="down")
    return mesh, {"link.down"}


def link_flapping(rng):
    mesh = one_cable(rng, profile=rng.choice(HARD_PROFILES)).long()
    gap = rng.randrange(20, 90)
    mesh.fault(at=mesh.when(), on=rng.choice(mesh.links[0]["endpoints"]), kind="down",
               **{"for": f"{gap}ms"}, every=f"{gap + rng.randrange(1, 4)}ms", times=2000)
    return mesh, {"link.flapping"}


def link_mtu_mismatch(rng):
    mesh = one_cable(rng, mtu=9000)
    mesh.links[0]["mtu"] = dict(zip(mesh.links[0]["endpoints"],
                                    rng.sample([9000, rng.choice([1500, 2200])], 2)))
    mesh.jobs = [mesh.job("1MiB", "all_reduce")]
    return mesh, {"link.mtu_mismatch"}


def link_black_hole(rng):
    mesh = one_cable(rng, mtu=rng.choice([4200, 9000]))
    mesh.links[0]["path_limit"] = rng.choice([1500, 1600, 2000])
    mesh.jobs = [mesh.job("1MiB", "all_reduce")]
    return mesh, {"link.black_hole"}


def link_vlan_mismatch(rng):
    mesh = one_cable(rng, rng.choice([*NCCL, "weft"]))
    link = mesh.links[0]
    link["vlan"] = dict(zip(link["endpoints"], rng.sample(range(2, 4000), 2)))
    return mesh, {"link.vlan_mismatch"}


def link_one_way(rng):
    mesh = one_cable(rng).long()
    mesh.fault(at=mesh.when(), on=rng.choice(mesh.links[0]["endpoints"]) + "->", kind="loss",
               share="100%")
    return mesh, {"link.one_way"}


def link_lossy(rng):
    mesh = one_cable(rng).long()
    mesh.fault(at=mesh.when(), on=rng.choice(mesh.links[0]["endpoints"]), kind="loss",
               share=f"{rng.randrange(70, 95)}%")
    return mesh, {"link.lossy"}


def link_corrupting(rng):
    mesh = one_cable(rng).long()
    mesh.fault(at=mesh.when(), on=rng.choice(mesh.links[0]["endpoints"]) + rng.choice(["", "->"]),
               kind="corrupt", share=f"{rng.randrange(80, 100)}%")
    return mesh, {"link.corrupting"}


def link_survived_loss(rng):
    """Few enough frames are lost for retransmission to mend it: a warning."""
    mesh = one_cable(rng).long()
    mesh.fault(at=mesh.when(), on=rng.choice(mesh.links[0]["endpoints"]), kind="loss",
               share=f"0.{rng.randrange(2, 9)}%")
    return mesh, {"link.lossy"}


def link_survived_switch(rng):
    """A switch with small queues, and no flow control, between three or four hosts."""
    mesh = Mesh(rng, "nccl-2.25", profile=rng.choice(HARD_PROFILES), mtu=9000)
    n = rng.randrange(3, 5)
    mesh.host(n, env={"NCCL_IB_TIMEOUT": "14", "NCCL_IB_RETRY_CNT": "7"})
    mesh.top["switches"] = {"sw": {"ports": n}}
    subnet = mesh.subnet(24)
    for i, host in enumerate(mesh.hosts):
        mesh.cable(host, f"sw:{i}", subnet=subnet, queue="32KiB")
    mesh.jobs = [mesh.job("16MiB", "all_to_all")]
    return mesh, {"link.lossy"}


def link_survived_damage(rng):
    mesh = one_cable(rng).long()
    mesh.fault(at=mesh.when(), on=rng.choice(mesh.links[0]["endpoints"]), kind="corrupt",
               share=f"0.{rng.randrange(2, 9)}%")
    return mesh, {"link.corrupting"}


def link_survived_drop(rng):
    """One of two cables drops, and the other carries all."""
    mesh = Mesh(rng).shape("double").long()
    mesh.fault(at=mesh.when(), on=rng.choice(mesh.links[0]["endpoints"]), kind="down",
               **rng.choice([{}, {"for": f"{rng.randrange(1, 30)}ms"}]))
    return mesh, {"link.down"}


def link_left_out(rng):
    """Nothing comes through one of two cables from the start, and the other carries all."""
    mesh = Mesh(rng, "weft").shape("double")
    link = rng.choice(mesh.links)
    if rng.random() < 0.5:
        link["vlan"] = dict(zip(link["endpoints"], rng.sample(range(2, 4000), 2)))
    else:
        mesh.fault(on=rng.choice(link["endpoints"]) + rng.choice(["", "->"]), kind="loss",
                   share="100%")
    return mesh, {"link.left_out"}


def link_pause_storm(rng):
    mesh = one_cable(rng).long()
    mesh.fault(at=mesh.when(), on=rng.choice(mesh.links[0]["endpoints"]), kind="pause")
    return mesh, {"link.pause_storm"}


# ---- neighbours, filters ----


def neigh_no_answer(rng):
    """Two cables are plugged into each other's place: the addresses are of the plan."""
    mesh = triangle(rng, "weft", prefix_len=24)
    a, b = mesh.links[0], mesh.links[2]
    for link in mesh.links:
        for end, address in zip(link["endpoints"], mesh.addresses(link)):
            host, port = end.split(":")
            mesh.nodes[host].setdefault("addresses", {})[port] = [f"{address}/24"]
        del link["subnet"]
    a["endpoints"][1], b["endpoints"][0] = b["endpoints"][0], a["endpoints"][1]
    return mesh, {"neigh.no_answer"}


def neigh_arp_ignored(rng):
    mesh = one_cable(rng)
    for host in mesh.hosts:
        mesh.nodes[host]["sysctl"] = {"arp_ignore": 8}
    return mesh, {"neigh.arp_ignored"}


def host_rp_filter(rng):
    """Strict rp_filter before soft-RoCE, whose packets come from an address without a way back."""
    mesh = one_cable(rng, "nccl-2.25", profile="rxe")
    a, b = mesh.links[0]["endpoints"]
    host, port = a.split(":")
    net = ipaddress.ip_network(mesh.subnet(24))
    mesh.nodes[host]["addresses"] = {port: [f"{net[rng.randrange(1, 250)]}/24"]}
    mesh.nodes[host]["env"] = {"NCCL_IB_GID_INDEX": "2"}
    other = b.split(":")[0]
    mesh.nodes[other]["env"] = {"NCCL_IB_GID_INDEX": "1"}
    mesh.nodes[other]["sysctl"] = {"rp_filter": 1}
    return mesh, {"host.rp_filter"}


def host_firewall_roce(rng):
    mesh = one_cable(rng, profile="rxe")
    hosts = rng.sample(mesh.hosts, rng.choice([1, 2]))
    for host in hosts:
        mesh.nodes[host]["firewall"] = {"input_drop": ["udp:4791"]}
    return mesh, {"host.firewall_roce"}


def conn_filtered(rng):
    """A firewall drops TCP to ephemeral ports."""
    mesh = one_cable(rng)
    low = rng.choice([1024, 1024, 2000, 10000])
    mesh.nodes[rng.choice(mesh.hosts)]["firewall"] = {"input_drop": [f"tcp:{low}-65535"]}
    return mesh, {"conn.filtered"}
