/* The table of findings, which `weft run`, `weft doctor`, `weft diagnose`, `weft explain`,
 * `expect:` and docs/findings.md use. Its text is in findings.txt. Codes are a contract, so a code
 * never changes its meaning. */
#ifndef WEFT_DIAG_CATALOGUE_H
#define WEFT_DIAG_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

enum diag_severity { DIAG_ERROR, DIAG_WARNING, DIAG_INFO };

enum diag_code {
    DIAG_ROUTE_WRONG_NIC,
    DIAG_ROUTE_NO_FACING_PORT,
    DIAG_ROUTE_GID_COLLISION,
    DIAG_LINK_DOWN,
    DIAG_LINK_MTU_MISMATCH,
    DIAG_LINK_BLACK_HOLE,
    DIAG_GID_TYPE_MISMATCH,
    DIAG_GID_MISSING,
    DIAG_GID_PEER_ADDRESS,
    DIAG_NEIGH_NO_ANSWER,
    DIAG_PEER_DEAD,
    DIAG_PEER_SILENT,
    DIAG_CONN_AUTH_FAILED,
    DIAG_CONN_REFUSED,
    DIAG_CONN_TIMEOUT,
    DIAG_HOST_MEMLOCK,
    DIAG_HOST_NO_DEVICE,
    DIAG_DATA_WRONG,
    DIAG_MESH_RANK_ORDER,
    DIAG_ROUTE_LISTENER_BLIND,
    DIAG_ROUTE_PREFIX_COLLISION,
    DIAG_ROUTE_CROSSED_PLANES,
    DIAG_ROUTE_MERGED_NIC,
    DIAG_ROUTE_LINK_LOCAL,
    DIAG_MESH_NO_CABLE,
    DIAG_ADDR_MISSING,
    DIAG_ADDR_PREFIX_MISMATCH,
    DIAG_ADDR_DUPLICATE,
    DIAG_ADDR_CHANGED,
    DIAG_GID_FIXED_INDEX,
    DIAG_GID_LINK_LOCAL,
    DIAG_GID_NO_IPV4,
    DIAG_GID_NO_NETDEV,
    DIAG_LINK_FLAPPING,
    DIAG_LINK_ONE_WAY,
    DIAG_LINK_LOSSY,
    DIAG_LINK_CORRUPTING,
    DIAG_LINK_PAUSE_STORM,
    DIAG_LINK_VLAN_MISMATCH,
    DIAG_NEIGH_ARP_IGNORED,
    DIAG_HOST_RP_FILTER,
    DIAG_HOST_FIREWALL_ROCE,
    DIAG_CONN_FILTERED,
    DIAG_PEER_LATE,
    DIAG_PEER_RECEIVER_LATE,
    DIAG_HOST_KERNEL_MEMORY,
    DIAG_HOST_PERMISSION,
    DIAG_DEVICE_QP_LIMIT,
    DIAG_DEVICE_REJECTED,
    DIAG_DEVICE_FAILED,
    DIAG_UNDETERMINED,
    DIAG_PLUGIN_NOT_CHOSEN,
    DIAG_PLUGIN_NOT_FOUND,
    DIAG_PLUGIN_SETTING,
    DIAG_HOST_NO_GPU,
    DIAG_CONN_VERSION,
    DIAG_HOST_PCIE_NARROW,
    DIAG_LINK_LEFT_OUT,
    DIAG_CONN_QPN_TRUNCATED,
    DIAG_ROUTE_SLOW_LANE,
    DIAG_ROUTE_MERGED_ONE_END,
    DIAG_CONN_LOOPBACK,
    DIAG_HOST_FD_LIMIT,
    DIAG_CONN_MALFORMED,
    DIAG_PLUGIN_NOT_REGISTERED,
    DIAG_ROUTE_FORWARD_OFF,
    DIAG_ROUTE_FORWARD_BLOCKED,
    DIAG_HOST_NO_INTERFACE,
    DIAG_GID_STALE_INDEX,
    DIAG_HOST_HCA_LIST,
    DIAG_HOST_BOND_PEERS,
    DIAG_CONN_NO_ROUTE,
    DIAG_ADDR_NO_FACING_PORT,
    DIAG_HOST_PCIE_SHARED,
    DIAG_LINK_SLOW,
    DIAG_HOST_IPC_REFUSED,
    DIAG_PEER_DEADLOCK,
    DIAG_CONN_FOREIGN_ADDRESS,
    DIAG_DATA_REQUEST_INVALID,
    DIAG_DATA_ACCESS_REFUSED,
    DIAG_DATA_RECEIVE_UNUSABLE,
    DIAG_HOST_MANAGEMENT_DOWN,
    DIAG_N_CODES
};

/* Place of a finding's cause, relative to its host and its peer. */
enum diag_place {
    DIAG_AT_CABLE, /* on the cable between them, or at an unknown end of it */
    DIAG_AT_END,   /* at the host's end; the cable itself works */
    DIAG_AT_PORTS, /* in two ports that are not the ends of one cable */
    DIAG_AT_HOST,  /* at the host, independent of the peer */
    DIAG_AT_PEER   /* at the peer, independent of the host */
};

struct diag_entry {
    enum diag_code id;
    const char *code; /* "route.wrong_nic" */
    enum diag_severity severity;
    enum diag_place place;
    const char *cause; /* one sentence without a capital letter or full stop */
    const char *remedy;
    const char *reference; /* where the behaviour is documented */
    const char *decide;    /* command or check that distinguishes it from other causes */
    const char *example;   /* path of a scenario that shows it; NULL if there is none */
    /* paragraphs for `weft explain` and docs/findings.md */
    const char *explanation;
};

/* Made of findings.txt when Weft is built. */
extern const struct diag_entry diag_entries[DIAG_N_CODES];

const struct diag_entry *diag_entry(enum diag_code id);
/* Returns the entry with that code text, or NULL. */
const struct diag_entry *diag_entry_by_code(const char *code);
const char *diag_severity_name(enum diag_severity severity); /* "error" */

#endif
