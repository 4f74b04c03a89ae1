#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "sim/packet.h"
#include "sim/rc_impl.h"
#include "sim/train.h"

/* ib_modify_qp_is_ok for RC (Linux core/verbs.c, qp_state_table). */
struct transition {
    enum ibv_qp_state from, to;
    int required, optional;
};

#define RTS_OPTIONAL                                                                     \
    (IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |   \
     IBV_QP_PATH_MIG_STATE)

static const struct transition transitions[] = {
    {IBV_QPS_RESET, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
     0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
         IBV_QP_MAX_QP_RD_ATOMIC,
     RTS_OPTIONAL},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, RTS_OPTIONAL},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0,
     IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
         IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH |
         IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER |
         IBV_QP_PATH_MIG_STATE},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0, RTS_OPTIONAL},
};

static const struct transition *find_transition(enum ibv_qp_state from,
                                                enum ibv_qp_state to)
{
    static const struct transition always = {IBV_QPS_INIT, IBV_QPS_ERR, 0, 0};
    if (from != IBV_QPS_RESET && (to == IBV_QPS_RESET || to == IBV_QPS_ERR)) {
        return &always;
    }
    for (size_t i = 0; i < WEFT_LENGTH(transitions); i++) {
        if (transitions[i].from == from && transitions[i].to == to) {
            return &transitions[i];
        }
    }
    return NULL;
}

enum ibv_qp_state sim_qp_target(const struct sim_qp *qp, const struct ibv_qp_attr *attr,
                                int mask)
{
    return (mask & IBV_QP_STATE) != 0 ? attr->qp_state : qp->state;
}

static bool is_port(const struct sim_nic *nic, uint8_t number)
{
    return number >= 1 && number <= nic->n_ports;
}

static bool is_state(unsigned state)
{
    return state <= IBV_QPS_ERR;
}

/* Makes checks 1 to 5 in the kernel's order (uverbs_cmd.c, modify_qp). */
static int check_ports(const struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    bool has_av = (mask & IBV_QP_AV) != 0;
    bool has_port = (mask & IBV_QP_PORT) != 0;
    if (has_port && !is_port(qp->nic, attr->port_num)) {
        return EINVAL;
    }
    if (has_av && !is_port(qp->nic, attr->ah_attr.port_num)) {
        return EINVAL;
    }
    bool to_rtr = (mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_RTR;
    if (has_av && to_rtr &&
        (qp->port == NULL || attr->ah_attr.port_num != qp->port->number)) {
        return EINVAL;
    }
    if (has_av && has_port && attr->ah_attr.port_num != attr->port_num) {
        return EINVAL;
    }
    if ((mask & IBV_QP_ALT_PATH) != 0 &&
        (!is_port(qp->nic, attr->alt_port_num) ||
         attr->alt_ah_attr.port_num != attr->alt_port_num)) {
        return EINVAL;
    }
    bool claims = (mask & IBV_QP_CUR_STATE) != 0;
    if (((mask & IBV_QP_STATE) != 0 && !is_state((unsigned)attr->qp_state)) ||
        (claims && !is_state((unsigned)attr->cur_qp_state))) {
        return EINVAL;
    }
    return 0;
}

int sim_qp_check_address(struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    struct sim_gid gid;
    int error = check_ports(qp, attr, mask);
    if (error != 0) {
        return error;
    }
    if ((mask & IBV_QP_QKEY) != 0 && (attr->qkey & 0x80000000u) != 0) {
        return EPERM;
    }
    if ((mask & IBV_QP_AV) != 0) {
        if (!attr->ah_attr.is_global) {
            return EINVAL; /* RoCE needs a GRH */
        }
        const struct sim_port *port = qp->nic->ports[attr->ah_attr.port_num - 1].port;
        return sim_stack_gid(qp->nic->stack, port, attr->ah_attr.grh.sgid_index, &gid);
    }
    return 0;
}

/* iboe_get_mtu (ib_addr.h). */
uint32_t sim_nic_active_mtu(const struct sim_nic *nic, const struct sim_port *port)
{
    uint32_t room = sim_port_mtu(port);
    uint32_t overhead = nic->profile->mtu_overhead_bytes;
    room = room > overhead ? room - overhead : 0;
    room = room < nic->profile->max_mtu_bytes ? room : nic->profile->max_mtu_bytes;
    for (uint32_t mtu = 4096; mtu >= 256; mtu /= 2) {
        if (mtu <= room) {
            return mtu;
        }
    }
    return 0;
}

static bool claim_is_legal(enum ibv_qp_state state)
{
    return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
           state == IBV_QPS_SQE;
}

static uint32_t mtu_bytes(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

/* Makes the driver's checks of single values. */
static int check_limits(const struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    const struct sim_profile *profile = qp->nic->profile;
    if ((mask & IBV_QP_PATH_MTU) != 0) {
        uint32_t mtu = mtu_bytes(attr->path_mtu);
        uint32_t most = profile->max_mtu_bytes;
        if (profile->path_mtu_needs_active) {
            most = sim_nic_active_mtu(qp->nic, qp->port->port);
        }
        if (mtu == 0 || mtu > most) {
            return EINVAL;
        }
    }
    bool timeout_bad = attr->timeout > profile->timeout_max &&
                       (!profile->timeout_beyond_ignored || attr->timeout > 31);
    const struct {
        int bit;
        bool bad;
    } limits[] = {
        {IBV_QP_MAX_QP_RD_ATOMIC, attr->max_rd_atomic > profile->max_qp_init_rd_atom},
        {IBV_QP_MAX_DEST_RD_ATOMIC, attr->max_dest_rd_atomic > profile->max_qp_rd_atom},
        {IBV_QP_PKEY_INDEX, attr->pkey_index > 0},
        {IBV_QP_TIMEOUT, timeout_bad},
        {IBV_QP_RETRY_CNT, attr->retry_cnt > 7},
        {IBV_QP_RNR_RETRY, attr->rnr_retry > 7},
        {IBV_QP_MIN_RNR_TIMER, attr->min_rnr_timer > 31},
    };
    for (size_t i = 0; i < WEFT_LENGTH(limits); i++) {
        if ((mask & limits[i].bit) != 0 && limits[i].bad) {
            return EINVAL;
        }
    }
    return 0;
}

int sim_qp_check_transition(const struct sim_qp *qp, const struct ibv_qp_attr *attr,
                            int mask)
{
    enum ibv_qp_state from = qp->state;
    enum ibv_qp_state to = sim_qp_target(qp, attr, mask);
    const int known = (IBV_QP_DEST_QPN << 1) - 1;
    if ((mask & IBV_QP_ALT_PATH) != 0) {
        return EINVAL; /* RoCE has no automatic path migration */
    }
    if ((mask & ~known) != 0) {
        return EOPNOTSUPP;
    }
    if ((mask & IBV_QP_CUR_STATE) != 0) {
        if (qp->nic->profile->cur_state_checked && attr->cur_qp_state != from) {
            return EINVAL;
        }
        if (!claim_is_legal(attr->cur_qp_state)) {
            return EINVAL;
        }
        from = attr->cur_qp_state;
    }
    const struct transition *transition = find_transition(from, to);
    if (transition == NULL || (mask & transition->required) != transition->required ||
        (mask & ~(transition->required | transition->optional | IBV_QP_STATE)) != 0) {
        return EINVAL;
    }
    /* A false claim can name a legal step, but cannot make hardware take an impossible
     * one. */
    if (from != qp->state && find_transition(qp->state, to) == NULL) {
        return EINVAL;
    }
    if (to == IBV_QPS_SQD && !qp->nic->profile->has_sqd) {
        return EINVAL;
    }
    /* rxe_qp.c: while draining, the QP can only be moved to ERR. */
    bool is_draining = qp->state == IBV_QPS_SQD && qp->sq.una != qp->sq.started;
    if (is_draining && (mask & IBV_QP_STATE) != 0 && to != IBV_QPS_ERR &&
        qp->nic->profile->dialect == SIM_DIALECT_RXE) {
        return EINVAL;
    }
    return check_limits(qp, attr, mask);
}

static bool is_mapped_ipv4(const union ibv_gid *gid)
{
    static const uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return memcmp(gid->raw, prefix, sizeof(prefix)) == 0;
}

static void set_path(struct sim_qp *qp, const struct ibv_ah_attr *ah,
                     uint64_t destination_mac)
{
    struct sim_port *port = qp->port->port;
    struct sim_gid source;
    sim_qp_release_gid(qp);
    int error = sim_stack_gid(qp->nic->stack, port, ah->grh.sgid_index, &source);
    if (error != 0) {
        /* The address was removed while its neighbour was resolved. Frames have no source
         * GID. */
        memset(&source, 0, sizeof(source));
        source.type = IBV_GID_TYPE_ROCE_V2;
    }
    uint16_t vlan_tci =
        source.vlan_id != 0 ? (uint16_t)((ah->sl & 7u) << 13 | source.vlan_id) : 0;
    bool is_v1 = source.type != IBV_GID_TYPE_ROCE_V2;
    bool is_ipv4 = !is_v1 && is_mapped_ipv4(&ah->grh.dgid);
    struct sim_path path = {
        .source_gid = source.gid,
        .destination_gid = ah->grh.dgid,
        .source_mac = sim_port_mac(port),
        .destination_mac = destination_mac,
        .flow_label = ah->grh.flow_label & 0xfffff,
        .traffic_class = ah->grh.traffic_class,
        .hop_limit = 64, /* of the route, whatever the AV says */
        .tag_bytes = source.vlan_id != 0 ? 4 : 0,
        .vlan_tci = vlan_tci,
        .is_v1 = is_v1,
        .is_ipv4 = is_ipv4,
        .header_bytes = is_v1     ? 40
                        : is_ipv4 ? 28
                                  : 48,
    };
    qp->path = sim_port_path(port, &path);
    qp->verified = NULL;
    qp->attr.ah_attr = *ah;
    if (error == 0) {
        sim_stack_gid_hold(qp->nic->stack, port, ah->grh.sgid_index);
        qp->holds_gid = true;
    }
}

static void set_sport(struct sim_qp *qp)
{
    if (qp->nic->profile->sport_is_symmetric) {
        qp->sport =
            sim_udp_sport(qp->attr.ah_attr.grh.flow_label, qp->ibv.qp_num, qp->dest_qpn);
    } else {
        qp->sport = sim_udp_sport_rxe(qp->ibv.qp_num);
    }
}

static void bind_port(struct sim_qp *qp, uint8_t number)
{
    struct sim_nic_port *port = &qp->nic->ports[number - 1];
    if (qp->port != port) {
        sim_qp_release_gid(qp);
        sim_qp_leave_port(qp);
        port->n_bound++;
        qp->ordinal = port->n_bound;
    }
    qp->port = port;
    qp->attr.port_num = number;
}

/* Returns the number of READs and atomics that the device sets for the requested one. */
static uint8_t granted_reads(const struct sim_profile *profile, uint8_t asked,
                             uint8_t before)
{
    if (asked == 0 && profile->rd_atomic_zero_kept) {
        return before;
    }
    if (asked == 0 || !profile->rd_atomic_rounded) {
        return asked;
    }
    return (uint8_t)sim_round_up_pow2(asked);
}

static void apply_responder(struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    const struct sim_profile *profile = qp->nic->profile;
    if ((mask & IBV_QP_PATH_MTU) != 0) {
        qp->attr.path_mtu = attr->path_mtu;
        qp->mtu_bytes = (uint16_t)mtu_bytes(attr->path_mtu);
    }
    if ((mask & IBV_QP_DEST_QPN) != 0) {
        qp->attr.dest_qp_num = attr->dest_qp_num & 0xffffff;
        qp->dest_qpn = qp->attr.dest_qp_num;
    }
    if ((mask & IBV_QP_RQ_PSN) != 0) {
        qp->attr.rq_psn = attr->rq_psn & RC_PSN_MASK;
    }
    if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) {
        qp->attr.max_dest_rd_atomic =
            granted_reads(profile, attr->max_dest_rd_atomic, qp->attr.max_dest_rd_atomic);
        if (qp->state == IBV_QPS_SQD) {
            rc_resize_resources(qp);
        }
    }
    if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) {
        uint32_t forced = profile->min_rnr_timer_forced;
        qp->nic->counters.rnr_timers_forced +=
            forced != 0 && forced != attr->min_rnr_timer;
        qp->attr.min_rnr_timer = forced != 0 ? (uint8_t)forced : attr->min_rnr_timer;
    }
}

static void apply_requester(struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    if ((mask & IBV_QP_TIMEOUT) != 0 && attr->timeout <= qp->nic->profile->timeout_max) {
        qp->attr.timeout = attr->timeout;
        /* 4.096 us * 2^timeout */
        qp->sq.timeout_ps = attr->timeout == 0 ? 0 : (weft_ps)4096000 << attr->timeout;
    } else if ((mask & IBV_QP_TIMEOUT) != 0) {
        /* the earlier value remains; 0 (no timeout) if none was set */
        qp->nic->counters.timeouts_ignored++;
    }
    if ((mask & IBV_QP_RETRY_CNT) != 0) {
        qp->attr.retry_cnt = attr->retry_cnt;
        qp->sq.retry_cnt = attr->retry_cnt;
        qp->sq.retries_left = attr->retry_cnt;
    }
    if ((mask & IBV_QP_RNR_RETRY) != 0) {
        qp->attr.rnr_retry = attr->rnr_retry;
        qp->sq.rnr_retry = attr->rnr_retry;
        qp->sq.rnr_retries_left = attr->rnr_retry;
    }
    if ((mask & IBV_QP_SQ_PSN) != 0) {
        qp->attr.sq_psn = attr->sq_psn & RC_PSN_MASK;
    }
    if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
        qp->attr.max_rd_atomic =
            granted_reads(qp->nic->profile, attr->max_rd_atomic, qp->attr.max_rd_atomic);
    }
    if ((mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0) {
        qp->attr.en_sqd_async_notify = attr->en_sqd_async_notify;
    }
}

static void enter(struct sim_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to)
{
    if (to == IBV_QPS_ERR) {
        if (qp->flush_is_due) {
            rc_flush(qp);
        }
        rc_enter_error(qp, IBV_WC_SUCCESS, false);
        return;
    }
    if (to == IBV_QPS_RESET) {
        rc_reset(qp);
    }
    rc_set_state(qp, to);
    if (from == IBV_QPS_INIT && to == IBV_QPS_RTR) {
        rc_start_responder(qp);
    } else if (from == IBV_QPS_RTR && to == IBV_QPS_RTS) {
        rc_start_requester(qp);
    } else if (from == IBV_QPS_SQD && to == IBV_QPS_RTS) {
        rc_arm_doorbell(qp);
        rc_kick(qp);
    } else if (to == IBV_QPS_SQD) {
        rc_check_drained(qp);
    }
}

/* Sets the fields that all frames of the QP have in common, once it has a peer. */
static void set_model(struct sim_qp *qp)
{
    const struct sim_path *path = qp->path;
    if (path == NULL) {
        return;
    }
    qp->model = (struct sim_frame){
        .path = path,
        .dest_qpn = qp->dest_qpn,
        .source_qpn = qp->ibv.qp_num,
        .sport = qp->sport,
        .flags = qp->nic->profile->mig_req ? SIM_FRAME_MIG_REQ : 0,
        .is_loop = path->destination_mac == sim_port_mac(qp->port->port),
    };
    qp->overhead_bytes = (uint16_t)(sim_frame_ip_bytes(path, 0, 0) + 14 + 4 +
                                    SIM_PREAMBLE_AND_GAP_BYTES + path->tag_bytes);
}

void sim_qp_apply(struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask,
                  uint64_t destination_mac)
{
    enum ibv_qp_state from = qp->state;
    enum ibv_qp_state to = sim_qp_target(qp, attr, mask);
    const struct sim_nic_port *before = qp->port;
    if (before != NULL) {
        sim_train_settle(before->port);
    }
    if ((mask & IBV_QP_PORT) != 0) {
        bind_port(qp, attr->port_num);
    } else if ((mask & IBV_QP_AV) != 0) {
        bind_port(qp, attr->ah_attr.port_num); /* an AV in SQD implies its port */
    }
    if ((mask & IBV_QP_ACCESS_FLAGS) != 0) {
        qp->access = attr->qp_access_flags;
    }
    sim_qp_accept_ece(qp);
    apply_responder(qp, attr, mask);
    apply_requester(qp, attr, mask);
    if ((mask & IBV_QP_AV) != 0) {
        set_path(qp, &attr->ah_attr, destination_mac);
        set_sport(qp);
    }
    set_model(qp);
    if ((mask & IBV_QP_STATE) != 0) {
        enter(qp, from, to);
    }
    if (before != NULL && qp->port != before) {
        rc_kick(qp); /* its frames wait at the new port from now on */
    }
}
