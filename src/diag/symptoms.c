/* The table of symptoms. Numbers of errno are those of Linux (asm-generic/errno*.h), because a log
 * is read on any machine. Statuses are enum ibv_wc_status (infiniband/verbs.h). Phrases are those
 * of NCCL 2.25 to 2.30 (src/init.cc, ncclGetErrorString), PyTorch's ProcessGroupNCCL and TCPStore,
 * UCX, perftest and Open MPI. */
#include "diag/symptoms.h"

#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define OF(finding, question)                                                            \
    {                                                                                    \
        .code = DIAG_##finding, .ask = question                                          \
    }
#define OTHER(words, question)                                                           \
    {                                                                                    \
        .code = DIAG_N_CODES, .what = words, .ask = question                             \
    }

static const struct diag_symptom symptoms[] = {
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 1,
     .name = "EPERM",
     .meaning =
         "the kernel refused the call to this user, or a firewall refused a packet",
     .causes =
         {
             OF(HOST_PERMISSION, "does the same call succeed as root, or with "
                                 "/dev/infiniband and CAP_IPC_LOCK?"),
             OF(CONN_REFUSED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 2,
     .name = "ENOENT",
     .meaning = "a file or folder does not exist",
     .causes =
         {
             OF(HOST_NO_DEVICE, "is the file below /dev/infiniband or "
                                "/sys/class/infiniband, which a container lacks?"),
             OF(PLUGIN_NOT_FOUND, "is it a library, such as libnccl-net-mesh.so?"),
             OTHER("the name is wrong", NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 4,
     .name = "EINTR",
     .meaning = "a signal came while the call waited",
     .causes =
         {
             OTHER("the program does not repeat the call: no error of the network", NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 5,
     .name = "EIO",
     .meaning = "the device or its driver failed",
     .causes =
         {
             OF(DEVICE_FAILED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 11,
     .name = "EAGAIN",
     .meaning = "something was not ready, or a limit of the process was reached",
     .causes =
         {
             OF(HOST_FD_LIMIT,
                "does `ulimit -n`, or `ulimit -u`, equal what the process has?"),
             OTHER("a call that does not wait had nothing yet: no error unless it never "
                   "ends",
                   NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 12,
     .name = "ENOMEM",
     .meaning = "memory could not be pinned, or the device has no room",
     .causes =
         {
             OF(HOST_MEMLOCK, "is `ulimit -l` of the process less than what it registers "
                              "(systemd and containers have limits of their own)?"),
             OF(HOST_KERNEL_MEMORY,
                "does even one page fail to register while `ulimit -l` is unlimited?"),
             OF(DEVICE_QP_LIMIT, "was it the creation of a queue pair or completion "
                                 "queue, not of memory?"),
             OTHER(
                 "the machine, or the container's cgroup, is out of memory: see `dmesg`",
                 NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 13,
     .name = "EACCES",
     .meaning = "a file may not be opened",
     .causes =
         {
             OF(HOST_PERMISSION, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 14,
     .name = "EFAULT",
     .meaning = "the address of a buffer is not the process's",
     .causes =
         {
             OTHER("GPU memory was registered, and the NIC's driver cannot reach it "
                   "(nvidia_peermem, DMA-BUF)",
                   "is the buffer on a GPU?"),
             OTHER("the buffer was freed: an error of the program", NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 16,
     .name = "EBUSY",
     .meaning = "the device has no room, or still uses the object",
     .causes =
         {
             OF(DEVICE_QP_LIMIT, "was it the creation of a queue or queue pair?"),
             OTHER("an object was destroyed while another one still used it", NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 19,
     .name = "ENODEV",
     .meaning = "a device or its network interface is not there for this process",
     .causes =
         {
             OF(GID_NO_NETDEV, "was it modify_qp to RTR, or the creation of queues?"),
             OF(HOST_NO_DEVICE, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 22,
     .name = "EINVAL",
     .meaning = "the kernel or the device refused an argument; at modify_qp to RTR "
                "mostly two ends that do not fit",
     .causes =
         {
             OF(GID_NO_IPV4,
                "is one end's GID ::ffff:a.b.c.d, and the other's an IPv6 address?"),
             OF(GID_LINK_LOCAL, "does the GID of one end begin with fe80, although its "
                                "port has an address?"),
             OF(GID_TYPE_MISMATCH,
                "is the GID's type v1 at one end and v2 at the other (`show_gids`)?"),
             OF(GID_FIXED_INDEX, "is NCCL_IB_GID_INDEX set at either end?"),
             OF(LINK_MTU_MISMATCH, "is the path MTU that was asked for larger than the "
                                   "port's active MTU (`ibv_devinfo`)?"),
             OF(ADDR_PREFIX_MISMATCH,
                "do the two ends of the cable have different prefix lengths?"),
             OF(DEVICE_REJECTED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 24,
     .name = "EMFILE",
     .meaning = "the process has no descriptor left",
     .causes =
         {
             OF(HOST_FD_LIMIT, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 28,
     .name = "ENOSPC",
     .meaning = "the device has no room, or /dev/shm or a disk is full",
     .causes =
         {
             OF(DEVICE_QP_LIMIT, "was it the creation of a queue or queue pair?"),
             OTHER("/dev/shm of the container is too small for NCCL: `df /dev/shm`, "
                   "`docker run --shm-size`",
                   NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 38,
     .name = "ENOSYS",
     .meaning = "the kernel or the driver does not have the call",
     .causes =
         {
             OF(DEVICE_REJECTED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 32,
     .name = "EPIPE",
     .meaning = "the peer had closed the connection when this host wrote to it",
     .causes =
         {
             OF(PEER_DEAD, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 61,
     .name = "ENODATA",
     .meaning = "the slot of the GID table is empty",
     .causes =
         {
             OF(GID_FIXED_INDEX, "is NCCL_IB_GID_INDEX set?"),
             OF(ADDR_MISSING,
                "does `ip address` show no address at the port's interface?"),
             OF(ADDR_CHANGED, "did an address change, or an interface go down and up, "
                              "since the program started?"),
             OF(GID_MISSING, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 62,
     .name = "ETIME",
     .meaning = "a command to the device was not answered in time",
     .causes =
         {
             OF(DEVICE_FAILED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 90,
     .name = "EMSGSIZE",
     .meaning = "a message is larger than the interface or the queue pair allows",
     .causes =
         {
             OF(LINK_MTU_MISMATCH,
                "do the two ends of the cable have different MTUs (`ip link`)?"),
             OF(LINK_BLACK_HOLE, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 93,
     .name = "EPROTONOSUPPORT",
     .meaning = "the kernel, the driver or the peer does not have this protocol",
     .causes =
         {
             OF(CONN_VERSION, "was it a peer that refused, with another version?"),
             OF(DEVICE_REJECTED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 95,
     .name = "EOPNOTSUPP",
     .meaning = "the device or driver cannot do what was asked",
     .causes =
         {
             OF(DEVICE_REJECTED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 97,
     .name = "EAFNOSUPPORT",
     .meaning = "this host has no addresses of that family",
     .causes =
         {
             OTHER("IPv6 is off (net.ipv6.conf.all.disable_ipv6)",
                   "is the address an IPv6 one?"),
             OF(HOST_NO_INTERFACE, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 98,
     .name = "EADDRINUSE",
     .meaning = "another process listens at this port",
     .causes =
         {
             OTHER("a process of an earlier run still lives: `ss -ltnp` names it", NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 99,
     .name = "EADDRNOTAVAIL",
     .meaning = "this host does not have the address that it was to use",
     .causes =
         {
             OF(CONN_FOREIGN_ADDRESS, "was rank 0 to listen on the address?"),
             OF(HOST_NO_INTERFACE, "is NCCL_SOCKET_IFNAME that of another host?"),
             OF(ADDR_CHANGED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 100,
     .name = "ENETDOWN",
     .meaning = "the network interface is down",
     .causes =
         {
             OF(LINK_DOWN, "has the port no carrier (`ip link`)?"),
             OTHER("the interface was not set up (`ip link set IF up`)", NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 101,
     .name = "ENETUNREACH",
     .meaning = "no entry of the routing table leads to the address",
     .causes =
         {
             OF(CONN_NO_ROUTE, "was it connect() of a TCP socket, not modify_qp?"),
             OF(GID_PEER_ADDRESS, "is the GID at the slot in use an address of another "
                                  "host, or of a container?"),
             OF(GID_FIXED_INDEX, "is NCCL_IB_GID_INDEX set?"),
             OF(ADDR_PREFIX_MISMATCH,
                "do the two ends of the cable have different prefix lengths?"),
             OF(ROUTE_WRONG_NIC, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 103,
     .name = "ECONNABORTED",
     .meaning = "the connection was ended by this host's kernel or by the peer before it "
                "was used",
     .causes =
         {
             OF(PEER_DEAD, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 104,
     .name = "ECONNRESET",
     .meaning = "the peer's kernel ended the connection",
     .causes =
         {
             OF(PEER_DEAD,
                "is the peer's process gone? The root cause is in its own log"),
             OF(CONN_VERSION, "do the two ends run different versions?"),
             OF(CONN_MALFORMED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 105,
     .name = "ENOBUFS",
     .meaning = "the kernel or the device had no room for a packet or an object",
     .causes =
         {
             OF(DEVICE_QP_LIMIT, "was it the creation of a queue or queue pair?"),
             OF(HOST_KERNEL_MEMORY, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 107,
     .name = "ENOTCONN",
     .meaning = "the connection had ended, or had not been made",
     .causes =
         {
             OF(PEER_DEAD,
                "has the peer's process ended? The root cause is in its own log"),
             OF(CONN_REFUSED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 110,
     .name = "ETIMEDOUT",
     .meaning = "no answer came: to ARP at modify_qp to RTR, or to a TCP connection",
     .causes =
         {
             OF(ROUTE_WRONG_NIC,
                "was it modify_qp, and does the port that was used face another host "
                "than this peer (`weft doctor` on each host)?"),
             OF(ROUTE_LISTENER_BLIND, "did the listener announce one port only, and is "
                                      "it not the one that faces this host?"),
             OF(ROUTE_MERGED_NIC,
                "are two ports of one card merged into one NIC (NCCL_IB_MERGE_NICS), "
                "with cables to different hosts?"),
             OF(ROUTE_PREFIX_COLLISION, "do several cables have subnets inside one /24?"),
             OF(ROUTE_GID_COLLISION,
                "is the peer's address inside the subnets of two local ports?"),
             OF(ADDR_DUPLICATE, "do two ports have the same address?"),
             OF(NEIGH_ARP_IGNORED,
                "is arp_ignore set at the peer (`sysctl -a | grep arp_ignore`)?"),
             OF(HOST_BOND_PEERS,
                "is the port in a bond (`ip link show master BOND`) whose cables lead to "
                "different hosts?"),
             OF(NEIGH_NO_ANSWER,
                "does `arping -I IF PEER` get no answer on the right cable?"),
             OF(CONN_FILTERED,
                "was it connect() of TCP, and does `ping` of the same address work?"),
             OF(CONN_TIMEOUT, "was it connect() of TCP, or a step of the handshake?"),
             OF(ROUTE_LINK_LOCAL, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 111,
     .name = "ECONNREFUSED",
     .meaning = "the peer's host answered that no process listens at this TCP port",
     .causes =
         {
             OF(PEER_LATE, "does the peer's process start later than this one (it loads "
                           "a model, say)?"),
             OF(PEER_DEAD,
                "has the peer's process ended? The root cause is in its own log"),
             OF(CONN_LOOPBACK,
                "is the address 127.x, or ::1, or a name that /etc/hosts maps there?"),
             OF(CONN_REFUSED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 112,
     .name = "EHOSTDOWN",
     .meaning = "the neighbour did not answer",
     .causes =
         {
             OF(NEIGH_NO_ANSWER,
                "does `ip neigh` show FAILED for the address, on the right cable?"),
             OF(LINK_DOWN, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 113,
     .name = "EHOSTUNREACH",
     .meaning = "no neighbour answered for the address, or a firewall says so",
     .causes =
         {
             OF(CONN_REFUSED,
                "does `ping` of the address work? Then a firewall rejects the TCP port"),
             OF(NEIGH_NO_ANSWER,
                "does `ip neigh` show FAILED for the address, on the right cable?"),
             OF(ROUTE_WRONG_NIC, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 115,
     .name = "EINPROGRESS",
     .meaning = "a connection is being made: no error by itself",
     .causes =
         {
             OTHER("a call that does not wait began to connect: the line that follows, "
                   "or another number in this one, says what came of it",
                   NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 121,
     .name = "EREMOTEIO",
     .meaning = "the device's firmware refused or failed a command",
     .causes =
         {
             OF(DEVICE_FAILED, "does `dmesg` have a line of the NIC's driver at that "
                               "time, without `bad parameter`?"),
             OF(DEVICE_REJECTED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_ERRNO,
     .number = 125,
     .name = "ECANCELED",
     .meaning = "the call was ended from outside",
     .causes =
         {
             OF(PEER_DEAD,
                "has another rank's log an earlier error? That is the root cause"),
             OTHER("the program ended it", NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 0,
     .name = "SUCCESS",
     .meaning = "the work request succeeded",
     .causes =
         {
             OTHER("nothing is wrong", NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 1,
     .name = "LOC_LEN_ERR",
     .meaning = "a message was longer than the receive buffer, or than the device allows",
     .causes =
         {
             OF(DATA_WRONG,
                "do the ranks call different collectives, or with different sizes?"),
             OTHER("the posted receive is shorter than what the peer sends: an error of "
                   "the program",
                   NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 2,
     .name = "LOC_QP_OP_ERR",
     .meaning = "the device found the queue pair inconsistent",
     .causes =
         {
             OF(DEVICE_FAILED,
                "does `dmesg` have a line of the NIC's driver at that time?"),
             OF(DEVICE_REJECTED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 3,
     .name = "LOC_EEC_OP_ERR",
     .meaning = "an end-to-end context failed (reliable datagrams, which RoCE NICs lack)",
     .causes =
         {
             OF(DEVICE_FAILED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 4,
     .name = "LOC_PROT_ERR",
     .meaning =
         "a work request names memory that is not registered, or not with this key",
     .causes =
         {
             OF(PLUGIN_NOT_REGISTERED, "was the buffer freed, or never registered?"),
             OTHER(
                 "the lkey belongs to another protection domain: an error of the program",
                 NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 5,
     .name = "WR_FLUSH_ERR",
     .meaning = "the queue pair had failed before; soft-RoCE also reports it for a "
                "packet larger than its netdev's MTU",
     .causes =
         {
             OF(LINK_DOWN, "did the port lose its carrier (`ip link`, `dmesg`)?"),
             OF(LINK_MTU_MISMATCH, "is it soft-RoCE, and its netdev's MTU less than the "
                                   "other end's (`ip link show dev IF`)?"),
             OF(PEER_DEAD, "is the peer's process gone?"),
             OTHER("an earlier completion of this queue pair failed with another status: "
                   "explain that one",
                   NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 6,
     .name = "MW_BIND_ERR",
     .meaning = "a memory window could not be bound",
     .causes =
         {
             OTHER("an error of the program: the window's region has no such access",
                   NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 7,
     .name = "BAD_RESP_ERR",
     .meaning = "the response does not fit the request",
     .causes =
         {
             OF(LINK_CORRUPTING, "do error counters of the port grow (`ethtool -S`)?"),
             OF(DEVICE_FAILED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 8,
     .name = "LOC_ACCESS_ERR",
     .meaning = "the device may not write the memory of a receive or read",
     .causes =
         {
             OF(PLUGIN_NOT_REGISTERED,
                "was the buffer freed, or registered without local write?"),
             OF(DEVICE_FAILED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 9,
     .name = "REM_INV_REQ_ERR",
     .meaning = "the peer found the request invalid",
     .causes =
         {
             OF(DATA_REQUEST_INVALID,
                "is the message longer than the peer's receive, or an operation that its "
                "queue pair does not serve?"),
             OF(CONN_VERSION, "do the two ends run different versions?"),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 10,
     .name = "REM_ACCESS_ERR",
     .meaning = "the peer does not allow access to the address and key that were sent",
     .causes =
         {
             OF(PLUGIN_NOT_REGISTERED,
                "was the peer's buffer deregistered or freed while it was in use?"),
             OF(CONN_QPN_TRUNCATED,
                "does the program send its peer only 16 bits of queue pair numbers?"),
             OF(DATA_ACCESS_REFUSED,
                "is the rkey or the address stale, or the region without that access?"),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 11,
     .name = "REM_OP_ERR",
     .meaning = "the peer's device could not execute the request",
     .causes =
         {
             OF(DATA_RECEIVE_UNUSABLE, "does the peer's receive name memory that its "
                                       "device may write, and is it "
                                       "long enough?"),
             OF(DEVICE_FAILED,
                "does the peer's `dmesg` have a line of its NIC's driver?"),
             OF(PLUGIN_NOT_REGISTERED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 12,
     .name = "RETRY_EXC_ERR",
     .meaning = "no acknowledgement came, although the packet was sent again as often as "
                "retry_cnt allows",
     .causes =
         {
             OF(PEER_DEAD, "is the peer's process gone, or its host? Its own log has the "
                           "root cause"),
             OF(LINK_DOWN, "has the port no carrier (`ip link`), at either end?"),
             OF(HOST_FIREWALL_ROCE, "does a firewall of the receiving host drop UDP port "
                                    "4791 (`nft list ruleset`)?"),
             OF(HOST_RP_FILTER,
                "is rp_filter 1 at the receiving host, with several ports in use?"),
             OF(LINK_BLACK_HOLE,
                "do small messages pass and large ones not (`ping -M do -s 8972`)?"),
             OF(ROUTE_WRONG_NIC, "does the port that was used face another host than "
                                 "this peer (`weft doctor` on each host)?"),
             OF(ROUTE_CROSSED_PLANES,
                "do both ports face this peer, but not each other?"),
             OF(LINK_VLAN_MISMATCH,
                "are the addresses of the two ends in different VLANs?"),
             OF(ADDR_CHANGED,
                "did an address change, or an interface go down and up, during the job?"),
             OF(LINK_PAUSE_STORM,
                "do pause counters grow (`ethtool -S IF | grep pause`)?"),
             OF(LINK_ONE_WAY,
                "do counters show that packets arrive in one direction only?"),
             OF(LINK_LOSSY, NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 13,
     .name = "RNR_RETRY_EXC_ERR",
     .meaning =
         "the peer is there, but had no receive posted for as long as rnr_retry allows",
     .causes =
         {
             OF(PEER_RECEIVER_LATE, NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 14,
     .name = "LOC_RDD_VIOL_ERR",
     .meaning = "reliable datagram domains differ (RoCE NICs lack them)",
     .causes =
         {
             OF(DEVICE_FAILED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 15,
     .name = "REM_INV_RD_REQ_ERR",
     .meaning = "the peer refused a reliable datagram (RoCE NICs lack them)",
     .causes =
         {
             OF(DEVICE_FAILED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 16,
     .name = "REM_ABORT_ERR",
     .meaning = "the peer aborted the operation",
     .causes =
         {
             OF(PEER_DEAD, "is the peer's process gone?"),
             OF(DEVICE_FAILED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 17,
     .name = "INV_EECN_ERR",
     .meaning = "an end-to-end context does not exist (RoCE NICs lack them)",
     .causes =
         {
             OF(DEVICE_FAILED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 18,
     .name = "INV_EEC_STATE_ERR",
     .meaning = "an end-to-end context is in the wrong state (RoCE NICs lack them)",
     .causes =
         {
             OF(DEVICE_FAILED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 19,
     .name = "FATAL_ERR",
     .meaning = "the device failed in a way that it does not recover from",
     .causes =
         {
             OF(DEVICE_FAILED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 20,
     .name = "RESP_TIMEOUT_ERR",
     .meaning = "no response came within its time",
     .causes =
         {
             OF(PEER_SILENT, "does the peer's process live?"),
             OF(PEER_DEAD, NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 21,
     .name = "GENERAL_ERR",
     .meaning = "the device failed for a reason that has no status of its own",
     .causes =
         {
             OF(DEVICE_FAILED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 22,
     .name = "TM_ERR",
     .meaning = "tag matching failed",
     .causes =
         {
             OF(DEVICE_REJECTED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_WC_STATUS,
     .number = 23,
     .name = "TM_RNDV_INCOMPLETE",
     .meaning = "a rendezvous of tag matching is left to software: no error by itself",
     .causes =
         {
             OTHER("the program has to finish it", NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "unhandled system error",
     .meaning = "NCCL's ncclSystemError: a call to the kernel or to verbs failed; the "
                "line above it with NCCL_DEBUG=WARN has the call and its errno, and "
                "`weft explain` of that says more",
     .causes =
         {
             OF(ROUTE_WRONG_NIC,
                "does that line say `ibv_modify_qp failed` with errno 110?"),
             OF(HOST_MEMLOCK,
                "does it say `ibv_reg_mr` or `ibv_create_cq` with errno 12?"),
             OF(CONN_REFUSED, "does it say `connect` or `Connection refused`?"),
             OF(HOST_NO_INTERFACE, "does it say that no socket interface was found?"),
             OF(GID_MISSING, "does it say errno 61, or errno 22 of ibv_modify_qp?"),
             OTHER("/dev/shm of the container is too small for NCCL: `df /dev/shm`, "
                   "`docker run --shm-size`",
                   NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "remote process exited or there was a network error",
     .meaning = "NCCL's ncclRemoteError: another rank's connection closed, or a "
                "completion failed",
     .causes =
         {
             OF(PEER_DEAD,
                "has another rank's log an earlier error? That is the root cause"),
             OF(LINK_DOWN,
                "does a line say `Got completion ... with error` and status 12? Then "
                "`weft explain status 12`, and first look for ports without carrier"),
             OF(LINK_FLAPPING, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "collective operation timeout",
     .meaning = "PyTorch's watchdog: a collective did not end in time; NCCL itself waits "
                "for ever",
     .causes =
         {
             OF(PEER_DEAD, "is the process of any rank gone?"),
             OF(PEER_SILENT,
                "is one rank not in the collective (`py-spy dump` on each)?"),
             OF(ROUTE_WRONG_NIC, "did not even the first collective end?"),
             OF(LINK_PAUSE_STORM,
                "do pause counters grow while it hangs (`ethtool -S IF | grep pause`)?"),
             OF(LINK_LOSSY, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "connection closed by remote peer",
     .meaning = "NCCL's bootstrap or socket: the other rank closed the connection",
     .causes =
         {
             OF(PEER_DEAD,
                "has the other rank's log an earlier error? That is the root cause"),
             OF(CONN_VERSION, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "no device found",
     .meaning =
         "NCCL's net_ib found no RDMA device with an active port, and goes on over TCP",
     .causes =
         {
             OF(HOST_NO_DEVICE,
                "does `ibv_devices` show none in this process's container?"),
             OF(HOST_HCA_LIST, "is NCCL_IB_HCA set?"),
             OF(LINK_DOWN, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "failed to initialize any net plugin",
     .meaning = "NCCL found no network that takes its job: neither the plugin of "
                "NCCL_NET_PLUGIN nor one of its own",
     .causes =
         {
             OTHER("NCCL 2.28.3 to 2.29.7 forgets the name of a plugin that it closed; "
                   "NCCL_NET_PLUGIN_REF_COUNT=1 keeps it open",
                   "had the process a communicator before, and destroyed it?"),
             OTHER("NCCL_NET names a network that is not among them: the plugin's is "
                   "`Mesh`, NCCL's are `IB` and `Socket`",
                   "is NCCL_NET set?"),
             OTHER("the plugin was not found: LD_LIBRARY_PATH lacks its directory",
                   "does NCCL_DEBUG=INFO say `Could not find` or `cannot open`?"),
             OF(HOST_NO_DEVICE,
                "does `ibv_devices` show none in this process's container?"),
             OF(HOST_NO_INTERFACE, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "no socket interface found",
     .meaning = "NCCL found no network interface for its bootstrap",
     .causes =
         {
             OF(HOST_NO_INTERFACE, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "unhandled cuda error",
     .meaning = "NCCL's ncclUnhandledCudaError: a call of CUDA failed; the line above it "
                "with NCCL_DEBUG=WARN has the call and its error",
     .causes =
         {
             OF(HOST_NO_GPU, "does that line say that there is no device, or that the "
                             "driver is too old?"),
             OF(HOST_IPC_REFUSED, "does it name peer access or an IPC handle?"),
             OTHER("the GPU's memory is full, or an earlier kernel failed", NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "internal error - please report",
     .meaning = "NCCL's ncclInternalError: a check of NCCL failed, often after an error "
                "of another rank or of a net plugin",
     .causes =
         {
             OF(PEER_DEAD,
                "has another rank's log an earlier error? That is the root cause"),
             OTHER("ranks run different versions of NCCL, or with different NCCL_ "
                   "variables",
                   "do the first lines of NCCL_DEBUG=INFO differ between ranks?"),
             OTHER("a defect of NCCL or of its net plugin: `weft plugin-check` examines "
                   "a plugin",
                   NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "invalid usage",
     .meaning = "NCCL's ncclInvalidUsage or ncclInvalidArgument: the program or a "
                "setting is wrong; the line above it with NCCL_DEBUG=WARN says which",
     .causes =
         {
             OTHER("two ranks of one host use the same GPU",
                   "does that line say `Duplicate GPU detected`?"),
             OTHER("ranks call different collectives, or with different arguments",
                   "does it name a rank, a root or a count?"),
             OTHER("an NCCL_ variable has a value that NCCL does not know", NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "could not find NET with id",
     .meaning = "NCCL's graph names a NIC that this rank does not have",
     .causes =
         {
             OF(HOST_HCA_LIST, "is NCCL_IB_HCA set, and different on some host?"),
             OTHER("NCCL_GRAPH_FILE or NCCL_TOPO_FILE is of another machine", NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "no plugin found",
     .meaning = "NCCL found no net plugin, and uses its own networks: no error unless "
                "one was to be used",
     .causes =
         {
             OF(PLUGIN_NOT_CHOSEN, "is NCCL_NET_PLUGIN not set?"),
             OF(PLUGIN_NOT_FOUND, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "failed to extend /dev/shm",
     .meaning = "NCCL could not get shared memory for ranks of one host",
     .causes =
         {
             OTHER("/dev/shm of the container is too small for NCCL: `docker run "
                   "--shm-size`",
                   "is it almost full (`df /dev/shm`)?"),
             OF(HOST_PERMISSION, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "IBV_EVENT_PORT_ERR",
     .meaning = "a port went down",
     .causes =
         {
             OF(LINK_FLAPPING,
                "did it come back by itself (`IBV_EVENT_PORT_ACTIVE`, `dmesg`)?"),
             OF(LINK_DOWN, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "IBV_EVENT_GID_CHANGE",
     .meaning = "an entry of a port's GID table changed",
     .causes =
         {
             OF(LINK_FLAPPING, "did the port go down and up at that time (`dmesg`)?"),
             OF(ADDR_CHANGED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "IBV_EVENT_QP_FATAL",
     .meaning = "the device put a queue pair into its error state",
     .causes =
         {
             OF(PLUGIN_NOT_REGISTERED,
                "was a buffer freed or deregistered while it was in use?"),
             OF(DEVICE_FAILED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "IBV_EVENT_DEVICE_FATAL",
     .meaning = "the device failed, and all its objects with it",
     .causes =
         {
             OF(DEVICE_FAILED, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "failed to modify QP",
     .meaning = "perftest or another program could not connect its queue pair to the "
                "peer's; an errno beside it says more",
     .causes =
         {
             OF(ROUTE_WRONG_NIC, "does it take seconds, and does the device that was "
                                 "named (`-d`) face another host than this peer?"),
             OF(GID_FIXED_INDEX,
                "is a GID index given (`-x`), and is the entry of another type or family "
                "at the other end (`show_gids`)?"),
             OF(GID_NO_IPV4,
                "is one end's GID ::ffff:a.b.c.d, and the other's an IPv6 address?"),
             OF(LINK_MTU_MISMATCH, "is the MTU that was asked for (`-m`) larger than a "
                                   "port's active MTU (`ibv_devinfo`)?"),
             OF(GID_MISSING, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "couldn't connect to",
     .meaning = "a program could not reach its peer over TCP, before any RDMA",
     .causes =
         {
             OF(PEER_LATE, "did the server not listen yet (`ss -ltn` on its host)?"),
             OF(PEER_DEAD, "had the server's program ended (`echo $?` on its host, and "
                           "what it printed)?"),
             OF(CONN_REFUSED, "does the server listen on another address or TCP port "
                              "(`ss -ltn` on its host)?"),
             OF(CONN_FILTERED, "does `ping` of the address work?"),
             OF(CONN_NO_ROUTE, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "client socket has timed out",
     .meaning =
         "PyTorch's store: this rank did not reach rank 0 at MASTER_ADDR and MASTER_PORT",
     .causes =
         {
             OF(PEER_LATE, "does rank 0 start later, or has its process ended (`ss -ltn` "
                           "on its host)?"),
             OF(CONN_LOOPBACK,
                "is MASTER_ADDR a name that /etc/hosts maps to 127.x on rank 0's host?"),
             OF(CONN_FILTERED, "does `ping` of MASTER_ADDR work from this host?"),
             OF(CONN_NO_ROUTE, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "endpoint timeout",
     .meaning = "UCX: the peer stopped answering",
     .causes =
         {
             OF(PEER_DEAD, "is the peer's process gone? Its own log has the root cause"),
             OF(LINK_DOWN, "has the port no carrier (`ip link`), at either end?"),
             OF(PEER_SILENT, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "destination is unreachable",
     .meaning = "UCX: no transport joins this process and its peer",
     .causes =
         {
             OTHER("UCX_NET_DEVICES or UCX_TLS leaves out the ports that face this peer",
                   "is UCX_NET_DEVICES or UCX_TLS set?"),
             OF(ROUTE_NO_FACING_PORT, "do the two hosts share no cable (`weft doctor` "
                                      "with the reports of both)?"),
             OF(HOST_NO_DEVICE, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "failed to TCP connect to a peer MPI process",
     .meaning = "Open MPI's TCP transport reached no process of the job at an address "
                "that the peer published",
     .causes =
         {
             OTHER("Open MPI takes any network for one that joins all hosts: set "
                   "btl_tcp_if_include (and oob_tcp_if_include) to the network that does",
                   "are the cables' subnets different from pair to pair, and "
                   "btl_tcp_if_include not set?"),
             OF(CONN_FILTERED, "does `ping` of the address that the message has work?"),
             OF(CONN_NO_ROUTE, NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "no OpenFabrics connection schemes",
     .meaning = "Open MPI's old openib transport cannot use these ports",
     .causes =
         {
             OTHER("openib needs rdmacm on RoCE, and is no longer maintained: `--mca pml "
                   "ucx`",
                   NULL),
         }},
    {.kind = DIAG_SYMPTOM_MESSAGE,
     .number = 0,
     .name = "unable to reliably start one or more daemons",
     .meaning = "Open MPI could not start its daemon on a host",
     .causes =
         {
             OTHER("`ssh HOST true` asks for a password, or orted is not in the PATH of "
                   "a shell that is not interactive",
                   "does `ssh HOST orted --version` fail?"),
             OF(CONN_FILTERED, NULL),
         }},
};

const struct diag_symptom *diag_symptom_at(size_t index)
{
    return index < WEFT_LENGTH(symptoms) ? &symptoms[index] : NULL;
}

size_t diag_symptom_causes(const struct diag_symptom *symptom)
{
    size_t n = 1;

    while (n < DIAG_CAUSES_MAX && symptom->causes[n - 1].ask != NULL) {
        n++;
    }
    return n;
}
