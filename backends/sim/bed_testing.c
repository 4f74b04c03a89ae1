#include "backends/sim/bed_testing.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "base/check.h"
#include "io/gpu.h"
#include "io/verbs.h"

#define SECOND INT64_C(1000000000)

static const char *const host_names[BED_HOSTS] = {"h0", "h1", "h2", "h3"};
static const char *const port_names[BED_PORTS] = {"p0", "p1", "p2", "p3"};

static void add_line(void *context, const char *line, size_t n_bytes)
{
    weft_text_add_bytes(context, line, n_bytes);
}

void sim_bed_init(struct bed *bed)
{
    memset(bed, 0, sizeof *bed);
    weft_trace_init(&bed->trace, WEFT_TRACE_STORY, add_line, &bed->story);
    bed->spec = (struct world_spec){.seed = 5,
                                    .hosts = bed->hosts,
                                    .switches = bed->switches,
                                    .cables = bed->cables,
                                    .faults = bed->faults,
                                    .trace = &bed->trace};
}

void sim_bed_fini(struct bed *bed)
{
    if (bed->world != NULL) {
        backend_sim.destroy(bed->world);
    }
    weft_text_fini(&bed->story);
}

uint32_t sim_bed_host(struct bed *bed)
{
    uint32_t index = bed->spec.n_hosts++;
    bed->hosts[index] = (struct world_host){.name = host_names[index],
                                            .profile = WEFT_PROFILE_MLX5,
                                            .ports = bed->ports[index],
                                            .pcie_root_bps = bed->roots[index],
                                            .n_pcie_roots = BED_PORTS,
                                            .n_gpus = 1,
                                            .memlock_bytes = INT64_MAX};
    return index;
}

uint32_t sim_bed_port(struct bed *bed, uint32_t host, const char *address, uint32_t root)
{
    struct world_host *at = &bed->hosts[host];
    uint32_t index = at->n_ports++;
    struct io_prefix *prefix = &bed->addresses[host][index][0];
    ck_assert(io_prefix_parse(address, prefix));
    bed->ports[host][index] = (struct world_port){.name = port_names[index],
                                                  .device = index,
                                                  .port = 1,
                                                  .pcie_root = root,
                                                  .rate_bps = 100 * BED_GBPS,
                                                  .mtu_bytes = 9000,
                                                  .addresses = prefix,
                                                  .n_addresses = 1};
    return index;
}

struct world_cable *sim_bed_cable(struct bed *bed, struct world_end a, struct world_end b)
{
    struct world_cable *cable = &bed->cables[bed->spec.n_cables++];
    *cable = (struct world_cable){
        .ends = {a, b}, .rate_bps = 100 * BED_GBPS, .delay_ps = 1000000, .up = true};
    return cable;
}

void sim_bed_create(struct bed *bed)
{
    struct weft_error error = {.status = WEFT_OK};
    weft_status status = backend_sim.create(&bed->spec, &bed->world, &error);
    ck_assert_msg(status == WEFT_OK, "%s", error.message);
}

void sim_bed_pair_inside(struct bed *bed, struct io_env *out_envs[2])
{
    sim_bed_init(bed);
    sim_bed_host(bed);
    bed->hosts[0].n_processes = 2;
    bed->hosts[0].n_gpus = 2;
    sim_bed_create(bed);
    for (uint32_t i = 0; i < 2; i++) {
        out_envs[i] = backend_sim.host_env(bed->world, 0, i);
    }
}

bool sim_bed_run(struct bed *bed, weft_ns until, const struct bed_end *end,
                 struct ibv_wc *wc)
{
    struct io_loop *loop = backend_sim.loop(bed->world);
    for (;;) {
        while (io_loop_pop(loop) != NULL) {
        }
        int n = 0;
        if (end != NULL) {
            ck_assert_int_eq(end->device->ops->req_notify(end->cq, 0), 0);
            ck_assert_int_eq(end->device->ops->poll_cq(end->cq, 1, wc, &n), 0);
        }
        if (n == 1) {
            return true;
        }
        if (backend_sim.step(bed->world, until) != WEFT_OK) {
            return false;
        }
    }
}

static int perform(struct bed_end *end, struct io_op *op)
{
    op->task = &end->task;
    int error = end->device->ops->submit(end->device, op);
    ck_assert_int_eq(error, 0);
    for (int i = 0; op->state == IO_OP_RUNNING; i++) {
        ck_assert_int_lt(i, 10000);
        (void)sim_bed_run(end->bed, backend_sim.now(end->bed->world) + SECOND / 1000,
                          NULL, NULL);
    }
    op->state = IO_OP_IDLE;
    return op->error;
}

void sim_bed_open(struct bed *bed, struct bed_end *end, uint32_t host, uint32_t process,
                  uint32_t port)
{
    struct io_op op = {.kind = IO_OP_ALLOC_PD};
    void *memory;
    *end = (struct bed_end){.bed = bed, .port = 1};
    end->env = backend_sim.host_env(bed->world, host, process);
    end->device = end->env->devices[port];
    end->ip = bed->addresses[host][port][0].ip;
    io_task_init(&end->task, backend_sim.loop(bed->world), end->env->host, 0);
    ck_assert_int_eq(
        end->env->gpu->ops->alloc(end->env->gpu, IO_MEMORY_DEVICE, BED_BYTES, &memory),
        0);
    end->memory = memory;
    ck_assert_int_eq(perform(end, &op), 0);
    end->pd = op.out.pd;
    op = (struct io_op){.kind = IO_OP_REG_MR};
    op.arg.reg_mr.pd = end->pd;
    op.arg.reg_mr.addr = memory;
    op.arg.reg_mr.length = BED_BYTES;
    op.arg.reg_mr.access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    ck_assert_int_eq(perform(end, &op), 0);
    end->mr = op.out.mr;
    op = (struct io_op){.kind = IO_OP_CREATE_CQ};
    op.arg.create_cq.cqe = 256;
    op.arg.create_cq.task = &end->task;
    ck_assert_int_eq(perform(end, &op), 0);
    end->cq = op.out.cq;
    op = (struct io_op){.kind = IO_OP_CREATE_QP};
    op.arg.create_qp.pd = end->pd;
    op.arg.create_qp.init = (struct ibv_qp_init_attr){
        .send_cq = end->cq,
        .recv_cq = end->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 64,
                .max_recv_wr = 4,
                .max_send_sge = 2,
                .max_recv_sge = 1},
    };
    ck_assert_int_eq(perform(end, &op), 0);
    end->qp = op.out.qp;
}

void sim_bed_close(struct bed_end *end)
{
    end->env->gpu->ops->free(end->env->gpu, end->memory);
    io_task_fini(&end->task);
}

/* Returns the RoCE v2 slot of the end's address. */
static uint8_t gid_index(const struct bed_end *end)
{
    for (uint32_t i = 0;; i++) {
        struct io_gid_entry entry;
        int error = end->device->ops->query_gid(end->device, end->port, i, &entry);
        ck_assert(error == 0 || error == ENODATA);
        if (error == 0 && entry.type == IBV_GID_TYPE_ROCE_V2 &&
            memcmp(entry.gid.raw, end->ip.bytes, 16) == 0) {
            return (uint8_t)i;
        }
    }
}

static int modify(struct bed_end *end, const struct ibv_qp_attr *attr, int mask)
{
    struct io_op op = {.kind = IO_OP_MODIFY_QP};
    op.arg.modify_qp.qp = end->qp;
    op.arg.modify_qp.attr = *attr;
    op.arg.modify_qp.mask = mask;
    return perform(end, &op);
}

static int to_rtr(struct bed_end *end, const struct bed_end *peer)
{
    struct ibv_port_attr port;
    ck_assert_int_eq(end->device->ops->query_port(end->device, end->port, &port), 0);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = end->path_mtu != 0 ? (enum ibv_mtu)end->path_mtu : port.active_mtu,
        .dest_qp_num = peer->qp->qp_num,
        .rq_psn = 100,
        .max_dest_rd_atomic = 4,
        .min_rnr_timer = 12};
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = end->port;
    attr.ah_attr.grh.sgid_index = gid_index(end);
    attr.ah_attr.grh.hop_limit = 64;
    memcpy(attr.ah_attr.grh.dgid.raw, peer->ip.bytes, 16);
    return modify(end, &attr,
                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int sim_bed_connect(struct bed_end *a, struct bed_end *b)
{
    struct bed_end *ends[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                                   .port_num = ends[i]->port,
                                   .qp_access_flags =
                                       IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
        ck_assert_int_eq(
            modify(ends[i], &attr,
                   IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS),
            0);
    }
    for (int i = 0; i < 2; i++) {
        int error = to_rtr(ends[i], ends[1 - i]);
        if (error != 0) {
            return error;
        }
    }
    for (int i = 0; i < 2; i++) {
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                                   .timeout = 14,
                                   .retry_cnt = 7,
                                   .rnr_retry = 7,
                                   .sq_psn = 100,
                                   .max_rd_atomic = 4};
        ck_assert_int_eq(modify(ends[i], &attr,
                                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                    IBV_QP_MAX_QP_RD_ATOMIC),
                         0);
    }
    return 0;
}

void sim_bed_write(struct bed_end *from, const struct bed_end *to, uint32_t n_bytes,
                   uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct ibv_sge sge = {
            .addr = (uintptr_t)from->memory, .length = n_bytes, .lkey = from->mr->lkey};
        struct ibv_send_wr wr = {.wr_id = i,
                                 .sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_RDMA_WRITE,
                                 .send_flags = IBV_SEND_SIGNALED};
        struct ibv_send_wr *bad = NULL;
        wr.wr.rdma.remote_addr = (uintptr_t)to->memory;
        wr.wr.rdma.rkey = to->mr->rkey;
        ck_assert_int_eq(from->device->ops->post_send(from->qp, &wr, &bad), 0);
    }
}

weft_ns sim_bed_wait(struct bed_end *end, uint32_t n)
{
    weft_ns limit = backend_sim.now(end->bed->world) + 10 * SECOND;
    for (uint32_t i = 0; i < n; i++) {
        struct ibv_wc wc;
        ck_assert(sim_bed_run(end->bed, limit, end, &wc));
        ck_assert_msg(wc.status == IBV_WC_SUCCESS, "%s",
                      io_wc_status_name((int)wc.status));
    }
    return backend_sim.now(end->bed->world);
}

bool sim_bed_told(const struct bed *bed, const char *text)
{
    return bed->story.bytes != NULL && strstr(bed->story.bytes, text) != NULL;
}
