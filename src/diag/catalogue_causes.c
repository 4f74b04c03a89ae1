/* Catalogue entries about links, filters, late peers and devices, and the entry `undetermined`. */
#include "diag/catalogue_entries.h"

#include "base/check.h"

static const struct diag_entry entries[] = {
    {
        .id = DIAG_LINK_FLAPPING,
        .code = "link.flapping",
        .severity = DIAG_ERROR,
        .cause = "the cable loses its carrier again and again",
        .remedy =
            "reseat or replace the cable or transceiver, and compare `ethtool -S` of "
            "both ends; fix the speed if they renegotiate",
        .reference = "ibv_get_async_event(3): PORT_ERR, PORT_ACTIVE",
        .decide = "journalctl -k | grep 'link is'",
        .explanation =
            "One port error is a cable that was pulled. Several with returns between "
            "are a bad contact, a transceiver that is too hot, or two ends that do not "
            "agree on FEC or speed. Requests are repeated until their retries run out "
            "in one of the gaps (status 12); after a return everything looks healthy, "
            "which is why it is found so late.",
    },
    {
        .id = DIAG_LINK_ONE_WAY,
        .code = "link.one_way",
        .severity = DIAG_ERROR,
        .cause = "frames are lost in one direction of the cable and in the other none",
        .remedy =
            "replace the cable; compare tx and rx counters of its two ends after a ping "
            "flood",
        .reference = "ethtool -S; sparkring CABLE_QUALIFICATION.md",
        .decide = "ethtool -S IF on both ends, twice",
        .explanation =
            "Both ends have carrier. What one end counted as sent, the other did not "
            "count as received; what came back arrived in full. A lane of the cable, a "
            "dirty fibre or a filter between drops one direction, and the sender's "
            "retries run out (status 12). It needs counters of both ends: neither end "
            "sees it alone.",
    },
    {
        .id = DIAG_LINK_LOSSY,
        .code = "link.lossy",
        .severity = DIAG_ERROR,
        .cause = "frames are lost on the cable or at the switch, in both directions",
        .remedy =
            "replace the cable, or turn on flow control (PFC or pause) where a switch "
            "is between: RoCE needs a lossless link",
        .reference = "nccl#378, ucx#6000; ibv_modify_qp(3): retry_cnt",
        .decide = "ethtool -S IF on both ends, twice",
        .explanation =
            "What either end sent exceeds what the other received, by far more than is "
            "ever under way. RoCE repeats everything from the first lost packet on, so "
            "that some per cent of loss take most of the bandwidth, and more ends with "
            "status 12. On a direct cable it is the cable; behind a switch without flow "
            "control, its queues. Where three or more ports share a subnet, what all of "
            "them sent is compared with what all received, and the port is named where "
            "most came out of sequence: frames to it were dropped.",
    },
    {
        .id = DIAG_LINK_CORRUPTING,
        .code = "link.corrupting",
        .example = "scenarios/field/s37-bad-cable.yaml",
        .severity = DIAG_ERROR,
        .cause = "frames arrive damaged",
        .remedy =
            "replace the cable or transceiver (a bad DAC is the usual reason), and read "
            "the error counters of both ends",
        .reference = "rx_icrc_encapsulated, symbol_error",
        .decide = "ethtool -S IF | grep -i -e crc -e symbol",
        .explanation =
            "The port counts packets whose checksum (ICRC) is wrong. They are dropped, "
            "and repeated by the sender, until its retries run out (status 12). One "
            "such packet a day is normal. If a share of the traffic is damaged, "
            "replace the cable. The end that counts is the receiving one: the other "
            "end's transmitter or the cable between is at fault.",
    },
    {
        .id = DIAG_LINK_PAUSE_STORM,
        .code = "link.pause_storm",
        .example = "scenarios/net/paused-set-up.yaml",
        .severity = DIAG_ERROR,
        .cause = "one end of the cable keeps sending pause frames, so that the other end "
                 "cannot transmit",
        .remedy =
            "find who sends them: a NIC whose host stopped taking data (its PCIe, its "
            "memory), or a switch port in trouble; set a pfc watchdog",
        .reference = "IEEE 802.3x, 802.1Qbb",
        .decide = "ethtool -S IF | grep -i pause",
        .explanation =
            "Flow control lets a receiver stop its sender for a moment. If it never "
            "ends, the port is blocked: it has carrier, no frame is lost, and no data "
            "is sent. Queue pairs end with status 12 where the timeout is short, and "
            "wait indefinitely where the NIC does not count held packets. A connection "
            "that is being set up ends with errno 110 at modify to RTR: the request "
            "for the neighbour, or its answer, is held too. Pauses that begin later "
            "leave another step of the set-up without an answer.\n\n"
            "The finding names the end that sends the pause frames. The other end "
            "counts them (`rx_pauses`) and the time that it was held (`rx_pause_ns`, "
            "on mlx5 rx_prioN_pause_duration). On real devices weft does not read "
            "these counters. Behind a switch, or where both ends were paused, it names "
            "the end that failed.",
    },
    {
        .id = DIAG_LINK_VLAN_MISMATCH,
        .code = "link.vlan_mismatch",
        .example = "scenarios/net/vlan-mismatch.yaml",
        .severity = DIAG_ERROR,
        .cause = "the addresses of the two ends are in different VLANs",
        .remedy = "put both ends into the same VLAN, or neither",
        .reference = "ip-link(8): type vlan",
        .decide = "ip -d link show; cat /proc/net/vlan/config",
        .explanation =
            "The subnet is the same, so that everything on paper is right. Neighbour "
            "requests leave with one tag, the other end listens for another (or none), "
            "and modify to RTR ends with errno 110.",
    },
    {
        .id = DIAG_NEIGH_ARP_IGNORED,
        .code = "neigh.arp_ignored",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_PEER,
        .cause = "the peer is set not to answer requests for its addresses (arp_ignore)",
        .remedy = "set net.ipv4.conf.*.arp_ignore to 0 or 1 on the peer (1 suits a mesh)",
        .reference = "ip-sysctl: arp_ignore",
        .decide = "sysctl -a | grep arp_ignore",
        .explanation =
            "arp_ignore 8 answers nothing for local addresses, 4 to 7 are reserved. "
            "Load balancers set it on interfaces with shared addresses, and images "
            "copied from one contain the setting. Everything that needs the peer's MAC "
            "address fails: TCP with errno 113 or 110, modify to RTR with 110.",
    },
    {
        .id = DIAG_HOST_RP_FILTER,
        .code = "host.rp_filter",
        .example = "scenarios/field/s08-rp-filter.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_END,
        .cause =
            "the receiving host's reverse path filter drops the packets: their source "
            "is not reached by the port they came in",
        .remedy =
            "set net.ipv4.conf.all.rp_filter and the interface's to 0 or 2, or give the "
            "ports subnets of their own",
        .reference =
            "ip-sysctl: rp_filter; effective is the greater of all and the interface's",
        .decide = "nstat -az TcpExtIPReversePathFilter",
        .explanation =
            "A strict reverse path filter (1) drops what comes in by another port than "
            "the answer would leave by. Soft-RoCE's packets pass the host's IP stack "
            "and are dropped without a message, while TCP to the same host, which took "
            "another path, works. The data of hardware NICs does not pass the filter, "
            "but the ARP packets of their interfaces do.",
    },
    {
        .id = DIAG_HOST_FIREWALL_ROCE,
        .code = "host.firewall_roce",
        .example = "scenarios/net/firewall-rxe.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_END,
        .cause = "a firewall on the receiving host drops UDP port 4791, which is RoCE v2",
        .remedy =
            "allow UDP 4791 on the RDMA interfaces (`nft add rule ... udp dport 4791 "
            "accept`)",
        .reference = "IANA: 4791 roce",
        .decide = "nft list ruleset | grep 4791; nft monitor trace",
        .explanation =
            "Soft-RoCE's packets are datagrams that the host's firewall sees. ARP and "
            "TCP pass, queue pairs reach RTS, and nothing sent over them arrives: "
            "status 12, or a probe without an answer. The receiving port counts frames "
            "that no queue pair got.",
    },
    {
        .id = DIAG_CONN_FILTERED,
        .code = "conn.filtered",
        .example = "scenarios/field/s40-firewall.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_PEER,
        .cause =
            "the peer runs, but packets to its TCP port are dropped before they reach "
            "it",
        .remedy =
            "open the range of the listener's ports on the peer (ephemeral ports: 32768 "
            "to 60999), or trust the interface",
        .reference = "nccl#352, nccl-tests#162; firewalld.richlanguage(5)",
        .decide = "nc -vz HOST PORT, from here and from the peer itself",
        .explanation =
            "The connection attempt is not refused (errno 111) but not answered at all "
            "(110): a firewall drops it. The peer's process runs, and reports that it "
            "waits for exactly this connection. Listeners use ephemeral ports, which "
            "rules made for well-known services do not cover.",
    },
    {
        .id = DIAG_PEER_LATE,
        .code = "peer.late",
        .example = "scenarios/field/s45-skewed-start.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_PEER,
        .cause = "the peer started after the others had stopped waiting for it",
        .remedy =
            "raise --patience above the longest start (model loading, image pull), or "
            "start ranks together",
        .reference = "docs/cli.md: --patience; NCCL_SOCKET_RETRY_CNT",
        .decide = "the start times in both ranks' logs",
        .explanation =
            "One rank waited until its time limit, gave up and exited. When the other "
            "started, no process listened any more: its log has connection refused "
            "(errno 111), which looks like a wrong address. Loading weights from a "
            "cold disk takes minutes on one host only.",
    },
    {
        .id = DIAG_PEER_RECEIVER_LATE,
        .code = "peer.receiver_late",
        .example = "scenarios/field/s33-receiver-late.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_PEER,
        .cause =
            "the receiver had posted no receive request in time, and the retries for "
            "that ran out",
        .remedy =
            "set rnr_retry to 7 (no limit), or post receives before the peer is asked "
            "to send",
        .reference = "ibv_modify_qp(3): rnr_retry, min_rnr_timer",
        .decide = "hw_counters/rnr_nak_retry_err",
        .explanation =
            "The packets arrive and are answered: receiver not ready. After rnr_retry "
            "answers of that kind the sender gives up with completion status 13 "
            "(RNR_RETRY_EXC_ERR). The network is in order; the receiving process is "
            "late (busy, paging, in a debugger), or its queue is too short.",
    },
    {
        .id = DIAG_HOST_KERNEL_MEMORY,
        .code = "host.kernel_memory",
        .example = "scenarios/field/s48-no-device-memory.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_HOST,
        .cause =
            "the kernel could not pin or map memory for the device, although the limit "
            "on locked memory is not what stopped it",
        .remedy =
            "look at CmaTotal and CmaFree in /proc/meminfo: kernels with KHO take the "
            "device's pool (boot with kho=off, or an older kernel)",
        .reference = "MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x#259",
        .decide = "grep -i cma /proc/meminfo; dmesg | tail",
        .explanation =
            "ibv_reg_mr ends with errno 12 even for one page while `ulimit -l` is "
            "unlimited. What is missing is memory that the device may reach: a "
            "contiguous pool that the kernel uses for something else, an IOMMU that is "
            "out of space, or all memory of a host that shares it with its GPU.",
    },
    {
        .id = DIAG_HOST_PERMISSION,
        .code = "host.permission",
        .example = "scenarios/field/s49-device-not-openable.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_HOST,
        .cause = "the process may not use the device (errno 1 or 13)",
        .remedy = "give it access to /dev/infiniband/uverbs* (group rdma, --device in "
                  "containers), or the capability that the message names",
        .reference = "udev rules of rdma-core; capabilities(7)",
        .decide = "ls -l /dev/infiniband; id",
        .explanation =
            "The device is listed, because that needs no right, and its first verb is "
            "refused. In containers the node exists without its cgroup rule; on hosts "
            "the group of the node changed with an update.",
    },
    {
        .id = DIAG_DEVICE_QP_LIMIT,
        .code = "device.qp_limit",
        .example = "scenarios/field/s51-queue-pair-limit.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_HOST,
        .cause = "the device has no room for another queue or queue pair",
        .remedy = "close what is not needed, share queue pairs, or lower "
                  "NCCL_IB_QPS_PER_CONNECTION: retrying does not help",
        .reference = "ibv_query_device(3): max_qp, max_cq",
        .decide = "rdma resource show",
        .explanation =
            "Creating a queue pair ends with errno 12, 16 or 28 while memory and its "
            "limit are in order. Devices have a fixed number: eleven on some "
            "Thunderbolt ones, some thousands on small NICs, and other processes of the "
            "host count too. The errno looks temporary, and is not.",
    },
    {
        .id = DIAG_DEVICE_REJECTED,
        .code = "device.rejected",
        .example = "scenarios/field/s52-device-caps.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_HOST,
        .cause = "the device does not support what was asked of it (errno 22 or 95)",
        .remedy =
            "compare what is asked with `ibv_devinfo -v`: queue depths, SGEs, inline "
            "bytes, the type of queue pair",
        .reference = "ibv_create_qp(3); docs/nic-model.md",
        .decide = "ibv_devinfo -v",
        .explanation =
            "Each device has limits of its own, and drivers refuse what is beyond them "
            "with EINVAL, without naming the limit: hns refuses a send queue of depth "
            "0 and unreliable connections, mlx5 too large an inline size, others more "
            "SGEs than they have.",
    },
    {
        .id = DIAG_DEVICE_FAILED,
        .code = "device.failed",
        .example = "scenarios/nic/hns-mailbox-timeout.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_HOST,
        .cause =
            "the device itself failed: it reported that, a verb ended with errno 5, or "
            "a command was not answered (16, 110)",
        .remedy = "look in the kernel's log for messages of the driver (firmware, AER, "
                  "reset), and take the host out until it is reset",
        .reference = "ibv_get_async_event(3): DEVICE_FATAL",
        .decide = "dmesg | grep -i -e mlx5 -e hns -e aer",
        .explanation =
            "EIO of a control verb shows that driver and device can no longer exchange "
            "commands: firmware asserted, the PCIe link broke, or a reset is under "
            "way. Everything on the device fails from now on; other devices of the "
            "host go on.",
    },
    {
        .id = DIAG_UNDETERMINED,
        .decide = "weft doctor --join, on every host",
        .code = "undetermined",
        .severity = DIAG_ERROR,
        .cause = "what was observed does not decide between several causes",
        .remedy =
            "answer the questions in their order, each with the command beside it "
            "(`to decide`) on both hosts; the first answer that is yes is the cause",
        .reference = "docs/findings.md",
        .explanation =
            "The same errno or completion status has many causes. Rather than guess, the "
            "finding names at most three candidates, likeliest first, that the evidence "
            "does not exclude, each with the question that decides and the command that "
            "answers it.",
    },
};

const struct diag_entries diag_entries_causes = {entries, WEFT_LENGTH(entries)};
