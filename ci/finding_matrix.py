"""Settings of `ci/findings --matrix`: the product of cause, mesh, place, moment, policy, addressing and names.

A setting is a healthy job on a mesh, and one cause planted at one place and one moment of it. Of the
healthy run the story is read, so that a moment (the rendezvous, a handshake, a probe, a row) is met in
whatever mesh. A cause says which codes are right, and where: at either end of a cable, at one port,
or at one host.
"""

import ipaddress
import random
import re

from finding_meshes import HARD_PROFILES, NCCL, Mesh

NAMES = ["titanic", "iceberg", "carpathia", "olympic", "britannic", "californian", "baltic", "lusitania",
         "mauretania", "aquitania", "a", "b", "c", "d", "spark-1", "spark-2", "spark-3", "spark-10", "n0", "n1",
         "n2", "head", "worker-1", "worker-2", "zeta"]
PORTS = {"p": "p{}", "mlx5": "mlx5_{}", "eth": "eth{}", "roce": "rocep{}s0"}
ADDRESSING = ["/24", "/24", "/31", "ipv6"]
MOMENTS = ["before start", "rendezvous", "hello", "facts", "rtr", "probe", "first row", "mid-row",
           "between jobs", "close"]
# States of a connection (src/conn) that a moment of the set-up is one of.
STATES = {"hello": {"tcp", "hello", "challenge"}, "facts": {"auth", "meta"},
          "rtr": {"qps", "connect_qps", "ready"}, "probe": {"probe"}}
# A finding about a peer is about what is behind the arrow.
AT_PEER = {"peer.dead", "peer.silent", "peer.late", "peer.receiver_late", "neigh.arp_ignored", "conn.filtered",
           "conn.refused", "data.access_refused", "data.receive_unusable"}


class Place:
    """Where a cause was planted: hosts or ports, any of which may head a finding."""

    def __init__(self, *places, peers=(), sender=""):
        self.places = set(places)  # "titanic" or "titanic:p0"
        self.peers = set(peers)  # hosts that the finding may be about; "": any
        self.sender = sender  # the end whose frames alone are lost, "": both, or unknown

    def hosts(self):
        return {place.split(":")[0] for place in self.places}

    def is_right(self, finding):
        where = finding["where"]
        host, port, peer = (where.get(key) or "" for key in ("host", "port", "peer"))
        hosts = self.hosts()
        if finding["code"] in AT_PEER:
            return peer in hosts
        if host not in hosts or not self.is_right_way(host, finding.get("evidence") or {}):
            return False
        if self.peers and peer and peer not in self.peers | hosts:
            return False
        if host in self.places:
            return True
        # A pair of hosts is as good as a cable of theirs, if it is a pair that the cable joins.
        return f"{host}:{port}" in self.places if port else peer == "" or peer in self.peers

    def is_right_way(self, host, evidence):
        """Return false where counters are shown by which the frames of the other end are lost."""
        sent, received = (evidence.get(f"frames_lost_{way}") for way in ("out", "in"))
        if not self.sender or sent is None or received is None or sent == received:
            return True
        return (int(sent) > int(received)) == (host == self.sender)

    def __str__(self):
        return " or ".join(sorted(self.places))


class Planted:
    """A mesh with one cause in it."""

    def __init__(self, codes, place, also=(), boot_limit_s=0):
        self.codes, self.place, self.also = set(codes), place, set(also)
        self.boot_limit_s = boot_limit_s  # beside that of its kind (LIMITS_S), where the rendezvous failed of it


class Drawn(Mesh):
    """A mesh of any kind, with as many ports as it wants."""

    def __init__(self, rng, policy, addressing, **keys):
        super().__init__(rng, policy, **keys)
        self.names = rng.sample(NAMES, len(NAMES))
        self.pattern = rng.choice(list(PORTS.values()))
        self.addressing = addressing
        self.swaps = {}

    def port(self, host):
        name = self.pattern.format(self.n_ports[host])
        self.n_ports[host] += 1
        self.nodes[host]["ports"].append(name)
        return f"{host}:{name}"

    def subnet(self, prefix_len=None):
        if self.addressing == "ipv6":
            while True:
                net = self.rng.randrange(1, 65536)
                if net not in self.used:
                    self.used.add(net)
                    return f"fd07:{net:x}::/64"
        return super().subnet(prefix_len or int(self.addressing[1:]))

    def numbered(self):
        """Give every end its address by hand, so that one may be changed."""
        taken = {}
        for link in self.links:
            if "subnet" not in link:
                continue  # numbered already
            subnet = link.pop("subnet")
            link.pop("overlap", None)
            network = ipaddress.ip_network(subnet)
            for end in link["endpoints"]:
                host, port = end.split(":")
                if host not in self.nodes:
                    continue
                n = taken.get(subnet, 0 if network.prefixlen in (31, 127) else 1)
                taken[subnet] = n + 1
                self.nodes[host].setdefault("addresses", {})[port] = [f"{network[n]}/{network.prefixlen}"]
        return self


def pairs_of(kind, rng):
    """The hosts of a mesh and its cables, by number."""
    if kind in ("pair", "twins"):
        return 2, [(0, 1)] * (1 if kind == "pair" else 2)
    if kind == "triangle":
        return 3, [(0, 1), (1, 2), (2, 0)]
    if kind == "ring":
        n = rng.choice([4, 4, 5, 6, 7, 8, 10, 12])
        return n, [(i, (i + 1) % n) for i in range(n)]
    if kind == "line":
        n = rng.choice([3, 3, 4, 5])
        return n, [(i, i + 1) for i in range(n - 1)]
    if kind == "star":
        n = rng.choice([4, 5, 6])
        return n, [(0, i) for i in range(1, n)]
    if kind == "grid":
        w, h = rng.choice([(3, 2), (3, 3)])
        return w * h, ([(y * w + x, y * w + x + 1) for y in range(h) for x in range(w - 1)]
                       + [(y * w + x, y * w + x + w) for y in range(h - 1) for x in range(w)])
    if kind == "torus":
        w, h = 3, 3
        return w * h, ([(y * w + x, y * w + (x + 1) % w) for y in range(h) for x in range(w)]
                       + [(y * w + x, (y + 1) % h * w + x) for y in range(h) for x in range(w)])
    if kind == "two triangles":
        return 5, [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2)]
    assert kind == "switch"
    return rng.choice([2, 3, 3, 4]), []


RELAYED = ["triangle", "ring", "line", "star", "grid", "torus", "two triangles"]
MESHES = ["pair", "triangle", "twins", "ring", "line", "star", "grid", "torus", "two triangles", "switch"]
RECOVERY, PLUGIN, MOONCAKE = "nccl-2.29-port-recovery", "mesh-plugin-2026-01", "mooncake-2026-06"
# Programs that know no relays: where every neighbour of the ring of ranks has a cable.
NCCL_MESHES = {"pair": [*NCCL, RECOVERY, PLUGIN, MOONCAKE], "twins": [*NCCL, RECOVERY],
               "triangle": [*NCCL[1:], PLUGIN], "ring": [*NCCL[1:], PLUGIN], "switch": [*NCCL[:1], RECOVERY, PLUGIN]}
# Only cases of numbers from REORDERED on have any order of ranks and hosts without one, and only those from UNMANAGED
# on may have no management network: what a number draws stays the same.
REORDERED, UNMANAGED = 2**32, 2**33


def draw_mesh(rng, kind, policy, addressing, profile=None):
    mesh = Drawn(rng, policy, addressing, profile=profile)
    mesh.kind = kind
    n, cables = pairs_of(kind, rng)
    mesh.host(n)
    if kind == "switch":
        mesh.addressing = "/24" if addressing == "/31" else addressing
        mesh.top["switches"] = {"sw": {"ports": n}}
        subnet = mesh.subnet()
        for i, host in enumerate(mesh.hosts):
            mesh.cable(host, f"sw:{i}", subnet=subnet)
    is_crossed = policy != "weft" and kind in ("triangle", "ring")
    ports = {host: [mesh.port(host), mesh.port(host)] for host in mesh.hosts} if is_crossed else {}
    for a, b in cables:
        ends = [mesh.hosts[a], mesh.hosts[b]]
        if is_crossed:
            ends = [ports[ends[0]][0], ports[ends[1]][1]]
        elif kind not in ("pair", "twins") and rng.random() < 0.5:
            ends.reverse()
        mesh.cable(*ends, subnet=mesh.subnet())
    if policy != "weft":
        for node in mesh.nodes.values():
            env = node.setdefault("env", {})
            if is_crossed:
                env["NCCL_IB_MERGE_NICS"] = "0"
            if addressing == "ipv6":
                env["NCCL_IB_ADDR_FAMILY"] = "AF_INET6"
    else:
        order = list(mesh.hosts)
        rng.shuffle(order)
        mesh.nodes = {host: mesh.nodes[host] for host in order}
        if rng.random() < 0.5 and kind in ("pair", "twins", "triangle", "switch"):
            rng.shuffle(order)
            mesh.ranks = order
        elif kind not in ("pair", "twins", "triangle", "switch"):
            mesh.ranks = list(mesh.hosts)
    job = rng.choice(["all_reduce", "all_reduce", "all_gather", "reduce_scatter"])
    size = rng.choice(["256KiB", "1MiB"] if n < 6 else ["64KiB", "128KiB"])
    how = {"algorithm": "ring"} if policy != "weft" else {}
    mesh.jobs = [mesh.job(4096, "all_reduce", **how), mesh.job(size, job, repeat=rng.randrange(2, 5), **how),
                 mesh.job(65536, "all_reduce", **how)]
    mesh.is_met = policy == "weft" and rng.random() < 0.4
    return mesh


def reorder(rng, mesh):
    """Draw the order of ranks, and a host that only relays."""
    order = list(getattr(mesh, "ranks", mesh.hosts))
    if mesh.policy != "weft" and mesh.kind in ("triangle", "ring"):
        first = rng.randrange(len(order))
        order = order[first:] + order[:first]
        order = order[::rng.choice([1, -1])]
    else:
        rng.shuffle(order)
    if mesh.policy == "weft" and mesh.kind in RELAYED and rng.random() < 0.3:
        mesh.nodes[order.pop()].update(ranks=0, gpus=0)
    mesh.ranks = order


def unmanage(mesh):
    """Take the management network away, so that hosts meet over the cables.

    A handle then must hold the addresses of all cables of its host (docs/wire.md)."""
    n_cables = max(sum(end.split(":")[0] == host for link in mesh.links for end in link["endpoints"])
                   for host in mesh.hosts)
    if mesh.policy == "weft" and n_cables <= (4 if mesh.addressing == "ipv6" else 10):
        mesh.is_met = False
        mesh.top["management"] = "none"


def addressings(policy, kind):
    """Return what a program can be numbered with."""
    if policy == "weft":
        return ADDRESSING
    crossed = ADDRESSING[:1] if kind in ("triangle", "ring") else ADDRESSING[:3]
    return [*crossed, *([] if policy in (PLUGIN, MOONCAKE) else ["ipv6"])]


# ---- causes ----

ANY = MOMENTS
EARLY = MOMENTS[:1]


def ends_of(mesh, link):
    return [end for end in link["endpoints"] if end.split(":")[0] in mesh.nodes]


def cable_place(mesh, link):
    """Either end of the cable; what is behind a switch is any other host."""
    ends = ends_of(mesh, link)
    hosts = {end.split(":")[0] for end in ends}
    if mesh.kind == "switch":
        return Place(*ends, peers={""} | set(mesh.hosts))
    return Place(*ends, peers=hosts)


def either_host(mesh, link):
    """A pair behind a switch cannot know at which of the two cables frames are lost."""
    if mesh.kind != "switch":
        return cable_place(mesh, link)
    own = ends_of(mesh, link)[0].split(":")[0]

    class Pair(Place):
        def is_right(self, finding):
            where = finding["where"]
            return own in (where.get("host"), where.get("peer"))

    return Pair(*ends_of(mesh, link))


UNANSWERED = {"neigh.no_answer"}  # what a neighbour's silence looks like before there is data


def cut(rng, mesh, at):
    link = mesh.any_link()
    place = cable_place(mesh, link)
    if at is None and rng.random() < 0.5:
        link["up"] = False
    else:
        mesh.fault(on=rng.choice(ends_of(mesh, link)), kind="down", **at_of(at))
    return Planted({"link.down"}, place)


def at_of(at):
    return {} if at is None else {"at": at}


def silent_one_way(rng, mesh, at):
    link = mesh.any_link()
    end = rng.choice(ends_of(mesh, link))
    mesh.fault(on=end + rng.choice(["->", "<-"]), kind="loss", share="100%", **at_of(at))
    return Planted({"link.one_way"}, either_host(mesh, link), also={"link.left_out", "link.lossy"} | UNANSWERED)


def silent(rng, mesh, at):
    link = mesh.any_link()
    mesh.fault(on=rng.choice(ends_of(mesh, link)), kind="loss", share="100%", **at_of(at))
    return Planted({"link.lossy"}, either_host(mesh, link), also={"link.left_out", "link.one_way"} | UNANSWERED)


def lossy(rng, mesh, at):
    link = mesh.any_link()
    mesh.fault(on=rng.choice(ends_of(mesh, link)), kind="loss", share=f"{rng.randrange(70, 95)}%", **at_of(at))
    return Planted({"link.lossy"}, either_host(mesh, link), also={"link.left_out"} | UNANSWERED)


def corrupting(rng, mesh, at):
    link = mesh.any_link()
    mesh.fault(on=rng.choice(ends_of(mesh, link)), kind="corrupt", share=f"{rng.randrange(80, 100)}%", **at_of(at))
    return Planted({"link.corrupting"}, either_host(mesh, link), also={"link.left_out", "link.lossy"} | UNANSWERED)


def one_way(kind, code, low, high):
    """Only the frames of one end are lost, or damaged."""
    def plant(rng, mesh, at):
        link = mesh.any_link()
        end = rng.choice(ends_of(mesh, link))
        way = rng.choice(["->", "<-"])
        mesh.fault(on=end + way, kind=kind, share=f"{rng.randrange(low, high)}%", **at_of(at))
        place = either_host(mesh, link)
        if mesh.kind != "switch":
            hosts = {each.split(":")[0] for each in ends_of(mesh, link)}
            own = end.split(":")[0]
            place.sender = own if way == "->" else (hosts - {own}).pop()
        return Planted({code}, place, also={"link.left_out", "link.lossy"} | UNANSWERED)
    return plant


def cut_one_way(rng, mesh, at):
    """Ethernet takes the carrier of both directions away, or neither."""
    link = mesh.any_link()
    mesh.fault(on=rng.choice(ends_of(mesh, link)) + rng.choice(["->", "<-"]), kind="down", **at_of(at))
    return Planted({"link.down"}, cable_place(mesh, link))


def flapping(rng, mesh, at):
    link = mesh.any_link()
    gap = rng.randrange(20, 90)
    mesh.fault(on=rng.choice(ends_of(mesh, link)), kind="down", every=f"{gap + rng.randrange(1, 4)}ms", times=300,
               **{"for": f"{gap}ms"}, **at_of(at))
    # A job may be over before the cable is back once, or long before it is down.
    return Planted({"link.flapping", "link.down"}, cable_place(mesh, link))


def paused(rng, mesh, at):
    link = mesh.any_link()
    mesh.fault(on=rng.choice(ends_of(mesh, link)), kind="pause", **at_of(at))
    return Planted({"link.pause_storm"}, either_host(mesh, link), also={"link.left_out"} | UNANSWERED)


def mtu_mismatch(rng, mesh, _):
    link = mesh.any_link()
    end = rng.choice(ends_of(mesh, link))
    host = end.split(":")[0]
    other = [e for e in link["endpoints"] if e != end][0]
    mesh.mtu = 9000
    link["mtu"] = {end: 1500, other: 9000}
    place = cable_place(mesh, link)
    if mesh.kind == "switch":
        place = either_host(mesh, link)
    return Planted({"link.mtu_mismatch"}, place) if host else None


def mtu_lowered(rng, mesh, at):
    """One end gets a smaller MTU while the job is set up, or runs."""
    link = mesh.any_link()
    mesh.mtu = 9000
    mesh.fault(on=rng.choice(ends_of(mesh, link)), kind="mtu", mtu=1500, **at_of(at))
    return Planted({"link.mtu_mismatch"}, either_host(mesh, link), also={"link.left_out"})


def path_narrowed(rng, mesh, at):
    link = mesh.any_link()
    mesh.mtu = 9000
    mesh.fault(on=rng.choice(ends_of(mesh, link)), kind="path_limit", size=rng.choice([1500, 2000]), **at_of(at))
    # Once full frames have passed, nothing distinguishes one that is too long from one that is lost.
    return Planted({"link.black_hole"}, either_host(mesh, link), also={"link.left_out", "link.lossy", "link.one_way"})


def black_hole(rng, mesh, _):
    link = mesh.any_link()
    mesh.mtu = 9000
    link["path_limit"] = rng.choice([1500, 2000])
    return Planted({"link.black_hole"}, either_host(mesh, link))


def vlan_mismatch(rng, mesh, _):
    if mesh.kind == "switch":
        return None
    link = mesh.any_link()
    link["vlan"] = dict(zip(link["endpoints"], rng.sample(range(2, 4000), 2)))
    return Planted({"link.vlan_mismatch"}, cable_place(mesh, link), also={"link.left_out"})


def misnumbered(rng, mesh, _):
    """One end of a cable is in a network of its own."""
    mesh.numbered()
    link = mesh.any_link()
    end = rng.choice(ends_of(mesh, link))
    host, port = end.split(":")
    old = ipaddress.ip_interface(mesh.nodes[host]["addresses"][port][0])
    net = ipaddress.ip_network(mesh.subnet())
    mesh.nodes[host]["addresses"][port] = [f"{net[1]}/{old.network.prefixlen}"]
    place = either_host(mesh, link)
    if mesh.kind == "switch" and len(mesh.hosts) > 2:
        place = Place(end, host)  # of two hosts alone none is the wrong one
    return Planted({"route.no_facing_port", "addr.no_facing_port"}, place,
                   also={"addr.prefix_mismatch"} if mesh.addressing == "/31" else ())


def unnumbered(rng, mesh, _):
    mesh.numbered()
    link = mesh.any_link()
    end = rng.choice(ends_of(mesh, link))
    host, port = end.split(":")
    mesh.nodes[host]["addresses"][port] = []
    return Planted({"addr.missing"}, Place(end, peers={""} | set(mesh.hosts)))


def one_address(rng, mesh, _):
    """Both ends of a cable have one address; behind a switch, two of its hosts."""
    mesh.numbered()
    ends = rng.sample([end for link in mesh.links for end in ends_of(mesh, link)], 2) \
        if mesh.kind == "switch" else mesh.any_link()["endpoints"]
    (h0, p0), (h1, p1) = (end.split(":") for end in ends)
    mesh.nodes[h0]["addresses"][p0] = list(mesh.nodes[h1]["addresses"][p1])
    return Planted({"addr.duplicate"}, Place(*ends, peers={""} | set(mesh.hosts)))


def swapped(rng, mesh, _):
    """Two cables of one host in each other's ports."""
    if mesh.kind in ("pair", "switch", "twins"):
        return None
    mesh.numbered()
    of_host = {}
    for link in mesh.links:
        for i, end in enumerate(link["endpoints"]):
            of_host.setdefault(end.split(":")[0], []).append((link, i))
    host = rng.choice(sorted(host for host, ends in of_host.items() if len(ends) > 1))
    (one, i), (two, j) = rng.sample(of_host[host], 2)
    one["endpoints"][i], two["endpoints"][j] = two["endpoints"][j], one["endpoints"][i]
    ends = [*one["endpoints"], *two["endpoints"]]
    return Planted({"neigh.no_answer", "route.no_facing_port", "addr.no_facing_port"},
                   Place(*ends, peers={""} | set(mesh.hosts)), also={"link.left_out"})


def gid_deleted(rng, mesh, at):
    link = mesh.any_link()
    end = rng.choice(ends_of(mesh, link))
    mesh.fault(on=end, kind="gid_delete", address=address_of(mesh, end), **at_of(at))
    return Planted({"gid.missing"}, Place(end, peers={""} | set(mesh.hosts)))


def address_of(mesh, end):
    """The address that the simulator gives an end."""
    taken = {}
    for link in mesh.links:
        network = ipaddress.ip_network(link["subnet"])
        for each in link["endpoints"]:
            if each.split(":")[0] not in mesh.nodes:
                continue
            n = taken.get(link["subnet"], 0 if network.prefixlen in (31, 127) else 1)
            taken[link["subnet"]] = n + 1
            if each == end:
                return str(network[n])
    raise KeyError(end)


def address_gone(rng, mesh, at):
    link = mesh.any_link()
    end = rng.choice(ends_of(mesh, link))
    mesh.fault(on=end, kind="addr_del", address=address_of(mesh, end), **at_of(at))
    return Planted({"addr.missing"}, Place(end, peers={""} | set(mesh.hosts)), also={"gid.missing"})


def readdressed(rng, mesh, at):
    """A port gets another address of its network, or one of another network."""
    link = mesh.any_link()
    end = rng.choice(ends_of(mesh, link))
    network = ipaddress.ip_network(link["subnet"])
    is_elsewhere = network.prefixlen in (31, 127) or rng.random() < 0.5
    if is_elsewhere:
        network = ipaddress.ip_network(mesh.subnet())
    n = 1 if network.prefixlen in (31, 127) else rng.randrange(100, 200)
    mesh.fault(on=end, kind="addr_change", address=f"{network[n]}/{network.prefixlen}", **at_of(at))
    # A connection that uses the address loses its GID; one that is made later finds no port that faces it, and of
    # two ends that do not face each other none is the wrong one by itself.
    if is_elsewhere and mesh.kind != "switch":
        return Planted({"addr.changed", "route.no_facing_port", "addr.no_facing_port"}, cable_place(mesh, link),
                       also={"gid.missing", "addr.missing"})
    return Planted({"addr.changed"}, Place(end, peers={""} | set(mesh.hosts)),
                   also={"gid.missing", "addr.missing", "route.no_facing_port", "addr.no_facing_port"})


def prefix_mismatch(rng, mesh, _):
    """One end of a cable has so long a prefix that the other is not in its network."""
    if mesh.addressing != "/24" or mesh.kind == "switch" or mesh.policy not in ("weft", NCCL[0]):
        return None
    mesh.numbered()
    link = mesh.any_link()
    ends = ends_of(mesh, link)
    near, far = rng.sample(ends, 2)
    for end, last, length in ((near, rng.randrange(1, 3), 30), (far, rng.randrange(100, 250), 24)):
        host, port = end.split(":")
        network = ipaddress.ip_interface(mesh.nodes[host]["addresses"][port][0]).network
        mesh.nodes[host]["addresses"][port] = [f"{network[last]}/{length}"]
    return Planted({"addr.prefix_mismatch"}, Place(*ends, peers={""} | set(mesh.hosts)))


def device_gone(rng, mesh, at):
    link = mesh.any_link()
    end = rng.choice(ends_of(mesh, link))
    mesh.fault(on=end, kind="device_fatal", **at_of(at))
    return Planted({"device.failed"}, Place(end, end.split(":")[0]))


def killed(rng, mesh, at):
    host = rng.choice(mesh.hosts)
    mesh.fault(on=host, kind="kill", **at_of(at))
    return Planted({"peer.dead"}, Place(host))


def stopped(rng, mesh, at):
    host = rng.choice(mesh.hosts)
    mesh.fault(on=host, kind="stop", **at_of(at))
    return Planted({"peer.silent"}, Place(host))


def late(rng, mesh, _):
    host = rng.choice(mesh.hosts)
    mesh.nodes[host]["start"] = f"{rng.choice([1000, 2000])}s"
    return Planted({"peer.late"}, Place(host))


def memlock(rng, mesh, _):
    host = rng.choice(mesh.hosts)
    mesh.nodes[host]["memlock"] = "64KiB"
    return Planted({"host.memlock"}, Place(host))


def refused_verb(verb, errno, code):
    def plant(rng, mesh, at):
        end = rng.choice(ends_of(mesh, mesh.any_link()))
        mesh.fault(on=rng.choice([end, end.split(":")[0]]), kind="verb_error", verb=verb, errno=errno,
                   nth=rng.choice([1, 1, 2]), **at_of(at))
        # A rail that another one stands in for is left out, because of that.
        return Planted({code}, Place(end.split(":")[0], end), also={"link.left_out"})
    return plant


def no_descriptors(rng, mesh, at):
    host = rng.choice(mesh.hosts)
    mesh.fault(on=host, kind="call_error", call=rng.choice(["connect", "accept"]), errno=rng.choice([23, 24]),
               count=65536, **at_of(at))
    return Planted({"host.fd_limit"}, Place(host))


def firewall_roce(rng, mesh, _):
    if mesh.profile != "rxe":
        return None
    host = rng.choice(mesh.hosts)
    mesh.nodes[host]["firewall"] = {"input_drop": ["udp:4791"]}
    return Planted({"host.firewall_roce"}, Place(host, peers={""} | set(mesh.hosts)))


def firewall_tcp(rng, mesh, _):
    host = rng.choice(mesh.hosts)
    mesh.nodes[host]["firewall"] = {"input_drop": ["tcp:1024-65535"]}
    # With two hosts alone it is unknown which one drops what the other sends.
    return Planted({"conn.filtered"}, Place(host) if len(mesh.hosts) > 2 else Place(*mesh.hosts))


def arp_ignored(rng, mesh, _):
    if mesh.addressing == "ipv6":
        return None
    host = rng.choice(mesh.hosts)
    mesh.nodes[host]["sysctl"] = {"arp_ignore": 8}
    first = (getattr(mesh, "ranks", None) or list(mesh.nodes))[0]
    # A host that never answered may not have started yet, as long as the others wait for the rendezvous.
    return Planted({"neigh.arp_ignored"}, Place(host), boot_limit_s=PATIENCE_S if host == first else 0)


def no_route(rng, mesh, _):
    """Rank 0 is known by an address of one of its cables, which some host has no route to."""
    if mesh.kind in ("pair", "twins", "switch") or "management" in mesh.top:
        return None
    first = (getattr(mesh, "ranks", None) or list(mesh.nodes))[0]
    ends = [end for link in mesh.links for end in ends_of(mesh, link) if end.split(":")[0] == first]
    mesh.nodes[first]["known_as"] = address_of(mesh, rng.choice(ends))
    mesh.is_met = True
    return Planted({"conn.no_route"}, Place(*(host for host in mesh.hosts if host != first)))


def loopback(rng, mesh, _):
    if "management" in mesh.top:
        return None
    first = (getattr(mesh, "ranks", None) or list(mesh.nodes))[0]
    mesh.nodes[first]["known_as"] = "127.0.0.1"
    mesh.is_met = True
    return Planted({"conn.loopback"}, Place(*mesh.hosts))


def hca_list(rng, mesh, _):
    if mesh.policy == "weft" or mesh.kind not in ("pair", "switch"):
        return None
    host = rng.choice(mesh.hosts)
    spare = mesh.port(host).split(":")[1]
    mesh.nodes[host].setdefault("env", {})["NCCL_IB_HCA"] = f"={spare}"
    return Planted({"host.hca_list"}, Place(host))


def fixed_slot(rng, mesh, _):
    if mesh.policy == "weft" or mesh.addressing == "ipv6" or mesh.profile not in HARD_PROFILES:
        return None
    host = rng.choice(mesh.hosts)
    slot = rng.choice(["0", "2", "5"])
    mesh.nodes[host].setdefault("env", {})["NCCL_IB_GID_INDEX"] = slot
    # Neither of two versions is the wrong one by itself.
    place = Place(*mesh.hosts) if slot == "2" else Place(host)
    return Planted({{"0": "gid.link_local", "2": "gid.type_mismatch", "5": "gid.fixed_index"}[slot]}, place)


CAUSES = {
    "cut": (cut, ANY), "silent_one_way": (silent_one_way, ANY), "silent": (silent, ANY),
    "lossy": (lossy, ANY), "corrupting": (corrupting, ANY), "paused": (paused, ANY),
    "cut_one_way": (cut_one_way, ANY), "lossy_one_way": (one_way("loss", "link.one_way", 70, 95), ANY),
    "corrupting_one_way": (one_way("corrupt", "link.corrupting", 80, 100), ANY), "flapping": (flapping, ANY),
    "mtu_lowered": (mtu_lowered, ANY[1:]), "path_narrowed": (path_narrowed, ANY[1:]),
    "mtu_mismatch": (mtu_mismatch, EARLY), "black_hole": (black_hole, EARLY),
    "vlan_mismatch": (vlan_mismatch, EARLY), "misnumbered": (misnumbered, EARLY),
    "unnumbered": (unnumbered, EARLY), "one_address": (one_address, EARLY), "swapped": (swapped, EARLY),
    "prefix_mismatch": (prefix_mismatch, EARLY), "readdressed": (readdressed, ANY[1:]),
    "gid_deleted": (gid_deleted, ANY[1:]), "address_gone": (address_gone, ANY[1:]),
    "device_gone": (device_gone, ANY), "killed": (killed, ANY), "stopped": (stopped, ANY),
    "late": (late, EARLY), "memlock": (memlock, EARLY),
    "no_qp": (refused_verb("create_qp", 16, "device.qp_limit"), EARLY),
    "no_pd": (refused_verb("alloc_pd", 13, "host.permission"), EARLY),
    "no_mr": (refused_verb("reg_mr", 12, "host.kernel_memory"), EARLY),
    "no_cq": (refused_verb("create_cq", 22, "device.rejected"), EARLY),
    "verb_failed": (refused_verb("modify_qp", 5, "device.failed"), EARLY),
    "no_netdev": (refused_verb("modify_qp", 19, "gid.no_netdev"), EARLY),
    "no_descriptors": (no_descriptors, EARLY),
    "firewall_roce": (firewall_roce, EARLY), "firewall_tcp": (firewall_tcp, EARLY),
    "arp_ignored": (arp_ignored, EARLY), "no_route": (no_route, EARLY), "loopback": (loopback, EARLY),
    "hca_list": (hca_list, EARLY), "fixed_slot": (fixed_slot, EARLY),
}


class Setting:
    """What is drawn of one number: a healthy mesh, and how to break it, in one way or in two at once."""

    def __init__(self, seed, index, want=None):
        self.second = None
        if "case" in (want or {}):
            self.cause, self.kind, self.moment, self.policy, self.addressing, self.number, *second = want["case"]
            self.second = second[0] if second else None
            self.profile = "rxe" if "firewall_roce" in (self.cause, self.second) else None
            return
        want = want or {}
        is_two = want.get("two", False)
        rng = random.Random(f"{seed} matrix{' two' if is_two else ''} {index}")
        while True:
            self.cause = want.get("cause") or rng.choice(sorted(CAUSES))
            moments = CAUSES[self.cause][1]
            if is_two:
                self.second = rng.choice(sorted(CAUSES))
            self.moment = rng.choice(moments)
            if want.get("moment") in moments:
                self.moment = want["moment"]
            self.kind = want.get("mesh") or rng.choice(MESHES)
            self.policy = "weft"
            if self.kind in NCCL_MESHES and rng.random() < 0.4:
                self.policy = rng.choice(NCCL_MESHES[self.kind])
            if want.get("policy"):
                self.policy = want["policy"]
            if self.cause in ("hca_list", "fixed_slot") and self.kind in NCCL_MESHES:
                self.policy = NCCL_MESHES[self.kind][0]
            self.addressing = rng.choice(addressings(self.policy, self.kind))
            self.profile = "rxe" if "firewall_roce" in (self.cause, self.second) else None
            self.number = UNMANAGED + rng.randrange(2**32)
            if want.get("unmanaged") and not self.is_unmanaged():
                continue
            if self.break_at(0) is not None:
                return

    def case(self):
        """Return what makes this setting again, whatever is drawn of a seed."""
        return (self.cause, self.kind, self.moment, self.policy, self.addressing, self.number,
                *([self.second] if self.second else []))

    def is_unmanaged(self):
        """Return true if there is no management network, without which only policy weft can do."""
        return "management" in self.healthy().top

    def healthy(self):
        rng = random.Random(self.number)
        mesh = draw_mesh(rng, self.kind, self.policy, self.addressing, self.profile)
        if self.number >= REORDERED:
            reorder(random.Random(f"{self.number} order"), mesh)
        if self.number >= UNMANAGED and random.Random(f"{self.number} management").random() < 0.3:
            unmanage(mesh)
        if self.moment == "close":
            mesh.jobs = mesh.jobs[:1]
        return mesh

    def text(self, mesh):
        document = mesh.document("m")
        document["seed"] = self.number
        document["topology"]["defaults"]["rate"] = "100Gbps"
        if hasattr(mesh, "ranks"):
            document["ranks"] = mesh.ranks
        document["expect"] = {"result": "any"}
        return document

    def break_at(self, at_ns):
        """Return the broken mesh and all that is planted in it, or None where a cause does not fit."""
        mesh = self.healthy()
        rng = random.Random(f"{self.number} plant")
        at = None
        if self.moment == "between jobs":
            at = rng.choice(["row 2", "row 3"])
        elif self.moment != "before start":
            at = f"{at_ns}ns"
        planted = [CAUSES[self.cause][0](rng, mesh, at)]
        if self.second:
            # At the same moment, or before the start if it has no other.
            plant, moments = CAUSES[self.second]
            try:
                planted.append(plant(rng, mesh, at if self.moment in moments else None))
            except (KeyError, IndexError):
                return None  # the first one took the address that it needs
            if any(set(ends) - set(link["endpoints"]) for link in mesh.links
                   for ends in (link.get("mtu"), link.get("vlan")) if isinstance(ends, dict)):
                return None  # what one gave an end of a cable, the other took to another cable
        return None if None in planted else (mesh, planted)

    def find_moment(self, story):
        """Return when the moment is, by the story of the healthy run; None: it has none."""
        rng = random.Random(f"{self.number} moment")
        if self.moment in ("before start", "between jobs"):
            return 0
        times = {"boot": [], "jobs": [], "close": [], "conn": []}
        last = 0
        with open(story, encoding="utf-8") as lines:
            for line in lines:
                if " state from=" not in line and " conn:" not in line:
                    continue
                ns, _, rest = line.partition(" ")
                match = re.match(r"\S+ rank\d+ state from=(\w+) to=(\w+)", rest)
                last = int(ns)
                if match:
                    times.setdefault(match[2], []).append(last)
                elif self.moment in STATES and " conn:" in f" {rest}":
                    state = re.match(r"\S+ conn:\S+ (\w+) from=", rest)
                    if state and state[1] in STATES[self.moment]:
                        times["conn"].append(last)
        if self.moment == "rendezvous":
            return rng.randrange(min(times["boot"]), max(times["connect"]))
        if self.moment in STATES:
            return rng.choice(times["conn"]) + rng.randrange(0, 3000) if times["conn"] else None
        begin, end = max(times["jobs"]), min(times["close"])
        if self.moment == "first row":
            return begin + rng.randrange(max(1, (end - begin) // 50))
        if self.moment == "mid-row":
            return begin + int((end - begin) * rng.uniform(0.2, 0.7))
        assert self.moment == "close"
        return rng.randrange(end, last + 1)


# Seconds after which policy weft gives up what a cause keeps from it, by our own limits (src/rdma/timers.h,
# src/boot/boot.h, src/host): with most causes there is nothing to wait for.
# FIRST_LANE_S is what a flow takes (TIMER_FIRST_LANE_NS); docs/scenario.md promises 4 s of it to a cable that is away.
PATIENCE_S, STILL_S, FIRST_LANE_S = 900, 30, 5
# An address or a GID of a host that others reach over relays may be away for as long as any route of a mesh. Whether a
# cable still is, an attempt shows that begins after that: RTR_S, and before TCP is connected ADDRESS_S of a relay,
# which dials that cable, too (docs/wire.md, "Relays").
OUTAGE_S, ADDRESS_S = 5, 1.3
# Neighbours with data survive 1 s, in addition to 8 tries of 67 ms of their queue pairs (docs/scenario.md).
QUEUE_PAIR_S = 8 * 0.067
CABLE_S = 1 + QUEUE_PAIR_S
# A process that stops within a row is late like one that computes for long: its NIC and its kernel go on answering, and
# nothing but the row's own limit ends the wait (TIMER_ROW_NS; docs/scenario.md, "What a job survives").
ROW_S = 60
# What is posted counts as held after two beats of 0.6 s and 2.75 s. The flow then has 1.3 s to connect again, which are
# taken from LATE_AFTER_S: 0.7 s of that are left.
HELD_S = 2 * 0.6 + 2.75
# Time before the first failure of an attempt whose frames are lost: a second for RTR, and before TCP is connected SYNs
# at 0, 1 and 3 s.
RTR_S, SYNS_S = 1, 3
LIMITS_S = {"late": PATIENCE_S, "stopped": STILL_S, "firewall_tcp": STILL_S, "no_descriptors": STILL_S, "no_route": 1,
            "loopback": 1, "killed": 3, "paused": HELD_S}
# Causes by which frames vanish: what was never up waits for lost ones to be sent again.
VANISHING = {"silent_one_way", "silent", "lossy", "corrupting", "paused", "mtu_mismatch", "black_hole", "vlan_mismatch",
             "swapped", "firewall_roce", "arp_ignored", "lossy_one_way", "corrupting_one_way", "mtu_lowered",
             "path_narrowed"}
CUT = {"cut", "cut_one_way", "flapping"}
AT_RANDOM = {"lossy", "corrupting", "lossy_one_way", "corrupting_one_way"}
SET_UP = {"before start", "rendezvous", "hello", "facts", "rtr", "probe"}
# An address in a network without other hosts may be changed for the right one, as `readdressed` does in the set-up.
LACKING = {"gid_deleted", "address_gone", "unnumbered", "readdressed", "misnumbered",
           "prefix_mismatch"}
IN_ROWS = {"first row", "mid-row", "between jobs"}
DIRECT = {"pair", "twins", "switch"}
BEFORE_TCP = {"before start", "rendezvous", "hello"}


def limit_s(cause, moment, kind, is_unmanaged=False):
    """Return the own limit of a cause that comes at a moment, under policy weft."""
    if is_unmanaged and moment in SET_UP and cause in LACKING and kind in DIRECT:
        return ADDRESS_S  # for an address to listen on
    if cause == "stopped" and moment in ("before start", "rendezvous"):
        return PATIENCE_S  # it may as well be late
    if cause == "stopped" and moment in IN_ROWS:
        return ROW_S
    limit = LIMITS_S.get(cause, 0)
    if moment in SET_UP and cause in VANISHING | CUT:
        # A cable that is cut may be back.
        shown_s = RTR_S + (ADDRESS_S if moment in BEFORE_TCP else 0)
        limit = max(limit, FIRST_LANE_S if kind in DIRECT else OUTAGE_S + shown_s)
    if moment in IN_ROWS and cause in VANISHING | CUT:
        # In a mesh the outage counts from when the last lane failed, which a port that is held does after HELD_S.
        limit = max(limit, CABLE_S) if kind in DIRECT else max(limit, QUEUE_PAIR_S) + OUTAGE_S + RTR_S
    if moment in SET_UP and cause in LACKING and kind not in DIRECT:
        limit = max(limit, OUTAGE_S)
    if moment in SET_UP and cause in AT_RANDOM:
        limit += RTR_S + (SYNS_S if moment in BEFORE_TCP else 0)
    return limit


# Settings that were judged wrong once, or at which nothing was said, and what is right now.
ONCE_WRONG = {
    ("silent", "twins", "probe", "nccl-2.25", "/24", 3495144871): "right",
    ("cut", "triangle", "hello", "weft", "ipv6", 74528748): "right",
    ("arp_ignored", "star", "before start", "weft", "/24", 1052100869): "right",
    ("stopped", "line", "probe", "weft", "/31", 2624071077): "right",
    ("gid_deleted", "grid", "facts", "weft", "/31", 1298412561): "right",
    ("corrupting", "pair", "probe", "weft", "/24", 1918965542): "right",
    ("unnumbered", "ring", "before start", "nccl-2.30-subnet-aware", "/24", 2180291160): "right",
    # A port without an address has an IPv6 link-local GID, which shares no subnet with the peer's.
    ("unnumbered", "twins", "before start", "nccl-2.25", "ipv6", 9860574768): "right",
    ("silent_one_way", "pair", "facts", "weft", "/24", 702061553): "right",
    ("gid_deleted", "switch", "hello", "weft", "ipv6", 1410054229): "right",
    # So few frames were lost one way that they may have been under way.
    ("lossy", "twins", "probe", "nccl-2.30-subnet-aware", "/24", 2072575869): "undetermined",
    ("cut", "switch", "before start", "weft", "/31", 223537730): "right",
    ("misnumbered", "switch", "before start", "weft", "/24", 3881170277): "right",
    ("firewall_tcp", "two triangles", "before start", "weft", "/24", 3097611559): "right",
    # A port that is paused for good, of a host that others reach by no other way.
    ("paused", "star", "between jobs", "weft", "/31", 2913003831): "right",
    ("late", "line", "before start", "weft", "/24", 2221177726): "right",
    ("late", "star", "before start", "weft", "ipv6", 3828700563): "right",
    ("device_gone", "star", "rendezvous", "weft", "ipv6", 868401192): "right",
    ("device_gone", "triangle", "hello", "weft", "/24", 2519228572): "right",
    ("unnumbered", "twins", "before start", "weft", "/24", 681217426): "right",
    ("firewall_roce", "star", "before start", "weft", "ipv6", 1869545585): "right",
    # A relay waits for the next one, which waits for its own cable.
    ("lossy", "line", "facts", "weft", "/24", 5839541705): "right",
    ("silent_one_way", "pair", "probe", "weft", "/24", 5430229927): "right",
    # A host whose only cable is out has no cable to one that it reaches by relays.
    ("cut", "line", "before start", "weft", "/31", 8413960816): "right",
    # The program used a port that leads to a third host.
    ("misnumbered", "ring", "before start", "nccl-2.30-subnet-aware", "/24", 5017916444): "right",
    ("mtu_lowered", "triangle", "hello", "weft", "/31", 7196138069): "right",
    ("mtu_lowered", "ring", "first row", "weft", "/24", 5952714007): "right",
    # A host that cannot accept is not filtered by others, and not silent.
    ("no_descriptors", "star", "before start", "weft", "/31", 5428367133): "right",
    ("no_descriptors", "triangle", "before start", "mesh-plugin-2026-01", "/24", 7018567352): "right",
    ("no_descriptors", "two triangles", "before start", "weft", "/24", 7180120462): "right",
    # The listener of the other host that has the address refuses what belongs to its owner.
    ("one_address", "switch", "before start", "weft", "/31", 6998305067): "right",
    ("readdressed", "grid", "probe", "weft", "ipv6", 7598134626): "right",
    ("misnumbered", "switch", "before start", "mesh-plugin-2026-01", "/31", 8286552659): "right",
    # The program used another port, because the one that faces the peer had no carrier.
    ("cut", "ring", "before start", "nccl-2.30-subnet-aware", "ipv6", 7708393475): "right",
    # A relay's stream was at the address that went.
    ("address_gone", "star", "rtr", "weft", "/24", 5701842044): "right",
    # Behind a switch the carrier of one end is lost, and the finding was headed by the other.
    ("flapping", "switch", "mid-row", "mesh-plugin-2026-01", "/31", 5019126431): "right",
    # The stream was on the cable that failed, and the silence of the first set-up was reported instead.
    ("cut_one_way", "switch", "facts", "weft", "/24", 7714175975): "right",
    ("address_gone", "pair", "facts", "weft", "/31", 8451048746, "gid_deleted"): "right",
    ("readdressed", "star", "hello", "weft", "ipv6", 4503798686, "flapping"): "right",
    ("lossy", "pair", "facts", "weft", "/24", 7459156730, "no_qp"): "right",
    # A lane over relays was reported for its first silence, and not for the port that had no carrier.
    ("flapping", "grid", "facts", "weft", "/24", 4551631005): "right",
    ("cut_one_way", "torus", "hello", "weft", "/24", 6403458709): "right",
    # The program paired other ports, because a device was gone.
    ("device_gone", "twins", "rendezvous", "nccl-2.30-subnet-aware", "/31", 4702374736): "right",
    ("device_gone", "ring", "hello", "nccl-2.30-subnet-aware", "/24", 7135079720, "lossy_one_way"): "right",
    # The two ends of one cable are no wrong ports.
    ("misnumbered", "twins", "before start", "nccl-2.30-subnet-aware", "ipv6", 8482042206, "lossy_one_way"): "right",
    # A host that waits for one which starts later does not hang.
    ("no_pd", "switch", "before start", "weft", "/24", 6285278872, "late"): "right",
    # Frames of any size were lost, and not full ones alone.
    ("lossy_one_way", "ring", "rendezvous", "weft", "/24", 5101878937, "flapping"): "right",
    # Every host that waited for the one that stood still was called silent.
    ("stopped", "torus", "rtr", "weft", "/24", 7897437912, "firewall_tcp"): "right",
    # The other end of a cable that flaps behind a switch headed the finding.
    ("flapping", "switch", "first row", "weft", "/31", 7689501888): "right",
    # MTUs were compared of ports that share a subnet, although their cables lead to others.
    ("swapped", "triangle", "before start", "nccl-2.30-subnet-aware", "ipv6", 5576453723, "mtu_mismatch"): "right",
    # Of two ends behind a switch only one got another address.
    ("corrupting_one_way", "switch", "before start", "weft", "/31", 6684762036, "readdressed"): "right",
    # A device that fails refuses access to memory that it no longer has.
    ("device_gone", "pair", "first row", "mesh-plugin-2026-01", "/24", 5109129692): "right",
    # Nothing was said of a cable that flaps 300 times, because no host records so many events.
    ("flapping", "star", "rendezvous", "weft", "/31", 7585588110): "right",
    # The frames of one end of a stalled job were too large for the other.
    ("mtu_lowered", "ring", "mid-row", "mesh-plugin-2026-01", "/24", 4621254784): "right",
    # A cable without carrier has no address either.
    ("cut_one_way", "two triangles", "mid-row", "weft", "/31", 5466786498, "unnumbered"): "right",
    # The program took the MTU of another port, and what its peer sent was refused.
    ("mtu_mismatch", "triangle", "before start", "mesh-plugin-2026-01", "/24", 7558345975): "right",
    # Without a management network: streams between two VLANs, a host without an address to listen on, and a neighbour
    # that was heard, but could not be reached.
    ("vlan_mismatch", "pair", "before start", "weft", "/31", 12637047546): "right",
    ("vlan_mismatch", "star", "before start", "weft", "ipv6", 8767935189): "right",
    ("unnumbered", "switch", "before start", "weft", "/24", 12599001473): "right",
    ("firewall_tcp", "ring", "before start", "weft", "ipv6", 11611041620): "right",
    # A relay was not waited for, but named by the end that heard nothing.
    ("silent_one_way", "line", "hello", "weft", "/31", 10329794844): "undetermined",
    # The switch dropped what a paused port did not take.
    ("paused", "switch", "mid-row", "weft", "/31", 9111666754): "right",
    # Nothing passed at all, but only TCP was said to be dropped.
    ("silent", "switch", "hello", "weft", "ipv6", 8969063185): "undetermined",
    # What is lost one way keeps the other end from resolving its neighbour.
    ("no_descriptors", "two triangles", "before start", "weft", "/24", 12309481466, "silent_one_way"): "right",
    # Link-local GIDs are unique on the only cable; whether it has a VLAN is not observed.
    ("misnumbered", "pair", "before start", "mooncake-2026-06", "/24", 4820969774, "lossy_one_way"): "undetermined",
    # A cable that was left out had possible causes that the job excludes, or that pauses explain.
    ("flapping", "torus", "before start", "weft", "/24", 11223115029): "right",
    ("paused", "two triangles", "facts", "weft", "/24", 12102292542): "right",
    # A relay did not record the lost device with which its lane began.
    ("device_gone", "star", "hello", "weft", "/24", 10708960815): "right",
    # The end that keeps its address cannot connect, and the other one cannot start a connection from its own.
    ("readdressed", "grid", "hello", "weft", "/31", 12061982193): "right",
    ("readdressed", "pair", "hello", "weft", "ipv6", 12500452797): "right",
    # A call between ends of which one had lost its address was filtered.
    ("readdressed", "line", "probe", "weft", "/24", 9073451977): "right",
    ("address_gone", "line", "facts", "weft", "/31", 12851619770): "right",
    ("address_gone", "line", "rtr", "weft", "/31", 11148817316): "right",
    ("address_gone", "line", "hello", "weft", "/31", 11641179662): "right",
    # The GIDs of a cable that was left out were agreed on before the address of one end changed.
    ("readdressed", "ring", "facts", "weft", "/31", 12688255657): "right",
    # Hosts behind one that came too late were not heard of either.
    ("late", "line", "before start", "weft", "/31", 10258840767): "right",
    ("late", "two triangles", "before start", "weft", "/24", 11108295805): "right",
    # The path MTU was agreed on before the MTU of one end became too small for it.
    ("mtu_lowered", "switch", "rtr", "nccl-2.25", "ipv6", 11527956093): "right",
    # The end without GIDs of its address took a link-local one of RoCE v1.
    ("gid_deleted", "twins", "rendezvous", "nccl-2.29-port-recovery", "ipv6", 8801864246): "right",
    # Of two neighbours that did not hear each other one had missed others before, and was called unresponsive.
    ("paused", "star", "before start", "weft", "/24", 11037618480): "right",
    ("silent", "star", "before start", "weft", "/31", 9057556945): "undetermined",
    # A cable that was left out has no carrier any more.
    ("cut", "torus", "rendezvous", "weft", "/24", 11690278109): "right",
    # The rendezvous over a cable that passes small frames only did not end, and other hosts waited for those behind it.
    ("black_hole", "star", "before start", "weft", "/24", 9003692970): "right",
    ("black_hole", "line", "before start", "weft", "/24", 9147933455): "right",
    ("black_hole", "switch", "before start", "weft", "/24", 8748873502): "right",
    ("black_hole", "switch", "before start", "weft", "/31", 12112064823): "right",
    ("path_narrowed", "switch", "rendezvous", "weft", "/24", 8827800797): "right",
    ("path_narrowed", "line", "rendezvous", "weft", "/24", 10360713660): "right",
    # A host with one port behind a switch, which has no carrier.
    ("cut", "switch", "before start", "weft", "/31", 11740683607): "right",
    # Neither end of a cable reached the other one, which no firewall explains.
    ("silent_one_way", "two triangles", "rendezvous", "weft", "/24", 9322852291): "undetermined",
    ("corrupting_one_way", "grid", "hello", "weft", "/31", 10904829058): "undetermined",
    # Lost probes were a black hole beside the loss that explains them.
    ("lossy_one_way", "grid", "before start", "weft", "/24", 9176734909): "right",
    # The peer was in the rendezvous, and its only neighbour was not among those it waited for.
    ("corrupting_one_way", "star", "before start", "weft", "ipv6", 10691900153): "undetermined",
    # The handle had the address that another one replaced before the first stream.
    ("readdressed", "pair", "hello", "weft", "ipv6", 11513539666): "right",
    # Only TCP was said to be dropped, beside the loss of the only cable.
    ("lossy_one_way", "star", "rendezvous", "weft", "/24", 9854726638): "right",
    # The only port of the peer found no neighbour at all, and only TCP was said to be dropped.
    ("lossy", "switch", "rendezvous", "weft", "/24", 10583771971): "undetermined",
    # No RoCE packet was sent, and nothing counts what else a cable loses or damages.
    ("corrupting_one_way", "pair", "hello", "weft", "/24", 10387201744): "undetermined",
    # The waits of the two ends of a cable were not asked, but those of a third host.
    ("vlan_mismatch", "star", "before start", "weft", "/24", 9464338556): "right",
    ("vlan_mismatch", "star", "before start", "weft", "/31", 12031702312): "right",
    # A probe failed before the pause had lasted for a second, and the switch dropped what the port did not take.
    ("paused", "switch", "probe", "nccl-2.25", "ipv6", 10864290386): "right",
    # Of what was lost behind a switch, only the frames that came out of sequence were counted.
    ("lossy_one_way", "switch", "hello", "weft", "/24", 12453831392): "right",
    # A third host, which had not reached the peer either, was proof that the peer filters nothing.
    ("cut_one_way", "triangle", "probe", "weft", "/31", 10439078018, "firewall_tcp"): "right",
    # Two peers of the port that damages received errors, and all their cables were named.
    ("corrupting_one_way", "switch", "between jobs", "nccl-2.29-port-recovery", "/24", 11175138849): "right",
    # Once a third port had lost its address, two ports of a switch were taken for the ends of one cable.
    ("address_gone", "switch", "first row", "nccl-2.25", "/31", 11372822327): "right",
    # Of two streams one fell silent, and the other was said to be filtered: a port of the switch had sent to others.
    ("lossy_one_way", "switch", "rendezvous", "weft", "/24", 10774496100): "undetermined",
    # Frames that are no packets of RoCE are not counted.
    ("corrupting", "triangle", "hello", "weft", "/24", 10776592574): "undetermined",
}

# Settings of which something was said too late once.
ONCE_LATE = [
    ("memlock", "torus", "before start", "weft", "/24", 3740429135),
    # A relay was refused its buffers, each time after the lane had come up.
    ("memlock", "star", "before start", "weft", "/31", 7477564095),
    ("unnumbered", "line", "before start", "weft", "/24", 1338693021),
    ("unnumbered", "switch", "before start", "weft", "/24", 1084341142),
    ("gid_deleted", "line", "probe", "weft", "/24", 3394534277),
    ("cut", "pair", "before start", "weft", "/24", 636976879),
    ("paused", "star", "mid-row", "weft", "/24", 1165605699),
    ("paused", "star", "between jobs", "weft", "/31", 2913003831),
    # Relays tried again for 18.5 s, which only the recovery of a job that had data takes.
    ("swapped", "grid", "before start", "weft", "/31", 8539874528),
    ("swapped", "ring", "before start", "weft", "ipv6", 8457459089),
    ("firewall_roce", "triangle", "before start", "weft", "ipv6", 7484950925),
    ("firewall_roce", "grid", "before start", "weft", "/24", 6789672518),
    # A cable whose neighbour did not answer for 3 s was silent for no longer than its queue pairs, 1 s.
    ("swapped", "star", "before start", "weft", "/24", 8082663653),
    ("silent", "switch", "rendezvous", "weft", "/24", 6900590185),
    # No member learned that a process had ended before it came to the rendezvous.
    ("device_gone", "two triangles", "before start", "weft", "ipv6", 5001319398),
    ("prefix_mismatch", "star", "before start", "weft", "/24", 7249256196),
    # One of two lanes always waited for queue pairs.
    ("swapped", "triangle", "before start", "weft", "/24", 5052466081),
    ("swapped", "ring", "before start", "weft", "/31", 4696958094),
    # The address of the stream was gone, and the peer was waited for until it counted as silent.
    ("address_gone", "pair", "facts", "weft", "/31", 6225751571),
    # Behind a relay, which had waited for the process for 30 s, receivers waited for 18.5 s more.
    ("stopped", "line", "rtr", "weft", "ipv6", 5786459696),
    ("stopped", "two triangles", "probe", "weft", "/24", 5516174209),
    # The outage began with the silence, and not with the end of the first set-up.
    ("cut_one_way", "switch", "facts", "weft", "/24", 7714175975),
    # What arrived before a lost device flushed was forgotten, and requested again in vain until the row's limit.
    ("device_gone", "two triangles", "mid-row", "weft", "/31", 7701833557),
    # A mesh with data tried again for 18.5 s, although it has to survive 5 s.
    ("paused", "line", "between jobs", "weft", "/24", 4528062502),
    ("mtu_lowered", "line", "between jobs", "weft", "/31", 5089124269),
    # The lost device of a relay was waited for like a port without carrier.
    ("device_gone", "line", "hello", "weft", "/24", 8390243694),
    ("device_gone", "line", "rtr", "weft", "ipv6", 5848674127),
    ("device_gone", "line", "mid-row", "weft", "ipv6", 5848674127),
    # The outage began with the first frame that was not answered, and not when the first attempt failed.
    ("arp_ignored", "line", "before start", "weft", "/24", 6989408957),
    ("silent_one_way", "star", "hello", "weft", "/31", 7742535040),
    # A relay at the barrier waited for rank 0, which was the one that stood still, for a minute after the others.
    ("stopped", "triangle", "mid-row", "weft", "/24", 7313229512),
    ("stopped", "triangle", "rtr", "weft", "/31", 5253643217),
    # Of a host with two cables, the outage of one counted from the end of the first attempt.
    ("swapped", "triangle", "before start", "weft", "/31", 10644283972),
    ("swapped", "grid", "before start", "weft", "/31", 10330307067),
    # Without a management network a peer was dialed for 900 s, as if it might be late, though its handle had arrived.
    ("vlan_mismatch", "pair", "before start", "weft", "/31", 12637047546),
    # A relay that was stopped after the ranks needed it was waited for until it counted as hung.
    ("stopped", "triangle", "between jobs", "weft", "ipv6", 8884628666),
    # Ranks that were done waited for a relay as if it had a row of its own to end.
    ("stopped", "triangle", "first row", "weft", "/24", 8589934623),
    ("stopped", "star", "first row", "weft", "/24", 8589934636),
    # Nothing woke a flow whose time was over while the stream of an attempt was silent.
    ("lossy_one_way", "pair", "probe", "weft", "/31", 11562103950),
    ("lossy_one_way", "switch", "facts", "weft", "/24", 11290011718),
    ("lossy_one_way", "pair", "rtr", "weft", "/31", 11291347442),
]
