"""Causes that lie in hosts, processes and devices, for ci/finding_causes.py."""

import ipaddress

from finding_meshes import HARD_PROFILES, NCCL, Mesh, one_cable

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


def host_management_down(rng):
    """A host loses the management network for good, while its cables are in order."""
    mesh = Mesh(rng).shape().long()
    mesh.fault(at=rng.choice(["0s", mesh.when()]), on=f"{rng.choice(mesh.hosts)}:management", kind="down")
    return mesh, {"host.management_down"}


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


def device_survived(rng):
    """A device of two says that it is gone, and the other carries all."""
    mesh = Mesh(rng, "weft").shape("double").long()
    mesh.fault(at=mesh.when(), on=rng.choice(mesh.links[0]["endpoints"]), kind="device_fatal")
    return mesh, {"device.failed"}


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
    # A message of 4096 bytes over two queue pairs, after a probe of four.
    job, packets = rng.choice([("all_reduce", 128), ("all_gather", 64), ("all_to_all", 64)])
    mesh.jobs = [mesh.job("1MiB", job)]
    mesh.fault(on=rng.choice(mesh.links[0]["endpoints"]) + "->", kind="corrupt", icrc="good",
               match={"qp": rng.choice([1, 2]), "psn": 4 + 2 * packets + rng.randrange(packets)})
    return mesh, {"data.wrong"}


# ---- what programs make of it ----


def conn_qpn_truncated(rng):
    """One host's devices, or both hosts', count their queue pairs beyond 16 bits."""
    mesh = one_cable(rng, "mesh-plugin-2026-01")
    for host in rng.sample(mesh.hosts, rng.choice([1, 2])):
        mesh.nodes[host]["profile_override"] = {"first_qpn": str(rng.randrange(65536, 2**23, 8))}
    return mesh, {"conn.qpn_truncated"}


def peer_receiver_late(rng):
    """Receive requests of one host are late, and the other asks for three retries."""
    mesh = one_cable(rng, "mesh-plugin-2026-01")
    mesh.jobs = [mesh.job(rng.choice(["64KiB", "1MiB"]), "all_reduce")]
    for host in mesh.hosts:
        mesh.nodes[host]["env"] = {"NCCL_MESH_FAST_FAIL": "1"}
    mesh.fault(on=rng.choice(mesh.hosts), kind="verb_slow", verb="post_recv",
               by=f"{rng.randrange(20, 200)}ms")
    return mesh, {"peer.receiver_late"}


def host_hca_list(rng):
    """NCCL_IB_HCA is right for one of two hosts whose cable is in different ports."""
    mesh = Mesh(rng, rng.choice(NCCL), profile=rng.choice(HARD_PROFILES))
    mesh.host(2)
    ends = {}
    first = rng.choice(mesh.hosts)
    for host in mesh.hosts:
        ports = [mesh.port(host), mesh.port(host)]
        ends[host] = ports[host != first]
    mesh.cable(*(ends[host] for host in mesh.hosts))
    for host in mesh.hosts:
        mesh.nodes[host]["env"] = {"NCCL_IB_HCA": "=" + ends[first].split(":")[1]}
    return mesh, {"host.hca_list"}


def host_bond_peers(rng):
    """One host has a bond over two cables that lead to the two others."""
    mesh = Mesh(rng, rng.choice(["weft", *NCCL]), profile=rng.choice(HARD_PROFILES))
    mesh.host(3)
    bonded = rng.choice(mesh.hosts)
    others = [host for host in mesh.hosts if host != bonded]
    ends = [[mesh.port(bonded), mesh.port(other)] for other in rng.sample(others, 2)]
    network = ipaddress.ip_network(mesh.subnet(24))
    first, second, third = rng.sample(range(1, 250), 3)
    for pair, n in zip(ends, (second, third)):
        mesh.cable(*rng.sample(pair, 2), none=True)
        host, port = pair[1].split(":")
        mesh.nodes[host]["addresses"] = {port: [f"{network[n]}/24"]}
    ports = [pair[0].split(":")[1] for pair in ends]
    mesh.nodes[bonded]["bonds"] = {"bond0": {"ports": rng.sample(ports, 2), "addresses": [f"{network[first]}/24"]}}
    if rng.random() < 0.5:
        mesh.cable(*others)
    return mesh, {"host.bond_peers"}


def conn_no_route(rng):
    """The first rank is known by an address of a cable that not all hosts are on."""
    mesh = Mesh(rng, rng.choice(["weft", *NCCL])).shape(rng.choice(["line", "ring", "triangle"]))
    link = rng.choice([link for link in mesh.links
                       if any(end.startswith(f"{mesh.hosts[0]}:") for end in link["endpoints"])])
    which = [end.split(":")[0] for end in link["endpoints"]].index(mesh.hosts[0])
    mesh.nodes[mesh.hosts[0]]["known_as"] = mesh.addresses(link)[which]
    mesh.is_met = True
    return mesh, {"conn.no_route"}


def conn_foreign_address(rng):
    """The first host of the list is called by an address that another host has, or none."""
    mesh = Mesh(rng, rng.choice(["weft", *NCCL])).shape()
    theirs = [mesh.addresses(link)[i] for link in mesh.links for i, end in enumerate(link["endpoints"])
              if not end.startswith(f"{mesh.hosts[0]}:")]
    mesh.nodes[mesh.hosts[0]]["known_as"] = rng.choice([*theirs[:1], "10.0.0.77", "192.0.2.1"])
    mesh.is_met = True
    return mesh, {"conn.foreign_address"}


def conn_loopback(rng):
    """The first host of the list is called by a loopback address."""
    mesh = Mesh(rng, rng.choice(["weft", *NCCL])).shape()
    mesh.nodes[mesh.hosts[0]]["known_as"] = rng.choice(["127.0.0.1", "127.0.1.1"])
    return mesh, {"conn.loopback"}
