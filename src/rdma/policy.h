/* Which local NIC, GID, port and path MTU face a peer, as different programs choose: pure
 * functions of facts from both ends. Each rule names its source. */
#ifndef WEFT_RDMA_POLICY_H
#define WEFT_RDMA_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "io/addr.h"
#include "io/verbs.h"

enum rdma_policy {
    RDMA_POLICY_WEFT,
    RDMA_POLICY_NCCL_2_25,
    RDMA_POLICY_NCCL_2_30_SUBNET_AWARE,
    RDMA_POLICY_MESH_PLUGIN_2026_01,
    RDMA_POLICY_MOONCAKE_2026_06,
    RDMA_POLICY_NCCL_2_29_PORT_RECOVERY,
    RDMA_N_POLICIES
};

const char *rdma_policy_name(enum rdma_policy policy); /* "nccl-2.25" */
bool rdma_policy_parse(const char *name, enum rdma_policy *out);
bool rdma_is_nccl(enum rdma_policy policy); /* of whatever version */

/* What becomes of a connection some of whose rails fail, and how a rail comes back. */
struct rdma_recovery {
    bool fails_over; /* the connection goes on over the rails that are left */
    /* The rails are those of the first set-up, with the GIDs' slots that were looked up then. */
    bool keeps_rails;
    uint32_t attempts_max; /* to get a rail back, then never again; 0: no limit */
    /* Of a limited number: from the failure to the first, and from one that failed to the next. */
    weft_ns start_ns, step_ns;
};
const struct rdma_recovery *rdma_recovery(enum rdma_policy policy);

/* A port as either end describes it to the other: what a choice may depend on. */
#define RDMA_FACTS_GIDS_MAX 8
struct rdma_port_facts {
    char name[40];
    uint32_t device; /* ports of one NIC share it */
    bool is_active;
    /* NCCL's own choice of a device, made at this end without a look at the peer, is this port;
     * of an end that chose none, NIC `channel` mod n counts. */
    bool is_chosen;
    bool may_stall;      /* io_device_attr */
    uint32_t active_mtu; /* bytes */
    uint32_t netdev_mtu;
    uint64_t rate_bps;
    uint32_t n_gids; /* at most RDMA_FACTS_GIDS_MAX are told */
    struct {
        union ibv_gid gid;
        uint8_t type;       /* enum ibv_gid_type */
        uint8_t prefix_len; /* 0: no address behind it (default GIDs) */
        uint32_t index;
    } gids[RDMA_FACTS_GIDS_MAX];
};

/* What a program's settings make of its choice of a GID. */
struct rdma_gid_rule {
    int index; /* the slot that they fix, or -1 */
    /* The rest is of NCCL's scan, which goes on where no slot is fixed. */
    bool wants_ipv6; /* NCCL_IB_ADDR_FAMILY */
    /* NCCL_IB_ROCE_VERSION_NUM; no GID has what is neither 1 nor 2. */
    int64_t roce_version;
    struct io_ip range; /* NCCL_IB_ADDR_RANGE, of the wanted family */
    int range_len;      /* 0: all addresses are in it, below 0: none */
};
/* What it is if nothing is set. */
#define RDMA_GID_RULE_NONE ((struct rdma_gid_rule){.index = -1, .roce_version = 2})

/* Settings that such rules are made of. NULL: not set. */
struct rdma_gid_settings {
    const char *index, *family, *range, *roce_version; /* NCCL_IB_* */
    const char *mooncake_index;                        /* MC_GID_INDEX */
    const char *mesh_index;                            /* NCCL_MESH_GID_INDEX */
};
/* What the policy's program makes of its settings: Mooncake of MC_GID_INDEX before
 * NCCL_IB_GID_INDEX, the mesh plugin of its own, policy weft of none. */
struct rdma_gid_rule rdma_gid_rule(enum rdma_policy policy,
                                   const struct rdma_gid_settings *settings);

/* One rail: a local and a remote port with the GIDs to use. Indices into the facts. */
struct rdma_rail {
    uint32_t local_port, remote_port;
    uint32_t local_gid, remote_gid; /* index into the port's gids[] */
    uint32_t path_mtu; /* the lesser of both active_mtu, for policies that say so */
};

struct rdma_choice_input {
    enum rdma_policy policy;
    const struct rdma_port_facts *local; /* [n_local] */
    uint32_t n_local;
    const struct rdma_port_facts *remote; /* [n_remote] */
    uint32_t n_remote;
    uint32_t channel;  /* nccl: of an end that chose none */
    bool is_connector; /* which end asks */
    struct rdma_gid_rule gid;
    bool splits_nics;  /* !rdma_nccl_merges, on both ends: every port is a NIC */
    bool is_same_host; /* both ends are processes of one host: the ports are the same */
};

/* Chooses up to `cap` rails to the peer, best first. WEFT_ERR_ROUTE (phase "route") with
 * both ends' addresses as values when there is none: policy weft, and mesh-plugin-2026-01;
 * the others choose blindly, as those programs do. */
weft_status rdma_choose(const struct rdma_choice_input *input, struct rdma_rail *out,
                        uint32_t cap, uint32_t *out_n,
                        struct weft_error *error) WEFT_MUST_CHECK;

/* The GID that policy takes of one port on its own, without a peer: index into gids[], or
 * UINT32_MAX. nccl-2.25: net_ib's scan (family, range, RoCE version). weft: first v2 with
 * an address behind it. */
uint32_t rdma_choose_gid(enum rdma_policy policy, const struct rdma_port_facts *port,
                         const struct rdma_gid_rule *rule);

/* The number of a queue pair as the policy's program tells it to the peer, who sends to it.
 * mesh-plugin-2026-01: its lowest 16 bits. */
uint32_t rdma_told_qpn(enum rdma_policy policy, uint32_t qpn);

/* Whether the policy's program looks at no other client of its listener before the one it took has
 * said all of its HELLO, however long that takes: mesh-plugin-2026-01. */
bool rdma_hears_one_client(enum rdma_policy policy);

/* How patient a queue pair is: fields of ibv_modify_qp(3), rnr_retry 7 for ever. */
struct rdma_patience {
    uint8_t timeout, retry_cnt, rnr_retry;
};
/* Lowers `patience` to what the policy's program asks for: mesh-plugin-2026-01 where its setting
 * NCCL_MESH_FAST_FAIL (NULL: not set) says so, mooncake-2026-06 always. */
void rdma_lower_patience(enum rdma_policy policy, const char *fast_fail,
                         struct rdma_patience *patience);

/* Settings that say how long a program goes on. NULL: not set. */
struct rdma_met_settings {
    const char *timeout, *retry_cnt; /* NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT */
    /* NCCL_IB_MQP_RETRY_CNT, NCCL_IB_MQP_RETRY_SLEEP_MSEC */
    const char *step_retry_cnt, *step_retry_ms;
    const char *fast_fail; /* NCCL_MESH_FAST_FAIL */
};
/* Writes what users of the policy's program meet where `error` ends a job of Weft: a hang of the
 * first data, because the program sends no probe, or of the step to RTR, because it repeats that.
 * False: nothing else than what the error says. */
bool rdma_as_met(enum rdma_policy policy, const struct rdma_met_settings *settings,
                 const struct weft_error *error, char *out, size_t cap);

/* Whether NCCL makes one device of the ports of a NIC, by NCCL_IB_MERGE_NICS and
 * NCCL_NET_MERGE_LEVEL; NULL: not set. */
bool rdma_nccl_merges(const char *merge_nics, const char *merge_level);

/* Whether NCCL opens this port of `device`, by NCCL_IB_HCA (NULL: not set): "mlx5_0:1,mlx5_2", each
 * the beginning of a name, or with '=' before the list the whole; '^' before it takes the others.
 * A list without a name has everything in it: "," takes all, "^" none.
 * net_ib.cc ncclIbInitDevices, socket.cc parseStringList and matchIfList. */
bool rdma_nccl_opens(const char *ib_hca, const char *device, uint8_t port);
/* Whether the policy's program opens the port: NCCL's as above, the others open all. */
bool rdma_opens(enum rdma_policy policy, const char *ib_hca, const char *device,
                uint8_t port);

/* One rule that led to a rail, and where it is written. */
#define RDMA_REASONS_MAX 5
struct rdma_reason {
    const char *what; /* "device", "port", "gid", "path_mtu", "recovery" */
    char text[192];
    const char *source; /* static text */
};

/* Why `rails` (what rdma_choose gave for `input`) are what this end takes, as of the first of
 * them. Returns how many reasons there are. */
uint32_t rdma_reasons(const struct rdma_choice_input *input,
                      const struct rdma_rail *rails, uint32_t n_rails,
                      struct rdma_reason out[RDMA_REASONS_MAX]);

/* The address that a GID is. */
struct io_ip rdma_gid_ip(const union ibv_gid *gid);

#endif
