/* Derives findings (coded causes) from recorded observations; a pure function. Its input is what
 * the hosts themselves observed and what their peers reported to them, never what a simulator
 * knows. Values that were not observed are unknown, and an unknown value never supports a cause. */
#ifndef WEFT_DIAG_DIAG_H
#define WEFT_DIAG_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/wait.h"
#include "diag/catalogue.h"
#include "io/addr.h"
#include "io/hostinfo.h"

#define DIAG_NAME_BYTES 64
#define DIAG_GIDS_MAX 16
/* Maximum number of GIDs that a port's description contains (RDMA_FACTS_GIDS_MAX). Of a longer
 * table, the GIDs without an address and those beyond the maximum are omitted. */
#define DIAG_TOLD_GIDS_MAX 8
#define DIAG_CANDIDATES_MAX 3
#define DIAG_NO_GID_INDEX (-2)
/* Prefix length with which NCCL's subnet-aware routing compares IPv4 addresses if
 * NCCL_IB_SUBNET_PREFIX_LEN is not set. */
#define DIAG_SUBNET_LEN 24
/* Policy of a program whose device is in its command line or in lines of UCX. */
#define DIAG_POLICY_GIVEN "given"

/* ---- observations ---- */

enum diag_known { DIAG_UNKNOWN, DIAG_NO, DIAG_YES };

struct diag_gid {
    struct io_ip ip; /* bytes of the GID, interpreted as an address */
    int type;        /* 1 for RoCE v1, 2 for RoCE v2, 0 if unknown */
    /* Prefix length of the interface address that equals the GID; 0 if there is none, or
     * IO_UNKNOWN. */
    int prefix_len;
    int index;   /* slot in the port's GID table, or IO_UNKNOWN */
    int vlan_id; /* VLAN of the netdev with that address; 0 if none; or IO_UNKNOWN */
};

/* Counters of a port, each or IO_UNKNOWN. Names and meanings are those of struct
 * io_port_counters. */
enum diag_counter {
    DIAG_TX_PACKETS,
    DIAG_RX_PACKETS,
    DIAG_RETRANSMITS,
    DIAG_TIMEOUTS,
    DIAG_OUT_OF_SEQUENCE,
    DIAG_RNR_NAKS_SENT,
    DIAG_ICRC_ERRORS,
    DIAG_RX_UNCLAIMED,
    DIAG_RX_FILTERED_SOURCE,
    DIAG_RX_FILTERED_PORT,
    DIAG_RX_OVERSIZE,
    DIAG_TX_QUEUE_DROPS,
    DIAG_RX_PAUSES,
    DIAG_RX_PAUSE_NS,
    DIAG_RX_FRAMES,
    DIAG_RX_DUPLICATES,
    DIAG_TX_FRAMES,
    DIAG_N_COUNTERS
};
const char *diag_counter_name(enum diag_counter counter); /* "tx_packets" */

struct diag_port {
    char name[DIAG_NAME_BYTES]; /* "p0", "c0.1", "mlx5_0/2" */
    enum diag_known is_up;
    /* In bytes. Each number of this struct can be IO_UNKNOWN. */
    int64_t netdev_mtu;
    int64_t active_mtu; /* bytes */
    int64_t rate_bps;
    bool has_gids; /* the GID table was read */
    /* The table has more GIDs than gids[]. Those without an address are omitted first. */
    enum diag_known gids_cut;
    struct diag_gid gids[DIAG_GIDS_MAX];
    uint32_t n_gids;
    int64_t device; /* number of the NIC, equal for all its ports */
    /* NO if settings of the host (NCCL_IB_HCA) forbid the program to use the port. */
    enum diag_known is_opened;
    enum diag_known is_software;   /* packets pass through the host's IP stack (rxe) */
    int64_t rp_filter, arp_ignore; /* effective values of its netdev */
    enum diag_known is_bonded;     /* its netdev belongs to a bond or team */
    char master[DIAG_NAME_BYTES];  /* name of that bond or team; "" if none or unknown */
    /* Number of addresses of its netdev, except link-local ones, with or without a GID. */
    int64_t n_addresses;
    /* PCIe link of the card: number of lanes and millions of transfers per second, at present and
     * at most (limited by the card and its slot). */
    int64_t pcie_lanes, pcie_lanes_max, pcie_mts, pcie_mts_max;
    int64_t counters[DIAG_N_COUNTERS];
};

/* Sets all values to unknown, without a name and GIDs. */
void diag_port_init(struct diag_port *port);

/* A rail used by a connection of a host. */
struct diag_use {
    char peer[DIAG_NAME_BYTES];
    char local_port[DIAG_NAME_BYTES], remote_port[DIAG_NAME_BYTES];
    char local_gid[IO_IP_TEXT_BYTES], remote_gid[IO_IP_TEXT_BYTES]; /* "" if unknown */
    int64_t path_mtu;
    /* A larger path MTU, whose probes were lost; 0 if none, or IO_UNKNOWN. */
    int64_t vanished_mtu;
    /* Bytes of large messages that were sent over it and timed; 0 if none. IO_UNKNOWN if others
     * send data over the same cables on this host's behalf. */
    int64_t timed_bytes;
    int64_t best_bps; /* rate of the fastest 4 MiB of them, while the rail was busy */
    int64_t rtt_ns;   /* time in which a small message and its answer passed */
};

/* How a host learned of a failure, in the order in which diag() uses failures. */
enum diag_source {
    DIAG_OWN,       /* the host itself detected it */
    DIAG_MAYBE_OWN, /* not recorded whether the host detected it */
    DIAG_HEARSAY    /* reported by a peer or a relay that gave up first */
};

/* A failure that a host recorded. `peer` is the host that it was communicating with; "" if the
 * failure concerns none. */
struct diag_error {
    struct weft_error error;
    char peer[DIAG_NAME_BYTES];
    weft_ns at_ns;
    enum diag_source source;
};

/* An event that a host waited for when it failed. */
struct diag_wait {
    enum weft_wait_for what;
    char peer[DIAG_NAME_BYTES]; /* host from which it expected that */
    weft_ns waited_ns;          /* or IO_UNKNOWN */
};

/* An asynchronous event of a device. */
struct diag_event {
    char type[32]; /* "port_error", "port_active", "gid_change", "device_fatal", ... */
    char port[DIAG_NAME_BYTES];   /* "" if it concerns no port, or if unknown */
    char device[DIAG_NAME_BYTES]; /* set if the event concerns no port */
    weft_ns at_ns;
};

/* Ports of a peer, as the peer described them to this host. */
struct diag_described {
    char peer[DIAG_NAME_BYTES];
    struct diag_port *ports; /* Owned [n_ports] */
    uint32_t n_ports;
};

struct diag_host {
    char name[DIAG_NAME_BYTES];
    /* The host reported its observations. Otherwise its lists are empty, and only other hosts
     * describe it. */
    bool was_observed;
    /* Its launcher saw its process exit before it reported anything. */
    bool has_vanished;
    /* Its launcher killed its process, because it made no progress after all other processes had
     * ended. */
    bool has_hung;
    char state[24];        /* last state, named like its phase ("jobs"); "" if unknown */
    int64_t memlock_bytes; /* RLIMIT_MEMLOCK; INT64_MAX if unlimited; or IO_UNKNOWN */
    char policy[32];       /* policy that chose its ports and GIDs; "" if unknown */
    /* GID slot that its settings select; DIAG_NO_GID_INDEX if none, or IO_UNKNOWN. */
    int64_t gid_index;
    /* NCCL_IB_SUBNET_PREFIX_LEN, with which NCCL's subnet-aware routing compares IPv4 addresses. */
    int64_t subnet_len;
    /* NCCL_IB_HCA, if its policy reads that setting; "" if unset. */
    char hca_list[2 * DIAG_NAME_BYTES];
    enum diag_known forwards_ip; /* net.ipv4.ip_forward */
    /* Its netdev of the management network has no carrier. NO if it has no such netdev. */
    enum diag_known management_down;
    /* The policy merges the ports of one NIC into one device. */
    enum diag_known merges_nics;
    bool has_uses;         /* `uses` was recorded */
    struct diag_use *uses; /* Owned [n_uses] */
    uint32_t n_uses;
    struct diag_port *ports; /* Owned [n_ports] */
    uint32_t n_ports;
    struct diag_error *errors; /* Owned [n_errors], in order of time */
    uint32_t n_errors;
    /* Owned [n_left_out]; errors because of which rails or routes were left out of a job that
     * others carried. */
    struct diag_error *left_out;
    uint32_t n_left_out;
    struct diag_wait *waits; /* Owned [n_waits]; the first ones */
    uint32_t n_waits;
    bool has_events;           /* `events` contains all events */
    struct diag_event *events; /* Owned [n_events], in order of time; the first ones */
    uint32_t n_events;
    struct diag_described *described; /* Owned [n_described] */
    uint32_t n_described;
};

/* Number of pairs of neighbours in the ring of ranks that share no cable or switch: in the given
 * order, and in the best order found. Both 0 if the given order needs no change. */
struct diag_rank_order {
    bool is_known; /* both numbers are valid */
    uint32_t missing, better_missing;
    /* Names of hosts, or numbers of the given ranks, which end in "..." if truncated. */
    char better_order[DIAG_NAME_BYTES];
};

/* A cable whose two ports are known from the scenario. An end at a switch has the switch's name,
 * which no host has. */
struct diag_cable {
    char from[DIAG_NAME_BYTES], from_port[DIAG_NAME_BYTES];
    char to[DIAG_NAME_BYTES], to_port[DIAG_NAME_BYTES];
    int64_t rate_bps; /* of each direction; 0 if unknown */
};

struct diag_input {
    struct diag_host *hosts; /* Owned [n_hosts], in rank order */
    uint32_t n_hosts;
    struct diag_rank_order rank_order;
    struct diag_cable *cables; /* Owned [n_cables]; 0 if the cables are unknown */
    uint32_t n_cables;
};

/* Free the contents and reset the struct, which the caller owns. */
void diag_host_fini(struct diag_host *host);
void diag_input_fini(struct diag_input *input);
/* Returns NULL if `host` has no port with that name, or if either is NULL. */
struct diag_port *diag_find_port(const struct diag_host *host, const char *name);

/* ---- findings ---- */

#define DIAG_EVIDENCE_MAX 48

/* A fact that supports a finding. Its name is that of a value of the failure, or of the finding
 * (docs/findings.md). */
struct diag_value {
    char name[32];
    enum weft_kind kind;
    int64_t number;
    char text[96];
};

/* A host that failed only because it waited for a host at fault, or for one that waited for it. */
struct diag_behind {
    char host[DIAG_NAME_BYTES];
    enum weft_wait_for what;
    char peer[DIAG_NAME_BYTES]; /* host from which it expected that */
};
#define DIAG_BEHIND_MAX 16

struct diag_finding {
    const struct diag_entry *entry; /* code, cause and remedy (catalogue.h) */
    /* severity here; can differ from the entry's */
    enum diag_severity severity;
    /* a job succeeded despite it; evidence has `survived` */
    bool is_survived;
    char host[DIAG_NAME_BYTES]; /* place; "" if it has none */
    char port[DIAG_NAME_BYTES];
    char peer[DIAG_NAME_BYTES];
    /* values from both ends; text "unknown" if not known */
    struct diag_value evidence[DIAG_EVIDENCE_MAX];
    uint32_t n_evidence;
    /* Only for `undetermined`: possible causes, in the order of the rules. */
    const struct diag_entry *candidates[DIAG_CANDIDATES_MAX];
    uint32_t n_candidates;
    /* The first of n_behind, in the order in which the fault reached them */
    struct diag_behind behind[DIAG_BEHIND_MAX];
    uint32_t n_behind;
};

struct diag_findings {
    /* Owned [n]; most severe first, then in the order in which they were found */
    struct diag_finding *items;
    uint32_t n;
};

/* Derives all findings. Reports a cause once per pair of hosts, whatever the ports, except for
 * causes of idle cables. The caller calls diag_findings_fini(). Aborts when out of memory. */
void diag(const struct diag_input *input, struct diag_findings *out);
void diag_findings_fini(struct diag_findings *findings);
/* Sorts by severity, errors first. The sort is stable. */
void diag_sort(struct diag_findings *findings);

/* Writes the place of a finding: "titanic:p0 -> iceberg", "titanic", or "" if it has none. */
void diag_where(const struct diag_finding *finding, char *out, size_t out_bytes);

#endif
