#include "run/drill.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "run/drill_mistakes.h"
#include "run/drill_states.h"
#include "run/drill_world.h"
#include "run/private.h"

enum {
    N_OPS = 10,              /* operations of each end per round */
    N_ROUNDS = 2,            /* rounds of valid work, with an error between two */
    SOURCE_BYTES = 16 << 10, /* only read */
    LANDED_BYTES = 40 << 10,
    LANDING = SOURCE_BYTES,       /* written by the peer */
    OWN = LANDING + LANDED_BYTES, /* results of this end's READs and atomics */
    COUNTER = OWN + LANDED_BYTES, /* target of the peer's atomics */
    MEMORY_BYTES = COUNTER + 64,
    /* The region ends inside the last atomic's 8 bytes, before the end of the memory. */
    REGION_BYTES = MEMORY_BYTES - 12,
    QUEUE = 32,
    CODE_TIMEOUT = 12,
    RNR_CODE = 5,    /* 60 us */
    RESOLUTIONS = 8, /* attempts to resolve a neighbour on a cable that loses packets */
    RNR_RETRIES = 2, /* rnr_retry of connections on which a receiver may never be ready */
    LIMIT_S = 100,
    FLUSHED = 77 /* wr_id of a receive that is only flushed */
};

#define US INT64_C(1000)
#define SECOND INT64_C(1000000000)

struct op {
    enum ibv_wr_opcode opcode;
    size_t source, target;
    uint32_t bytes, split; /* bytes in the first of two SGEs */
    bool is_signaled;
    uint64_t operand, swap;
};

struct side {
    const struct world_host *host;
    struct io_device *device;
    uint8_t port;
    struct io_device_attr attr;
    struct ibv_port_attr port_attr;
    struct io_gid_entry gid;
    struct ibv_pd *pd, *other_pd;
    struct ibv_cq *cq;
    /* `other_mr`: a second region, under `other_pd` if that exists. */
    struct ibv_mr *mr, *other_mr;
    struct ibv_qp *qp;
    struct ibv_qp_cap cap;
    uint8_t *memory, *model; /* Owned [MEMORY_BYTES] */
    uint32_t psn;
    struct op ops[N_OPS];
    unsigned n_posted, n_done; /* sends; n_done includes unsignaled ones */
    /* Receives that are needed, posted and completed. */
    unsigned n_recvs, n_ready, n_recvd;
    unsigned recv_ops[N_OPS]; /* the peer's operations that consume them */
    size_t next_target, next_own;
};

struct drill {
    struct run *run;
    struct weft_rng rng;
    struct weft_text *broken;
    struct side sides[2];
    const char *names[2]; /* names of the hosts */
    enum ibv_mtu mtu;
    uint8_t rd_atomic, rnr_retry, rnr_code, retries;
    uint32_t n_connections; /* so far */
    bool is_calm;           /* nothing disturbs a packet */
    bool is_peculiar;       /* a device reports statuses of its own */
    /* is_late: receives may be posted after they are needed. */
    bool has_reads, has_atomics, is_late;
    bool is_over; /* a deviation was reported */
};

static bool is_hns(const struct side *side)
{
    return side->host->profile == WEFT_PROFILE_HNS_HIP08 ||
           side->host->profile == WEFT_PROFILE_HNS_HIP09;
}

static uint32_t below(struct drill *drill, uint32_t bound)
{
    return (uint32_t)weft_rng_below(&drill->rng, bound);
}

static weft_ns now_of(const struct drill *drill)
{
    return drill_now(drill->run);
}

static void complain(struct drill *drill, unsigned end, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void complain(struct drill *drill, unsigned end, const char *format, ...)
{
    char text[256];
    va_list list;

    if (drill->is_over) {
        return;
    }
    drill->is_over = true;
    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    weft_text_add(drill->broken, "%s to %s: %s", drill->names[end], drill->names[1 - end],
                  text);
}

static void pass(struct drill *drill, weft_ns time)
{
    drill_pass(drill->run, time);
}

static int verb(struct drill *drill, unsigned end, struct io_op *op)
{
    int error = drill_verb(drill->run, drill->sides[end].device, op, LIMIT_S * SECOND);

    if (error == DRILL_HANGS) {
        complain(drill, end, "%s does not end", io_op_kind_name(op->kind));
        return ETIMEDOUT;
    }
    return error;
}

/* ---- objects ---- */

static struct ibv_pd *make_pd(struct drill *drill, unsigned end)
{
    struct io_op op = {.kind = IO_OP_ALLOC_PD};

    return verb(drill, end, &op) == 0 ? op.out.pd : NULL;
}

static struct ibv_mr *make_mr(struct drill *drill, unsigned end, struct ibv_pd *pd,
                              int access)
{
    struct io_op op = {.kind = IO_OP_REG_MR};

    op.arg.reg_mr.pd = pd;
    op.arg.reg_mr.addr = drill->sides[end].memory;
    op.arg.reg_mr.length = REGION_BYTES;
    op.arg.reg_mr.access = access;
    return pd != NULL && verb(drill, end, &op) == 0 ? op.out.mr : NULL;
}

static void drop_mr(struct drill *drill, unsigned end, struct ibv_mr *mr)
{
    struct io_op op = {.kind = IO_OP_DEREG_MR};

    op.arg.dereg_mr = mr;
    if (mr != NULL && verb(drill, end, &op) != 0) {
        complain(drill, end, "dereg_mr is refused");
    }
}

static void drop_pd(struct drill *drill, unsigned end, struct ibv_pd *pd)
{
    struct io_op op = {.kind = IO_OP_DEALLOC_PD};

    op.arg.dealloc_pd = pd;
    if (pd != NULL && verb(drill, end, &op) != 0) {
        complain(drill, end, "dealloc_pd is refused");
    }
}

#define ACCESS_ALL                                                                       \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |         \
     IBV_ACCESS_REMOTE_ATOMIC)

/* Returns false if the device has no room for one of the objects. */
static bool make_objects(struct drill *drill, unsigned end)
{
    struct side *side = &drill->sides[end];
    struct io_op cq = {.kind = IO_OP_CREATE_CQ};
    struct io_op qp = {.kind = IO_OP_CREATE_QP};

    side->memory = weft_calloc(1, MEMORY_BYTES);
    side->model = weft_calloc(1, MEMORY_BYTES);
    for (size_t i = 0; i < SOURCE_BYTES; i++) {
        side->memory[i] = (uint8_t)(i * 7 + i / 251 + end * 101);
    }
    memcpy(side->model, side->memory, MEMORY_BYTES);
    side->pd = make_pd(drill, end);
    side->mr = make_mr(drill, end, side->pd, ACCESS_ALL);
    cq.arg.create_cq.cqe = 4 * QUEUE;
    if (side->mr == NULL || verb(drill, end, &cq) != 0) {
        return false;
    }
    side->cq = cq.out.cq;
    qp.arg.create_qp.pd = side->pd;
    qp.arg.create_qp.init = (struct ibv_qp_init_attr){.send_cq = side->cq,
                                                      .recv_cq = side->cq,
                                                      .qp_type = IBV_QPT_RC,
                                                      .cap = {.max_send_wr = QUEUE,
                                                              .max_recv_wr = QUEUE,
                                                              .max_send_sge = 2,
                                                              .max_recv_sge = 1}};
    if (verb(drill, end, &qp) != 0) {
        return false;
    }
    side->qp = qp.out.qp;
    side->cap = qp.arg.create_qp.init.cap;
    return true;
}

static void drop_objects(struct drill *drill, unsigned end)
{
    struct side *side = &drill->sides[end];
    struct io_op qp = {.kind = IO_OP_DESTROY_QP};
    struct io_op cq = {.kind = IO_OP_DESTROY_CQ};

    qp.arg.destroy_qp = side->qp;
    cq.arg.destroy_cq = side->cq;
    if (side->qp != NULL && verb(drill, end, &qp) != 0) {
        complain(drill, end, "destroy_qp is refused");
    }
    if (side->cq != NULL && verb(drill, end, &cq) != 0) {
        complain(drill, end, "destroy_cq is refused");
    }
    drop_mr(drill, end, side->other_mr);
    drop_mr(drill, end, side->mr);
    drop_pd(drill, end, side->other_pd);
    drop_pd(drill, end, side->pd);
    free(side->memory);
    free(side->model);
}

/* ---- states ---- */

static int modify(struct drill *drill, unsigned end, const struct ibv_qp_attr *attr,
                  int mask)
{
    struct io_op op = {.kind = IO_OP_MODIFY_QP};

    op.arg.modify_qp.qp = drill->sides[end].qp;
    op.arg.modify_qp.attr = *attr;
    op.arg.modify_qp.mask = mask;
    return verb(drill, end, &op);
}

static int to_state(struct drill *drill, unsigned end, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};

    return modify(drill, end, &attr, IBV_QP_STATE);
}

/* Makes a transition. Now and then tries it first without a required attribute, which must be
 * refused and change nothing (IBA 11.2.5.2, table 91). */
static void step(struct drill *drill, unsigned end, const struct ibv_qp_attr *attr,
                 int required)
{
    int error = 0;

    if (below(drill, 4) == 0) {
        int missing = 0;

        while ((required & ~IBV_QP_STATE & missing) == 0) {
            missing = 1 << below(drill, 21);
        }
        if (modify(drill, end, attr, required & ~missing) == 0) {
            complain(drill, end, "modify_qp to state %d without attribute 0x%x passes",
                     attr->qp_state, (unsigned)missing);
            return;
        }
    }
    for (int i = 0; i < RESOLUTIONS; i++) {
        error = modify(drill, end, attr, required);
        if (error != ETIMEDOUT) {
            break;
        }
    }
    if (error != 0) {
        complain(drill, end, "modify_qp to state %d: errno %d", attr->qp_state, error);
    }
}

static struct ibv_qp_attr rtr_attr(const struct drill *drill, unsigned end)
{
    const struct side *side = &drill->sides[end];
    const struct side *peer = &drill->sides[1 - end];

    return (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = drill->mtu,
        .dest_qp_num = peer->qp->qp_num,
        .rq_psn = peer->psn,
        .max_dest_rd_atomic = drill->rd_atomic,
        .min_rnr_timer = drill->rnr_code,
        .ah_attr = {.is_global = 1,
                    .port_num = side->port,
                    .grh = {.dgid = peer->gid.gid,
                            .sgid_index = (uint8_t)side->gid.index,
                            .hop_limit = 64}}};
}

static void connect_end(struct drill *drill, unsigned end)
{
    static const enum ibv_qp_state after[] = {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD,
                                              IBV_QPS_ERR};
    struct side *side = &drill->sides[end];
    struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT, .port_num = side->port, .qp_access_flags = ACCESS_ALL};
    struct ibv_qp_attr rtr = rtr_attr(drill, end);
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                              .sq_psn = side->psn,
                              .timeout = CODE_TIMEOUT,
                              .retry_cnt = drill->retries,
                              .rnr_retry = drill->rnr_retry,
                              .max_rd_atomic = drill->rd_atomic};
    int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

    if (below(drill, 8) == 0 && to_state(drill, end, after[below(drill, 4)]) == 0) {
        complain(drill, end, "modify_qp from RESET passes over INIT");
    }
    step(drill, end, &init, init_mask);
    if (below(drill, 4) == 0 && modify(drill, end, &init, init_mask) != 0) {
        complain(drill, end, "modify_qp from INIT to INIT is refused");
    }
    step(drill, end, &rtr,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    step(drill, end, &rts,
         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void connect_both(struct drill *drill)
{
    for (unsigned end = 0; end < 2; end++) {
        struct side *side = &drill->sides[end];

        /* Far from the PSNs of the previous connection, so that a capture can distinguish them. */
        side->psn = (drill->n_connections * 0x400000u - below(drill, 20)) & 0xffffffu;
        side->n_posted = side->n_done = 0;
        side->n_recvs = side->n_ready = side->n_recvd = 0;
        side->next_target = LANDING;
        side->next_own = OWN;
    }
    drill->n_connections++;
    for (unsigned end = 0; end < 2; end++) {
        connect_end(drill, end);
    }
}

/* ---- good work ---- */

static bool takes_receive(enum ibv_wr_opcode opcode)
{
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
           opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_atomic(enum ibv_wr_opcode opcode)
{
    return opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

static uint32_t draw_bytes(struct drill *drill)
{
    uint32_t mtu = 128u << (uint32_t)drill->mtu;

    switch (below(drill, 6)) {
    case 0:
        return below(drill, 3);
    case 1:
        return below(drill, 65);
    case 2:
        return mtu - 1 + below(drill, 3);
    case 3:
        return 2 * mtu - 1 + below(drill, 3);
    default:
        return below(drill, 3 * mtu);
    }
}

/* Reserves space for the operation, which is shortened if there is less before `end`. */
static size_t take(size_t *next, size_t end, struct op *op)
{
    size_t at = *next;

    if (op->bytes > end - at) {
        op->bytes = (uint32_t)(end - at);
    }
    *next = (at + op->bytes + 15) & ~(size_t)15;
    return at;
}

static void play_atomic(struct op *op, uint8_t *own, uint8_t *peer)
{
    uint64_t value;

    memcpy(&value, peer + COUNTER, 8);
    memcpy(own + op->target, &value, 8);
    if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        value += op->operand;
    } else if (value == op->operand) {
        value = op->swap;
    }
    memcpy(peer + COUNTER, &value, 8);
}

/* Draws an operation of `end` and applies it to the model. */
static struct op *draw_op(struct drill *drill, unsigned end)
{
    static const enum ibv_wr_opcode opcodes[] = {
        IBV_WR_SEND,      IBV_WR_SEND_WITH_IMM,        IBV_WR_RDMA_WRITE,
        IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM,  IBV_WR_RDMA_READ,
        IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP};
    struct side *side = &drill->sides[end];
    struct side *peer = &drill->sides[1 - end];
    struct op *op = &side->ops[side->n_posted];

    do {
        op->opcode = opcodes[below(drill, WEFT_LENGTH(opcodes))];
    } while (
        (op->opcode == IBV_WR_RDMA_READ && !drill->has_reads) ||
        (is_atomic(op->opcode) && (!drill->has_atomics || side->next_own + 8 > COUNTER)));
    op->bytes = is_atomic(op->opcode) ? 8 : draw_bytes(drill);
    op->source = below(drill, SOURCE_BYTES - 3 * 4096);
    op->is_signaled = side->n_posted == N_OPS - 1 || below(drill, 3) != 0;
    if (op->opcode == IBV_WR_RDMA_READ) {
        op->target = take(&side->next_own, COUNTER, op);
        memcpy(side->model + op->target, peer->model + op->source, op->bytes);
    } else if (is_atomic(op->opcode)) {
        op->target = take(&side->next_own, COUNTER, op);
        op->operand = below(drill, 3);
        op->swap = weft_rng_next(&drill->rng);
        play_atomic(op, side->model, peer->model);
    } else {
        op->target = take(&side->next_target, OWN, op);
        memcpy(peer->model + op->target, side->model + op->source, op->bytes);
    }
    op->split = below(drill, 2) == 0 ? op->bytes : below(drill, op->bytes + 1);
    if (takes_receive(op->opcode)) {
        peer->recv_ops[peer->n_recvs++] = side->n_posted;
    }
    return op;
}

static int post_wr(struct side *side, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    return side->device->ops->post_send(side->qp, wr, bad);
}

static void post(struct drill *drill, unsigned end)
{
    struct side *side = &drill->sides[end];
    struct side *peer = &drill->sides[1 - end];
    const struct op *op = draw_op(drill, end);
    bool lands_here = op->opcode == IBV_WR_RDMA_READ || is_atomic(op->opcode);
    uint8_t *local = side->memory + (lands_here ? op->target : op->source);
    uint64_t remote = (uintptr_t)(peer->memory + (lands_here ? op->source : op->target));
    struct ibv_sge sges[2] = {
        {(uintptr_t)local, op->split, side->mr->lkey},
        {(uintptr_t)local + op->split, op->bytes - op->split, side->mr->lkey}};
    struct ibv_send_wr wr = {.wr_id = side->n_posted,
                             .sg_list = sges,
                             .num_sge = op->split < op->bytes ? 2
                                        : op->bytes > 0       ? 1
                                                              : 0,
                             .opcode = op->opcode,
                             .send_flags = op->is_signaled ? IBV_SEND_SIGNALED : 0,
                             .imm_data =
                                 drill_network_order(0xabc00000u + side->n_posted)};
    struct ibv_send_wr *bad = NULL;
    int error;

    if (is_atomic(op->opcode)) {
        wr.wr.atomic.remote_addr = (uintptr_t)(peer->memory + COUNTER);
        wr.wr.atomic.rkey = peer->mr->rkey;
        wr.wr.atomic.compare_add = op->operand;
        wr.wr.atomic.swap = op->swap;
    } else {
        wr.wr.rdma.remote_addr = remote;
        wr.wr.rdma.rkey = peer->mr->rkey;
    }
    error = post_wr(side, &wr, &bad);
    if (error != 0) {
        complain(drill, end, "post_send of %s: errno %d",
                 io_wr_opcode_name((int)op->opcode), error);
    }
    side->n_posted++;
}

/* Posts the next receive that is needed. A SEND lands where the model puts it. */
static void post_receive(struct drill *drill, unsigned end)
{
    struct side *side = &drill->sides[end];
    const struct op *op = &drill->sides[1 - end].ops[side->recv_ops[side->n_ready]];
    bool is_send = op->opcode != IBV_WR_RDMA_WRITE_WITH_IMM;
    struct ibv_sge sge = {(uintptr_t)(side->memory + op->target), op->bytes,
                          side->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = 1000 + side->n_ready,
                             .sg_list = &sge,
                             .num_sge = is_send && op->bytes > 0 ? 1 : 0};
    struct ibv_recv_wr *bad = NULL;
    int error = side->device->ops->post_recv(side->qp, &wr, &bad);

    if (error != 0) {
        complain(drill, end, "post_recv: errno %d", error);
    }
    side->n_ready++;
}

static enum ibv_wc_opcode completes_as(enum ibv_wr_opcode opcode)
{
    switch ((int)opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return IBV_WC_SEND;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    default:
        return IBV_WC_RDMA_WRITE;
    }
}

static void judge_received(struct drill *drill, unsigned end, const struct ibv_wc *wc)
{
    struct side *side = &drill->sides[end];
    const struct op *op;
    unsigned index;
    bool is_write, has_imm;

    if (side->n_recvd == side->n_ready || wc->wr_id != 1000 + side->n_recvd) {
        complain(drill, end, "receive %u completes as %llu of %u", side->n_recvd,
                 (unsigned long long)wc->wr_id, side->n_ready);
        return; /* no operation belongs to it */
    }
    index = side->recv_ops[side->n_recvd];
    op = &drill->sides[1 - end].ops[index];
    is_write = op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    has_imm = op->opcode != IBV_WR_SEND;
    if (wc->byte_len != op->bytes ||
        wc->opcode != (is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) ||
        ((wc->wc_flags & IBV_WC_WITH_IMM) != 0) != has_imm ||
        (has_imm && wc->imm_data != drill_network_order(0xabc00000u + index))) {
        complain(drill, end, "receive %u of %s of %u B completes with %u B, opcode %d",
                 side->n_recvd, io_wr_opcode_name((int)op->opcode), op->bytes,
                 wc->byte_len, wc->opcode);
    }
    side->n_recvd++;
}

static void judge_sent(struct drill *drill, unsigned end, const struct ibv_wc *wc)
{
    struct side *side = &drill->sides[end];

    while (side->n_done < side->n_posted && !side->ops[side->n_done].is_signaled) {
        side->n_done++;
    }
    if (side->n_done == side->n_posted || wc->wr_id != side->n_done ||
        wc->opcode != completes_as(side->ops[side->n_done].opcode)) {
        complain(drill, end, "send %u of %u completes as %llu with opcode %d",
                 side->n_done, side->n_posted, (unsigned long long)wc->wr_id, wc->opcode);
    }
    side->n_done++;
}

/* Polls one completion that counts. Returns false if there is none. */
static bool poll_one(struct drill *drill, unsigned end, struct ibv_wc *wc)
{
    struct side *side = &drill->sides[end];
    int n = 0;

    do {
        int error = side->device->ops->poll_cq(side->cq, 1, wc, &n);

        if (error != 0) {
            complain(drill, end, "poll_cq: errno %d", error);
            return false;
        }
    } while (n == 1 && wc->status == IBV_WC_GENERAL_ERR &&
             side->attr.general_err_is_harmless);
    return n == 1;
}

static void collect(struct drill *drill, unsigned end)
{
    struct ibv_wc wc;

    while (!drill->is_over && poll_one(drill, end, &wc)) {
        if (wc.status != IBV_WC_SUCCESS) {
            complain(drill, end, "work request %llu fails: %s",
                     (unsigned long long)wc.wr_id, io_wc_status_name((int)wc.status));
        } else if ((wc.opcode & IBV_WC_RECV) != 0) {
            judge_received(drill, end, &wc);
        } else {
            judge_sent(drill, end, &wc);
        }
    }
}

static bool is_round_over(const struct drill *drill)
{
    for (unsigned end = 0; end < 2; end++) {
        const struct side *side = &drill->sides[end];

        if (side->n_posted < N_OPS || side->n_done < N_OPS ||
            side->n_recvd < side->n_recvs) {
            return false;
        }
    }
    return true;
}

/* Compares the memory of both ends with the model. */
static void judge_memory(struct drill *drill, const char *after)
{
    pass(drill, 200 * US); /* for writes that relaxed ordering delays */
    for (unsigned end = 0; end < 2; end++) {
        const struct side *side = &drill->sides[end];

        for (size_t i = 0; i < MEMORY_BYTES; i++) {
            if (side->memory[i] != side->model[i]) {
                complain(drill, end, "byte %zu is 0x%02x, not 0x%02x, after %s", i,
                         side->memory[i], side->model[i], after);
                return;
            }
        }
    }
}

static void work(struct drill *drill)
{
    weft_ns until = now_of(drill) + LIMIT_S * SECOND;

    while (!drill->is_over && !is_round_over(drill)) {
        for (unsigned end = 0; end < 2; end++) {
            struct side *side = &drill->sides[end];

            if (side->n_ready < side->n_recvs &&
                (!drill->is_late || below(drill, 3) == 0)) {
                post_receive(drill, end);
            }
            if (side->n_posted < N_OPS && below(drill, 2) == 0) {
                post(drill, end);
                while (!drill->is_late &&
                       drill->sides[1 - end].n_ready < drill->sides[1 - end].n_recvs) {
                    post_receive(drill, 1 - end);
                }
            }
            collect(drill, end);
        }
        pass(drill, below(drill, 3) == 0 ? 200 * US : below(drill, 3000));
        if (now_of(drill) > until) {
            complain(drill, 0, "sends %u and %u, receives %u and %u do not complete",
                     drill->sides[0].n_done, drill->sides[1].n_done,
                     drill->sides[0].n_recvd, drill->sides[1].n_recvd);
        }
    }
    if (!drill->is_over) {
        judge_memory(drill, "good work");
    }
}

/* ---- mistakes ---- */

/* Registers a region of the peer that must not be accessible. Returns its key, or 0. */
static uint32_t forbidden_key(struct drill *drill, enum mistake mistake)
{
    struct side *peer = &drill->sides[1];
    uint32_t key;

    peer->other_pd = mistake == OTHER_DOMAIN ? make_pd(drill, 1) : NULL;
    peer->other_mr =
        make_mr(drill, 1, mistake == OTHER_DOMAIN ? peer->other_pd : peer->pd,
                mistake == NO_ACCESS ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ
                                     : ACCESS_ALL);
    if (peer->other_mr == NULL) {
        return 0;
    }
    key = peer->other_mr->rkey;
    if (mistake == GONE_REGION) {
        drop_mr(drill, 1, peer->other_mr);
        /* Another region may take its place, but must not get its key. */
        peer->other_mr =
            below(drill, 2) == 0 ? make_mr(drill, 1, peer->pd, ACCESS_ALL) : NULL;
        if (peer->other_mr != NULL && peer->other_mr->rkey == key) {
            complain(drill, 1, "a region has the key of the one before it");
        }
    }
    return key;
}

/* Turns the work request into one with the error. Returns false if this device cannot make it. */
static bool make_mistake(struct drill *drill, enum mistake mistake,
                         struct ibv_send_wr *wr, struct ibv_sge *sge)
{
    struct side *peer = &drill->sides[1];
    uint64_t start = (uintptr_t)peer->memory;

    switch ((int)mistake) {
    case WRONG_KEY:
        wr->wr.rdma.rkey ^= 1u << below(drill, 32);
        break;
    case BEHIND_END:
        wr->opcode = drill->has_reads && below(drill, 2) == 0 ? IBV_WR_RDMA_READ
                                                              : IBV_WR_RDMA_WRITE;
        wr->wr.rdma.remote_addr =
            start + REGION_BYTES - sge->length + 1 + below(drill, sge->length);
        break;
    case BEFORE_START:
        wr->wr.rdma.remote_addr = start - 1 - below(drill, sge->length);
        break;
    case ATOMIC_AT_END:
    case ATOMIC_ODD:
        if (!drill->has_atomics) {
            return false;
        }
        wr->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        sge->length = 8;
        wr->wr.atomic.rkey = peer->mr->rkey;
        wr->wr.atomic.compare_add = 1;
        wr->wr.atomic.remote_addr = mistake == ATOMIC_ODD
                                        ? start + COUNTER + 1 + below(drill, 7)
                                        : start + REGION_BYTES - 4;
        break;
    case OTHER_DOMAIN:
    case GONE_REGION:
    case NO_ACCESS:
        wr->wr.rdma.rkey = forbidden_key(drill, mistake);
        return wr->wr.rdma.rkey != 0;
    case WRONG_LOCAL_KEY:
        sge->lkey ^= 1u << below(drill, 32);
        break;
    case LOCAL_END:
        sge->addr = (uintptr_t)drill->sides[0].memory + REGION_BYTES - sge->length + 1;
        break;
    case TOO_LONG:
    case NOT_READY:
        wr->opcode = IBV_WR_SEND;
        break;
    default:
        break;
    }
    return true;
}

/* Waits for the next completion of `end`, which must have `status` and belong to `wr_id`. */
static void expect(struct drill *drill, unsigned end, uint64_t wr_id,
                   enum ibv_wc_status status, enum mistake mistake)
{
    weft_ns until = now_of(drill) + LIMIT_S * SECOND;
    struct ibv_wc wc;

    while (!drill->is_over && !poll_one(drill, end, &wc)) {
        pass(drill, 200 * US);
        if (now_of(drill) > until) {
            complain(drill, end, "%s: work request %llu does not complete",
                     drill_mistakes[mistake], (unsigned long long)wr_id);
        }
    }
    /* If packets are lost, the only NAK that reports the error can be lost, too. */
    if (drill->is_over || (drill->is_peculiar && wc.status != IBV_WC_SUCCESS) ||
        (!drill->is_calm && wc.status == IBV_WC_RETRY_EXC_ERR)) {
        return;
    }
    if (wc.wr_id != wr_id || wc.status != status) {
        complain(drill, end, "%s: work request %llu ends with %s, expected %llu with %s",
                 drill_mistakes[mistake], (unsigned long long)wc.wr_id,
                 io_wc_status_name((int)wc.status), (unsigned long long)wr_id,
                 io_wc_status_name((int)status));
    }
}

/* Checks when a silent peer was given up. Each retry takes between one and four times the timeout
 * (IBA 9.7.6.1.3). */
static void judge_patience(struct drill *drill, weft_ns took_ns)
{
    weft_ns one = 4096 << CODE_TIMEOUT;
    weft_ns least = one * drill->retries,
            most = 4 * one * (drill->retries + 1) + 100 * US;

    if (took_ns < least || took_ns > most) {
        complain(drill, 0, "a silent peer is given up after %lld us, not %lld to %lld",
                 (long long)(took_ns / US), (long long)(least / US),
                 (long long)(most / US));
    }
}

/* Delays of the min_rnr_timer codes, in units of 10 us (IBA 9.7.5.2.8, table 45). */
static const uint32_t rnr_waits[] = {
    65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
    48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

/* Checks that a receiver that is not ready gets each retry only after the RNR delay. */
static void judge_rnr(struct drill *drill, weft_ns took_ns)
{
    weft_ns wait = (weft_ns)rnr_waits[drill->rnr_code] * 10 * US;

    /* Devices of hns round the timer to steps of their own. */
    if (took_ns < wait * RNR_RETRIES && !is_hns(&drill->sides[1])) {
        complain(drill, 0, "a receiver is asked %d times in %lld us, not %lld us each",
                 RNR_RETRIES, (long long)(took_ns / US), (long long)(wait / US));
    }
}

static void post_one_receive(struct drill *drill, unsigned end, uint64_t wr_id,
                             uint32_t bytes)
{
    struct side *side = &drill->sides[end];
    struct ibv_sge sge = {(uintptr_t)(side->memory + LANDING), bytes, side->mr->lkey};
    struct ibv_recv_wr wr = {
        .wr_id = wr_id, .sg_list = &sge, .num_sge = bytes > 0 ? 1 : 0};
    struct ibv_recv_wr *bad = NULL;

    if (side->device->ops->post_recv(side->qp, &wr, &bad) != 0) {
        complain(drill, end, "post_recv is refused");
    }
}

static void err(struct drill *drill, enum mistake mistake)
{
    struct side *side = &drill->sides[0];
    uint32_t n_bytes = 1 + below(drill, 600);
    struct ibv_sge sge = {(uintptr_t)side->memory, n_bytes, side->mr->lkey};
    struct ibv_sge own = {(uintptr_t)side->memory + OWN, 8, side->mr->lkey};
    struct ibv_send_wr next = {.wr_id = 1, .opcode = IBV_WR_SEND};
    struct ibv_send_wr wr = {.wr_id = 0,
                             .next = &next,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad = NULL;
    weft_ns began;
    int error;

    wr.wr.rdma.remote_addr = (uintptr_t)(drill->sides[1].memory + LANDING);
    wr.wr.rdma.rkey = drill->sides[1].mr->rkey;
    if (!make_mistake(drill, mistake, &wr, &sge)) {
        return;
    }
    if (wr.opcode == IBV_WR_RDMA_READ || is_atomic(wr.opcode)) {
        own.length = sge.length;
        wr.sg_list = &own;
    }
    if (mistake != NOT_READY && mistake != SILENT) {
        post_one_receive(drill, 1, 1000, mistake == TOO_LONG ? n_bytes - 1 : 0);
    }
    if (mistake == SILENT) {
        to_state(drill, 1, IBV_QPS_RESET);
    }
    began = now_of(drill);
    error = post_wr(side, &wr, &bad);
    if (error != 0) {
        /* A device may refuse at once what it can check at once. */
        if (mistake != ATOMIC_ODD && !drill->is_peculiar) {
            complain(drill, 0, "%s: post_send: errno %d", drill_mistakes[mistake], error);
        }
        return;
    }
    expect(drill, 0, 0, drill_ends_as(mistake), mistake);
    if (mistake == SILENT) {
        judge_patience(drill, now_of(drill) - began);
    } else if (mistake == NOT_READY) {
        judge_rnr(drill, now_of(drill) - began);
    }
    expect(drill, 0, 1, IBV_WC_WR_FLUSH_ERR, mistake);
    if (mistake == TOO_LONG) {
        expect(drill, 1, 1000, IBV_WC_LOC_LEN_ERR, mistake);
    } else if (drill_ends_as(mistake) == IBV_WC_REM_ACCESS_ERR ||
               drill_ends_as(mistake) == IBV_WC_REM_INV_REQ_ERR) {
        expect(drill, 1, 1000, IBV_WC_WR_FLUSH_ERR, mistake);
    }
    if (!drill->is_over && mistake != TOO_LONG) {
        judge_memory(drill, drill_mistakes[mistake]);
    }
}

/* Deregisters a region while long WRITEs land in it. Nothing may land after the verb has ended. */
static void outlive(struct drill *drill)
{
    struct side *side = &drill->sides[0];
    struct side *peer = &drill->sides[1];
    struct ibv_sge sge = {(uintptr_t)side->memory, 1 + below(drill, 12 << 10),
                          side->mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad = NULL;
    uint8_t *before;
    struct ibv_wc wc;

    peer->other_mr = make_mr(drill, 1, peer->pd, ACCESS_ALL);
    if (peer->other_mr == NULL) {
        return;
    }
    wr.wr.rdma.remote_addr = (uintptr_t)(peer->memory + LANDING);
    wr.wr.rdma.rkey = peer->other_mr->rkey;
    for (unsigned i = 0; i < 3; i++) {
        if (post_wr(side, &wr, &bad) != 0) {
            complain(drill, 0, "post_send is refused");
        }
    }
    pass(drill, below(drill, 5000));
    drop_mr(drill, 1, peer->other_mr);
    peer->other_mr = NULL;
    memset(peer->memory + LANDING, 0, LANDED_BYTES);
    before = weft_calloc(1, MEMORY_BYTES);
    memcpy(before, peer->memory, MEMORY_BYTES);
    pass(drill, 20000 * US);
    if (memcmp(before, peer->memory, MEMORY_BYTES) != 0) {
        complain(drill, 0, "bytes land in a region that is gone");
    }
    free(before);
    while (!drill->is_over && poll_one(drill, 0, &wc)) {
        if (wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_REM_ACCESS_ERR &&
            wc.status != IBV_WC_WR_FLUSH_ERR && !drill->is_peculiar) {
            complain(drill, 0, "a region goes, and its WRITE ends with %s",
                     io_wc_status_name((int)wc.status));
        }
    }
}

/* Moves both queue pairs back to RESET and discards what they left. */
static void reset(struct drill *drill)
{
    struct ibv_wc wc;

    for (unsigned end = 0; end < 2 && !drill->is_over; end++) {
        if (to_state(drill, end, IBV_QPS_RESET) != 0) {
            complain(drill, end, "modify_qp to RESET is refused");
        }
    }
    for (unsigned end = 0; end < 2 && !drill->is_over; end++) {
        while (poll_one(drill, end, &wc)) {
        }
        drop_mr(drill, end, drill->sides[end].other_mr);
        drop_pd(drill, end, drill->sides[end].other_pd);
        drill->sides[end].other_mr = NULL;
        drill->sides[end].other_pd = NULL;
        memset(drill->sides[end].memory + LANDING, 0, MEMORY_BYTES - LANDING);
        memset(drill->sides[end].model + LANDING, 0, MEMORY_BYTES - LANDING);
    }
}

/* Drains a send queue and resumes it (IBA 10.3.1.6). */
static void drain(struct drill *drill)
{
    int error = to_state(drill, 0, IBV_QPS_SQD);

    if (error != 0 && is_hns(&drill->sides[0])) {
        return; /* no SQD on hns */
    }
    pass(drill, 100 * US);
    error = error != 0 ? error : to_state(drill, 0, IBV_QPS_RTS);
    if (error != 0) {
        complain(drill, 0, "a queue pair does not pass through SQD: errno %d", error);
    }
}

/* Posts a list, of which nothing after the refused work request may be executed
 * (ibv_post_send(3)). */
static void post_list(struct drill *drill)
{
    struct side *side = &drill->sides[0];
    struct ibv_sge sges[3] = {{(uintptr_t)side->memory, 1, side->mr->lkey},
                              {(uintptr_t)side->memory, 1, side->mr->lkey},
                              {(uintptr_t)side->memory, 1, side->mr->lkey}};
    struct ibv_send_wr wrs[3], *bad = NULL;
    struct ibv_wc wc;

    if (side->cap.max_send_sge >= WEFT_LENGTH(sges)) {
        return;
    }
    for (unsigned i = 0; i < 3; i++) {
        wrs[i] = (struct ibv_send_wr){.wr_id = i,
                                      .next = i < 2 ? &wrs[i + 1] : NULL,
                                      .sg_list = sges,
                                      .num_sge = i == 1 ? 3 : 0,
                                      .opcode = IBV_WR_RDMA_WRITE,
                                      .send_flags = IBV_SEND_SIGNALED};
        wrs[i].wr.rdma.remote_addr = (uintptr_t)drill->sides[1].memory;
        wrs[i].wr.rdma.rkey = drill->sides[1].mr->rkey;
    }
    if (post_wr(side, wrs, &bad) == 0 || bad != &wrs[1]) {
        complain(drill, 0, "request 1 of a list has too many SGEs, and %d is refused",
                 bad == NULL ? -1 : (int)(bad - wrs));
        return;
    }
    expect(drill, 0, 0, IBV_WC_SUCCESS, N_MISTAKES);
    pass(drill, 100 * US);
    if (!drill->is_over && poll_one(drill, 0, &wc)) {
        complain(drill, 0, "a list goes on behind the work request that is refused");
    }
}

/* ---- ports and parameters ---- */

/* Finds the link-local GID of `type`, which no fault removes. */
static bool find_gid(struct side *side, enum ibv_gid_type type)
{
    struct io_device *device = side->device;
    uint32_t netdev = 0;

    if (device->ops->port_netdev(device, side->port, &netdev) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < (uint32_t)side->port_attr.gid_tbl_len; i++) {
        if (device->ops->query_gid(device, side->port, i, &side->gid) == 0 &&
            side->gid.type == type && side->gid.ifindex == netdev &&
            side->gid.gid.raw[0] == 0xfe && side->gid.gid.raw[1] == 0x80) {
            return true;
        }
    }
    return false;
}

static bool take_end(struct drill *drill, unsigned end, const struct world_end *at,
                     enum ibv_gid_type type)
{
    const struct world_spec *spec = &drill->run->plan->spec;
    struct world *world = drill->run->world;
    struct side *side = &drill->sides[end];

    if (at->is_switch || !world->ops->host_alive(world, at->node) ||
        spec->hosts[at->node].n_bonds > 0) {
        return false;
    }
    drill->names[end] = spec->hosts[at->node].name;
    side->host = &spec->hosts[at->node];
    side->device = world->ops->host_env(world, at->node, 0)
                       ->devices[side->host->ports[at->port].device];
    side->port = side->host->ports[at->port].port;
    return side->device->ops->query_device(side->device, &side->attr) == 0 &&
           side->device->ops->query_port(side->device, side->port, &side->port_attr) ==
               0 &&
           side->port_attr.state == IBV_PORT_ACTIVE && find_gid(side, type);
}

/* Finds two neighbours whose cable is up. */
static bool find_ends(struct drill *drill)
{
    const struct world_spec *spec = &drill->run->plan->spec;
    enum ibv_gid_type type =
        below(drill, 4) == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
    uint32_t first = spec->n_cables > 0 ? below(drill, spec->n_cables) : 0;

    for (uint32_t i = 0; i < spec->n_cables; i++) {
        const struct world_cable *cable = &spec->cables[(first + i) % spec->n_cables];

        if (take_end(drill, 0, &cable->ends[0], type) &&
            take_end(drill, 1, &cable->ends[1], type)) {
            return true;
        }
    }
    return false;
}

static uint8_t least(int a, int b)
{
    return (uint8_t)(a < b ? a : b);
}

static void draw_terms(struct drill *drill)
{
    const struct side *sides = drill->sides;
    int most = least(least(sides[0].attr.ibv.max_qp_rd_atom, 4),
                     least(sides[1].attr.ibv.max_qp_rd_atom, 4));

    drill->mtu = sides[0].port_attr.active_mtu < sides[1].port_attr.active_mtu
                     ? sides[0].port_attr.active_mtu
                     : sides[1].port_attr.active_mtu;
    drill->retries = least(sides[0].attr.retry_cnt_max, sides[1].attr.retry_cnt_max);
    drill->rnr_retry = 7;
    drill->rnr_code = RNR_CODE;
    /* A power of two, because some devices round up. */
    drill->rd_atomic = (uint8_t)(most == 0 ? 0 : 1u << below(drill, most == 4 ? 3 : 1));
    drill->has_reads = most > 0 && below(drill, 4) != 0;
    drill->has_atomics = drill->has_reads &&
                         sides[0].attr.ibv.atomic_cap != IBV_ATOMIC_NONE &&
                         sides[1].attr.ibv.atomic_cap != IBV_ATOMIC_NONE;
    drill->is_peculiar =
        run_wire_is_peculiar(sides[0].host) || run_wire_is_peculiar(sides[1].host);
    drill->is_late = below(drill, 2) == 0;
}

/* Counts retransmissions and their causes at both ports. */
static uint64_t count_repeats(const struct drill *drill)
{
    uint64_t n = 0;

    for (unsigned end = 0; end < 2; end++) {
        const struct side *side = &drill->sides[end];
        struct io_port_counters counters;

        if (side->device->ops->port_counters != NULL &&
            side->device->ops->port_counters(side->device, side->port, &counters) == 0) {
            n += (uint64_t)(counters.retransmits + counters.timeouts +
                            counters.out_of_sequence + counters.rnr_naks_sent);
        }
    }
    return n;
}

static void exercise(struct drill *drill)
{
    for (unsigned round = 0; round < N_ROUNDS && !drill->is_over; round++) {
        connect_both(drill);
        if (!drill->is_over) {
            uint64_t before = count_repeats(drill);

            work(drill);
            if (drill->is_calm && !drill->is_late && count_repeats(drill) != before) {
                complain(drill, 0, "%llu packets were repeated although none was lost",
                         (unsigned long long)(count_repeats(drill) - before));
            }
        }
        if (!drill->is_over && below(drill, 4) == 0) {
            drain(drill);
        }
        if (!drill->is_over && below(drill, 4) == 0) {
            post_list(drill);
        }
        if (!drill->is_over && round + 1 < N_ROUNDS) {
            enum mistake mistake = (enum mistake)below(drill, N_MISTAKES + 1);

            reset(drill);
            drill->rnr_retry = RNR_RETRIES;
            drill->rnr_code = (uint8_t)below(drill, 32);
            connect_both(drill);
            if (!drill->is_over && mistake == N_MISTAKES) {
                outlive(drill);
            } else if (!drill->is_over) {
                err(drill, mistake);
            }
            drill->rnr_retry = 7;
            drill->rnr_code = RNR_CODE;
            reset(drill);
        }
    }
}

static void walk_states(struct drill *drill)
{
    struct side *side = &drill->sides[0];
    struct drill_states states = {.run = drill->run,
                                  .rng = &drill->rng,
                                  .device = side->device,
                                  .pd = side->pd,
                                  .cq = side->cq,
                                  .port = side->port,
                                  .n_ports = side->attr.ibv.phys_port_cnt,
                                  .has_sqd = !is_hns(side),
                                  .gid_index = (uint8_t)side->gid.index,
                                  .peer_gid = drill->sides[1].gid.gid};
    char text[256];
    struct ibv_wc wc = {.wr_id = 0};

    /* If packets are lost, neighbour resolution can fail without meaning anything. */
    if (drill->is_over || !drill->is_calm) {
        return;
    }
    /* A flushed receive of another queue pair in the same CQ must stay there. */
    post_one_receive(drill, 0, FLUSHED, 0);
    if (to_state(drill, 0, IBV_QPS_ERR) != 0) {
        complain(drill, 0, "modify_qp to ERR is refused");
    }
    pass(drill, 100 * US);
    if (!drill_states_walk(&states, text, sizeof(text))) {
        complain(drill, 0, "%s", text);
    }
    if (!drill->is_over && (!poll_one(drill, 0, &wc) || wc.wr_id != FLUSHED ||
                            wc.status != IBV_WC_WR_FLUSH_ERR)) {
        complain(drill, 0, "a receive in ERR completes as %llu with %s",
                 (unsigned long long)wc.wr_id, io_wc_status_name((int)wc.status));
    }
}

void run_drill(struct run *run, bool is_calm, struct weft_text *broken)
{
    struct drill drill = {.run = run, .broken = broken, .is_calm = is_calm};

    if (run->loop_status < 0 || !drill_is_left_alone(run)) {
        return;
    }
    weft_rng_init(&drill.rng, run->seed, "drill");
    if (!find_ends(&drill)) {
        return;
    }
    draw_terms(&drill);
    if (make_objects(&drill, 0) && make_objects(&drill, 1)) {
        exercise(&drill);
        walk_states(&drill);
    }
    drop_objects(&drill, 0);
    drop_objects(&drill, 1);
}
