/* Catalogue entries about ports, cables, addresses and GIDs. */
#include "diag/catalogue_entries.h"

#include "base/check.h"

static const struct diag_entry entries[] = {
    {
        .id = DIAG_ROUTE_LISTENER_BLIND,
        .code = "route.listener_blind",
        .example = "scenarios/field/s02-uncrossed-triangle.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_PORTS,
        .cause =
            "the listener sent the GIDs of one port only, and it is not the one that "
            "faces this connector",
        .remedy =
            "recable so that every cable joins a first port and a second one "
            "(uncrossed cables cannot work in an odd cycle), or use policy weft, which "
            "sends those of every port",
        .reference =
            "NCCL 2.30.7 net_ib/connect.cc: two GIDs of the chosen device in the handle",
        .decide = "weft show FILE --policy nccl-2.30-subnet-aware",
        .explanation =
            "Subnet-aware routing of NCCL 2.30 lets the connector move to a NIC that "
            "shares a subnet with the listener's, but the handle carries the GIDs of "
            "the one device that the listener chose. When that device faces another "
            "host, the connector finds no match and keeps its first choice, and modify "
            "to RTR ends with errno 110. In an odd cycle with cables from first port "
            "to first port no setting helps; crossing the cables (p0 to p1 everywhere) "
            "does, because index 0 is then always a valid sender.\n\n"
            "The policy distinguishes it from a wrong NIC. In a prefix collision, the "
            "two addresses are in one /24; here they are not.",
    },
    {
        .id = DIAG_ROUTE_PREFIX_COLLISION,
        .code = "route.prefix_collision",
        .example = "scenarios/field/s03-prefix-collision.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_PORTS,
        .cause =
            "several cables have subnets inside one /24, by which the program compares "
            "them: every NIC matches and the first one wins",
        .remedy =
            "give each cable a /24 of its own, or set NCCL_IB_SUBNET_PREFIX_LEN to the "
            "interfaces' prefix length",
        .reference = "NCCL_IB_SUBNET_PREFIX_LEN, default 24 (net_ib/connect.cc)",
        .decide = "ip -br address",
        .explanation =
            "Links numbered as 10.0.0.0/30, 10.0.0.4/30 and 10.0.0.8/30 are apart for "
            "the kernel, and one subnet for a program that compares at a global /24. "
            "The NIC that it takes then does not face the address, the kernel asks for "
            "the neighbour on the wrong cable, and modify to RTR ends with errno 110.",
    },
    {
        .id = DIAG_ROUTE_CROSSED_PLANES,
        .code = "route.crossed_planes",
        .example = "scenarios/field/s11-plane-order.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_PORTS,
        .cause = "both ports face this very peer, but not each other: the two ends chose "
                 "different cables",
        .remedy = "order the NICs alike on both hosts (NCCL_IB_HCA with =, or the same "
                  "slots), or cable first to first and second to second",
        .reference = "nccl#2244, exo#2160",
        .decide = "ibv_devinfo -v | grep GID, on both ends, side by side",
        .explanation =
            "Two hosts with two cables are two planes. Programs that pair NICs by "
            "index meet on different planes when the order of NICs, or the cabling, "
            "differs: packets arrive at a port whose GID table does not have their "
            "destination. Modify to RTR ends with errno 110, or queue pairs reach RTS "
            "and their packets are lost (status 12). Every cable works; only the order "
            "is wrong.",
    },
    {
        .id = DIAG_ROUTE_MERGED_NIC,
        .code = "route.merged_nic",
        .example = "scenarios/field/s09-merged-nic.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_PORTS,
        .cause = "ports of one NIC were merged into one device, but their cables lead to "
                 "different peers",
        .remedy =
            "do not merge them: NCCL_IB_MERGE_NICS=0 (or NCCL_NET_MERGE_LEVEL=LOC), "
            "then choose by subnet",
        .reference = "NCCL_NET_MERGE_LEVEL=PORT, default since 2.24",
        .decide = "lspci; ibv_devinfo -v",
        .explanation =
            "Since 2.24 NCCL makes one virtual device of the ports of one NIC and "
            "stripes over them. On a direct-connect mesh the two ports of a card often "
            "go to two hosts. Half of the queue pairs then point down the wrong cable: "
            "errno 110 at modify to RTR, or completion status 12.",
    },
    {
        .id = DIAG_ROUTE_LINK_LOCAL,
        .code = "route.link_local",
        .example = "scenarios/field/s05-link-local-both.yaml",
        .severity = DIAG_ERROR,
        .cause =
            "both ends use addresses of 169.254.0.0/16, which more than one port of a "
            "host has",
        .remedy = "number the cables with subnets of their own; link-local addresses are "
                  "ambiguous as soon as a host has two",
        .reference = "RFC 3927, section 3: multiple interfaces",
        .decide = "ip -4 -br address",
        .explanation =
            "Self-assigned addresses are in one subnet on every cable. The kernel "
            "routes all of 169.254.0.0/16 out of the first interface, and a program "
            "that compares subnets finds that every NIC matches. Neighbours are asked "
            "for on the wrong cable (errno 110) or answer for another port, whose GID "
            "table does not have the destination (status 12).",
    },
    {
        .id = DIAG_MESH_NO_CABLE,
        .code = "mesh.no_cable",
        .example = "scenarios/field/s15-ring-of-4-tree.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_PORTS,
        .cause =
            "the two hosts have no cable to each other: every port of theirs leads to "
            "another host",
        .remedy =
            "relay (policy weft does), cable them, or keep collectives to neighbours "
            "(NCCL_ALGO=Ring)",
        .reference = "docs/mesh.md",
        .decide = "weft show FILE; lldpctl",
        .explanation =
            "In a partial mesh not every pair has a cable. Programs that connect every "
            "pair, or trees over the ranks, try it anyway: in a ring of four the rings "
            "connect, and ncclTransportTreeConnect fails. All ports of both hosts are "
            "known here, each has an address, and each faces a third host. Where they "
            "are meant to reach each other by IP over a third, a route is missing at "
            "the end that fails (ip route get ADDRESS).",
    },
    {
        .id = DIAG_ADDR_MISSING,
        .code = "addr.missing",
        .example = "scenarios/field/s38-address-lost.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_END,
        .cause = "a port has carrier, but no address, so that it has no GID that a peer "
                 "could reach",
        .remedy = "give it its address again and make it survive reboots (netplan apply; "
                  "nmcli connections in /run do not)",
        .reference = "netplan(5); nm-settings(5)",
        .decide = "ip -br address show dev IF",
        .explanation =
            "GIDs follow addresses. A port that lost its address at a reboot is up, its "
            "cable is good, and its GID table has the default link-local entries only. "
            "Programs then use one of them: modify to RTR ends with errno 22 against an "
            "IPv4 GID, with 101 or 110 otherwise. Policy weft finds no port that faces "
            "the peer.",
    },
    {
        .id = DIAG_ADDR_PREFIX_MISMATCH,
        .code = "addr.prefix_mismatch",
        .severity = DIAG_ERROR,
        .cause =
            "one end of the cable finds the other in its subnet, the other does not: "
            "their prefix lengths differ",
        .remedy = "set the same prefix length on both ends",
        .reference = "ip-address(8)",
        .decide = "ip -br address, both ends side by side",
        .explanation =
            "10.0.0.1/24 and 10.0.0.129/30 are on one cable: the first reaches the "
            "second, but the second has no route back (errno 101), or one through a "
            "gateway. One direction of a handshake works, which looks like a firewall.",
    },
    {
        .id = DIAG_ADDR_DUPLICATE,
        .code = "addr.duplicate",
        .severity = DIAG_ERROR,
        .cause = "two ports have the same address",
        .remedy = "give one of them another address",
        .reference = "RFC 5227: IPv4 address conflict detection",
        .decide = "arping -D -I IF ADDRESS",
        .explanation =
            "Two hosts that were installed from one image, or a typing error: the "
            "neighbour table has the host that answered last, and a host drops packets "
            "from its own address as forged. Queue pairs may reach RTS; their packets "
            "are dropped at the other end, whose own address is their source.",
    },
    {
        .id = DIAG_ADDR_CHANGED,
        .code = "addr.changed",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_END,
        .cause = "a port's address was replaced while connections used it: its GID was "
                 "removed, and another has its slot",
        .remedy = "keep addresses as long as jobs run; pin them (no DHCP on RDMA ports)",
        .reference = "roce_gid_mgmt.c in the kernel: inetaddr_event",
        .decide = "ip monitor address; dmesg",
        .explanation =
            "A lease that ran out or a netplan apply replaces the address, and with it "
            "the GID. Devices that look their GID table up for every packet "
            "(soft-RoCE) drop what is addressed to the old one: retries run out "
            "(status 12), or continue indefinitely. The new address in the peer's "
            "subnet distinguishes it from a deleted GID.",
    },
    {
        .id = DIAG_GID_FIXED_INDEX,
        .code = "gid.fixed_index",
        .example = "scenarios/field/s23-shared-index.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_END,
        .cause =
            "NCCL_IB_GID_INDEX names a slot (fixed_index) that is empty or holds another "
            "address (fixed_slot) than this port's in the peer's family",
        .remedy =
            "leave NCCL_IB_GID_INDEX unset, or set it on each host to a slot that has "
            "the port's address there (ibv_devinfo -v)",
        .reference = "nccl#769, nccl#890",
        .decide = "ibv_devinfo -v | grep GID; env | grep GID_INDEX",
        .explanation =
            "The same index holds different GIDs on different hosts: tables fill in "
            "the order in which addresses are added, and have empty slots where "
            "addresses were removed. One rank then fails with errno 22, 61 or 110, the "
            "others report that it exited. A variable that is set for all hosts alike "
            "hides it until the third host joins.\n\n"
            "A slot may also hold the GID of a container's interface, whose address "
            "the kernel does not send from (errno 101), or an IPv6 address of the port "
            "where the peer uses IPv4 (errno 22).",
    },
    {
        .id = DIAG_GID_LINK_LOCAL,
        .code = "gid.link_local",
        .example = "scenarios/field/s25-index-zero.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_END,
        .cause =
            "the GID in use is a link-local default (fe80::), although its port has an "
            "address",
        .remedy =
            "unset NCCL_IB_GID_INDEX (0, and what is no number, mean slot 0), "
            "NCCL_IB_ADDR_FAMILY and NCCL_IB_ADDR_RANGE, or give them what the address "
            "is of: a RoCE v2 GID of it is taken then; with Mooncake name its slot in "
            "MC_GID_INDEX",
        .reference = "NCCL net_ib: ncclIbGetGidIndex, ncclUpdateGidIndex",
        .decide = "ibv_devinfo -v | grep GID; env | grep -e GID_INDEX -e IB_ADDR",
        .explanation =
            "Slot 0 of a RoCE port is the link-local GID made of its MAC. Against an "
            "IPv4 GID modify to RTR ends with errno 22 (two address families). Against "
            "another link-local one it works on a single cable only; in a mesh fe80:: "
            "does not identify a cable.",
    },
    {
        .id = DIAG_GID_NO_IPV4,
        .code = "gid.no_ipv4",
        .example = "scenarios/field/s27-only-ipv6.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_END,
        .cause =
            "the port has IPv6 addresses only, and the program looks for IPv4 GIDs: it "
            "took the link-local one",
        .remedy = "set NCCL_IB_ADDR_FAMILY=AF_INET6, or give the port an IPv4 address",
        .reference = "NCCL_IB_ADDR_FAMILY, default AF_INET",
        .decide = "ibv_devinfo -v | grep GID",
        .explanation =
            "NCCL's scan for a GID asks for the family AF_INET. On a port that has "
            "unique local or global IPv6 addresses only, nothing replaces slot 0, the "
            "link-local GID of version 1, and the first operation ends with status 12 "
            "or errno 22 or 110.",
    },
    {
        .id = DIAG_GID_NO_NETDEV,
        .code = "gid.no_netdev",
        .example = "scenarios/field/s30-macvlan.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_HOST,
        .cause = "the GID's network interface does not exist for this process (errno 19)",
        .remedy = "use the interface of the process's own namespace: with macvlan or "
                  "containers, the RDMA device must be in the same one",
        .reference = "nccl#925; rdma-system(8)",
        .decide = "rdma link; ip -br link",
        .explanation =
            "Modify to RTR looks for the interface behind the GID. In a container or "
            "network namespace that has the RDMA device but not its interface, or on a "
            "macvlan, there is none: ENODEV. The GID's text is right, so that nothing "
            "in the configuration looks wrong.",
    },
};

const struct diag_entries diag_entries_paths = {entries, WEFT_LENGTH(entries)};
