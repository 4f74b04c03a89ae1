"""Random settings for every cause that `weft diagnose` must be able to name.

A cause is a function that draws a mesh, breaks it in one way, and says which codes are the right
answer. What is drawn around the fault (shape, names, subnets, MTUs, profiles, policies, job, sizes,
times) is noise that the answer may not depend on. Used by ci/findings.
"""

import finding_causes_hosts
import finding_causes_links
import finding_causes_paths
from finding_meshes import Mesh, one_cable

AREAS = ("route", "mesh", "addr", "gid", "link", "neigh", "host", "conn", "peer", "device", "data")
CAUSES = {name: function
          for module in (finding_causes_paths, finding_causes_links, finding_causes_hosts)
          for name, function in vars(module).items()
          if callable(function) and function.__module__ == module.__name__
          and "_" in name and name.split("_")[0] in AREAS}


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


ROWS = {**dict(sorted(CAUSES.items())), "two_faults": two_faults, "no_fault": no_fault}
