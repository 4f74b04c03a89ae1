"""Random settings for every cause that `weft diagnose` must be able to name.

A cause is a function that draws a mesh, breaks it in one way, and says which codes are the right
answer. What is drawn around the fault (shape, names, subnets, MTUs, profiles, policies, job, sizes,
times) is noise that the answer may not depend on. Used by ci/findings.
"""

import ipaddress

HOSTS = ["titanic", "iceberg", "carpathia", "olympic", "britannic", "californian", "baltic",
         "lusitania", "mauretania", "aquitania"]
PORT_STYLES = [["p0", "p1", "p2", "p3"], ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"],
               ["rocep1s0f0", "rocep1s0f1", "roceP2p1s0f0", "roceP2p1s0f1"],
               ["eth0", "eth1", "eth2", "eth3"]]
HARD_PROFILES = ["mlx5", "mlx5", "hns-hip08", "hns-hip09"]
PROFILES = [*HARD_PROFILES, "rxe"]
JOBS = ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast"]
NCCL = ["nccl-2.25", "nccl-2.30-subnet-aware"]


class Mesh:
    """A scenario while it is drawn."""

    def __init__(self, rng, policy="weft", profile=None, mtu=None):
        self.rng = rng
        self.policy = policy
        self.profile = profile or rng.choice(PROFILES)
        self.mtu = mtu or rng.choice([1500, 4200, 9000])
        self.names = rng.sample(HOSTS, len(HOSTS))
        self.style = rng.choice(PORT_STYLES)
        self.hosts = []
        self.nodes = {}
        self.links = []
        self.faults = []
        self.n_ports = {}
        self.used = set()
        self.base = rng.choice([10, 172, 192])
        self.jobs = [self.job(rng.choice([8, 4096, "64KiB", "1MiB"]))]
        self.top = {}

    def job(self, size, kind=None, **more):
        kind = kind or self.rng.choice(JOBS)
        return {kind: {"bytes": size, **more}}

    def host(self, n=1, **keys):
        for _ in range(n):
            name = self.names[len(self.hosts)]
            self.hosts.append(name)
            self.nodes[name] = {"ports": [], **keys}
            self.n_ports[name] = 0
        return self.hosts[-1]

    def port(self, host):
        name = self.style[self.n_ports[host]]
        self.n_ports[host] += 1
        self.nodes[host]["ports"].append(name)
        return f"{host}:{name}"

    def subnet(self, prefix_len=None):
        """A network that no other link has, and that a /24 of no other link has either."""
        while True:
            third = self.rng.randrange(1, 250)
            second = {10: self.rng.randrange(1, 250), 172: 16, 192: 168}[self.base]
            if (second, third) not in self.used:
                self.used.add((second, third))
                prefix_len = prefix_len or self.rng.choice([24, 24, 28, 30, 31])
                return f"{self.base}.{second}.{third}.0/{prefix_len}"

    def cable(self, a, b, **keys):
        """Between two hosts, by new ports, or between two ports."""
        ends = [end if ":" in end else self.port(end) for end in (a, b)]
        link = {"endpoints": ends, **keys}
        if not {"subnet", "addresses", "none"} & keys.keys():
            link["subnet"] = self.subnet()
        link.pop("none", None)
        if self.rng.random() < 0.5:
            link["delay"] = self.rng.choice(["200ns", "1us", "5us", "20us"])
        self.links.append(link)
        return link

    def shape(self, kind=None):
        """Hosts and cables; every host within reach of every other."""
        kind = kind or self.rng.choice(["pair", "pair", "double", "triangle", "line", "ring"])
        if kind in ("pair", "double"):
            self.host(2)
            for _ in range(1 if kind == "pair" else 2):
                self.cable(self.hosts[0], self.hosts[1])
        elif kind == "line":
            self.host(3)
            self.cable(self.hosts[0], self.hosts[1])
            self.cable(self.hosts[1], self.hosts[2])
        else:
            n = 3 if kind == "triangle" else self.rng.randrange(4, 6)
            self.host(n)
            for i in range(n):
                self.cable(self.hosts[i], self.hosts[(i + 1) % n])
        return self

    def long(self):
        """A job that is under way for some milliseconds at least."""
        self.jobs = [self.job("16MiB", "all_reduce", repeat=self.rng.randrange(20, 40))]
        return self

    def when(self):
        return f"{self.rng.randrange(4000, 9000)}us"

    def any_link(self):
        return self.rng.choice(self.links)

    def fault(self, **keys):
        self.faults.append(keys)

    def address(self, end, network):
        """A random address of the network for a port, after those that it has."""
        host, port = end.split(":")
        of_host = self.nodes[host].setdefault("addresses", {})
        of_host.setdefault(port, []).append(
            f"{network[self.rng.randrange(10, 250)]}/{network.prefixlen}")

    def addresses(self, link):
        """Of the ends of a link with `subnet`, as the simulator gives them."""
        network = ipaddress.ip_network(link["subnet"])
        first = 0 if network.prefixlen == 31 else 1
        return [str(network[first]), str(network[first + 1])]

    def document(self, name):
        defaults = {"profile": self.profile, "mtu": self.mtu,
                    "rate": self.rng.choice(["25Gbps", "100Gbps", "100Gbps", "200Gbps"])}
        return {"name": name, "policy": self.policy, "seed": self.rng.randrange(1, 2**31),
                "topology": {"defaults": defaults, "nodes": self.nodes, "links": self.links,
                             **self.top},
                "jobs": self.jobs, "faults": self.faults, "expect": {"result": "fail"}}


def one_cable(rng, policy=None, **keys):
    mesh = Mesh(rng, policy or rng.choice([*NCCL, "weft"]), **keys)
    return mesh.shape("pair")


def triangle(rng, policy, crossed=True, prefix_len=None, **keys):
    """Each host has two ports; crossed: every cable joins a first port and a second one."""
    mesh = Mesh(rng, policy, **keys)
    mesh.host(3)
    ports = {host: [mesh.port(host), mesh.port(host)] for host in mesh.hosts}
    a, b, c = (ports[host] for host in mesh.hosts)
    if crossed:
        pairs = [(a[0], b[1]), (b[0], c[1]), (c[0], a[1])]
    else:
        pairs = [(a[0], b[0]), (b[1], c[1]), (c[0], a[1])]
    for end, other in pairs:
        mesh.cable(end, other, subnet=mesh.subnet(prefix_len))
    return mesh


# ---- which port, which address ----


def route_wrong_nic(rng):
    return triangle(rng, "nccl-2.25"), {"route.wrong_nic"}


def split(mesh):
    """NCCL_IB_MERGE_NICS=0 on every host."""
    for node in mesh.nodes.values():
        node.setdefault("env", {})["NCCL_IB_MERGE_NICS"] = "0"
    return mesh


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


def twins(rng, policy, crossed, **keys):
    mesh = Mesh(rng, policy, **keys)
    mesh.host(2)
    ports = [[mesh.port(host) for _ in range(2)] for host in mesh.hosts]
    subnet = mesh.subnet(24)
    mesh.cable(ports[0][0], ports[1][1 if crossed else 0], subnet=subnet, overlap="allowed")
    mesh.cable(ports[0][1], ports[1][0 if crossed else 1], subnet=subnet, overlap="allowed")
    return mesh


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


def ring_of(rng, n, policy):
    """Every cable joins a first port and a second one: what subnet-aware NCCL can connect."""
    mesh = Mesh(rng, policy)
    mesh.host(n)
    ports = {host: [mesh.port(host), mesh.port(host)] for host in mesh.hosts}
    for i in range(n):
        mesh.cable(ports[mesh.hosts[i]][0], ports[mesh.hosts[(i + 1) % n]][1],
                   subnet=mesh.subnet(24))
    return split(mesh)


def mesh_no_cable(rng):
    """Everybody to everybody in a ring, whose neighbours alone have cables."""
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
    """Each host was told an index of its own, and one of them holds a RoCE v1 GID."""
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


def gid_link_local(rng):
    """NCCL_IB_GID_INDEX=0 on one host: fe80::, which talks to no IPv4 GID."""
    mesh = one_cable(rng, rng.choice(NCCL))
    host = rng.choice(mesh.hosts)
    mesh.nodes[host]["env"] = {"NCCL_IB_GID_INDEX": "0"}
    return mesh, {"gid.link_local"}


def gid_no_ipv4(rng):
    """Unique local IPv6 addresses only; NCCL_IB_ADDR_FAMILY is AF_INET, and fe80:: is on every
    cable alike."""
    mesh = triangle(rng, "nccl-2.25")
    for link, net in zip(mesh.links, rng.sample(range(1, 65536), 3)):
        link["subnet"] = f"fd{rng.randrange(256):02x}:{net:x}::/64"
    return mesh, {"gid.no_ipv4"}


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


# ---- hosts and peers ----


def peer_dead(rng):
    mesh = Mesh(rng).shape().long()
    mesh.fault(at=mesh.when(), on=rng.choice(mesh.hosts), kind="kill")
    return mesh, {"peer.dead"}


def peer_silent(rng):
    mesh = Mesh(rng).shape().long()
    mesh.fault(at=mesh.when(), on=rng.choice(mesh.hosts), kind="stop")
    return mesh, {"peer.silent"}


def peer_late(rng):
    mesh = Mesh(rng).shape()
    mesh.nodes[rng.choice(mesh.hosts[1:])]["start"] = f"{rng.randrange(1000, 3000)}s"
    return mesh, {"peer.late"}


def host_memlock(rng):
    mesh = Mesh(rng).shape()
    mesh.jobs = [mesh.job("16MiB", "all_reduce")]
    mesh.nodes[rng.choice(mesh.hosts)]["memlock"] = rng.choice(["64KiB", "8MiB"])
    return mesh, {"host.memlock"}


def verb_error(rng, verb, errnos, nths, code):
    mesh = Mesh(rng).shape()
    mesh.fault(on=rng.choice(mesh.hosts), kind="verb_error", verb=verb, errno=rng.choice(errnos),
               nth=rng.choice(nths))
    return mesh, {code}


def host_kernel_memory(rng):
    return verb_error(rng, "reg_mr", [12], [1, 2, 3], "host.kernel_memory")


def host_permission(rng):
    return verb_error(rng, rng.choice(["alloc_pd", "create_cq", "create_qp"]), [1, 13], [1],
                      "host.permission")


def device_qp_limit(rng):
    return verb_error(rng, "create_qp", [12, 16, 28], [1, 2], "device.qp_limit")


def device_rejected(rng):
    return verb_error(rng, rng.choice(["create_qp", "create_cq"]), [22, 95], [1, 2],
                      "device.rejected")


def device_failed(rng):
    return verb_error(rng, rng.choice(["alloc_pd", "create_cq", "create_qp", "reg_mr",
                                       "modify_qp"]), [5], [1, 2], "device.failed")


def gid_no_netdev(rng):
    """modify to RTR: the GID's netdev is not there (macvlan, another namespace)."""
    mesh = one_cable(rng)
    mesh.fault(on=rng.choice(mesh.hosts), kind="verb_error", verb="modify_qp", errno=19,
               nth=rng.randrange(1, 4))
    return mesh, {"gid.no_netdev"}


def host_no_device(rng):
    mesh = Mesh(rng).shape("pair")
    mesh.host(1, gpus=1)
    mesh.nodes[mesh.hosts[-1]].pop("ports")
    return mesh, {"host.no_device"}


def host_pcie_narrow(rng):
    """One PCIe link of one host of a pair or a triangle of Sparks has fewer lanes than four."""
    mesh = Mesh(rng, rng.choice(["weft", *NCCL]), profile="mlx5")
    names = [mesh.host() for _ in range(rng.choice([2, 2, 3]))]
    for name in names:
        del mesh.nodes[name]["ports"]
        mesh.nodes[name]["cages"] = ["c0", "c1"]
    ends = [(0, 1, "c0")] if len(names) == 2 else [(0, 1, "c1"), (1, 2, "c1"), (2, 0, "c1")]
    for a, b, cage in ends:
        mesh.links.append({"endpoints": [f"{names[a]}:c0", f"{names[b]}:{cage}"],
                           "subnets": [mesh.subnet(24), mesh.subnet(24)], "rate": "100Gbps"})
    if len(names) == 3:
        mesh.policy = "weft"
    mesh.nodes[rng.choice(names)]["pcie"] = {
        rng.choice(["root0", "root1"]): rng.choice(["63Gbps", "31Gbps", "25Gbps", "50Gbps"])}
    return mesh, {"host.pcie_narrow"}


def data_wrong(rng):
    """A device on the way flips a bit of one packet, and computes the checksum again. A job is
    run three times and the last is compared with what it must be: the packet is one of that."""
    mesh = one_cable(rng, mtu=9000)
    # Of 4096 bytes, over two queue pairs, after a probe of four.
    job, packets = rng.choice([("all_reduce", 128), ("all_gather", 64), ("all_to_all", 64)])
    mesh.jobs = [mesh.job("1MiB", job)]
    mesh.fault(on=rng.choice(mesh.links[0]["endpoints"]) + "->", kind="corrupt", icrc="good",
               match={"qp": rng.choice([1, 2]), "psn": 4 + 2 * packets + rng.randrange(packets)})
    return mesh, {"data.wrong"}


CAUSES = {name: function for name, function in globals().items()
          if callable(function) and "_" in name and name.split("_")[0] in
          ("route", "mesh", "addr", "gid", "link", "neigh", "host", "conn", "peer", "device",
           "data")}


def no_fault(rng):
    """Everything is in order: nothing may be found."""
    mesh = Mesh(rng).shape()
    if rng.random() < 0.4:
        mesh = one_cable(rng)
    if rng.random() < 0.3:
        mesh.long()
    return mesh, set()


# ---- two at once ----


def set_firewall(rng, mesh):
    mesh.nodes[rng.choice(mesh.hosts)]["firewall"] = {"input_drop": ["udp:4791"]}


def set_black_hole(rng, mesh):
    mesh.links[0]["path_limit"] = 1500


def set_vlans(rng, mesh):
    link = mesh.links[0]
    link["vlan"] = dict(zip(link["endpoints"], rng.sample(range(2, 4000), 2)))


def set_mtus(rng, mesh):
    mesh.links[0]["mtu"] = dict(zip(mesh.links[0]["endpoints"], rng.sample([9000, 1500], 2)))


def set_memlock(rng, mesh):
    mesh.nodes[rng.choice(mesh.hosts)]["memlock"] = "64KiB"


def set_arp_ignore(rng, mesh):
    for host in mesh.hosts:
        mesh.nodes[host]["sysctl"] = {"arp_ignore": 8}


def set_qp_limit(rng, mesh):
    mesh.fault(on=rng.choice(mesh.hosts), kind="verb_error", verb="create_qp", errno=16)


def port_fault(kind, suffix="", **keys):
    def apply(rng, mesh):
        mesh.fault(at=mesh.when(), on=rng.choice(mesh.links[0]["endpoints"]) + suffix, kind=kind,
                   **keys)
    return apply


def set_killed(rng, mesh):
    mesh.fault(at=mesh.when(), on=rng.choice(mesh.hosts), kind="kill")


SECOND = {"host.firewall_roce": set_firewall, "link.black_hole": set_black_hole,
          "link.vlan_mismatch": set_vlans, "link.mtu_mismatch": set_mtus,
          "host.memlock": set_memlock, "neigh.arp_ignored": set_arp_ignore,
          "device.qp_limit": set_qp_limit, "link.down": port_fault("down"),
          "link.one_way": port_fault("loss", "->", share="100%"),
          "link.pause_storm": port_fault("pause"), "peer.dead": set_killed}


def two_faults(rng):
    """Any two of those above on one cable: at least one is named, and nothing else."""
    mesh = one_cable(rng, "weft", profile="rxe", mtu=9000).long()
    codes = rng.sample(sorted(SECOND), 2)
    for code in codes:
        SECOND[code](rng, mesh)
    return mesh, set(codes)
