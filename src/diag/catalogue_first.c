/* The first entries of the catalogue, in the order of enum diag_code: routes, links, GIDs, peers,
 * connections, hosts, data and the order of ranks. */
#include "diag/catalogue_entries.h"

#include "base/check.h"

static const struct diag_entry entries[] = {
    {
        .id = DIAG_ROUTE_WRONG_NIC,
        .decide = "weft show FILE --policy P",
        .code = "route.wrong_nic",
        .example = "scenarios/field/s01-triangle-stock.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_PORTS,
        .cause = "the queue pair leaves by a port that does not face the peer's address, "
                 "although other ports of these two hosts do face each other",
        .remedy =
            "choose the port by the subnet it shares with the peer: policy weft, or "
            "NCCL 2.30 with NCCL_IB_SUBNET_AWARE_ROUTING=1 and NCCL_IB_MERGE_NICS=0",
        .reference = "NCCL net_ib (connect.cc); ibv_modify_qp(3)",
        .explanation =
            "In a mesh without a switch every cable is its own subnet. Software that "
            "pairs NICs by index, or lets the listener pick one address for all peers, "
            "sends to an address that lies behind another cable. The kernel then "
            "resolves the neighbour on the wrong cable: modify to RTR ends with errno "
            "110 (no answer), 113 or 101 (no route), or, where the address was "
            "resolved anyway, the first packets are lost and the queue pair ends with "
            "completion status 12.\n\n"
            "The addresses distinguish it from a broken cable: the remote GID is "
            "outside the subnet of the local port that was used, and another pair of "
            "ports of the same two hosts shares a subnet.",
    },
    {
        .id = DIAG_ROUTE_NO_FACING_PORT,
        .decide = "ip -br address, on both ends",
        .code = "route.no_facing_port",
        .severity = DIAG_ERROR,
        .cause = "no port of this host shares a subnet with any port of the peer",
        .remedy = "cable the two hosts, or give the two ends of their cable addresses in "
                  "one subnet; without a cable they need a relay",
        .reference = "docs/dgx-spark.md",
        .explanation =
            "RDMA over a cable needs both ends in one subnet, at the prefix length of "
            "the "
            "interfaces themselves. Here all addresses of both hosts are known and no "
            "two "
            "of them match: the hosts have no cable, or its ends are numbered apart, or "
            "an "
            "address was lost (an nmcli profile that did not survive a reboot).",
    },
    {
        .id = DIAG_ROUTE_GID_COLLISION,
        .decide = "ip -4 route; sysctl -a | grep arp_",
        .code = "route.gid_collision",
        .example = "scenarios/field/s04-twins-same-subnet.yaml",
        .severity = DIAG_ERROR,
        .cause =
            "the peer's address is inside the subnet of more than one local port, so "
            "the kernel's choice of cable is not the one that was meant",
        .remedy = "give every cable a subnet of its own; a /30 or /31 each is enough",
        .reference = "ip-route(8); arp_announce and arp_filter in ip-sysctl",
        .explanation =
            "Two ports of a host with addresses in one subnet (both twins of a cable, "
            "two "
            "cables in one /24, two link-local addresses) make two routes to the same "
            "destination. The first wins, neighbour requests leave by one port and are "
            "answered for the other, and packets arrive at a NIC that does not know the "
            "queue pair.",
    },
    {
        .id = DIAG_LINK_DOWN,
        .decide = "ethtool IF; rdma link",
        .code = "link.down",
        .example = "scenarios/field/s35-port-flap.yaml",
        .severity = DIAG_ERROR,
        .cause = "a port has no carrier: the cable is out or broken, or its other end "
                 "is down",
        .remedy = "check the cable, the transceiver and the port's state on both ends; "
                  "`weft doctor` prints them",
        .reference = "ibv_get_async_event(3): IBV_EVENT_PORT_ERR",
        .explanation =
            "One end of the cable reports its port as down, or reported that it went "
            "down "
            "while the connection was in use. Requests on the wire are not answered, so "
            "the sender's retries run out (completion status 12) after about 4.096 us x "
            "2^timeout for each of retry_cnt + 1 tries. A device that sees its own port "
            "go "
            "down may give them up at once (status 5, or 2 on soft-RoCE of Linux 6.1).",
    },
    {
        .id = DIAG_LINK_MTU_MISMATCH,
        .decide = "ip link show dev IF, on both ends",
        .code = "link.mtu_mismatch",
        .example = "scenarios/field/s31-mtu-after-reboot.yaml",
        .severity = DIAG_ERROR,
        .cause = "the two ends of a cable have different MTUs",
        .remedy =
            "set the same MTU on both interfaces (`ip link set dev IF mtu 9000`) and "
            "make it survive reboots",
        .reference = "ibv_modify_qp(3): path_mtu; iboe_get_mtu in the kernel",
        .explanation =
            "The path MTU of a queue pair must fit the smaller interface. When it was "
            "chosen from one end alone, small messages pass and the first large one is "
            "dropped by the receiving interface: completion status 12 on data that "
            "handshakes and barriers never show. Software that takes the lesser of both "
            "ends works, slower than it could: then this is a warning.",
    },
    {
        .id = DIAG_LINK_BLACK_HOLE,
        .decide = "ping -M do -s 8972 PEER",
        .code = "link.black_hole",
        .example = "scenarios/field/s32-black-hole.yaml",
        .severity = DIAG_ERROR,
        .cause = "small packets cross the link, packets of the path MTU are lost",
        .remedy = "find the hop with the small MTU (ping -M do -s SIZE) and raise it, or "
                  "lower the MTU of both ends",
        .reference = "RFC 2923",
        .explanation =
            "Both interfaces allow the packet size, but something between them does "
            "not, and sends no error: a media converter, a tunnel, a switch port. The "
            "probe that crosses every queue pair before it is used sends one small and "
            "one full-size message; the small one arrived and the full one did not.\n\n"
            "Policy weft then tries half the path MTU, down to 256 bytes, and uses the "
            "size that passes. The connection is slower than the ports could be, so "
            "this is a warning. Other programs do not probe and meet completion status "
            "12.",
    },
    {
        .id = DIAG_GID_TYPE_MISMATCH,
        .decide = "ibv_devinfo -v | grep GID, on both ends",
        .code = "gid.type_mismatch",
        .example = "scenarios/field/s22-gid-versions.yaml",
        .severity = DIAG_ERROR,
        .cause = "one end uses a RoCE v1 GID and the other a RoCE v2 GID",
        .remedy =
            "choose GIDs by value and type; with NCCL unset NCCL_IB_ROCE_VERSION_NUM, "
            "and "
            "unset NCCL_IB_GID_INDEX or set it on each host to its own RoCE v2 slot "
            "(`ibv_devinfo -v`)",
        .reference = "ibv_query_gid_ex(3); rdma-core RoCE documentation",
        .explanation =
            "Version 1 packets are Ethernet frames of type 0x8915, version 2 packets are "
            "UDP to port 4791. Both ends reach RTS, because nothing compares the types, "
            "and every packet is then ignored by the other NIC: completion status 12 at "
            "the first message. A GID index shared between hosts is the usual reason: "
            "the "
            "same index holds another type on another host.",
    },
    {
        .id = DIAG_GID_MISSING,
        .decide = "ibv_devinfo -v | grep GID, on both ends",
        .code = "gid.missing",
        .example = "scenarios/net/stale-gid-rxe.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_END,
        .cause =
            "the port has no usable RoCE v2 GID at the place where one was looked for",
        .remedy =
            "give the interface its address (GIDs follow addresses), and do not fix "
            "NCCL_IB_GID_INDEX to a slot that may move or be empty",
        .reference = "ibv_query_gid_ex(3): ENODATA",
        .explanation =
            "The GID table of a RoCE port mirrors the addresses of its interface. "
            "Removing "
            "an address empties its slots, adding it again may use others; a fixed index "
            "then points to nothing (errno 61) or to a default link-local GID. Ports "
            "that "
            "face each other but lack a version 2 GID cannot be used either.",
    },
    {
        .id = DIAG_GID_PEER_ADDRESS,
        .decide = "ip address show dev IF",
        .code = "gid.peer_address",
        .example = "scenarios/net/peer-address.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_END,
        .cause =
            "the port's IPv4 GID is not an address of its host, but of the other end",
        .remedy =
            "number the cable with a subnet of its own (a /31 is enough) instead of "
            "`ip address add ADDRESS peer PEER`",
        .reference = "roce_gid_mgmt.c in the kernel: inetaddr_event takes ifa_address",
        .explanation =
            "Linux makes the GID of an IPv4 address from the address's peer where it "
            "has one. A link numbered point to point therefore has the other end's "
            "address in its GID table, and its own nowhere. Ping and TCP work, but "
            "moving a queue pair to RTR ends at once with errno 101, because the "
            "kernel does not route from a source that the host does not have. Where "
            "only one end is numbered so, packets to it are dropped and the sender's "
            "retries run out (status 12).",
    },
    {
        .id = DIAG_NEIGH_NO_ANSWER,
        .decide = "arping -I IF PEER; lldpctl",
        .code = "neigh.no_answer",
        .example = "scenarios/net/swapped-cables.yaml",
        .severity = DIAG_ERROR,
        .cause =
            "no host on this cable answers ARP or neighbour discovery for the peer's "
            "address, although both ports are up",
        .remedy = "check that the cable leads where the addresses say (swapped cables), "
                  "and arp_ignore and firewall settings of the peer",
        .reference = "arp(7); rdma_resolve_ip in the kernel",
        .explanation =
            "Moving a queue pair to RTR resolves the peer's MAC address. The local port, "
            "the subnet and both carriers are in order, but requests stay unanswered: "
            "the "
            "cable ends at another host or port than the addressing plan says, or the "
            "peer "
            "does not answer for the address (arp_ignore, a VRF, a filter).",
    },
    {
        .id = DIAG_PEER_DEAD,
        .decide = "the peer's own log; dmesg | grep -i oom",
        .code = "peer.dead",
        .example = "scenarios/field/s46-rank-0-died.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_PEER,
        .cause = "the peer's process exited without closing its connections",
        .remedy =
            "look for the reason on that host: its own log, the OOM killer, the job "
            "scheduler; errors of other ranks follow from it",
        .reference = "ncclCommGetAsyncError",
        .explanation =
            "The control connection to the peer was closed by its kernel while its "
            "port was up. Completion status 12 on the ranks that were talking to it is "
            "a consequence and does not indicate a fault of the network.",
    },
    {
        .id = DIAG_PEER_SILENT,
        .decide = "ps -o stat,wchan -p PID, on the peer",
        .code = "peer.silent",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_PEER,
        .cause = "the peer's process exists, but made no progress until it was killed",
        .remedy =
            "look at that host: a process that is stopped (state T in ps), waits for a "
            "disk or a lock, or is held by a debugger; errors of other ranks follow "
            "from it",
        .reference = "signal(7): SIGSTOP; proc_pid_stat(5): state",
        .explanation =
            "Every other rank has ended, and this one did not notice for longer than any "
            "of its own deadlines. Its kernel kept answering for it: streams stay open, "
            "and "
            "its NIC acknowledges what it is sent, so that the others could only wait "
            "until "
            "the time for their job was over. The launcher has ended it.",
    },
    {
        .id = DIAG_CONN_AUTH_FAILED,
        .decide = "the job's secret, on both ends",
        .code = "conn.auth_failed",
        .severity = DIAG_ERROR,
        .cause = "the other end could not prove that it belongs to this job",
        .remedy = "give all ranks the same secret, and check that no second job uses the "
                  "same rendezvous address",
        .reference = "docs/wire.md",
        .explanation = "Connections are authenticated with a key made of the handle's "
                       "cookie and the "
                       "job's secret. The proof did not match: ranks with different "
                       "secrets, a stale "
                       "handle of an earlier run, or two jobs that meet on one port.",
    },
    {
        .id = DIAG_CONN_REFUSED,
        .decide = "ss -ltn, on the peer",
        .code = "conn.refused",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_PEER,
        .cause =
            "no process listens at the address that the peer announced, or a firewall "
            "rejects the connection",
        .remedy = "check that the peer still runs and that its firewall lets TCP through "
                  "on the interface named here",
        .reference = "connect(2)",
        .explanation =
            "The handshake's TCP connection was refused (errno 111) or rejected by a "
            "firewall (errno 113, 1). Listeners use ephemeral ports: a firewall that "
            "admits only well-known ones looks the same as a process that has exited.",
    },
    {
        .id = DIAG_CONN_TIMEOUT,
        .decide = "ss -tn state syn-sent; the peer's log",
        .code = "conn.timeout",
        .severity = DIAG_ERROR,
        .cause =
            "a step of the connection's set-up was not answered within its time limit",
        .remedy =
            "check that the process at the other end runs (ps, top, its own log) and is "
            "not held up by another client; `limit` is the one that passed",
        .reference = "docs/wire.md: limits",
        .explanation =
            "Each attempt to reach a listener has 5 s, and the whole set-up has 30 s "
            "from "
            "the first HELLO on. The limit passed without an answer and without an error "
            "from below: the peer is stopped or overloaded, or what it sends does not "
            "arrive.",
    },
    {
        .id = DIAG_HOST_MEMLOCK,
        .decide = "ulimit -l",
        .code = "host.memlock",
        .example = "scenarios/field/s47-memlock.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_HOST,
        .cause = "memory could not be registered because the limit on locked memory is "
                 "reached",
        .remedy = "raise it: `ulimit -l unlimited`, LimitMEMLOCK=infinity for services, "
                  "--ulimit memlock=-1 for containers",
        .reference = "ibv_reg_mr(3); setrlimit(2): RLIMIT_MEMLOCK",
        .explanation =
            "Registered memory is pinned and counts against RLIMIT_MEMLOCK. Registration "
            "and the creation of queues fail with errno 12 once it is spent; NCCL prints "
            "only \"Cannot allocate memory\".",
    },
    {
        .id = DIAG_HOST_NO_DEVICE,
        .decide = "ibv_devices; ls /dev/infiniband",
        .code = "host.no_device",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_HOST,
        .cause = "the host has no RDMA device that this process can open",
        .remedy = "load the driver, pass /dev/infiniband into the container, and check "
                  "`ibv_devices`",
        .reference = "ibv_get_device_list(3)",
        .explanation =
            "Without a device NCCL falls back to sockets silently and runs at a fraction "
            "of the rate. Weft does not.",
    },
    {
        .id = DIAG_DATA_WRONG,
        .decide = "the run again, with --pcap",
        .code = "data.wrong",
        .example = "scenarios/faults/corrupt-unseen.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_HOST,
        .cause = "the result of a collective differs from what it must be",
        .remedy =
            "keep the run (replay line, capture) and report it: no setting may lead "
            "to wrong data",
        .reference = "docs/fidelity.md: verification",
        .explanation =
            "Every run compares every byte of the last iteration with an oracle that "
            "shares no code with the collectives. A difference is a bug of Weft, of a "
            "NIC, "
            "or a corruption that the frames' checks did not catch.",
    },
    {
        .id = DIAG_MESH_RANK_ORDER,
        .decide = "weft show FILE",
        .code = "mesh.rank_order",
        .example = "scenarios/field/s16-rank-order.yaml",
        .severity = DIAG_WARNING,
        .place = DIAG_AT_PORTS,
        .cause = "neighbours in the order of ranks share no cable, and another order "
                 "would have fewer such pairs",
        .remedy =
            "start the ranks in an order in which ring neighbours share a cable, such as "
            "better_order (hosts, or numbers of today's ranks if names are too long)",
        .reference = "docs/mesh.md",
        .explanation =
            "NCCL lays its rings over the ranks in the order in which they were started. "
            "On a partial mesh a pair of neighbours without a cable is relayed, over "
            "cables that other pairs need, and the ring is as slow as its slowest pair. "
            "Policy `weft` lays rings over cables whatever the order of ranks, and is "
            "not "
            "warned.",
    },
};

const struct diag_entries diag_entries_first = {entries, WEFT_LENGTH(entries)};
