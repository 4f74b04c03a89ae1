/* Defines the input and output of a policy: facts of the ports of both ends, rules made of
 * settings, rails, timeouts, recovery and reasons. rdma/policy.h calls the policies: Weft's own,
 * and those of other programs (nccl/policies.h). */
#ifndef WEFT_RDMA_CHOICE_H
#define WEFT_RDMA_CHOICE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/policy.h"
#include "io/addr.h"
#include "io/verbs.h"

/* Facts of one port that each end sends to the other. A choice depends on nothing else. */
#define RDMA_FACTS_GIDS_MAX 8
struct rdma_port_facts {
    char name[40];
    uint32_t device; /* shared by all ports of one card (rdma_nic) */
    bool is_active;
    /* True if NCCL's own choice of a device at this end, which ignores the peer, includes this
     * port. If an end has no such port, NIC `channel` mod n is used. */
    bool is_chosen;
    bool may_stall;      /* io_device_attr */
    uint32_t active_mtu; /* bytes */
    uint32_t netdev_mtu;
    uint64_t rate_bps;
    bool is_cut; /* the port has more GIDs than gids[] */
    uint32_t n_gids;
    struct {
        union ibv_gid gid;
        uint8_t type;       /* enum ibv_gid_type */
        uint8_t prefix_len; /* of the address behind it; 0 if none (default GIDs) */
        uint32_t index;
    } gids[RDMA_FACTS_GIDS_MAX];
};

/* Rule by which a program selects a GID, made from its settings. */
struct rdma_gid_rule {
    int index; /* slot that the settings fix, or -1 */
    /* The other fields are for NCCL's scan of the table, which is used if no slot is fixed. */
    bool wants_ipv6; /* from NCCL_IB_ADDR_FAMILY */
    /* From NCCL_IB_ROCE_VERSION_NUM. No GID matches a value other than 1 or 2. */
    int64_t roce_version;
    struct io_ip range; /* NCCL_IB_ADDR_RANGE, of the wanted family */
    int range_len;      /* 0 if all addresses match, below 0 if none does */
    /* From NCCL_IB_SUBNET_PREFIX_LEN: prefix length by which NCCL's subnet-aware routing compares
     * IPv4 addresses, 0 to 32. */
    unsigned subnet_len;
};
/* The rule if nothing is set. */
#define RDMA_GID_RULE_NONE                                                               \
    ((struct rdma_gid_rule){.index = -1, .roce_version = 2, .subnet_len = 24})

/* Settings from which GID rules are made; NULL if not set. */
struct rdma_gid_settings {
    const char *index, *family, *range, *roce_version, *subnet_len; /* NCCL_IB_* */
    const char *mooncake_index;                                     /* MC_GID_INDEX */
    const char *mesh_index; /* NCCL_MESH_GID_INDEX */
};

/* Returns the IP address that a GID consists of; IPv4 addresses are mapped. */
static inline struct io_ip rdma_gid_ip(const union ibv_gid *gid)
{
    struct io_ip ip;
    memcpy(ip.bytes, gid->raw, sizeof(ip.bytes));
    return ip;
}

/* One rail: a local and a remote port, as indices into the facts, and the GIDs to use. */
struct rdma_rail {
    uint32_t local_port, remote_port;
    uint32_t local_gid, remote_gid; /* index into the port's gids[] */
    uint32_t path_mtu; /* bytes; for some policies not the lesser of both active_mtu */
};

struct rdma_choice_input {
    enum weft_policy policy;
    const struct rdma_port_facts *local; /* [n_local] */
    uint32_t n_local;
    const struct rdma_port_facts *remote; /* [n_remote] */
    uint32_t n_remote;
    /* Selects the NIC for Mooncake, and for NCCL at an end that chose none. */
    uint32_t channel;
    bool is_connector; /* the local end is the connector */
    struct rdma_gid_rule gid;
    /* Every port is a NIC, because NCCL does not merge ports (nccl_merges) at both ends. */
    bool splits_nics;
    bool is_same_host; /* both ends are processes of one host, and have the same ports */
};

/* Timeout and retries of a queue pair: fields of ibv_modify_qp(3). rnr_retry 7 is unlimited. */
struct rdma_patience {
    uint8_t timeout, retry_cnt, rnr_retry;
};

/* Behaviour of a connection after some of its rails failed. */
struct rdma_recovery {
    bool fails_over; /* the connection continues over the remaining rails */
    /* Rails that are used again keep the ports and GID slots of the first set-up. */
    bool keeps_rails;
    /* Maximum number of attempts to use failed rails again; 0 if unlimited. */
    uint32_t attempts_max;
    /* Used only if attempts_max > 0: delay from the failure to the first attempt, and from a failed
     * attempt to the next. */
    weft_ns start_ns, step_ns;
};

/* One rule that led to a rail, and its source. */
#define RDMA_REASONS_MAX 5
struct rdma_reason {
    const char *what; /* "device", "port", "gid", "path_mtu", "recovery" */
    char text[192];
    const char *source; /* static text */
};
/* Appends a reason to out[*n]. Returns its text, which the caller writes. */
char *rdma_reason_add(struct rdma_reason *out, uint32_t *n, const char *what,
                      const char *source);

#define RDMA_GID_TEXT_BYTES (IO_IP_TEXT_BYTES + 8)
/* Writes gids[gid] with its prefix length, such as "10.0.0.1/24". Returns `out`, or "nothing" if
 * the port has no such GID. */
const char *rdma_gid_text(const struct rdma_port_facts *port, uint32_t gid,
                          char out[RDMA_GID_TEXT_BYTES]);

#endif
