#define _GNU_SOURCE
#include "backends/sim/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/nic.h"
#include "sim/port.h"
#include "sim/stack_config.h"

enum { LEFT, RIGHT };

/* One end of a cable: a NIC with one QP. */
struct end {
    struct sim_port *port;
    struct sim_nic *nic;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_qp *qp;
};

struct node {
    struct ring *ring;
    struct sim_stack *stack;
    struct end ends[2];
    uint8_t *memory; /* Owned; a message to send, then one to receive */
    uint32_t n_sent, n_received;
    bool is_woken;
};

struct ring {
    const struct bench *bench;
    struct sim_engine *engine;
    struct sim_profile profile;
    struct node *nodes;  /* Owned [n] */
    struct node **woken; /* Owned [n] */
    uint32_t n, n_woken;
    size_t memory_bytes; /* per node */
};

static const char *const end_names[] = {"left", "right"};

static void wake(void *context)
{
    struct node *node = context;

    if (!node->is_woken) {
        node->is_woken = true;
        node->ring->woken[node->ring->n_woken++] = node;
    }
}

static bool verb(struct ring *ring, struct end *end, struct sim_request *request)
{
    int error = sim_nic_submit(end->nic, request);

    while (error == 0 && !request->is_done) {
        weft_check(sim_step(ring->engine, SIM_NEVER));
    }
    return error == 0 && request->error == 0;
}

static void make_end(struct ring *ring, struct node *node, uint32_t index, int side)
{
    struct end *end = &node->ends[side];
    uint32_t subnet = side == RIGHT ? index : (index + ring->n - 1) % ring->n;
    struct sim_port_config port = {.host = "bench",
                                   .name = end_names[side],
                                   .mac = 0x020000000000 + 2 * (uint64_t)index +
                                          (uint64_t)side,
                                   .mtu_bytes = 9000};
    struct sim_gid_config gids = {4, false};
    struct sim_prefix address = {
        .ip = sim_ip_v4(10, (uint8_t)(subnet >> 8), (uint8_t)subnet, (uint8_t)(1 + side)),
        .prefix_len = 24};
    uint32_t ifindex;

    end->port = sim_port_create(ring->engine, &port);
    ifindex = sim_stack_add_port(node->stack, end->port, &gids);
    weft_check(sim_stack_add_address(node->stack, ifindex, &address) == 0);
    end->nic = sim_nic_create(ring->engine, "bench", end_names[side], &ring->profile,
                              node->stack, &end->port, 1, NULL);
    sim_port_attach(end->port, end->nic, node->stack);
}

static bool make_objects(struct ring *ring, struct node *node, int side)
{
    struct end *end = &node->ends[side];
    struct sim_request pd = {.verb = SIM_VERB_ALLOC_PD};
    struct sim_request mr = {.verb = SIM_VERB_REG_MR};
    struct sim_request cq = {.verb = SIM_VERB_CREATE_CQ};
    struct sim_request qp = {.verb = SIM_VERB_CREATE_QP};

    if (!verb(ring, end, &pd)) {
        return false;
    }
    end->pd = pd.out.pd;
    mr.arg.reg_mr.pd = end->pd;
    mr.arg.reg_mr.addr = node->memory;
    mr.arg.reg_mr.length = ring->memory_bytes;
    mr.arg.reg_mr.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    cq.arg.create_cq.cqe = 64;
    cq.arg.create_cq.waker = (struct sim_waker){wake, node};
    if (!verb(ring, end, &mr) || !verb(ring, end, &cq)) {
        return false;
    }
    end->mr = mr.out.mr;
    end->cq = cq.out.cq;
    qp.arg.create_qp.pd = end->pd;
    qp.arg.create_qp.init = (struct ibv_qp_init_attr){
        .send_cq = end->cq,
        .recv_cq = end->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {
            .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
    if (!verb(ring, end, &qp)) {
        return false;
    }
    end->qp = qp.out.qp;
    return true;
}

static bool modify(struct ring *ring, struct end *end, struct ibv_qp_attr attr, int mask)
{
    struct sim_request request = {.verb = SIM_VERB_MODIFY_QP};

    request.arg.modify_qp.qp = end->qp;
    request.arg.modify_qp.attr = attr;
    request.arg.modify_qp.mask = mask | IBV_QP_STATE;
    return verb(ring, end, &request);
}

/* Slot 1 of a table without RoCE v1 is the IPv4 address: slot 0 is the default GID. */
static bool connect_end(struct ring *ring, struct end *end, const struct end *peer)
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
    return modify(ring, end, init,
                  IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) &&
           modify(ring, end, rtr,
                  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) &&
           modify(ring, end, rts,
                  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                      IBV_QP_MAX_QP_RD_ATOMIC);
}

static bool make_ring(struct ring *ring)
{
    struct sim_stack_config stack = {.host = "bench"};
    uint32_t n_cables = ring->n == 2 ? 1 : ring->n;
    bool ok = true;

    for (uint32_t i = 0; i < ring->n; i++) {
        struct node *node = &ring->nodes[i];

        node->ring = ring;
        node->stack = sim_stack_create(ring->engine, &stack);
        node->memory = mmap(NULL, ring->memory_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (node->memory == MAP_FAILED) {
            node->memory = NULL;
            return false;
        }
        make_end(ring, node, i, LEFT);
        make_end(ring, node, i, RIGHT);
    }
    for (uint32_t i = 0; i < n_cables; i++) {
        struct sim_cable_config cable = {
            .name = "bench", .rate_bps = 100000000000u, .delay_ps = 1000000, .up = true};

        sim_cable_connect(ring->engine, &cable, ring->nodes[i].ends[RIGHT].port,
                          ring->nodes[(i + 1) % ring->n].ends[LEFT].port);
    }
    for (uint32_t i = 0; i < ring->n && ok; i++) {
        ok = make_objects(ring, &ring->nodes[i], LEFT) &&
             make_objects(ring, &ring->nodes[i], RIGHT);
    }
    for (uint32_t i = 0; i < n_cables && ok; i++) {
        struct end *from = &ring->nodes[i].ends[RIGHT];
        struct end *to = &ring->nodes[(i + 1) % ring->n].ends[LEFT];

        ok = connect_end(ring, from, to) && connect_end(ring, to, from);
    }
    return ok;
}

static void destroy_ring(struct ring *ring)
{
    for (uint32_t i = 0; i < ring->n; i++) {
        for (int side = 0; side < 2; side++) {
            if (ring->nodes[i].ends[side].nic != NULL) {
                sim_nic_destroy(ring->nodes[i].ends[side].nic);
                sim_port_attach(ring->nodes[i].ends[side].port, NULL, NULL);
            }
        }
    }
    for (uint32_t i = 0; i < ring->n; i++) {
        for (int side = 0; side < 2; side++) {
            if (ring->nodes[i].ends[side].port != NULL) {
                sim_port_destroy(ring->nodes[i].ends[side].port);
            }
        }
        if (ring->nodes[i].stack != NULL) {
            sim_stack_destroy(ring->nodes[i].stack);
        }
        if (ring->nodes[i].memory != NULL) {
            munmap(ring->nodes[i].memory, ring->memory_bytes);
        }
    }
    sim_engine_destroy(ring->engine);
    free(ring->nodes);
    free(ring->woken);
}

static void post_receive(struct node *node)
{
    struct ibv_recv_wr wr = {.wr_id = 0};
    struct ibv_recv_wr *bad;

    weft_check(sim_nic_post_recv(node->ends[LEFT].qp, &wr, &bad) == 0);
}

static void send_next(struct ring *ring, struct node *node)
{
    struct node *to = &ring->nodes[((size_t)(node - ring->nodes) + 1) % ring->n];
    uint64_t bytes = ring->bench->message_bytes;
    struct ibv_sge sge = {.addr = (uintptr_t)node->memory,
                          .length = (uint32_t)bytes,
                          .lkey = node->ends[RIGHT].mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;

    wr.wr.rdma.remote_addr = (uintptr_t)to->memory + bytes;
    wr.wr.rdma.rkey = to->ends[LEFT].mr->rkey;
    weft_check(sim_nic_post_send(node->ends[RIGHT].qp, &wr, &bad) == 0);
    node->n_sent++;
}

/* Takes completions; what arrived from the left starts the next step. */
static bool serve(struct ring *ring, struct node *node)
{
    struct ibv_wc wc[16];

    for (int side = 0; side < 2; side++) {
        int n = 1;

        while (n > 0) {
            if (sim_nic_poll_cq(node->ends[side].cq, 16, wc, &n) != 0) {
                return false;
            }
            for (int i = 0; i < n; i++) {
                if (wc[i].status != IBV_WC_SUCCESS) {
                    return false;
                }
                if (side == LEFT) {
                    node->n_received++;
                    post_receive(node);
                    if (ring->n > 2 && node->n_sent < ring->bench->n_steps) {
                        send_next(ring, node);
                    }
                }
            }
        }
        sim_nic_req_notify(node->ends[side].cq, false);
    }
    return true;
}

static bool run_ring(struct ring *ring, weft_ps *out_time)
{
    uint32_t n_senders = ring->n == 2 ? 1 : ring->n;
    uint64_t n_left = (uint64_t)n_senders * ring->bench->n_steps;
    weft_ps started = sim_now(ring->engine);
    bool ok = true;

    for (uint32_t i = 0; i < ring->n; i++) {
        /* Of two nodes, the first has nothing on its left. */
        for (int k = 0; k < 8 && (ring->n > 2 || i > 0); k++) {
            post_receive(&ring->nodes[i]);
        }
        ok = serve(ring, &ring->nodes[i]) && ok;
    }
    for (uint32_t i = 0; i < n_senders; i++) {
        send_next(ring, &ring->nodes[i]);
    }
    while (ok && n_left > 0 && sim_step(ring->engine, SIM_NEVER)) {
        for (uint32_t i = 0; i < ring->n_woken && ok; i++) {
            struct node *node = ring->woken[i];
            uint32_t before = node->n_received;

            node->is_woken = false;
            ok = serve(ring, node);
            n_left -= node->n_received - before;
        }
        ring->n_woken = 0;
    }
    *out_time = sim_now(ring->engine) - started;
    return ok && n_left == 0;
}

static double seconds(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

bool sim_bench_ring(const struct bench *bench, struct bench_result *out)
{
    struct ring ring = {.bench = bench, .n = bench->n_nodes};
    uint64_t n_packets = (bench->message_bytes + 4095) / 4096;
    /* 82 B around every payload, and RETH and the immediate once (IPv4). */
    uint64_t wire = bench->message_bytes + 82 * n_packets + 20;
    struct rusage usage;
    weft_ps time = 0;
    bool ok;

    ring.profile = *sim_profile_find("mlx5");
    ring.engine = sim_engine_create(1, NULL, NULL);
    ring.nodes = weft_calloc(ring.n, sizeof(*ring.nodes));
    ring.woken = weft_calloc(ring.n, sizeof(*ring.woken));
    ring.memory_bytes = (2 * bench->message_bytes + 4095) & ~(size_t)4095;
    memset(out, 0, sizeof(*out));
    ok = make_ring(&ring);
    out->cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID);
    out->wall_s = seconds(CLOCK_MONOTONIC);
    ok = ok && run_ring(&ring, &time);
    out->cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID) - out->cpu_s;
    out->wall_s = seconds(CLOCK_MONOTONIC) - out->wall_s;
    getrusage(RUSAGE_SELF, &usage);
    out->peak_rss_bytes = (uint64_t)usage.ru_maxrss * 1024;
    out->packets = (uint64_t)(ring.n == 2 ? 1 : ring.n) * bench->n_steps * n_packets;
    out->events = sim_n_events(ring.engine);
    out->sim_time_ns = (uint64_t)time / 1000;
    /* 0.08 ns a byte at 100 Gb/s, and the cable's delay, once a step. */
    out->limit_ns = bench->n_steps * (wire * 8 / 100 + 1000);
    destroy_ring(&ring);
    return ok;
}
