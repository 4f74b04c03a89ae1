/* Chooses the local port, GID and path MTU for a connection to a peer, as different programs do.
 * All functions are pure functions of facts about both ends. Each rule names its source. */
#ifndef WEFT_RDMA_POLICY_H
#define WEFT_RDMA_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/policy.h"
#include "io/addr.h"
#include "io/verbs.h"

/* NCCL of any version */
static inline bool rdma_is_nccl(enum weft_policy policy)
{
    return policy == WEFT_POLICY_NCCL_2_25 ||
           policy == WEFT_POLICY_NCCL_2_30_SUBNET_AWARE ||
           policy == WEFT_POLICY_NCCL_2_29_PORT_RECOVERY;
}

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
const struct rdma_recovery *rdma_recovery(enum weft_policy policy);

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
/* Makes the rule by which the policy's program selects a GID. Mooncake uses NCCL_IB_GID_INDEX only
 * if MC_GID_INDEX is not set. The mesh plugin uses only its own setting, and policy weft none. */
struct rdma_gid_rule rdma_gid_rule(enum weft_policy policy,
                                   const struct rdma_gid_settings *settings);

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
    /* Every port is a NIC, because NCCL does not merge ports (rdma_nccl_merges) at both ends. */
    bool splits_nics;
    bool is_same_host; /* both ends are processes of one host, and have the same ports */
};

/* Chooses up to `cap` rails to the peer, best first. Fails with WEFT_ERR_ROUTE (phase "route") if
 * there is none, with both ends' addresses as values. Policy weft and mesh-plugin-2026-01 need a
 * common subnet. nccl-2.30-subnet-aware keeps its first choice if there is none, and the others
 * ignore subnets, as those programs do. They fail only if an end has no usable port. */
weft_status rdma_choose(const struct rdma_choice_input *input, struct rdma_rail *out,
                        uint32_t cap, uint32_t *out_n,
                        struct weft_error *error) WEFT_MUST_CHECK;

/* Returns the GID of one port that the policy's program uses, regardless of the peer, as an index
 * into gids[], or UINT32_MAX. For nccl-* it is the result of net_ib's scan (family, range, RoCE
 * version). For weft it is the first v2 GID with an address behind it, link-local ones last. */
uint32_t rdma_choose_gid(enum weft_policy policy, const struct rdma_port_facts *port,
                         const struct rdma_gid_rule *rule);

/* Returns the QP number that the policy's program sends to the peer for `qpn`. mesh-plugin-2026-01
 * sends only its lowest 16 bits. */
uint32_t rdma_told_qpn(enum weft_policy policy, uint32_t qpn);

/* Returns true if the listener of the policy's program serves one client at a time
 * (mesh-plugin-2026-01). It reads the whole HELLO of a client before it looks at the next, without
 * a time limit. */
bool rdma_hears_one_client(enum weft_policy policy);

/* Timeout and retries of a queue pair: fields of ibv_modify_qp(3). rnr_retry 7 is unlimited. */
struct rdma_patience {
    uint8_t timeout, retry_cnt, rnr_retry;
};
/* Replaces `patience` by the values of the policy's program. mesh-plugin-2026-01 has its own only
 * if `fast_fail` (NCCL_MESH_FAST_FAIL; NULL if not set) is a nonzero number, mooncake-2026-06
 * always. Other policies keep `patience`. */
void rdma_lower_patience(enum weft_policy policy, const char *fast_fail,
                         struct rdma_patience *patience);

/* Reads a parameter as NCCL's param.cc does, where `text` is NULL if it is not set. An empty
 * setting counts as not set, any base is accepted, what follows the number is ignored, and text
 * that is no number is 0. Returns `otherwise` if it is not set or does not fit into 64 bits. */
int64_t rdma_nccl_number(const char *text, int64_t otherwise);

/* Settings that limit how long a program retries; NULL if not set. */
struct rdma_met_settings {
    const char *timeout, *retry_cnt; /* NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT */
    /* NCCL_IB_MQP_RETRY_CNT, NCCL_IB_MQP_RETRY_SLEEP_MSEC */
    const char *step_retry_cnt, *step_retry_ms;
    const char *fast_fail; /* NCCL_MESH_FAST_FAIL */
};
/* Writes how `error`, which ended a job of Weft, shows itself to users of the policy's program. The
 * first data can hang, because the program sends no probe, or the step to RTR, because the program
 * retries it. Returns false if the program fails as Weft does. */
bool rdma_as_met(enum weft_policy policy, const struct rdma_met_settings *settings,
                 const struct weft_error *error, char *out, size_t cap);

/* Returns true if NCCL merges the ports of a NIC into one device, by NCCL_IB_MERGE_NICS and
 * NCCL_NET_MERGE_LEVEL (NULL if not set). */
bool rdma_nccl_merges(const char *merge_nics, const char *merge_level);

/* Returns true if NCCL opens this port of `device`, by NCCL_IB_HCA (NULL if not set), a list such
 * as "mlx5_0:1,mlx5_2". An entry is the beginning of a device name and, after ':', a port. With '='
 * before the list it is the whole name. With '^' before that, the listed ports are excluded. A list
 * without a name contains all ports, so "," opens all and "^" none (net_ib.cc ncclIbInitDevices,
 * socket.cc parseStringList and matchIfList). */
bool rdma_nccl_opens(const char *ib_hca, const char *device, uint8_t port);
/* Returns true if the policy's program opens the port: NCCL as above, the others always. */
bool rdma_opens(enum weft_policy policy, const char *ib_hca, const char *device,
                uint8_t port);

/* One rule that led to a rail, and its source. */
#define RDMA_REASONS_MAX 5
struct rdma_reason {
    const char *what; /* "device", "port", "gid", "path_mtu", "recovery" */
    char text[192];
    const char *source; /* static text */
};

/* Explains why this end uses `rails`, the result of rdma_choose for `input`. Only the first rail is
 * explained. Returns the number of reasons. */
uint32_t rdma_reasons(const struct rdma_choice_input *input,
                      const struct rdma_rail *rails, uint32_t n_rails,
                      struct rdma_reason out[RDMA_REASONS_MAX]);

/* Returns the IP address that a GID consists of; IPv4 addresses are mapped. */
static inline struct io_ip rdma_gid_ip(const union ibv_gid *gid)
{
    struct io_ip ip;
    memcpy(ip.bytes, gid->raw, sizeof(ip.bytes));
    return ip;
}

#endif
