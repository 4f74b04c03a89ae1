#include "sim/rc_testing.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/nic_objects.h"

const int rc_init_mask =
    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
const int rc_rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
const int rc_rts_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                        IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

static const char *const hosts[2] = {"a", "b"};

static void add_line(void *context, const char *line, size_t n_bytes)
{
    weft_text_add_bytes(context, line, n_bytes);
}

static void count_wake(void *context)
{
    (*(int *)context)++;
}

static uint8_t choose(uint8_t given, uint8_t otherwise)
{
    if (given == RC_NONE) {
        return 0;
    }
    return given == 0 ? otherwise : given;
}

static void fill_defaults(struct rc_options *options)
{
    const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    options->profile = options->profile == NULL ? "mlx5" : options->profile;
    options->seed = options->seed == 0 ? 1 : options->seed;
    options->mtu_bytes = options->mtu_bytes == 0 ? 9000 : options->mtu_bytes;
    options->path_mtu = options->path_mtu == 0 ? IBV_MTU_4096 : options->path_mtu;
    options->timeout = choose(options->timeout, 14);
    options->retry_cnt = choose(options->retry_cnt, 7);
    options->rnr_retry = choose(options->rnr_retry, 7);
    options->min_rnr_timer = choose(options->min_rnr_timer, 12);
    options->max_rd_atomic = choose(options->max_rd_atomic, 16);
    options->max_dest_rd_atomic = choose(options->max_dest_rd_atomic, 16);
    options->depth = options->depth == 0 ? 64 : options->depth;
    options->cqe = options->cqe == 0 ? 256 : options->cqe;
    options->qp_access = options->qp_access == 0 ? all : options->qp_access;
    options->mr_access = options->mr_access == 0 ? all : options->mr_access;
    options->level = options->level == 0 ? WEFT_TRACE_STORY : options->level;
    if (options->sq_psn[0] == 0 && options->sq_psn[1] == 0) {
        options->sq_psn[0] = 0x100;
        options->sq_psn[1] = 0x200;
    }
}

static void make_profile(struct rc_pair *pair)
{
    const struct sim_profile *found = sim_profile_find(pair->options.profile);
    ck_assert_ptr_nonnull(found);
    pair->profile = *found;
    for (unsigned i = 0; i < 6 && pair->options.overrides[i][0] != NULL; i++) {
        ck_assert(sim_profile_override(&pair->profile, pair->options.overrides[i][0],
                                       pair->options.overrides[i][1]));
    }
}

static void make_second_port(struct rc_pair *pair, unsigned i)
{
    struct rc_end *end = &pair->ends[i];
    struct sim_port_config port = {
        .host = hosts[i],
        .name = "p1",
        .mac = 0x020000000101 + i,
        .mtu_bytes = pair->options.mtu_bytes,
    };
    struct sim_gid_config gids = {.n_slots = pair->profile.gid_tbl_len,
                                  .has_roce_v1 = pair->profile.has_roce_v1};
    if (weft_profile_ports(pair->profile.id) == 2) {
        end->second = sim_port_create(pair->engine, &port);
        (void)sim_stack_add_port(end->stack, end->second, &gids);
    }
}

static void make_host(struct rc_pair *pair, unsigned i)
{
    struct rc_end *end = &pair->ends[i];
    struct sim_stack_config stack = {.host = hosts[i]};
    struct sim_port_config port = {
        .host = hosts[i],
        .name = "p0",
        .mac = 0x020000000001 + i,
        .mtu_bytes = pair->options.mtu_bytes,
    };
    struct sim_gid_config gids = {.n_slots = pair->profile.gid_tbl_len,
                                  .has_roce_v1 = pair->profile.has_roce_v1};
    struct sim_prefix address = {.ip = sim_ip_v4(10, 0, 0, (uint8_t)(i + 1)),
                                 .prefix_len = 24};
    end->stack = sim_stack_create(pair->engine, &stack);
    end->port = sim_port_create(pair->engine, &port);
    uint32_t ifindex = sim_stack_add_port(end->stack, end->port, &gids);
    ck_assert_int_eq(sim_stack_add_address(end->stack, ifindex, &address), 0);
    if (pair->options.vlan_id != 0) {
        ifindex = sim_stack_add_vlan(end->stack, ifindex, pair->options.vlan_id);
        address.ip = sim_ip_v4(10, 0, 1, (uint8_t)(i + 1));
        ck_assert_int_eq(sim_stack_add_address(end->stack, ifindex, &address), 0);
    }
    make_second_port(pair, i);
    end->memlock_left = pair->options.memlock_bytes;
    struct sim_port *ports[] = {end->port, end->second};
    end->nic =
        sim_nic_create(pair->engine, hosts[i], "p0", &pair->profile, end->stack, ports,
                       end->second != NULL ? 2 : 1,
                       pair->options.memlock_bytes != 0 ? &end->memlock_left : NULL);
    sim_port_attach(end->port, end->nic, end->stack);
    if (end->second != NULL) {
        sim_port_attach(end->second, end->nic, end->stack);
    }
    sim_nic_async_waker(end->nic, 0, (struct sim_waker){count_wake, &end->n_async_wakes});
}

int rc_verb(struct rc_pair *pair, unsigned end, struct sim_request *request)
{
    int error = sim_nic_submit(pair->ends[end].nic, request);
    while (error == 0 && !request->is_done) {
        ck_assert(sim_step(pair->engine, SIM_NEVER));
    }
    return error != 0 ? error : request->error;
}

struct ibv_cq *rc_make_cq(struct rc_pair *pair, unsigned end, int cqe)
{
    struct sim_request request = {.verb = SIM_VERB_CREATE_CQ};
    request.arg.create_cq.cqe = cqe;
    request.arg.create_cq.waker =
        (struct sim_waker){count_wake, &pair->ends[end].n_wakes};
    ck_assert_int_eq(rc_verb(pair, end, &request), 0);
    return request.out.cq;
}

struct ibv_qp *rc_make_qp(struct rc_pair *pair, unsigned i)
{
    struct rc_end *end = &pair->ends[i];
    uint32_t sges = pair->profile.max_sge < 4 ? pair->profile.max_sge : 4;
    struct sim_request request = {.verb = SIM_VERB_CREATE_QP};
    request.arg.create_qp.pd = end->pd;
    request.arg.create_qp.init = (struct ibv_qp_init_attr){
        .send_cq = end->cq,
        .recv_cq = end->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = pair->options.depth,
                .max_recv_wr = pair->options.depth,
                .max_send_sge = sges,
                .max_recv_sge = sges,
                .max_inline_data = pair->options.max_inline},
    };
    ck_assert_int_eq(rc_verb(pair, i, &request), 0);
    return request.out.qp;
}

static void make_objects(struct rc_pair *pair, unsigned i)
{
    struct rc_end *end = &pair->ends[i];
    struct sim_request pd = {.verb = SIM_VERB_ALLOC_PD};
    struct sim_request mr = {.verb = SIM_VERB_REG_MR};
    ck_assert_int_eq(rc_verb(pair, i, &pd), 0);
    end->pd = pd.out.pd;
    end->memory = aligned_alloc(4096, RC_MEMORY_BYTES);
    ck_assert_ptr_nonnull(end->memory);
    memset(end->memory, 0, RC_MEMORY_BYTES);
    mr.arg.reg_mr.pd = end->pd;
    mr.arg.reg_mr.addr = end->memory;
    mr.arg.reg_mr.length = RC_MEMORY_BYTES;
    mr.arg.reg_mr.access = pair->options.mr_access;
    ck_assert_int_eq(rc_verb(pair, i, &mr), 0);
    end->mr = mr.out.mr;
    end->cq = rc_make_cq(pair, i, pair->options.cqe);
    end->qp = rc_make_qp(pair, i);
}

void rc_pair_init(struct rc_pair *pair, const struct rc_options *options)
{
    struct sim_cable_config cable = {.name = "a:p0-b:p0",
                                     .rate_bps = 100000000000u,
                                     .delay_ps = RC_PS_PER_US,
                                     .up = true};
    memset(pair, 0, sizeof(*pair));
    if (options != NULL) {
        pair->options = *options;
    }
    fill_defaults(&pair->options);
    make_profile(pair);
    weft_trace_init(&pair->trace, pair->options.level, add_line, &pair->story);
    pair->engine = sim_engine_create(pair->options.seed, &pair->trace);
    for (unsigned i = 0; i < 2; i++) {
        make_host(pair, i);
    }
    sim_cable_connect(pair->engine, &cable, pair->ends[0].port, pair->ends[1].port);
    for (unsigned i = 0; i < 2; i++) {
        sim_nic_check_payloads(pair->ends[i].nic, true);
        make_objects(pair, i);
    }
    if (!pair->options.is_unconnected) {
        rc_connect(pair, 0, pair->ends[0].qp, pair->ends[1].qp->qp_num);
        rc_connect(pair, 1, pair->ends[1].qp, pair->ends[0].qp->qp_num);
    }
    rc_clear_story(pair);
}

void rc_pair_fini(struct rc_pair *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        /* No test may change a payload between sending and landing. */
        ck_assert_uint_eq(sim_nic_payload_changes(pair->ends[i].nic), 0);
        sim_nic_destroy(pair->ends[i].nic);
        sim_port_attach(pair->ends[i].port, NULL, NULL);
        if (pair->ends[i].second != NULL) {
            sim_port_attach(pair->ends[i].second, NULL, NULL);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        sim_port_destroy(pair->ends[i].port);
        if (pair->ends[i].second != NULL) {
            sim_port_destroy(pair->ends[i].second);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        sim_stack_destroy(pair->ends[i].stack);
        free(pair->ends[i].memory);
    }
    sim_engine_destroy(pair->engine);
    weft_text_fini(&pair->story);
}

/* Returns the slot of a GID of the requested kind, and the GID. */
static uint32_t find_gid(const struct rc_pair *pair, unsigned end, union ibv_gid *out)
{
    const struct rc_options *options = &pair->options;
    enum ibv_gid_type type =
        options->is_roce_v1 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
    for (uint32_t i = 0;; i++) {
        struct sim_gid gid;
        int error = sim_nic_query_gid(pair->ends[end].nic, 1, i, &gid);
        ck_assert_int_eq(error, 0);
        bool is_link_local = gid.gid.raw[0] == 0xfe;
        if (gid.type == type && is_link_local == options->is_ipv6 &&
            gid.vlan_id == options->vlan_id) {
            *out = gid.gid;
            return i;
        }
    }
}

struct ibv_qp_attr rc_init_attr(const struct rc_pair *pair)
{
    return (struct ibv_qp_attr){
        .qp_state = IBV_QPS_INIT,
        .port_num = 1,
        .qp_access_flags = (unsigned)pair->options.qp_access,
    };
}

struct ibv_qp_attr rc_rtr_attr(const struct rc_pair *pair, unsigned end,
                               uint32_t dest_qpn)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = pair->options.path_mtu,
        .dest_qp_num = dest_qpn,
        .rq_psn = pair->options.sq_psn[1 - end],
        .max_dest_rd_atomic = pair->options.max_dest_rd_atomic,
        .min_rnr_timer = pair->options.min_rnr_timer,
        .ah_attr = {.is_global = 1, .port_num = 1},
    };
    union ibv_gid own;
    uint32_t index = find_gid(pair, end, &own);
    (void)find_gid(pair, 1 - end, &attr.ah_attr.grh.dgid);
    attr.ah_attr.grh.sgid_index = (uint8_t)index;
    return attr;
}

struct ibv_qp_attr rc_rts_attr(const struct rc_pair *pair, unsigned end)
{
    return (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS,
        .timeout = pair->options.timeout,
        .retry_cnt = pair->options.retry_cnt,
        .rnr_retry = pair->options.rnr_retry,
        .sq_psn = pair->options.sq_psn[end],
        .max_rd_atomic = pair->options.max_rd_atomic,
    };
}

int rc_modify(struct rc_pair *pair, unsigned end, struct ibv_qp *qp,
              const struct ibv_qp_attr *attr, int mask)
{
    struct sim_request request = {.verb = SIM_VERB_MODIFY_QP};
    request.arg.modify_qp.qp = qp;
    request.arg.modify_qp.attr = *attr;
    request.arg.modify_qp.mask = mask;
    return rc_verb(pair, end, &request);
}

int rc_to_state(struct rc_pair *pair, unsigned end, struct ibv_qp *qp,
                enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    return rc_modify(pair, end, qp, &attr, IBV_QP_STATE);
}

struct ibv_qp_attr rc_all_attrs(const struct rc_pair *pair, unsigned end,
                                enum ibv_qp_state to)
{
    struct ibv_qp_attr attr = rc_rtr_attr(pair, end, pair->ends[1 - end].qp->qp_num);
    struct ibv_qp_attr rts = rc_rts_attr(pair, end);
    attr.qp_state = to;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    attr.timeout = rts.timeout;
    attr.retry_cnt = rts.retry_cnt;
    attr.rnr_retry = rts.rnr_retry;
    attr.sq_psn = rts.sq_psn;
    attr.max_rd_atomic = rts.max_rd_atomic;
    return attr;
}

struct ibv_qp *rc_make_qp_in(struct rc_pair *pair, unsigned end, enum ibv_qp_state state)
{
    struct ibv_qp *qp = rc_make_qp(pair, end);
    struct ibv_qp_attr init = rc_init_attr(pair);
    struct ibv_qp_attr rtr = rc_rtr_attr(pair, end, pair->ends[1 - end].qp->qp_num);
    struct ibv_qp_attr rts = rc_rts_attr(pair, end);
    if (state == IBV_QPS_RESET) {
        return qp;
    }
    ck_assert_int_eq(rc_modify(pair, end, qp, &init, rc_init_mask), 0);
    if (state == IBV_QPS_ERR) {
        ck_assert_int_eq(rc_to_state(pair, end, qp, IBV_QPS_ERR), 0);
    } else if (state != IBV_QPS_INIT) {
        ck_assert_int_eq(rc_modify(pair, end, qp, &rtr, rc_rtr_mask), 0);
    }
    if (state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE) {
        ck_assert_int_eq(rc_modify(pair, end, qp, &rts, rc_rts_mask), 0);
    }
    if (state == IBV_QPS_SQD) {
        ck_assert_int_eq(rc_to_state(pair, end, qp, IBV_QPS_SQD), 0);
    }
    return qp;
}

void rc_destroy_qp(struct rc_pair *pair, unsigned end, struct ibv_qp *qp)
{
    struct sim_request request = {.verb = SIM_VERB_DESTROY_QP, .arg.qp = qp};
    ck_assert_int_eq(rc_verb(pair, end, &request), 0);
}

void rc_connect(struct rc_pair *pair, unsigned end, struct ibv_qp *qp, uint32_t dest_qpn)
{
    struct ibv_qp_attr init = rc_init_attr(pair);
    struct ibv_qp_attr rtr = rc_rtr_attr(pair, end, dest_qpn);
    struct ibv_qp_attr rts = rc_rts_attr(pair, end);
    ck_assert_int_eq(rc_modify(pair, end, qp, &init, rc_init_mask), 0);
    ck_assert_int_eq(rc_modify(pair, end, qp, &rtr, rc_rtr_mask), 0);
    ck_assert_int_eq(rc_modify(pair, end, qp, &rts, rc_rts_mask), 0);
}

void rc_run(struct rc_pair *pair, weft_ps time)
{
    weft_ps until = sim_now(pair->engine) + time;
    while (sim_step(pair->engine, until)) {
    }
}

int rc_post(struct rc_pair *pair, unsigned i, enum ibv_wr_opcode opcode, uint64_t wr_id,
            size_t local_offset, uint32_t bytes, size_t remote_offset)
{
    struct rc_end *end = &pair->ends[i];
    struct rc_end *peer = &pair->ends[1 - i];
    struct ibv_sge sge = {(uintptr_t)end->memory + local_offset, bytes, end->mr->lkey};
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr = {
        .wr_id = wr_id,
        .sg_list = &sge,
        .num_sge = bytes > 0 ? 1 : 0,
        .opcode = opcode,
        .send_flags = IBV_SEND_SIGNALED,
        .imm_data = (uint32_t)wr_id,
    };
    if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = (uintptr_t)peer->memory + remote_offset;
        wr.wr.atomic.rkey = peer->mr->rkey;
        wr.wr.atomic.compare_add = wr_id;
        wr.wr.atomic.swap = wr_id + 1;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)peer->memory + remote_offset;
        wr.wr.rdma.rkey = peer->mr->rkey;
    }
    return sim_nic_post_send(end->qp, &wr, &bad);
}

int rc_post_recv(struct rc_pair *pair, unsigned i, uint64_t wr_id, size_t offset,
                 uint32_t bytes)
{
    struct rc_end *end = &pair->ends[i];
    struct ibv_sge sge = {(uintptr_t)end->memory + offset, bytes, end->mr->lkey};
    struct ibv_recv_wr *bad = NULL;
    struct ibv_recv_wr wr = {
        .wr_id = wr_id, .sg_list = &sge, .num_sge = bytes > 0 ? 1 : 0};
    return sim_nic_post_recv(end->qp, &wr, &bad);
}

int rc_poll(struct rc_pair *pair, unsigned end, struct ibv_wc *wc, int n_max)
{
    int n = 0;
    ck_assert_int_eq(sim_nic_poll_cq(pair->ends[end].cq, n_max, wc, &n), 0);
    return n;
}

struct ibv_wc rc_wait(struct rc_pair *pair, unsigned end)
{
    struct ibv_wc wc = {0};
    weft_ps until = sim_now(pair->engine) + 100 * RC_PS_PER_S;
    ck_assert_int_eq(sim_nic_req_notify(pair->ends[end].cq, false), 0);
    while (rc_poll(pair, end, &wc, 1) == 0) {
        ck_assert_msg(sim_step(pair->engine, until), "no completion");
    }
    return wc;
}

void rc_inject(struct rc_pair *pair, unsigned end, const struct sim_frame *frame)
{
    struct sim_frame copy = *frame;
    struct sim_path path = {.is_ipv4 = true, .header_bytes = 28};
    (void)find_gid(pair, 1 - end, &path.source_gid);
    (void)find_gid(pair, end, &path.destination_gid);
    copy.path = sim_port_path(pair->ends[end].port, &path);
    copy.dest_qpn = pair->ends[end].qp->qp_num;
    copy.source_qpn = pair->ends[1 - end].qp->qp_num;
    sim_nic_input(pair->ends[end].nic, pair->ends[end].port, &copy);
}

unsigned rc_times_told(const struct rc_pair *pair, const char *text)
{
    unsigned n = 0;
    const char *at = pair->story.bytes;
    while (at != NULL && (at = strstr(at, text)) != NULL) {
        at++;
        n++;
    }
    return n;
}

bool rc_told(const struct rc_pair *pair, const char *text)
{
    return rc_times_told(pair, text) > 0;
}

void rc_clear_story(struct rc_pair *pair)
{
    weft_text_fini(&pair->story);
    memset(&pair->story, 0, sizeof(pair->story));
}

void rc_fill(struct rc_pair *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        for (uint32_t at = 0; at < RC_MEMORY_BYTES; at++) {
            pair->ends[i].memory[at] = (uint8_t)(at * 31 + (at >> 8) * 7 + i * 113);
        }
    }
}

struct sim_nic_counters rc_counters(const struct rc_pair *pair, unsigned end)
{
    struct sim_nic_counters counters;
    sim_nic_counters(pair->ends[end].nic, &counters);
    return counters;
}
