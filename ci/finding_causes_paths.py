"""Causes that lie in ports, addresses and GIDs, for ci/finding_causes.py."""

import ipaddress

from finding_meshes import HARD_PROFILES, NCCL, PROFILES, Mesh, one_cable, ring_of, split, triangle, \
    twins

# ---- which port, which address ----


def route_wrong_nic(rng):
    return triangle(rng, "nccl-2.25"), {"route.wrong_nic"}


def route_listener_blind(rng):
    mesh = triangle(rng, "nccl-2.30-subnet-aware", crossed=False, prefix_len=24)
    return split(mesh), {"route.listener_blind"}


def route_prefix_collision(rng):
    """Three links carved out of one /24."""
    mesh = triangle(rng, "nccl-2.30-subnet-aware")
    prefix_len = rng.choice([28, 29, 30, 31])
    network = ipaddress.ip_network(f"{mesh.base}.{rng.choice([16, 168])}.{rng.randrange(250)}.0/24")
    nets = rng.sample(list(network.subnets(new_prefix=prefix_len)), len(mesh.links))
    for link, net in zip(mesh.links, nets):
        link["subnet"] = str(net)
    return split(mesh), {"route.prefix_collision"}


def route_crossed_planes(rng):
    """Two cables between two hosts, p0 to p1 and p1 to p0; NICs are paired by index."""
    mesh = Mesh(rng, "nccl-2.25")
    mesh.host(2)
    ports = [[mesh.port(host) for _ in range(2)] for host in mesh.hosts]
    mesh.cable(ports[0][0], ports[1][1])
    mesh.cable(ports[0][1], ports[1][0])
    return mesh, {"route.crossed_planes"}


def route_merged_nic(rng):
    """The two ports of one NIC are cabled to two hosts; one of them is right for each peer."""
    mesh = Mesh(rng, rng.choice(NCCL), profile=rng.choice([*PROFILES, "synth2port"]))
    mesh.host(rng.choice([4, 6]))
    ports = {host: [mesh.port(host), mesh.port(host)] for host in mesh.hosts}
    for i, host in enumerate(mesh.hosts):
        other = mesh.hosts[(i + 1) % len(mesh.hosts)]
        mesh.cable(ports[host][i % 2], ports[other][i % 2])
    mesh.jobs = [mesh.job(rng.choice([4096, "1MiB"]), "send_recv")]
    return mesh, {"route.merged_nic"}


def route_gid_collision(rng):
    return (twins(rng, rng.choice(["weft", "nccl-2.25"]), crossed=True, profile=rng.choice(
        HARD_PROFILES)), {"route.gid_collision"})


def route_link_local(rng):
    """Two NICs of each host have addresses in 169.254.0.0/16."""
    mesh = Mesh(rng, rng.choice(NCCL), profile=rng.choice(HARD_PROFILES))
    mesh.host(2)
    ports = [[mesh.port(host) for _ in range(2)] for host in mesh.hosts]
    tails = rng.sample(range(1, 250), 4)
    for i in range(2):
        mesh.cable(ports[0][i], ports[1][1 - i], overlap="allowed",
                   addresses=[f"169.254.{tails[2 * i + k]}.{rng.randrange(1, 250)}/16"
                              for k in range(2)])
    return mesh, {"route.link_local"}


def route_no_facing_port(rng):
    """The ends of the only cable are numbered apart."""
    mesh = Mesh(rng, rng.choice(["weft", "nccl-2.25"]))
    mesh.host(2)
    nets = [ipaddress.ip_network(mesh.subnet(24)) for _ in range(2)]
    link = mesh.cable(*mesh.hosts, none=True)
    for end, net in zip(link["endpoints"], nets):
        mesh.address(end, net)
    return mesh, {"route.no_facing_port"}


def addr_no_facing_port(rng):
    """One of several cables between two hosts is numbered apart; the others carry the job."""
    mesh = Mesh(rng, "weft").shape("pair" if rng.random() < 0.5 else "ring")
    one, other = (end.split(":")[0] for end in mesh.any_link()["endpoints"])
    for _ in range(rng.randrange(1, 3)):
        link = mesh.cable(*rng.sample([one, other], 2), none=True)
    for end in link["endpoints"]:
        mesh.address(end, ipaddress.ip_network(mesh.subnet(24)))
    for link in mesh.links[:-1]:
        link.setdefault("subnet", mesh.subnet(24))
    mesh.must_fail = False
    mesh.at_fault = {tuple(end.split(":")) for end in mesh.links[-1]["endpoints"]}
    return mesh, {"addr.no_facing_port"}


def transit(rng, policy="nccl-2.25", bases=(), **between):
    """Two hosts whose only way to each other is a route over a third."""
    mesh = Mesh(rng, policy)
    mesh.base = rng.choice(bases) if bases else mesh.base
    ends = [mesh.host(), mesh.host()]
    middle = mesh.host(ranks=0, **between)
    nets = [ipaddress.ip_network(mesh.subnet(24)) for _ in ends]
    for end, net in zip(ends, nets):
        mesh.cable(end, middle, addresses=[f"{net[1]}/24", f"{net[2]}/24"])
    for end, own, other in zip(ends, nets, reversed(nets)):
        mesh.nodes[end]["routes"] = [f"{other} via {own[2]}"]
    return mesh


def route_forward_off(rng):
    """... which does not forward."""
    return transit(rng, sysctl={"ip_forward": 0}), {"route.forward_off"}


def route_forward_blocked(rng):
    """... whose firewall drops what it forwards."""
    mesh = transit(rng, sysctl={"ip_forward": 1}, firewall={"forward": "drop"})
    return mesh, {"route.forward_blocked"}


def mesh_no_cable(rng):
    """All to all in a ring, in which only neighbours have cables."""
    mesh = ring_of(rng, rng.randrange(4, 7), "nccl-2.30-subnet-aware")
    mesh.jobs = [mesh.job(rng.choice([4096, "1MiB"]), "all_to_all")]
    return mesh, {"mesh.no_cable"}


def mesh_rank_order(rng):
    """A ring of hosts whose ranks were started in another order."""
    n = rng.randrange(4, 7)
    mesh = ring_of(rng, n, "nccl-2.30-subnet-aware")
    order = list(range(n))
    while all((b - a) % n in (1, n - 1) for a, b in zip(order, order[1:] + order[:1])):
        rng.shuffle(order)
    mesh.ranks = [mesh.hosts[i] for i in order]
    mesh.jobs = [mesh.job(rng.choice([4096, "1MiB"]), "send_recv")]
    return mesh, {"mesh.rank_order"}


# ---- addresses ----


def addr_missing(rng):
    """One end of the only cable has lost its address."""
    mesh = Mesh(rng, rng.choice(["weft", "nccl-2.25"]))
    mesh.host(2)
    link = mesh.cable(*mesh.hosts, none=True)
    mesh.address(rng.choice(link["endpoints"]), ipaddress.ip_network(mesh.subnet(24)))
    return mesh, {"addr.missing"}


def addr_prefix_mismatch(rng):
    """One end's prefix does not hold the other end's address."""
    mesh = Mesh(rng, rng.choice(["weft", "nccl-2.25"]))
    mesh.host(2)
    net = ipaddress.ip_network(mesh.subnet(24))
    ends = [f"{net[rng.randrange(1, 3)]}/30", f"{net[rng.randrange(100, 250)]}/24"]
    rng.shuffle(ends)
    mesh.cable(*mesh.hosts, addresses=ends, overlap="allowed")
    return mesh, {"addr.prefix_mismatch"}


def addr_duplicate(rng):
    """Both ends of a cable have the same address."""
    mesh = Mesh(rng, "nccl-2.25")
    mesh.host(2)
    net = ipaddress.ip_network(mesh.subnet(24))
    own, other = rng.sample(range(1, 250), 2)
    link = mesh.cable(*mesh.hosts, addresses=[f"{net[own]}/24", f"{net[other]}/24"],
                      overlap="allowed")
    mesh.fault(at="0s", on=link["endpoints"][1], kind="addr_change", address=f"{net[own]}/24")
    return mesh, {"addr.duplicate"}


def addr_changed(rng):
    """Soft-RoCE's port gets another address while connections use the first."""
    mesh = one_cable(rng, profile="rxe").long()
    link = mesh.links[0]
    link["subnet"] = mesh.subnet(24)
    end = rng.choice(link["endpoints"])
    net = ipaddress.ip_network(link["subnet"])
    mesh.fault(at=mesh.when(), on=end, kind="addr_change",
               address=f"{net[rng.randrange(10, 250)]}/24")
    return mesh, {"addr.changed"}


# ---- GIDs ----


def gid_missing(rng):
    """Soft-RoCE's GID disappears under its connections."""
    mesh = one_cable(rng, profile="rxe").long()
    link = mesh.links[0]
    which = rng.randrange(2)
    mesh.fault(at=mesh.when(), on=link["endpoints"][which], kind="gid_delete",
               address=mesh.addresses(link)[which])
    return mesh, {"gid.missing"}


def gid_peer_address(rng):
    mesh = Mesh(rng, rng.choice(NCCL))
    mesh.host(2)
    net = ipaddress.ip_network(mesh.subnet(24))
    a, b = (str(net[n]) for n in rng.sample(range(1, 250), 2))
    mesh.cable(*mesh.hosts, addresses=[f"{a} peer {b}/32", f"{b} peer {a}/32"])
    return mesh, {"gid.peer_address"}


def gid_type_mismatch(rng):
    """Each host has a setting of its own index, and one of them holds a RoCE v1 GID."""
    mesh = one_cable(rng, rng.choice(NCCL), profile=rng.choice(HARD_PROFILES))
    indices = ["2", "3"]
    rng.shuffle(indices)
    for host, index in zip(mesh.hosts, indices):
        mesh.nodes[host]["env"] = {"NCCL_IB_GID_INDEX": index}
    return mesh, {"gid.type_mismatch"}


def gid_fixed_index(rng):
    """One index for all hosts, which is empty on one of them."""
    mesh = one_cable(rng, rng.choice(NCCL), profile=rng.choice(HARD_PROFILES))
    for host in mesh.hosts:
        mesh.nodes[host]["env"] = {"NCCL_IB_GID_INDEX": "5"}
    mesh.address(rng.choice(mesh.links[0]["endpoints"]), ipaddress.ip_network(mesh.subnet(24)))
    return mesh, {"gid.fixed_index"}


def gid_foreign_slot(rng):
    """The slot that one host's settings name holds the GID of a container's interface."""
    mesh = one_cable(rng, rng.choice(NCCL), profile=rng.choice(HARD_PROFILES))
    mesh.links[0]["subnet"] = mesh.subnet(24)
    network = ipaddress.ip_network(mesh.links[0]["subnet"])
    end = rng.choice(mesh.links[0]["endpoints"])
    mesh.nodes[end.split(":")[0]]["env"] = {"NCCL_IB_GID_INDEX": "5"}
    mesh.fault(at="0s", on=end, kind="gid_add", address=str(network[rng.randrange(10, 250)]))
    return mesh, {"gid.fixed_index"}


def gid_other_family(rng):
    """One index for all hosts; on one of them an IPv6 address came first."""
    mesh = Mesh(rng, rng.choice(NCCL), profile=rng.choice(HARD_PROFILES))
    mesh.host(2)
    ends = mesh.cable(*mesh.hosts, none=True)["endpoints"]
    network = ipaddress.ip_network(mesh.subnet(24))
    first = rng.choice(ends)
    for end in ends:
        host, port = end.split(":")
        mesh.nodes[host]["env"] = {"NCCL_IB_GID_INDEX": "3"}
        mesh.nodes[host]["addresses"] = {port: [f"fd{rng.randrange(256):02x}:7::{1 + (end == first)}/64"]
                                         if end == first else []}
    for end, n in zip(ends, rng.sample(range(1, 250), 2)):
        host, port = end.split(":")
        mesh.nodes[host]["addresses"][port].append(f"{network[n]}/24")
    return mesh, {"gid.fixed_index"}


def addr_one_twice(rng):
    """Both ends of the only cable have the same address."""
    mesh = Mesh(rng, rng.choice(["weft", *NCCL]), profile=rng.choice(HARD_PROFILES))
    mesh.host(2)
    ends = mesh.cable(*mesh.hosts, none=True)["endpoints"]
    network = ipaddress.ip_network(mesh.subnet(24))
    address = f"{network[rng.randrange(1, 250)]}/24"
    for end in ends:
        host, port = end.split(":")
        mesh.nodes[host]["addresses"] = {port: [address]}
    return mesh, {"addr.duplicate"}


def gid_link_local(rng):
    """NCCL_IB_GID_INDEX=0 on one host: fe80::, which talks to no IPv4 GID."""
    mesh = one_cable(rng, rng.choice(NCCL))
    host = rng.choice(mesh.hosts)
    mesh.nodes[host]["env"] = {"NCCL_IB_GID_INDEX": "0"}
    return mesh, {"gid.link_local"}


def gid_private(rng):
    """Addresses that Mooncake takes for overlay networks: it chooses fe80::, which no host routes."""
    mesh = transit(rng, "mooncake-2026-06", (10, 172), sysctl={"ip_forward": 1})
    return mesh, {"gid.link_local"}


def gid_no_ipv4(rng):
    """Unique local IPv6 addresses only; NCCL_IB_ADDR_FAMILY is AF_INET, and fe80:: is on every
    cable alike."""
    mesh = triangle(rng, "nccl-2.25")
    for link, net in zip(mesh.links, rng.sample(range(1, 65536), 3)):
        link["subnet"] = f"fd{rng.randrange(256):02x}:{net:x}::/64"
    return mesh, {"gid.no_ipv4"}


def gid_stale_index(rng):
    """A flap under NCCL's port recovery; another address has the GID's slot by the time it is back, or
    had it."""
    mesh = Mesh(rng, "nccl-2.29-port-recovery", profile=rng.choice(HARD_PROFILES)).shape("double")
    for link in mesh.links:
        link["rate"] = rng.choice(["5Mbps", "10Mbps"])  # the job outlasts five attempts
        link["subnet"] = mesh.subnet(24)
    mesh.jobs = [mesh.job("64MiB", rng.choice(["all_reduce", "all_to_all", "broadcast"]))]
    link = rng.choice(mesh.links)
    which = rng.randrange(2)
    own = f"{mesh.addresses(link)[which]}/24"
    other = f"{ipaddress.ip_network(mesh.subnet(24))[rng.randrange(1, 250)]}/24"
    at_ms = rng.randrange(200, 900)
    mesh.fault(at=f"{at_ms}ms", on=rng.choice(link["endpoints"]), kind="down",
               **{"for": f"{rng.randrange(70, 150)}ms"})
    steps = [("addr_del", own), ("addr_add", other), ("addr_add", own)]
    steps += [("addr_del", other)] if rng.random() < 0.3 else []
    for i, (kind, address) in enumerate(steps):
        mesh.fault(at=f"{at_ms + 20 + 10 * i + rng.randrange(8)}ms", on=link["endpoints"][which],
                   kind=kind, address=address)
    return mesh, {"gid.stale_index", "link.down"}


def route_slow_lane(rng):
    """A slow port and a fast one on each host, and a list of devices that names the slow one."""
    mesh = Mesh(rng, rng.choice(NCCL))
    mesh.host(2)
    ports = [[mesh.port(host) for _ in range(2)] for host in mesh.hosts]
    slow = rng.randrange(2)
    for i in range(2):
        rate = rng.choice(["1Gbps", "10Gbps"] if i == slow else ["25Gbps", "100Gbps"])
        mesh.cable(ports[0][i], ports[1][i], subnet=mesh.subnet(24), rate=rate)
    for host, own in zip(mesh.hosts, ports):
        mesh.nodes[host]["env"] = {"NCCL_IB_HCA": f"={own[slow].split(':')[1]}"}
    return mesh, {"route.slow_lane"}


def route_merged_one_end(rng):
    """One host sees two functions of its NIC, one of which faces no port; the other sees one."""
    mesh = Mesh(rng, "nccl-2.25")
    mesh.host(2)
    merged, plain = rng.sample(mesh.hosts, 2)
    mesh.nodes[merged]["profile"] = "synth2port"
    ports = [mesh.port(merged) for _ in range(2)]
    face, aside = rng.sample(range(2), 2)
    mesh.top["switches"] = {"nic": {"ports": 3}}
    net, other = (ipaddress.ip_network(mesh.subnet(24)) for _ in range(2))
    for i, (end, network) in enumerate([(ports[face], net), (ports[aside], other),
                                        (mesh.port(plain), net)]):
        vlan = {"vlan": rng.randrange(2, 4000)} if network is other else {}
        host = network[rng.randrange(10 + 40 * i, 50 + 40 * i)]
        mesh.cable(end, f"nic:{i}", addresses=[f"{host}/24"], **vlan)
    return mesh, {"route.merged_one_end"}
