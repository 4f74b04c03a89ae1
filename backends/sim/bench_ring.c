#define _GNU_SOURCE
#include "backends/sim/bench_ring.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/memory.h"
#include "sim/port.h"
#include "sim/stack_config.h"

enum { WRITE_SPREAD_PS = 20000000 };

static const char *const end_names[] = {"left", "right"};

/* Runs once per sim_nic_req_notify(). */
static void wake(void *context)
{
    struct bench_node *node = context;
    struct bench_ring *ring = node->ring;

    ring->woken[ring->n_woken++] = node;
}

struct bench_node *bench_ring_next(const struct bench_ring *ring,
                                   const struct bench_node *node)
{
    size_t index = (size_t)(node - ring->nodes) + 1;

    return &ring->nodes[index == ring->n ? 0 : index];
}

static bool verb(struct bench_end *end, struct sim_request *request)
{
    int error = sim_nic_submit(end->nic, request);

    while (error == 0 && !request->is_done) {
        weft_check(sim_step(end->ring->engine, SIM_NEVER));
    }
    return error == 0 && request->error == 0;
}

static void make_end(struct bench_ring *ring, struct bench_node *node, uint32_t index,
                     enum bench_side side)
{
    struct bench_end *end = &node->ends[side];
    uint32_t subnet = side == BENCH_RIGHT ? index : (index + ring->n - 1) % ring->n;
    struct sim_port_config port = {.host = "bench",
                                   .name = end_names[side],
                                   .mac = 0x020000000000 + 2 * (uint64_t)index +
                                          (uint64_t)side,
                                   .mtu_bytes = 9000};
    struct sim_gid_config gids = {.n_slots = 4};
    struct sim_prefix address = {
        .ip = sim_ip_v4(10, (uint8_t)(subnet >> 8), (uint8_t)subnet, (uint8_t)(1 + side)),
        .prefix_len = 24};
    uint32_t ifindex;

    end->ring = ring;
    end->port = sim_port_create(ring->engine, &port);
    ifindex = sim_stack_add_port(node->stack, end->port, &gids);
    weft_check(sim_stack_add_address(node->stack, ifindex, &address) == 0);
    end->nic = sim_nic_create(ring->engine, "bench", end_names[side], &ring->profile,
                              node->stack, &end->port, 1, NULL);
    sim_port_attach(end->port, end->nic, node->stack);
}

/* Only arrivals wake a node, because a sender polls its completions when it sends again. */
static bool make_objects(const struct bench_ring *ring, struct bench_node *node,
                         enum bench_side side)
{
    struct bench_end *end = &node->ends[side];
    struct sim_request pd = {.verb = SIM_VERB_ALLOC_PD};
    struct sim_request mr = {.verb = SIM_VERB_REG_MR};
    struct sim_request cq = {.verb = SIM_VERB_CREATE_CQ};
    struct sim_request qp = {.verb = SIM_VERB_CREATE_QP};

    if (!verb(end, &pd)) {
        return false;
    }
    end->pd = pd.out.pd;
    mr.arg.reg_mr.pd = end->pd;
    mr.arg.reg_mr.addr = node->memory;
    mr.arg.reg_mr.length = ring->node_bytes;
    mr.arg.reg_mr.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    cq.arg.create_cq.cqe = 64;
    if (side == BENCH_LEFT) {
        cq.arg.create_cq.waker = (struct sim_waker){wake, node};
    }
    if (!verb(end, &mr) || !verb(end, &cq)) {
        return false;
    }
    end->mr = mr.out.mr;
    end->cq = cq.out.cq;
    qp.arg.create_qp.pd = end->pd;
    qp.arg.create_qp.init = (struct ibv_qp_init_attr){.send_cq = end->cq,
                                                      .recv_cq = end->cq,
                                                      .qp_type = IBV_QPT_RC,
                                                      .cap = {.max_send_wr = ring->depth,
                                                              .max_recv_wr = ring->depth,
                                                              .max_send_sge = 1,
                                                              .max_recv_sge = 1}};
    if (!verb(end, &qp)) {
        return false;
    }
    end->qp = qp.out.qp;
    return true;
}

static bool modify(struct bench_end *end, struct ibv_qp_attr attr, int mask)
{
    struct sim_request request = {.verb = SIM_VERB_MODIFY_QP};

    request.arg.modify_qp.qp = end->qp;
    request.arg.modify_qp.attr = attr;
    request.arg.modify_qp.mask = mask | IBV_QP_STATE;
    return verb(end, &request);
}

/* Uses GID slot 1, the IPv4 address in a table without RoCE v1; slot 0 is the default GID. */
static bool connect_end(struct bench_end *end, const struct bench_end *peer)
{
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                              .path_mtu = IBV_MTU_4096,
                              .dest_qp_num = peer->qp->qp_num,
                              .min_rnr_timer = 12,
                              .ah_attr = {.is_global = 1, .port_num = 1}};
    struct ibv_qp_attr rts = {
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
    struct sim_gid gid;

    if (sim_nic_query_gid(peer->nic, 1, 1, &gid) != 0) {
        return false;
    }
    rtr.ah_attr.grh.dgid = gid.gid;
    rtr.ah_attr.grh.sgid_index = 1;
    return modify(end, init, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) &&
           modify(end, rtr,
                  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) &&
           modify(end, rts,
                  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                      IBV_QP_MAX_QP_RD_ATOMIC);
}

/* Returns the device for which the workload is defined. It has no processing time, and requests
 * an ACK with every packet, unless trains are wanted, which this would prevent. */
static struct sim_profile ideal_device(const struct bench *bench)
{
    enum bench_trains trains = bench->trains;
    struct sim_profile profile = *sim_profile(WEFT_PROFILE_MLX5);

    profile.ack_req_packets = trains == BENCH_TRAINS ? profile.ack_req_packets : 1;
    profile.tx_overhead_ps = 0;
    profile.rx_overhead_ps = 0;
    profile.cqe_overhead_ps = 0;
    profile.ack_delay_ps = 0;
    profile.writes_in_order = bench->payload != BENCH_MOVED_ANY_ORDER;
    profile.write_spread_ps = WRITE_SPREAD_PS;
    return profile;
}

static bool make_memory(struct bench_ring *ring)
{
    size_t n_bytes = ring->n * ring->node_bytes;
    bool is_moved = ring->bench->payload != BENCH_BY_REFERENCE;

    ring->memory = mmap(NULL, n_bytes, is_moved ? PROT_READ | PROT_WRITE : PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ring->memory == MAP_FAILED) {
        ring->memory = NULL;
        return false;
    }
    if (!is_moved) {
        struct sim_phantom phantom = {(uintptr_t)ring->memory, n_bytes};

        sim_engine_set_phantom(ring->engine, &phantom);
    }
    return true;
}

static void make_nodes(struct bench_ring *ring, uint32_t n_cables)
{
    struct sim_stack_config stack = {.host = "bench"};

    for (uint32_t i = 0; i < ring->n; i++) {
        struct bench_node *node = &ring->nodes[i];

        node->ring = ring;
        node->stack = sim_stack_create(ring->engine, &stack);
        node->memory = ring->memory + i * ring->node_bytes;
        make_end(ring, node, i, BENCH_LEFT);
        make_end(ring, node, i, BENCH_RIGHT);
    }
    for (uint32_t i = 0; i < n_cables; i++) {
        struct sim_cable_config cable = {
            .name = "bench", .rate_bps = 100000000000u, .delay_ps = 1000000, .up = true};
        struct bench_node *node = &ring->nodes[i];

        sim_cable_connect(ring->engine, &cable, node->ends[BENCH_RIGHT].port,
                          bench_ring_next(ring, node)->ends[BENCH_LEFT].port);
    }
}

static void note_for_steps(struct bench_ring *ring, struct bench_node *node)
{
    const struct bench_end *left = &node->ends[BENCH_LEFT];
    const struct bench_end *right = &node->ends[BENCH_RIGHT];
    const struct bench_node *next = bench_ring_next(ring, node);

    node->left_cq = left->cq;
    node->right_cq = right->cq;
    node->right_qp = right->qp;
    node->lkey = right->mr->lkey;
    node->right_rkey = next->ends[BENCH_LEFT].mr->rkey;
}

bool bench_ring_make(struct bench_ring *ring, const struct bench *bench,
                     size_t node_bytes)
{
    uint32_t n_cables = bench->n_nodes == 2 ? 1 : bench->n_nodes;
    bool ok = true;

    *ring = (struct bench_ring){.bench = bench, .n = bench->n_nodes};
    ring->depth = ring->n == 2 ? BENCH_DEPTH_MAX : BENCH_DEPTH;
    ring->profile = ideal_device(bench);
    ring->wr = (struct ibv_send_wr){
        .num_sge = 1, .sg_list = &ring->sge, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM};
    ring->sge.length = (uint32_t)bench->message_bytes;
    for (int i = 0; i + 1 < BENCH_BATCH; i++) {
        ring->receives[i].next = &ring->receives[i + 1];
    }
    ring->node_bytes = (node_bytes + 4095) & ~(size_t)4095;
    ring->engine = sim_engine_create(1, NULL);
    sim_engine_allow_trains(ring->engine, bench->trains == BENCH_TRAINS);
    ring->nodes = weft_calloc_lines(ring->n * sizeof(*ring->nodes));
    ring->woken = weft_calloc(ring->n, sizeof(struct bench_node *));
    if (!make_memory(ring)) {
        return false;
    }
    make_nodes(ring, n_cables);
    for (uint32_t i = 0; i < ring->n && ok; i++) {
        ok = make_objects(ring, &ring->nodes[i], BENCH_LEFT) &&
             make_objects(ring, &ring->nodes[i], BENCH_RIGHT);
    }
    for (uint32_t i = 0; i < n_cables && ok; i++) {
        struct bench_end *from = &ring->nodes[i].ends[BENCH_RIGHT];
        struct bench_end *to = &bench_ring_next(ring, &ring->nodes[i])->ends[BENCH_LEFT];

        ok = connect_end(from, to) && connect_end(to, from);
    }
    for (uint32_t i = 0; i < ring->n && ok; i++) {
        note_for_steps(ring, &ring->nodes[i]);
    }
    return ok;
}

void bench_ring_destroy(struct bench_ring *ring)
{
    for (uint32_t i = 0; i < 2 * ring->n; i++) {
        struct bench_end *end = &ring->nodes[i / 2].ends[i % 2];

        if (end->nic != NULL) {
            sim_nic_destroy(end->nic);
            sim_port_attach(end->port, NULL, NULL);
        }
    }
    for (uint32_t i = 0; i < ring->n; i++) {
        struct bench_node *node = &ring->nodes[i];

        sim_port_destroy(node->ends[BENCH_LEFT].port);
        sim_port_destroy(node->ends[BENCH_RIGHT].port);
        if (node->stack != NULL) {
            sim_stack_destroy(node->stack);
        }
    }
    sim_engine_destroy(ring->engine);
    if (ring->memory != NULL) {
        munmap(ring->memory, ring->n * ring->node_bytes);
    }
    free(ring->nodes);
    free(ring->woken);
}
