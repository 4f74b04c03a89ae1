/* Catalogue entries about programs that do not use a working network correctly. */
#include "diag/catalogue_entries.h"

#include "base/check.h"

static const struct diag_entry entries[] = {
    {
        .id = DIAG_CONN_QPN_TRUNCATED,
        .code = "conn.qpn_truncated",
        .example = "scenarios/field/s44-long-qp-number.yaml",
        .severity = DIAG_ERROR,
        .cause = "the program sends its peer 16 bits of a queue pair's number, and the "
                 "device has numbers above 65535",
        .remedy = "use a program that carries all 24 bits of it, as policy weft does: no "
                  "setting "
                  "and no cable helps",
        .reference = "nccl-mesh-plugin, struct mesh_handle: uint16_t qp_num; IBA 9.2.4",
        .decide = "rdma resource show qp: lqpn and rqpn, on both ends",
        .explanation =
            "Numbers of queue pairs have 24 bits. A freshly started device gives small "
            "ones, so a program that keeps them in 16 bits works on the day that it is "
            "written, and for months. When the device has made 65536 queue pairs, the "
            "peer gets only the lower 16 bits of a number. Both ends reach RTS, "
            "because nothing checks it, and every packet names a queue pair that does "
            "not exist. The receiver drops it without an answer, and the sender "
            "reports status 12, vendor error 129, as with a broken cable.\n\n"
            "The numbers distinguish it from a lost packet: the one that an end has, "
            "and the one to which the other end sends.",
    },
    {
        .id = DIAG_ROUTE_SLOW_LANE,
        .code = "route.slow_lane",
        .example = "scenarios/field/s19-slow-lane.yaml",
        .severity = DIAG_WARNING,
        .cause =
            "the job runs over a slow cable, and a faster one that joins the same two "
            "hosts carries nothing",
        .remedy =
            "name the fast devices in NCCL_IB_HCA, or leave it unset; policy weft takes "
            "every cable that faces the peer",
        .reference = "NCCL_IB_HCA (net_ib.cc); NVIDIA/dgx-spark-playbooks#102",
        .decide = "ethtool IF | grep Speed, for the ports of the evidence",
        .explanation =
            "Nothing fails and nothing is logged: data takes a port of 10 Gbit/s "
            "because a list of devices names it, or because it comes first, and the "
            "job runs at a tenth of what the cables could. On a DGX Spark the "
            "management port is the usual one.\n\n"
            "It is reported only if both hosts have ports of at least twice the rate "
            "that face each other and are up.",
    },
    {
        .id = DIAG_ROUTE_MERGED_ONE_END,
        .code = "route.merged_one_end",
        .example = "scenarios/field/s12-function-beside-function.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_PORTS,
        .cause =
            "one end takes several functions for the ports of one NIC and spreads over "
            "them, the other end has one port only",
        .remedy = "show the container one function of the NIC (its PF or its VF, not "
                  "both), give "
                  "both hosts the same devices, or set NCCL_IB_MERGE_NICS=0",
        .reference = "nccl#1422; net_ib.cc, NCCL_IB_MERGE_NICS",
        .decide = "ls -l /sys/class/infiniband, on both hosts: which share a PCI device",
        .explanation =
            "NCCL takes functions of one PCI device for the ports of a NIC with "
            "several and makes one device of them, whose queue pairs use all of them "
            "in turn. A container that sees a physical function and a virtual one "
            "beside it has such a NIC, a host that sees one of them has not. Every "
            "second queue pair then starts at the function that faces no port, and "
            "modify to RTR ends with errno 110, although ping and the first queue pair "
            "are in order.\n\n"
            "The devices and settings of both ends distinguish it from "
            "route.merged_nic, where both ends merge and the cables lead to two hosts.",
    },
    {
        .id = DIAG_CONN_LOOPBACK,
        .code = "conn.loopback",
        .example = "scenarios/field/s20-loopback-head.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_HOST,
        .cause = "rank 0's address is a loopback address, so that every other host "
                 "connects to "
                 "itself",
        .remedy =
            "give the first host's address on the management network (MASTER_ADDR, "
            "NCCL_COMM_ID, the host list), and take the host's name off the line of "
            "127.0.1.1 in its /etc/hosts",
        .reference = "sparkrun#157; hosts(5); NCCL_COMM_ID",
        .decide = "getent hosts NAME, for the first host's name, on every host",
        .explanation =
            "The list of hosts was written on the first of them, or the first host's "
            "name is looked up there: Debian's /etc/hosts answers 127.0.1.1. The first "
            "rank listens, every other one dials itself and is refused (errno 111), "
            "and after a long time each reports the other. Which interface carries the "
            "data has nothing to do with it.",
    },
};

const struct diag_entries diag_entries_programs = {entries, WEFT_LENGTH(entries)};
