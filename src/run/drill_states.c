#include "run/drill_states.h"

#include <errno.h>

#include "base/check.h"
#include "base/text.h"
#include "io/verbs.h"
#include "run/drill_world.h"

enum { N_STEPS = 40, N_BITS = 21, PORT_NONE = 0 };

#define LIMIT_NS INT64_C(100000000000)

/* A transition with its required and optional attributes (IBA table 91, as Linux implements it for
 * RoCE). RESET and ERR can be entered from any state but RESET. */
static const struct rule {
    enum ibv_qp_state from, to;
    int must, may;
} rules[] = {
    {IBV_QPS_RESET, IBV_QPS_RESET, 0, 0},
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS,
     0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0,
     IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_RQ_PSN | IBV_QP_DEST_QPN | IBV_QP_AV | IBV_QP_PATH_MTU |
         IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_DEST_RD_ATOMIC,
     IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
         IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0,
     IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
    {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {IBV_QPS_SQD, IBV_QPS_SQD, 0,
     IBV_QP_PORT | IBV_QP_AV | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_TIMEOUT |
         IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER |
         IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_PATH_MIG_STATE},
    {IBV_QPS_SQD, IBV_QPS_RTS, 0,
     IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
};

struct walk {
    const struct drill_states *states;
    struct ibv_qp *qp;
    enum ibv_qp_state state;
    uint8_t port; /* port that the queue pair is bound to, or PORT_NONE */
};

/* A call, and which of its values are wrong. */
struct call {
    struct ibv_qp_attr attr;
    int mask;
    bool has_wrong_limit, has_wrong_key;
};

static uint32_t below(const struct walk *walk, uint32_t bound)
{
    return (uint32_t)weft_rng_below(walk->states->rng, bound);
}

static const struct rule *find_rule(enum ibv_qp_state from, enum ibv_qp_state to)
{
    static const struct rule always = {IBV_QPS_INIT, IBV_QPS_ERR, 0, 0};

    if (from != IBV_QPS_RESET && (to == IBV_QPS_RESET || to == IBV_QPS_ERR)) {
        return &always;
    }
    for (size_t i = 0; i < WEFT_LENGTH(rules); i++) {
        if (rules[i].from == from && rules[i].to == to) {
            return &rules[i];
        }
    }
    return NULL;
}

/* Sets a limit to a value that no device accepts. */
static void spoil_limit(const struct walk *walk, struct call *call)
{
    struct ibv_qp_attr *attr = &call->attr;
    int bit = 0;

    switch (below(walk, 5)) {
    case 0:
        attr->retry_cnt = 8;
        bit = IBV_QP_RETRY_CNT;
        break;
    case 1:
        attr->rnr_retry = 8;
        bit = IBV_QP_RNR_RETRY;
        break;
    case 2:
        attr->min_rnr_timer = 32;
        bit = IBV_QP_MIN_RNR_TIMER;
        break;
    case 3:
        attr->pkey_index = 1;
        bit = IBV_QP_PKEY_INDEX;
        break;
    default:
        attr->path_mtu = (enum ibv_mtu)(below(walk, 2) * 6);
        bit = IBV_QP_PATH_MTU;
        break;
    }
    call->has_wrong_limit = (call->mask & bit) != 0;
}

static void spoil(const struct walk *walk, struct call *call)
{
    bool has_more_ports = walk->states->n_ports > 1;

    switch (has_more_ports && below(walk, 3) == 0 ? 3 : below(walk, 12)) {
    case 0:
        call->mask ^= 1 << below(walk, N_BITS);
        break;
    case 1:
        call->mask |= 1 << below(walk, N_BITS);
        break;
    case 2:
        call->attr.port_num = (uint8_t)(below(walk, 2) * (walk->states->n_ports + 1u));
        break;
    case 3:
        call->attr.ah_attr.port_num =
            (uint8_t)(1 + below(walk, walk->states->n_ports + 1u));
        break;
    case 4:
        call->mask |= IBV_QP_QKEY;
        call->has_wrong_key = true;
        break;
    case 5:
        call->mask |= IBV_QP_ALT_PATH;
        break;
    case 6:
    case 7:
        spoil_limit(walk, call);
        break;
    default:
        break;
    }
    if (call->has_wrong_key && below(walk, 2) == 0) {
        call->attr.port_num = 0;
        call->mask |= IBV_QP_PORT;
    }
    call->attr.qkey = call->has_wrong_key ? 0x80000001u : 1;
}

static void draw_call(const struct walk *walk, struct call *call)
{
    const struct drill_states *states = walk->states;
    static const enum ibv_qp_state ladder[] = {
        [IBV_QPS_RESET] = IBV_QPS_INIT, [IBV_QPS_INIT] = IBV_QPS_RTR,
        [IBV_QPS_RTR] = IBV_QPS_RTS,    [IBV_QPS_RTS] = IBV_QPS_SQD,
        [IBV_QPS_SQD] = IBV_QPS_RTS,    [IBV_QPS_SQE] = IBV_QPS_RESET,
        [IBV_QPS_ERR] = IBV_QPS_RESET};
    static const enum ibv_qp_state any[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
                                            IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR};
    enum ibv_qp_state to;
    const struct rule *rule;

    to = below(walk, 3) != 0 ? ladder[walk->state] : any[below(walk, WEFT_LENGTH(any))];
    if (to == IBV_QPS_SQD && !states->has_sqd) {
        to = IBV_QPS_ERR;
    }
    rule = find_rule(walk->state, to);
    *call =
        (struct call){.attr = {.qp_state = to,
                               .cur_qp_state = walk->state,
                               .port_num = states->port,
                               .path_mtu = IBV_MTU_256,
                               .dest_qp_num = walk->qp->qp_num,
                               .timeout = 14,
                               .retry_cnt = 3,
                               .rnr_retry = 3,
                               .min_rnr_timer = 5,
                               .alt_port_num = states->port,
                               .alt_ah_attr = {.is_global = 1, .port_num = states->port},
                               .ah_attr = {.is_global = 1,
                                           .port_num = states->port,
                                           .grh = {.dgid = states->peer_gid,
                                                   .sgid_index = states->gid_index,
                                                   .hop_limit = 64}}},
                      .mask = IBV_QP_STATE};
    if (rule != NULL) {
        call->mask |= rule->must;
        for (int bit = 0; bit < N_BITS; bit++) {
            call->mask |= below(walk, 4) == 0 ? rule->may & 1 << bit : 0;
        }
    }
    if (to == walk->state && below(walk, 2) == 0) {
        call->mask &= ~IBV_QP_STATE;
    }
    spoil(walk, call);
}

static bool is_port(const struct walk *walk, uint8_t port)
{
    return port >= 1 && port <= walk->states->n_ports;
}

/* Returns true if Linux refuses the ports, which it checks before it resolves the neighbour
 * (uverbs_cmd.c, modify_qp). */
static bool has_wrong_port(const struct walk *walk, const struct call *call)
{
    bool has_port = (call->mask & IBV_QP_PORT) != 0;
    bool has_av = (call->mask & IBV_QP_AV) != 0;
    bool to_rtr = (call->mask & IBV_QP_STATE) != 0 && call->attr.qp_state == IBV_QPS_RTR;
    uint8_t av_port = call->attr.ah_attr.port_num;

    return (has_port && !is_port(walk, call->attr.port_num)) ||
           (has_av && !is_port(walk, av_port)) ||
           (has_av && to_rtr && av_port != walk->port) ||
           (has_av && has_port && av_port != call->attr.port_num);
}

static int must_return(const struct walk *walk, const struct call *call)
{
    bool moves = (call->mask & IBV_QP_STATE) != 0;
    enum ibv_qp_state to = moves ? call->attr.qp_state : walk->state;
    const struct rule *rule = find_rule(walk->state, to);
    int known = IBV_QP_STATE;

    if (has_wrong_port(walk, call)) {
        return EINVAL;
    }
    if (call->has_wrong_key && (call->mask & IBV_QP_QKEY) != 0) {
        return EPERM;
    }
    if (rule == NULL || (call->mask & rule->must) != rule->must) {
        return EINVAL;
    }
    known |= rule->must | rule->may;
    return (call->mask & ~known) != 0 || call->has_wrong_limit ? EINVAL : 0;
}

/* Returns true if the model predicts nothing for the call. A claimed current state, and a GID of a
 * second port in the address vector, are judged by the device. */
static bool is_open(const struct walk *walk, const struct call *call)
{
    return (call->mask & IBV_QP_CUR_STATE) != 0 ||
           ((call->mask & IBV_QP_AV) != 0 && !has_wrong_port(walk, call) &&
            call->attr.ah_attr.port_num != walk->states->port);
}

static bool take_step(struct walk *walk, char *text, size_t n_text)
{
    const struct drill_states *states = walk->states;
    struct io_op op = {.kind = IO_OP_MODIFY_QP};
    struct call call;
    int want, got;

    draw_call(walk, &call);
    if (is_open(walk, &call)) {
        return true;
    }
    op.arg.modify_qp.qp = walk->qp;
    op.arg.modify_qp.attr = call.attr;
    op.arg.modify_qp.mask = call.mask;
    want = must_return(walk, &call);
    got = drill_verb(states->run, states->device, &op, LIMIT_NS);
    if (got != want) {
        weft_format(text, n_text,
                    "modify_qp in state %d to %d, mask 0x%x, ports %u and %u: errno %d, "
                    "not %d",
                    walk->state, call.attr.qp_state, (unsigned)call.mask,
                    call.attr.port_num, call.attr.ah_attr.port_num, got, want);
        return false;
    }
    if (got == 0) {
        walk->state = (call.mask & IBV_QP_STATE) != 0 ? call.attr.qp_state : walk->state;
        walk->port = (call.mask & IBV_QP_PORT) != 0 ? call.attr.port_num : walk->port;
    }
    return true;
}

bool drill_states_walk(const struct drill_states *states, char *text, size_t n_text)
{
    struct walk walk = {.states = states, .state = IBV_QPS_RESET, .port = PORT_NONE};
    struct io_op make = {.kind = IO_OP_CREATE_QP}, drop = {.kind = IO_OP_DESTROY_QP};
    bool is_good = true;

    make.arg.create_qp.pd = states->pd;
    make.arg.create_qp.init = (struct ibv_qp_init_attr){
        .send_cq = states->cq,
        .recv_cq = states->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {
            .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    if (drill_verb(states->run, states->device, &make, LIMIT_NS) != 0) {
        return true; /* the device has no room for another QP */
    }
    walk.qp = make.out.qp;
    for (int i = 0; i < N_STEPS && is_good; i++) {
        is_good = take_step(&walk, text, n_text);
    }
    drop.arg.destroy_qp = walk.qp;
    if (drill_verb(states->run, states->device, &drop, LIMIT_NS) != 0 && is_good) {
        weft_format(text, n_text, "destroy_qp in state %d is refused", walk.state);
        return false;
    }
    return is_good;
}
