"""Random meshes to break: scenarios while they are drawn, for ci/finding_causes*.py."""

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
        self.is_met = False  # at a rendezvous, whatever the policy has

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
        """Addresses of the ends of a link with `subnet`, as the simulator gives them."""
        network = ipaddress.ip_network(link["subnet"])
        first = 0 if network.prefixlen == 31 else 1
        return [str(network[first]), str(network[first + 1])]

    def document(self, name):
        defaults = {"profile": self.profile, "mtu": self.mtu,
                    "rate": self.rng.choice(["25Gbps", "100Gbps", "100Gbps", "200Gbps"])}
        return {"name": name, "policy": self.policy, "seed": self.rng.randrange(1, 2**31),
                "topology": {"defaults": defaults, "nodes": self.nodes, "links": self.links,
                             **self.top},
                **({"boot": "rendezvous"} if self.is_met else {}),
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


def split(mesh):
    """NCCL_IB_MERGE_NICS=0 on every host."""
    for node in mesh.nodes.values():
        node.setdefault("env", {})["NCCL_IB_MERGE_NICS"] = "0"
    return mesh


def twins(rng, policy, crossed, **keys):
    mesh = Mesh(rng, policy, **keys)
    mesh.host(2)
    ports = [[mesh.port(host) for _ in range(2)] for host in mesh.hosts]
    subnet = mesh.subnet(24)
    mesh.cable(ports[0][0], ports[1][1 if crossed else 0], subnet=subnet, overlap="allowed")
    mesh.cable(ports[0][1], ports[1][0 if crossed else 1], subnet=subnet, overlap="allowed")
    return mesh


def ring_of(rng, n, policy):
    """Every cable joins a first port and a second one: what subnet-aware NCCL can connect."""
    mesh = Mesh(rng, policy)
    mesh.host(n)
    ports = {host: [mesh.port(host), mesh.port(host)] for host in mesh.hosts}
    for i in range(n):
        mesh.cable(ports[mesh.hosts[i]][0], ports[mesh.hosts[(i + 1) % n]][1],
                   subnet=mesh.subnet(24))
    return split(mesh)
