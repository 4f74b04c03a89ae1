/* Catalogue entries about settings of a host that do not match its ports or the other hosts. */
#include "diag/catalogue_entries.h"

#include "base/check.h"

static const struct diag_entry entries[] = {
    {
        .id = DIAG_HOST_HCA_LIST,
        .code = "host.hca_list",
        .example = "scenarios/net/list-of-another-host.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_HOST,
        .cause = "NCCL_IB_HCA leaves this host no port with carrier, although it has one",
        .remedy =
            "name the ports of this host that have a cable (`ibv_devinfo`, `rdma link`): "
            "the setting is of each host by itself; or leave it unset",
        .reference = "NCCL's environment variables: NCCL_IB_HCA",
        .decide = "env | grep NCCL_IB_HCA; rdma link",
        .explanation =
            "Hosts of one kind name their ports alike, and a list that is right for "
            "one is handed to all. Where the cable of another is in its other cage, "
            "NCCL opens ports there that have no carrier, and leaves out those that "
            "do: it finds no device (`NET/IB : No device found`) and uses sockets, or "
            "has no port that faces the peer.\n\n"
            "Names are beginnings of names, but behind a leading = whole ones, and "
            "behind a leading ^ those to leave out; `mlx5_0:1` is one port of a card.",
    },
    {
        .id = DIAG_HOST_BOND_PEERS,
        .code = "host.bond_peers",
        .example = "scenarios/field/s21-bond-to-two-peers.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_HOST,
        .cause = "ports of one bond have cables to different hosts, and a bond has one "
                 "address, at one of its ports at a time",
        .remedy = "take the ports out of the bond, and give each an address of a network "
                  "of its own with the host on its cable",
        .reference = "bonding.rst in the kernel's documentation, Active Backup",
        .decide = "cat /proc/net/bonding/BOND; lldpctl",
        .explanation =
            "A bond makes one interface of several cables that lead to the same place: "
            "the same switch, or the same host. Its address, and the GIDs of it, are "
            "at the active port. Where the cables lead to different hosts, only the "
            "one on the active port's cable can be reached; ARP requests for the "
            "others leave by the wrong port, and modify to RTR ends with errno 110. "
            "When a cable is pulled, it is another host that works.\n\n"
            "A mesh without switches needs no bonds: each cable is a network by "
            "itself, and its two ends have addresses of that network.",
    },
    {
        .id = DIAG_CONN_NO_ROUTE,
        .code = "conn.no_route",
        .example = "scenarios/net/rendezvous-out-of-reach.yaml",
        .severity = DIAG_ERROR,
        .cause = "this host has no route to the address by which the peer is known",
        .remedy =
            "let the peer be known by an address of a network that all hosts are on "
            "(the management network), or add the route (`ip route get ADDRESS`)",
        .reference = "connect(2), ENETUNREACH",
        .decide = "ip route get ADDRESS",
        .explanation =
            "The kernel refused to connect at once (errno 101): no entry of the "
            "routing table, not even a default route, leads to the address. On a mesh "
            "of cables each has a network of its own. An address on one of them is "
            "right for the neighbour and unknown to hosts farther off, so that a "
            "rendezvous there works for some ranks, and the first one reports the "
            "others as late.\n\n"
            "Addresses may come late, so NCCL retries until its limit. Policy weft "
            "tries for a second where the host is on a network already, and as long as "
            "--patience says if that is given. A host that gets a route in time has no "
            "finding.",
    },
    {
        .id = DIAG_ADDR_NO_FACING_PORT,
        .code = "addr.no_facing_port",
        .example = "scenarios/net/misnumbered-twin.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_CABLE,
        .cause = "a port has carrier and an address, but shares a subnet with no port of "
                 "another host",
        .remedy =
            "number both ends of the cable in one subnet (netplan); the evidence has "
            "both addresses, and the port that the cable leads to",
        .reference = "docs/scenario.md, Links; netplan(5)",
        .decide = "ip -br address, on both ends of the cable",
        .explanation =
            "The two ends of a cable were given addresses of different networks, often "
            "by a mistyped digit. Each port is up and has a GID, and connects to "
            "nothing. Where another cable, or another host, leads to the peer, the job "
            "continues without this one, at a lower rate, and no program reports it.\n\n"
            "The cables are those of the file that describes the mesh. The doctor "
            "reports both ends as an error, a run that passed without the cable as a "
            "warning. Addresses do not show which of the two is mistyped. If an end "
            "has an address of another cable's network instead, that end alone is "
            "reported, as `neigh.no_answer`. Two hosts without any facing ports are "
            "`route.no_facing_port`.",
    },
    {
        .id = DIAG_HOST_PCIE_SHARED,
        .code = "host.pcie_shared",
        .example = "scenarios/net/two-ports-one-card.yaml",
        .severity = DIAG_WARNING,
        .place = DIAG_AT_HOST,
        .cause = "two rails to one peer use ports of one card, whose PCIe link carries "
                 "less than their rates, while a port of another card is idle",
        .remedy =
            "use a port of each card: name the ports accordingly in NCCL_IB_HCA, or "
            "leave it unset; `idle_local_port` leads to the same peer",
        .reference = "NCCL_IB_HCA; NVIDIA DGX Spark: two PCIe links for one ConnectX-7",
        .decide = "lspci -tv; ibdev2netdev; the PCI addresses of the ports in use",
        .explanation =
            "On a DGX Spark each cage has two ports, one behind each of the two PCIe "
            "links, and a link carries no more than one of them. Two ports of different "
            "cages that are behind the same link look like two rails and have the rate "
            "of one. All tests of connectivity pass, and each port alone has its full "
            "rate.\n\n"
            "The finding is made of facts, not of a measurement: the ports in use, the "
            "card that they belong to, the lanes and the speed of its PCIe link, and a "
            "port of another card whose cable leads to the same peer and that no process "
            "uses. Ports whose card carries all their rates together are no finding.",
    },
    {
        .id = DIAG_LINK_SLOW,
        .code = "link.slow",
        .example = "scenarios/net/port-at-13gbps.yaml",
        .severity = DIAG_WARNING,
        .place = DIAG_AT_CABLE,
        .cause = "a rail moved less than a quarter of the rate of its cable while it was "
                 "busy, and no counter says why",
        .remedy =
            "power-cycle both hosts and measure the cable alone in each direction "
            "(ib_write_bw -d DEVICE --report_gbits); then exchange the cable, and move "
            "the card to another slot; on a DGX Spark update the firmware",
        .reference = "perftest: ib_write_bw; docs/field.md",
        .decide = "ib_write_bw -d DEVICE --report_gbits; mlxlink -d DEVICE; lspci -vv; "
                  "ethtool -S IF | grep rx_prio.*_pause",
        .explanation =
            "A port can come up with its full rate, a PCIe link of full width and no "
            "errors, and carry a fraction: 13 of 100 Gbit/s were reported. Every test "
            "of connectivity passes, and the job is slow without a reason.\n\n"
            "The rate is measured by the sender, on parts of at least 128 KiB and only "
            "while one of them is under way. The fastest 4 MiB of at least 12 MiB counts "
            "(`moved_bps`). They are compared with what cable and PCIe links should "
            "carry (`rate_bps`; the rate that the file of the mesh gives, or else that "
            "of the ports), divided by the number of rails that use the same cards. "
            "There is no finding where latency, lost frames, counted pauses, a switch, a "
            "relay or a software device can be the reason. Where the device does not "
            "count pauses, they can be the reason. The measurement does not show whether "
            "an end or the cable is slow.",
    },
    {
        .id = DIAG_HOST_IPC_REFUSED,
        .code = "host.ipc_refused",
        .example = "scenarios/inside/ipc-refused-2.yaml",
        .severity = DIAG_WARNING,
        .place = DIAG_AT_HOST,
        .cause = "two processes of a machine may not open each other's GPU memory, so "
                 "that their data go over shared memory of the host",
        .remedy = "let each process see all GPUs of the machine (CUDA_VISIBLE_DEVICES, "
                  "--gpus-per-task, --gpu-bind=none), and containers share pids and IPC "
                  "(--pid=host --ipc=host)",
        .reference = "CUDA: cudaIpcOpenMemHandle; NCCL: P2P over CUDA IPC",
        .decide = "nvidia-smi -L inside each task; weft run FILE: the connections",
        .explanation =
            "The GPUs can copy to each other, and p2p was chosen. The driver then "
            "refused to open the other process's memory (`errno`): a launcher gave "
            "each task its own GPU alone, or a container has no pids of its "
            "neighbours. The job works, at a fraction of the rate of NVLink or PCIe "
            "peer access. A machine is named once. There is no finding where a setting "
            "switched p2p off (NCCL_P2P_DISABLE).",
    },
};

const struct diag_entries diag_entries_settings = {entries, WEFT_LENGTH(entries)};
