/* From recorded observations to coded causes: a pure function. What it may look at is
 * what the hosts themselves saw and were told, never what a simulator knows; whatever was
 * not observed is unknown, and unknown never argues for a cause. */
#ifndef WEFT_DIAG_DIAG_H
#define WEFT_DIAG_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "diag/catalogue.h"
#include "io/addr.h"
#include "io/hostinfo.h"

#define DIAG_NAME_BYTES 64
#define DIAG_GIDS_MAX 16
#define DIAG_TOLD_GIDS_MAX 8 /* of a longer table some are left out */
#define DIAG_CANDIDATES_MAX 3
#define DIAG_NO_GID_INDEX (-2)
#define DIAG_POLICY_GIVEN                                                                \
    "given" /* no policy chose: the device was named on the command line */

/* ---- observations ---- */

enum diag_known { DIAG_UNKNOWN, DIAG_NO, DIAG_YES };

struct diag_gid {
    struct io_ip ip; /* the GID's bytes, which are an address */
    int type;        /* 1 RoCE v1, 2 RoCE v2; 0: unknown */
    int prefix_len;  /* of the interface address that equals it; 0: no such address,
                      * IO_UNKNOWN: not known */
    int index;       /* in the port's table, or IO_UNKNOWN */
    int vlan_id;     /* of the netdev with that address; 0: none; or IO_UNKNOWN */
};

/* What the port counted, each or IO_UNKNOWN; names and meanings are struct io_port_counters'. */
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
    DIAG_N_COUNTERS
};
const char *diag_counter_name(enum diag_counter counter); /* "tx_packets" */

struct diag_port {
    char name[DIAG_NAME_BYTES]; /* "p0", "c0.1", "mlx5_0/2" */
    enum diag_known is_up;
    int64_t netdev_mtu; /* bytes, or IO_UNKNOWN, as in all numbers here */
    int64_t active_mtu; /* bytes */
    int64_t rate_bps;
    bool has_gids; /* false: its GID table was not seen */
    struct diag_gid gids[DIAG_GIDS_MAX];
    uint32_t n_gids;
    int64_t device;                /* ports of one NIC share it */
    enum diag_known is_opened;     /* its host's settings let the program use it */
    enum diag_known is_software;   /* its packets pass the host's IP stack */
    int64_t rp_filter, arp_ignore; /* of its netdev, as effective */
    enum diag_known is_bonded;     /* its netdev is a port of a bond or team */
    char master[DIAG_NAME_BYTES];  /* which one; "": unknown, or none */
    int64_t
        n_addresses; /* of its netdev, beyond link-local ones, whatever GIDs there are */
    /* Lanes and millions of transfers a second of its card's PCIe link: as it runs, and as the
     * card and its slot could. */
    int64_t pcie_lanes, pcie_lanes_max, pcie_mts, pcie_mts_max;
    int64_t counters[DIAG_N_COUNTERS];
};

/* Nothing but unknowns, and no GIDs. */
void diag_port_init(struct diag_port *port);

/* A rail that a connection of this host used. */
struct diag_use {
    char peer[DIAG_NAME_BYTES];
    char local_port[DIAG_NAME_BYTES], remote_port[DIAG_NAME_BYTES];
    char local_gid[IO_IP_TEXT_BYTES], remote_gid[IO_IP_TEXT_BYTES]; /* "" unknown */
    int64_t path_mtu;
    int64_t vanished_mtu; /* a larger one, whose packets vanished in probes; 0: none */
};

/* Who met a failure is asked first, then who may have, then who heard of one. */
enum diag_source {
    DIAG_OWN,       /* this host met it */
    DIAG_MAYBE_OWN, /* nobody says whether it did */
    DIAG_HEARSAY    /* another host gave up first and said so */
};

/* Something failed. `peer` is the host it happened with, "" if it concerns none. */
struct diag_error {
    struct weft_error error;
    char peer[DIAG_NAME_BYTES];
    weft_ns at_ns;
    enum diag_source source;
};

/* An async event of a device. */
struct diag_event {
    char type[32]; /* "port_error", "port_active", "gid_change", "device_fatal", ... */
    char port[DIAG_NAME_BYTES];   /* "": of none, or unknown */
    char device[DIAG_NAME_BYTES]; /* of what is about no port */
    weft_ns at_ns;
};

/* What a peer told this host of itself. */
struct diag_told {
    char peer[DIAG_NAME_BYTES];
    struct diag_port *ports; /* Owned [n_ports] */
    uint32_t n_ports;
};

struct diag_host {
    char name[DIAG_NAME_BYTES];
    bool was_observed;     /* false: only others spoke of it; its own lists are empty */
    bool has_vanished;     /* whoever started its process saw it end without a word */
    bool has_hung;         /* ... or had to end it: all others had, and it did nothing */
    char state[24];        /* where it was when it ended: "jobs", "" unknown */
    int64_t memlock_bytes; /* INT64_MAX: unlimited */
    char policy[32];       /* that chose its ports and GIDs; "" unknown */
    int64_t gid_index;     /* that its settings fix; DIAG_NO_GID_INDEX, or IO_UNKNOWN */
    char
        hca_list[2 * DIAG_NAME_BYTES]; /* NCCL_IB_HCA, if its policy reads it; "": none */
    enum diag_known forwards_ip;       /* net.ipv4.ip_forward */
    enum diag_known merges_nics; /* that policy takes the ports of one NIC for one */
    bool has_uses;               /* false: it is not known what its connections used */
    struct diag_use *uses;       /* Owned [n_uses] */
    uint32_t n_uses;
    struct diag_port *ports; /* Owned [n_ports] */
    uint32_t n_ports;
    struct diag_error *errors; /* Owned [n_errors], in order of time */
    uint32_t n_errors;
    /* Owned [n_left_out]; of rails that were left out, where others carried the job */
    struct diag_error *left_out;
    uint32_t n_left_out;
    bool has_events;           /* false: async events were not recorded */
    struct diag_event *events; /* Owned [n_events], in order of time */
    uint32_t n_events;
    struct diag_told *told; /* Owned [n_told] */
    uint32_t n_told;
};

/* How the ring of ranks lies on the mesh: neighbours without a cable (or switch) of their
 * own, in the order given and in a better one. All 0: nothing to mend. */
struct diag_rank_order {
    bool is_known; /* both numbers are; otherwise they mean nothing */
    uint32_t missing, better_missing;
    char better_order[DIAG_NAME_BYTES]; /* ranks, "0 2 1 3"; cut off with "..." */
};

/* A cable of which it is known which two ports it joins, from the file that describes the mesh. An
 * end at a switch has the switch's name, which is no host's. */
struct diag_cable {
    char from[DIAG_NAME_BYTES], from_port[DIAG_NAME_BYTES];
    char to[DIAG_NAME_BYTES], to_port[DIAG_NAME_BYTES];
};

struct diag_input {
    struct diag_host *hosts; /* Owned [n_hosts], in rank order */
    uint32_t n_hosts;
    struct diag_rank_order rank_order;
    struct diag_cable *cables; /* Owned [n_cables]; none: not known */
    uint32_t n_cables;
};

/* Free everything inside; the structs themselves are the caller's. */
void diag_host_fini(struct diag_host *host);
void diag_input_fini(struct diag_input *input);

/* ---- findings ---- */

#define DIAG_EVIDENCE_MAX 48

struct diag_finding {
    const struct diag_entry *entry; /* code, cause, remedy: catalogue.h */
    enum diag_severity severity; /* the entry's; a warning where nothing failed of it */
    bool is_survived;            /* a job lived through it: `survived` is evidence */
    char host[DIAG_NAME_BYTES];  /* where; "" if it has no place */
    char port[DIAG_NAME_BYTES];
    char peer[DIAG_NAME_BYTES];
    /* values from both ends; "unknown" is one */
    struct weft_value evidence[DIAG_EVIDENCE_MAX];
    uint32_t n_evidence;
    /* `undetermined` only: what it may be, likeliest first. */
    const struct diag_entry *candidates[DIAG_CANDIDATES_MAX];
    uint32_t n_candidates;
};

struct diag_findings {
    /* Owned [n]; most severe first, then in order of finding */
    struct diag_finding *items;
    uint32_t n;
};

/* Judges. A code appears once per (host, port, peer). Aborts when out of memory. */
void diag(const struct diag_input *input, struct diag_findings *out);
void diag_findings_fini(struct diag_findings *findings);
/* Errors first; those of one severity stay in their order. */
void diag_sort(struct diag_findings *findings);

/* "titanic:p0 -> iceberg", "titanic", "". */
void diag_where(const struct diag_finding *finding, char *out, size_t out_bytes);

#endif
