/* Decides the cause of a failure by rules. Each hypothesis answers yes, no or unknown, from
 * positive evidence only. They are evaluated in order: the first yes is the cause if all hypotheses
 * before it answered no. If an unknown comes before it, the result is `undetermined`. Its
 * candidates are the first hypotheses that did not answer no, at most DIAG_CANDIDATES_MAX. Missing
 * evidence can therefore prevent an answer, but not produce a wrong one. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/policy.h"
#include "diag/private.h"

/* enum ibv_wc_status: IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR,
 * IBV_WC_RETRY_EXC_ERR (transport retry counter exceeded) and IBV_WC_RNR_RETRY_EXC_ERR. */
#define REM_INV_REQ 9
#define REM_ACCESS 10
#define REM_OP 11
#define RETRY_EXC 12
#define RNR_RETRY_EXC 13
/* IBV_WC_WR_FLUSH_ERR and IBV_WC_LOC_QP_OP_ERR, with which rdma_rxe completes requests when its
 * netdev goes down. The latter was seen on Linux 6.1. */
#define WR_FLUSH 5
#define LOC_QP_OP 2

struct hypothesis {
    enum diag_code code;
    diag_test *test;
};

/* ---- symptoms and their possible causes, in the order of evaluation ---- */

/* WRONG_PORT: the port used does not face the peer, although others do. NO_PORT: no port faces the
 * peer. */
#define WRONG_PORT                                                                       \
    {DIAG_HOST_HCA_LIST, diag_is_hca_list}, {DIAG_ROUTE_MERGED_NIC, diag_is_merged_nic}, \
        {DIAG_ROUTE_MERGED_ONE_END, diag_is_merged_one_end},                             \
        {DIAG_ROUTE_CROSSED_PLANES, diag_is_crossed_planes},                             \
        {DIAG_ROUTE_PREFIX_COLLISION, diag_is_prefix_collision},                         \
        {DIAG_ROUTE_LISTENER_BLIND, diag_is_listener_blind},                             \
    {                                                                                    \
        DIAG_ROUTE_WRONG_NIC, diag_is_wrong_nic                                          \
    }
#define NO_PORT                                                                          \
    {DIAG_ADDR_PREFIX_MISMATCH, diag_is_prefix_mismatch},                                \
        {DIAG_ADDR_MISSING, diag_is_addr_missing}, {DIAG_GID_MISSING, diag_is_gid_lost}, \
        {DIAG_MESH_RANK_ORDER, diag_is_rank_order},                                      \
        {DIAG_MESH_NO_CABLE, diag_is_no_cable},                                          \
    {                                                                                    \
        DIAG_ROUTE_NO_FACING_PORT, diag_is_no_facing_port                                \
    }
/* A GID that is no usable address of its port. */
#define WRONG_GID                                                                        \
    {DIAG_GID_FIXED_INDEX, diag_is_fixed_index},                                         \
        {DIAG_GID_LINK_LOCAL, diag_is_gid_link_local},                                   \
    {                                                                                    \
        DIAG_GID_NO_IPV4, diag_is_no_ipv4                                                \
    }

/* Modify to RTR: the neighbour could not be resolved. */
static const struct hypothesis unresolved[] = {
    WRONG_GID,
    {DIAG_ROUTE_LINK_LOCAL, diag_is_link_local_route},
    {DIAG_GID_PEER_ADDRESS, diag_is_peer_address},
    {DIAG_ADDR_DUPLICATE, diag_is_addr_duplicate},
    {DIAG_DEVICE_FAILED, diag_is_way_gone},
    {DIAG_LINK_DOWN, diag_is_only_way_down},
    {DIAG_LINK_DOWN, diag_is_dark},
    {DIAG_ADDR_MISSING, diag_is_cable_bare},
    {DIAG_ADDR_NO_FACING_PORT, diag_is_cable_apart},
    WRONG_PORT,
    NO_PORT,
    {DIAG_ROUTE_GID_COLLISION, diag_is_gid_collision},
    {DIAG_LINK_PAUSE_STORM, diag_is_held_at_rtr},
    {DIAG_LINK_DOWN, diag_is_down_at_rtr},
    {DIAG_HOST_BOND_PEERS, diag_is_bond_peers},
    {DIAG_LINK_VLAN_MISMATCH, diag_is_vlan_mismatch},
    {DIAG_NEIGH_ARP_IGNORED, diag_is_arp_ignored},
    {DIAG_NEIGH_NO_ANSWER, diag_is_no_answer},
};

/* Modify to RTR: the two GIDs are not of one family. */
static const struct hypothesis mixed[] = {WRONG_GID,
                                          {DIAG_HOST_BOND_PEERS, diag_is_bond_peers},
                                          {DIAG_ADDR_MISSING, diag_is_addr_missing},
                                          {DIAG_GID_MISSING, diag_is_gid_lost},
                                          {DIAG_LINK_MTU_MISMATCH, diag_is_mtu_refused},
                                          {DIAG_DEVICE_REJECTED, diag_is_one_family}};

/* Packets were sent and never acknowledged. */
static const struct hypothesis lost[] = {
    {DIAG_PEER_DEAD, diag_peer_died},
    {DIAG_DEVICE_FAILED, diag_is_gone},
    {DIAG_LINK_FLAPPING, diag_is_flapping},
    {DIAG_LINK_DOWN, diag_is_link_down},
    {DIAG_ADDR_CHANGED, diag_is_addr_changed},
    {DIAG_GID_MISSING, diag_is_gid_gone},
    {DIAG_ADDR_MISSING, diag_is_mistyped_without_address},
    {DIAG_GID_MISSING, diag_is_mistyped_without_gid},
    {DIAG_GID_TYPE_MISMATCH, diag_is_type_mismatch},
    {DIAG_CONN_QPN_TRUNCATED, diag_is_qpn_truncated},
    {DIAG_LINK_MTU_MISMATCH, diag_is_mtu_mismatch},
    {DIAG_LINK_BLACK_HOLE, diag_is_black_hole},
    WRONG_GID,
    {DIAG_ROUTE_LINK_LOCAL, diag_is_link_local_route},
    {DIAG_ADDR_DUPLICATE, diag_is_addr_duplicate},
    {DIAG_HOST_RP_FILTER, diag_is_rp_filter},
    {DIAG_DEVICE_FAILED, diag_is_way_gone},
    WRONG_PORT,
    {DIAG_ROUTE_FORWARD_OFF, diag_is_forward_off},
    {DIAG_ROUTE_FORWARD_BLOCKED, diag_is_forward_blocked},
    NO_PORT,
    {DIAG_ROUTE_GID_COLLISION, diag_is_gid_collision},
    {DIAG_HOST_FIREWALL_ROCE, diag_is_firewall_roce},
    {DIAG_LINK_PAUSE_STORM, diag_is_pause_storm},
    {DIAG_LINK_CORRUPTING, diag_is_corrupting},
    {DIAG_LINK_LOSSY, diag_is_lossy_segment},
    {DIAG_LINK_ONE_WAY, diag_is_one_way},
    {DIAG_LINK_LOSSY, diag_is_lossy},
};

/* A job makes no progress and no queue pair reports an error. Evaluated for every rail in use. */
static const struct hypothesis stalled[] = {
    {DIAG_HOST_MANAGEMENT_DOWN, diag_is_management_down},
    {DIAG_DEVICE_FAILED, diag_is_gone},
    {DIAG_LINK_FLAPPING, diag_is_flapping},
    {DIAG_LINK_DOWN, diag_is_link_down},
    {DIAG_ADDR_CHANGED, diag_is_addr_changed},
    {DIAG_GID_MISSING, diag_is_gid_gone},
    {DIAG_LINK_MTU_MISMATCH, diag_is_mtu_mismatch},
    {DIAG_LINK_PAUSE_STORM, diag_is_pause_storm},
    {DIAG_LINK_CORRUPTING, diag_is_corrupting},
    {DIAG_LINK_ONE_WAY, diag_is_one_way},
    {DIAG_LINK_LOSSY, diag_is_lossy},
};

/* A rail does not recover although its ports are active. */
static const struct hypothesis unrecovered[] = {
    {DIAG_GID_STALE_INDEX, diag_is_stale_index},
    {DIAG_ADDR_CHANGED, diag_is_addr_changed},
    {DIAG_GID_MISSING, diag_is_gid_gone},
};

/* The device aborted the requests itself, or reported that its port is down. The retries were not
 * exhausted. */
#define GAVE_UP                                                                          \
    {DIAG_DEVICE_FAILED, diag_is_gone}, {DIAG_LINK_FLAPPING, diag_is_flapping},          \
        {DIAG_LINK_DOWN, diag_is_link_down}, {DIAG_ADDR_CHANGED, diag_is_addr_changed},  \
    {                                                                                    \
        DIAG_GID_MISSING, diag_is_gid_gone                                               \
    }
static const struct hypothesis flushed[] = {GAVE_UP};
/* The same as a completion, with which rdma_rxe also reports a packet larger than its netdev's
 * MTU. */
static const struct hypothesis given_up[] = {
    GAVE_UP, {DIAG_LINK_MTU_MISMATCH, diag_is_own_mtu_lesser}};

/* Policy weft found no rail to the peer. */
static const struct hypothesis no_route[] = {
    {DIAG_DEVICE_FAILED, diag_is_gone},
    {DIAG_HOST_HCA_LIST, diag_is_hca_list},
    {DIAG_LINK_DOWN, diag_is_dark},
    {DIAG_LINK_DOWN, diag_is_cut_off},
    NO_PORT,
    {DIAG_ADDR_DUPLICATE, diag_is_one_address},
    {DIAG_LINK_DOWN, diag_is_facing_down},
    {DIAG_GID_MISSING, diag_is_facing_without_v2},
};

/* The peer's device answered that it does not serve the request. */
static const struct hypothesis invalid[] = {
    {DIAG_LINK_MTU_MISMATCH, diag_is_mtu_of_another_port},
    {DIAG_DATA_REQUEST_INVALID, diag_is_certain}};
static const struct hypothesis inaccessible[] = {
    {DIAG_DATA_ACCESS_REFUSED, diag_is_certain}};
static const struct hypothesis unusable[] = {
    {DIAG_DATA_RECEIVE_UNUSABLE, diag_is_certain}};
static const struct hypothesis malformed[] = {{DIAG_CONN_MALFORMED, diag_is_certain}};
static const struct hypothesis not_ready[] = {{DIAG_PEER_RECEIVER_LATE, diag_is_certain}};
static const struct hypothesis no_memory[] = {{DIAG_HOST_MEMLOCK, diag_is_memlock},
                                              {DIAG_HOST_KERNEL_MEMORY, diag_is_certain}};
static const struct hypothesis no_room[] = {{DIAG_HOST_MEMLOCK, diag_is_memlock},
                                            {DIAG_DEVICE_QP_LIMIT, diag_is_certain}};
static const struct hypothesis full[] = {{DIAG_DEVICE_QP_LIMIT, diag_is_certain}};
static const struct hypothesis rejected[] = {{DIAG_DEVICE_REJECTED, diag_is_certain}};
static const struct hypothesis failed[] = {{DIAG_DEVICE_FAILED, diag_is_certain}};
static const struct hypothesis forbidden[] = {{DIAG_HOST_PERMISSION, diag_is_certain}};
static const struct hypothesis no_gid[] = {{DIAG_GID_MISSING, diag_is_certain}};
static const struct hypothesis no_netdev[] = {{DIAG_GID_NO_NETDEV, diag_is_certain}};
static const struct hypothesis no_proof[] = {
    {DIAG_ADDR_DUPLICATE, diag_is_anothers_listener},
    {DIAG_CONN_AUTH_FAILED, diag_is_certain}};
static const struct hypothesis refused[] = {{DIAG_CONN_LOOPBACK, diag_is_loopback},
                                            {DIAG_PEER_DEAD, diag_peer_died},
                                            {DIAG_PEER_LATE, diag_is_own_lateness},
                                            {DIAG_PEER_LATE, diag_is_late_there},
                                            {DIAG_CONN_REFUSED, diag_is_certain}};
static const struct hypothesis unroutable[] = {
    {DIAG_CONN_LOOPBACK, diag_is_loopback},
    {DIAG_HOST_MANAGEMENT_DOWN, diag_is_management_down},
    {DIAG_CONN_FOREIGN_ADDRESS, diag_may_be_foreign},
    {DIAG_CONN_NO_ROUTE, diag_is_certain}};
static const struct hypothesis not_here[] = {
    {DIAG_CONN_FOREIGN_ADDRESS, diag_is_certain}};
/* Policy weft listens on all addresses of a host, and found none. */
static const struct hypothesis unnumbered[] = {{DIAG_ADDR_MISSING, diag_is_bare_at_all}};
/* A connection of policy weft leads from an address of a port to one, of which one is gone. */
static const struct hypothesis unaddressed[] = {NO_PORT,
                                                {DIAG_ADDR_CHANGED, diag_is_renumbered}};
#define UNANSWERED                                                                       \
    {DIAG_CONN_LOOPBACK, diag_is_loopback}, {DIAG_PEER_DEAD, diag_peer_died},            \
        {DIAG_HOST_MANAGEMENT_DOWN, diag_is_management_down},                            \
        {DIAG_LINK_DOWN, diag_is_severed},                                               \
        {DIAG_LINK_FLAPPING, diag_is_left_out_flapping},                                 \
        {DIAG_LINK_DOWN, diag_is_left_out_down},                                         \
        {DIAG_ADDR_CHANGED, diag_is_agreed_addr_changed},                                \
        {DIAG_GID_MISSING, diag_is_agreed_gid_gone},                                     \
        {DIAG_HOST_FD_LIMIT, diag_is_peer_short}, {DIAG_PEER_LATE, diag_is_peer_late},   \
        {DIAG_CONN_NO_ROUTE, diag_has_peer_no_route},                                    \
        {DIAG_NEIGH_NO_ANSWER, diag_is_misled},                                          \
        {DIAG_NEIGH_ARP_IGNORED, diag_is_arp_ignored_at_all},                            \
        {DIAG_LINK_VLAN_MISMATCH, diag_are_vlans_apart},                                 \
        {DIAG_LINK_PAUSE_STORM, diag_is_set_up_stopped},                                 \
        {DIAG_LINK_BLACK_HOLE, diag_is_silenced},                                        \
        {DIAG_LINK_CORRUPTING, diag_is_any_corrupting},                                  \
        {DIAG_LINK_ONE_WAY, diag_is_any_one_way}, {DIAG_LINK_LOSSY, diag_is_any_lossy},  \
        {DIAG_LINK_PAUSE_STORM, diag_is_any_held},                                       \
    {                                                                                    \
        DIAG_CONN_FILTERED, diag_is_filtered                                             \
    }
static const struct hypothesis unanswered[] = {UNANSWERED,
                                               {DIAG_CONN_TIMEOUT, diag_is_unanswered}};
/* EHOSTUNREACH: a firewall rejected the connection, or no neighbour answered for the address. */
static const struct hypothesis unreachable[] = {UNANSWERED,
                                                {DIAG_CONN_REFUSED, diag_is_unsure},
                                                {DIAG_NEIGH_NO_ANSWER, diag_is_unsure}};
static const struct hypothesis closed[] = {{DIAG_PEER_DEAD, diag_peer_died}};
/* A program could not connect, and did not print why. */
static const struct hypothesis uncalled[] = {{DIAG_PEER_DEAD, diag_peer_died},
                                             {DIAG_PEER_LATE, diag_is_unsure},
                                             {DIAG_CONN_REFUSED, diag_is_unsure}};
static const struct hypothesis no_device[] = {{DIAG_HOST_NO_DEVICE, diag_is_certain}};
static const struct hypothesis no_gpu[] = {{DIAG_HOST_NO_GPU, diag_is_certain}};
static const struct hypothesis no_descriptor[] = {{DIAG_HOST_FD_LIMIT, diag_is_certain}};
static const struct hypothesis in_circle[] = {{DIAG_PEER_DEADLOCK, diag_is_certain}};
static const struct hypothesis wrong_data[] = {{DIAG_DATA_WRONG, diag_is_certain}};

/* A program ended without any sign of what failed. What is wrong with its cable need not be why,
 * and what is unknown is no more likely than anything else. */
static const struct hypothesis unspoken[] = {
    {DIAG_DEVICE_FAILED, diag_is_gone},
    {DIAG_LINK_FLAPPING, diag_is_flapping},
    {DIAG_LINK_DOWN, diag_is_link_down},
    {DIAG_ADDR_CHANGED, diag_is_addr_changed},
    {DIAG_GID_MISSING, diag_is_gid_gone},
    WRONG_GID,
    {DIAG_ADDR_DUPLICATE, diag_is_addr_duplicate},
    WRONG_PORT,
    NO_PORT,
    {DIAG_LINK_MTU_MISMATCH, diag_is_mtu_mismatch},
    {DIAG_LINK_VLAN_MISMATCH, diag_is_vlan_mismatch},
    {DIAG_NEIGH_ARP_IGNORED, diag_is_arp_ignored},
    {DIAG_HOST_FIREWALL_ROCE, diag_is_firewall_roce},
    {DIAG_LINK_PAUSE_STORM, diag_is_pause_storm},
    {DIAG_LINK_CORRUPTING, diag_is_corrupting},
    {DIAG_LINK_ONE_WAY, diag_is_one_way},
    {DIAG_LINK_LOSSY, diag_is_lossy},
};

struct symptom {
    const struct hypothesis *list; /* NULL for an unknown symptom */
    size_t n;
    bool may_be_any; /* a hypothesis that answers yes is a candidate, and no other is */
};
#define SYMPTOM(list) ((struct symptom){list, WEFT_LENGTH(list), false})
#define UNHEARD_OF ((struct symptom){NULL, 0, false})

static bool is_about_queues(const struct diag_case *c)
{
    return c->phase == WEFT_PHASE_CREATE || c->phase == WEFT_PHASE_INIT ||
           c->phase == WEFT_PHASE_RTS;
}

static bool is_control_verb(const struct diag_case *c)
{
    return is_about_queues(c) || c->phase == WEFT_PHASE_RTR ||
           c->phase == WEFT_PHASE_REGISTER || c->phase == WEFT_PHASE_DISCOVER ||
           c->phase == WEFT_PHASE_START || c->phase == WEFT_PHASE_DEVICE ||
           c->phase == WEFT_PHASE_CREATE_CQ;
}

/* Returns true if the operation posts or polls work requests, or allocates the memory for their
 * data. */
static bool is_about_data(const struct diag_case *c)
{
    return c->phase == WEFT_PHASE_DATA || c->phase == WEFT_PHASE_PROBE ||
           c->phase == WEFT_PHASE_FLUSH || c->phase == WEFT_PHASE_POLL_CQ ||
           c->phase == WEFT_PHASE_MEMORY;
}

/* Returns true if the operation that failed is one of a device. Any other failure with an errno is
 * one of a stream. */
static bool is_verb(const struct diag_case *c)
{
    return is_control_verb(c) || is_about_data(c) || c->phase == WEFT_PHASE_QP;
}

/* Returns the symptom of an operation of a device that failed with an errno. */
static struct symptom of_verb_errno(const struct diag_case *c)
{
    bool is_rtr = c->phase == WEFT_PHASE_RTR;

    switch (c->sys_errno) {
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return is_rtr ? SYMPTOM(unresolved) : SYMPTOM(failed);
    case ENODATA:
        return is_rtr ? SYMPTOM(no_gid) : UNHEARD_OF;
    case ENETDOWN:
        return SYMPTOM(flushed);
    case ENODEV:
        return is_rtr || is_about_queues(c) ? SYMPTOM(no_netdev) : UNHEARD_OF;
    case ENOMEM:
        if (is_about_data(c)) {
            return UNHEARD_OF; /* a full queue, or the memory of a GPU */
        }
        return c->phase == WEFT_PHASE_CREATE ? SYMPTOM(no_room) : SYMPTOM(no_memory);
    case EBUSY:
    case ENOSPC:
        return c->phase == WEFT_PHASE_CREATE ? SYMPTOM(full) : SYMPTOM(failed);
    case EINVAL:
        return is_rtr ? SYMPTOM(mixed) : SYMPTOM(rejected);
    case EOPNOTSUPP:
        return SYMPTOM(rejected);
    case EIO:
        return SYMPTOM(failed);
    case EPERM:
    case EACCES:
        return SYMPTOM(forbidden);
    default:
        return UNHEARD_OF;
    }
}

/* Returns the symptom of a program that failed at RTR and did not print the errno. Derives it from
 * the two GIDs as the kernel does (ib_resolve_eth_dmac of drivers/infiniband/core). */
static struct symptom of_rtr(const struct diag_case *c)
{
    if (!c->has_local_gid || !c->has_remote_gid ||
        diag_number(c, WEFT_VALUE_GID_WAS_READ) != 1) {
        return UNHEARD_OF;
    }
    return io_ip_is_v4(&c->local_gid) == io_ip_is_v4(&c->remote_gid) ? SYMPTOM(unresolved)
                                                                     : SYMPTOM(mixed);
}

static struct symptom of_stream_errno(const struct diag_case *c)
{
    switch (c->sys_errno) {
    case ENETUNREACH:
        return SYMPTOM(unroutable);
    case EADDRNOTAVAIL:
        if (diag_has_policy(c->host, WEFT_POLICY_WEFT) == DIAG_YES) {
            if (c->phase == WEFT_PHASE_LISTEN) {
                return SYMPTOM(unnumbered);
            }
            if (c->phase == WEFT_PHASE_TCP) {
                return SYMPTOM(unaddressed);
            }
        }
        return c->phase == WEFT_PHASE_BOOT ? SYMPTOM(not_here) : UNHEARD_OF;
    case ETIMEDOUT:
        return diag_is_unaddressed(c) ? SYMPTOM(unaddressed) : SYMPTOM(unanswered);
    case EHOSTUNREACH:
        return diag_is_unaddressed(c) ? SYMPTOM(unaddressed) : SYMPTOM(unreachable);
    case ECONNREFUSED:
    case EPERM:
        return SYMPTOM(refused);
    case ECONNRESET:
    case EPIPE:
        return SYMPTOM(closed);
    default:
        return UNHEARD_OF;
    }
}

static struct symptom of_completion(int wc_status)
{
    switch (wc_status) {
    case RETRY_EXC:
        return SYMPTOM(lost);
    case RNR_RETRY_EXC:
        return SYMPTOM(not_ready);
    case REM_INV_REQ:
        return SYMPTOM(invalid);
    case REM_ACCESS:
        return SYMPTOM(inaccessible);
    case REM_OP:
        return SYMPTOM(unusable);
    case WR_FLUSH:
    case LOC_QP_OP:
        return SYMPTOM(given_up);
    default:
        return UNHEARD_OF;
    }
}

static struct symptom of_status(const struct diag_case *c)
{
    switch (c->status) {
    case WEFT_ERR_AUTH:
        return SYMPTOM(no_proof);
    case WEFT_ERR_TIMEOUT:
        /* The kernel's neighbour resolution has its own limit. If the whole set-up time was used
         * up, a verb might hang instead. */
        if (c->phase == WEFT_PHASE_CONNECT_QPS &&
            diag_number(c, WEFT_VALUE_LIMIT_NS) == IO_UNKNOWN) {
            return SYMPTOM(unresolved);
        }
        if (diag_is_left_out_apart(c)) {
            return SYMPTOM(no_route);
        }
        return c->phase == WEFT_PHASE_PROBE || c->phase == WEFT_PHASE_DATA
                   ? SYMPTOM(lost)
                   : SYMPTOM(unanswered);
    case WEFT_ERR_CLOSED:
        return c->phase == WEFT_PHASE_PORT ? SYMPTOM(flushed) : SYMPTOM(closed);
    case WEFT_ERR_ROUTE:
        /* A relay that lost its next hop does not report the cause. */
        return c->phase == WEFT_PHASE_ROUTE ? SYMPTOM(no_route) : UNHEARD_OF;
    case WEFT_ERR_DATA:
        return SYMPTOM(wrong_data);
    case WEFT_ERR_ENVIRONMENT:
        if (c->phase == WEFT_PHASE_CUDA) {
            return SYMPTOM(no_gpu);
        }
        return c->phase == WEFT_PHASE_DISCOVER || c->phase == WEFT_PHASE_START
                   ? SYMPTOM(no_device)
                   : UNHEARD_OF;
    case WEFT_OK:
    case WEFT_AGAIN:
    case WEFT_ERR_INPUT:
    case WEFT_ERR_NOMEM:
    case WEFT_ERR_SYSTEM:
    case WEFT_ERR_COMPLETION:
    case WEFT_ERR_LIMIT:
    case WEFT_ERR_UNSUPPORTED:
        break;
    case WEFT_ERR_PROTOCOL: /* also the status of an error that has none */
        if (c->phase == WEFT_PHASE_DATA && diag_text(c, WEFT_VALUE_FIELD) != NULL) {
            return SYMPTOM(malformed);
        }
        break;
    }
    return UNHEARD_OF;
}

static struct symptom symptom_of(const struct diag_case *c)
{
    if (diag_is_in_circle(c)) {
        return SYMPTOM(in_circle);
    }
    if (c->use != NULL || diag_is_stall(c)) {
        return SYMPTOM(stalled);
    }
    if (c->phase == WEFT_PHASE_RECOVERY) {
        return SYMPTOM(unrecovered);
    }
    if (c->wc_status != 0) {
        return of_completion(c->wc_status);
    }
    if (c->sys_errno == EMFILE || c->sys_errno == ENFILE) {
        return SYMPTOM(no_descriptor); /* independent of what was opened */
    }
    if (c->phase == WEFT_PHASE_PROGRAM) {
        return (struct symptom){unspoken, WEFT_LENGTH(unspoken), true};
    }
    if (c->phase == WEFT_PHASE_NONE) {
        return UNHEARD_OF; /* an errno has different meanings for a verb and a stream */
    }
    if (c->sys_errno == ENETUNREACH && c->phase == WEFT_PHASE_ROUTE) {
        /* An unreachable network in phase route means that RTR failed at the peer, because its
         * address has no route. */
        return SYMPTOM(unresolved);
    }
    if (c->sys_errno != 0) {
        return is_verb(c) ? of_verb_errno(c) : of_stream_errno(c);
    }
    if (diag_is_of_no_connection(&c->failure->error)) {
        return SYMPTOM(uncalled);
    }
    return c->status == WEFT_ERR_SYSTEM && c->phase == WEFT_PHASE_RTR ? of_rtr(c)
                                                                      : of_status(c);
}

void diag_judge(const struct diag_case *c, struct diag_finding *out)
{
    struct symptom symptom = symptom_of(c);

    *out = (struct diag_finding){.entry = NULL};
    for (size_t i = 0; i < symptom.n && out->entry == NULL; i++) {
        enum diag_known answer = symptom.list[i].test(c);
        const struct diag_entry *entry = diag_entry(symptom.list[i].code);

        if (answer == DIAG_NO || (symptom.may_be_any && answer == DIAG_UNKNOWN)) {
            continue;
        }
        if (answer == DIAG_YES && out->n_candidates == 0 && !symptom.may_be_any) {
            out->entry = entry;
        } else if (out->n_candidates < DIAG_CANDIDATES_MAX) {
            out->candidates[out->n_candidates++] = entry;
        }
    }
    diag_describe(c, out);
    if (out->entry == NULL) {
        out->entry = diag_entry(DIAG_UNDETERMINED);
    }
    diag_place(c, out);
    out->severity = DIAG_ERROR; /* it caused a failure */
}
