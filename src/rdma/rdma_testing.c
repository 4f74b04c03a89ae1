#include "rdma/rdma_testing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static struct fake_device *fake_of(struct io_device *device)
{
    return weft_container_of(device, struct fake_device, device);
}

/* ---- facts ---- */

static int query_device(struct io_device *device, struct io_device_attr *out)
{
    struct fake_device *fake = fake_of(device);
    *out = fake->attr;
    return fake->query_failure;
}

static int query_port(struct io_device *device, uint8_t port, struct ibv_port_attr *out)
{
    struct fake_device *fake = fake_of(device);
    weft_check(port >= 1 && port <= device->n_ports);
    *out = fake->ports[port - 1];
    return fake->query_failure;
}

static int query_gid(struct io_device *device, uint8_t port, uint32_t index,
                     struct io_gid_entry *out)
{
    struct fake_device *fake = fake_of(device);
    if (index >= FAKE_SLOTS) {
        return EINVAL;
    }
    const struct fake_gid *slot = &fake->slots[port - 1][index];
    if (!slot->used) {
        return ENODATA;
    }
    *out = (struct io_gid_entry){.gid = slot->gid,
                                 .type = slot->type,
                                 .index = index,
                                 .ifindex = fake->ifindex[port - 1]};
    return 0;
}

static int port_netdev(struct io_device *device, uint8_t port, uint32_t *out)
{
    *out = fake_of(device)->ifindex[port - 1];
    return *out != 0 ? 0 : ENODEV;
}

/* ---- operations ---- */

static struct fake_rule *rule_for(struct fake_host *host, const struct io_op *op)
{
    for (uint32_t i = 0; i < host->n_rules; i++) {
        if (host->rules[i].kind == op->kind &&
            host->rules[i].nth == host->n_ops[op->kind]) {
            return &host->rules[i];
        }
    }
    return NULL;
}

static void log_modify(struct fake_host *host, const struct io_op *op)
{
    const struct ibv_qp_attr *attr = &op->arg.modify_qp.attr;
    weft_text_add(&host->verbs, "%s", io_qp_state_name(attr->qp_state));
    if (attr->qp_state == IBV_QPS_INIT) {
        weft_text_add(&host->verbs, " port=%u access=%x", (unsigned)attr->port_num,
                      (unsigned)attr->qp_access_flags);
    } else if (attr->qp_state == IBV_QPS_RTR) {
        char gid[IO_IP_TEXT_BYTES];
        weft_text_add(&host->verbs, " mtu=%u qpn=%u psn=%u rd=%u rnr=%u sgid=%u dgid=%s",
                      rdma_mtu_bytes(attr->path_mtu), attr->dest_qp_num, attr->rq_psn,
                      (unsigned)attr->max_dest_rd_atomic, (unsigned)attr->min_rnr_timer,
                      (unsigned)attr->ah_attr.grh.sgid_index,
                      rdma_gid_format(&attr->ah_attr.grh.dgid, gid, sizeof(gid)));
    } else if (attr->qp_state == IBV_QPS_RTS) {
        weft_text_add(&host->verbs, " psn=%u timeout=%u retry=%u rnr=%u rd=%u",
                      attr->sq_psn, (unsigned)attr->timeout, (unsigned)attr->retry_cnt,
                      (unsigned)attr->rnr_retry, (unsigned)attr->max_rd_atomic);
    }
    weft_text_add(&host->verbs, " mask=%x\n", (unsigned)op->arg.modify_qp.mask);
}

static void *make(struct fake_host *host, size_t n_bytes)
{
    host->n_live++;
    return weft_calloc(1, n_bytes);
}

static void unmake(struct fake_host *host, void *object)
{
    weft_check(object != NULL);
    host->n_live--;
    free(object);
}

/* Executes the operation. */
static void perform(struct fake_host *host, struct io_op *op)
{
    switch (op->kind) {
    case IO_OP_NONE:
    case IO_OP_MODIFY_QP:
        return;
    case IO_OP_ALLOC_PD:
        op->out.pd = make(host, sizeof(*op->out.pd));
        return;
    case IO_OP_REG_MR:
        op->out.mr = make(host, sizeof(*op->out.mr));
        op->out.mr->addr = op->arg.reg_mr.addr;
        op->out.mr->length = op->arg.reg_mr.length;
        op->out.mr->lkey = 0x1000 + host->next_key;
        op->out.mr->rkey = 0x2000 + host->next_key++;
        return;
    case IO_OP_CREATE_CQ:
        op->out.cq = make(host, sizeof(*op->out.cq));
        op->out.cq->cqe = op->arg.create_cq.cqe;
        op->out.cq->cq_context = host;
        return;
    case IO_OP_CREATE_QP:
        op->out.qp = make(host, sizeof(*op->out.qp));
        op->out.qp->qp_num = host->next_qpn++;
        return;
    case IO_OP_DEALLOC_PD:
        unmake(host, op->arg.dealloc_pd);
        return;
    case IO_OP_DEREG_MR:
        unmake(host, op->arg.dereg_mr);
        return;
    case IO_OP_DESTROY_CQ:
        unmake(host, op->arg.destroy_cq);
        return;
    case IO_OP_DESTROY_QP:
        unmake(host, op->arg.destroy_qp);
        return;
    }
}

static bool makes(enum io_op_kind kind)
{
    return kind == IO_OP_ALLOC_PD || kind == IO_OP_REG_MR || kind == IO_OP_CREATE_CQ ||
           kind == IO_OP_CREATE_QP;
}

static int submit(struct io_device *device, struct io_op *op)
{
    struct fake_host *host = fake_of(device)->host;
    weft_check(op->kind != IO_OP_NONE && op->state == IO_OP_IDLE);
    host->n_ops[op->kind]++;
    const struct fake_rule *rule = rule_for(host, op);
    if (rule != NULL && rule->refused) {
        return rule->error;
    }
    weft_text_add(&host->verbs, "%s ", io_op_kind_name(op->kind));
    if (op->kind == IO_OP_MODIFY_QP) {
        log_modify(host, op);
    } else {
        weft_text_add(&host->verbs, "\n");
    }
    op->state = IO_OP_RUNNING;
    op->error = rule != NULL ? rule->error : 0;
    op->backend[0] = host;
    weft_check(host->n_running < WEFT_LENGTH(host->running));
    host->running[host->n_running++] = op;
    /* Number of polls left that return EINPROGRESS, stored as a pointer. */
    op->backend[1] = (void *)(uintptr_t)(rule != NULL ? rule->slow : 0); /* NOLINT */
    return 0;
}

static void forget(struct fake_host *host, const struct io_op *op)
{
    for (uint32_t i = 0; i < host->n_running; i++) {
        if (host->running[i] == op) {
            host->running[i] = host->running[--host->n_running];
            return;
        }
    }
    weft_check(false);
}

static int poll(struct io_device *device, struct io_op *op)
{
    struct fake_host *host = fake_of(device)->host;
    weft_check(op->state != IO_OP_IDLE);
    if (op->state == IO_OP_DONE) {
        return op->error;
    }
    uintptr_t left = (uintptr_t)op->backend[1];
    if (left > 0) {
        op->backend[1] = (void *)(left - 1); /* NOLINT */
        return EINPROGRESS;
    }
    forget(host, op);
    op->state = IO_OP_DONE;
    if (op->error == 0) {
        perform(host, op);
    }
    return op->error;
}

static void abandon(struct io_device *device, struct io_op *op)
{
    struct fake_host *host = fake_of(device)->host;
    if (op->state != IO_OP_RUNNING) {
        return;
    }
    forget(host, op);
    weft_text_add(&host->verbs, "abandon %s\n", io_op_kind_name(op->kind));
    /* A created object would be destroyed at once, so that only other operations are executed. */
    if (!makes(op->kind) && op->error == 0) {
        perform(host, op);
    }
    op->state = IO_OP_IDLE;
}

/* ---- completions and events ---- */

static int poll_cq(struct ibv_cq *cq, int n_max, struct ibv_wc *wc, int *out_n)
{
    struct fake_host *host = cq->cq_context;
    host->n_polled++;
    *out_n = host->n_wcs < n_max ? host->n_wcs : n_max;
    if (host->poll_failure != 0) {
        *out_n = 0;
        return host->poll_failure;
    }
    for (int i = 0; i < *out_n; i++) {
        wc[i] = host->wcs[i];
    }
    host->n_wcs -= *out_n;
    memmove(host->wcs, host->wcs + *out_n, (size_t)host->n_wcs * sizeof(*host->wcs));
    return 0;
}

static int req_notify(struct ibv_cq *cq, int solicited_only)
{
    struct fake_host *host = cq->cq_context;
    weft_check(solicited_only == 0);
    host->n_armed++;
    if (host->on_arm != NULL) {
        host->on_arm(host);
    }
    return host->notify_failure;
}

static int async_event(struct io_device *device, struct io_async_event *out)
{
    struct fake_device *fake = fake_of(device);
    if (fake->n_events == 0) {
        return EAGAIN;
    }
    *out = fake->events[0];
    fake->n_events--;
    memmove(fake->events, fake->events + 1, fake->n_events * sizeof(*fake->events));
    return 0;
}

static const struct io_device_ops device_ops = {
    .query_device = query_device,
    .query_port = query_port,
    .query_gid = query_gid,
    .port_netdev = port_netdev,
    .submit = submit,
    .poll = poll,
    .abandon = abandon,
    .poll_cq = poll_cq,
    .req_notify = req_notify,
    .async_event = async_event,
};

/* ---- the host ---- */

static struct fake_host *host_of(struct io_env *env)
{
    return weft_container_of(env, struct fake_host, env);
}

static weft_ns now(struct io_env *env)
{
    return host_of(env)->now;
}

static const struct io_hostinfo *hostinfo(struct io_env *env)
{
    return &host_of(env)->info;
}

static const struct io_env_ops env_ops = {.now = now, .hostinfo = hostinfo};

static void tell(void *context, const char *line, size_t n_bytes)
{
    weft_text_add_bytes(context, line, n_bytes);
}

void fake_host_init(struct fake_host *host)
{
    memset(host, 0, sizeof(*host));
    io_loop_init(&host->loop, 1);
    weft_trace_init(&host->trace, WEFT_TRACE_STORY, tell, &host->story);
    weft_text_add(&host->story, "%s", "");
    weft_text_add(&host->verbs, "%s", "");
    host->next_qpn = 17;
    host->next_key = 1;
    host->info.netdevs = host->netdevs;
    host->info.memlock_bytes = 65536;
    host->env = (struct io_env){
        .ops = &env_ops,
        .loop = &host->loop,
        .name = "titanic",
        .devices = host->device_list,
        .trace = &host->trace,
    };
}

void fake_host_fini(struct fake_host *host)
{
    weft_text_fini(&host->story);
    weft_text_fini(&host->verbs);
    io_loop_fini(&host->loop);
}

struct fake_device *fake_device_add(struct fake_host *host, const char *name,
                                    uint8_t n_ports)
{
    weft_check(host->env.n_devices < FAKE_DEVICES_MAX && n_ports <= FAKE_PORTS_MAX);
    struct fake_device *fake = &host->devices[host->env.n_devices];
    host->device_list[host->env.n_devices++] = &fake->device;
    fake->host = host;
    fake->device.ops = &device_ops;
    fake->device.n_ports = n_ports;
    weft_format(fake->device.name, sizeof(fake->device.name), "%s", name);
    fake->attr = (struct io_device_attr){
        .ibv = {.max_qp_wr = 1024, .max_cqe = 4096},
        .max_inline_bytes = 64,
        .retry_cnt_max = 7,
        .profile = "fake",
    };
    for (uint8_t p = 0; p < n_ports; p++) {
        fake->ports[p].state = IBV_PORT_ACTIVE;
        fake->ports[p].active_mtu = IBV_MTU_4096;
        fake->ports[p].gid_tbl_len = FAKE_SLOTS;
        struct io_netdev *netdev = &host->netdevs[host->info.n_netdevs];
        netdev->addresses = host->addresses[host->info.n_netdevs++];
        netdev->ifindex = host->info.n_netdevs + 1; /* ifindex 1 is the loopback */
        netdev->mtu_bytes = 9000;
        netdev->speed_bps = UINT64_C(100000000000);
        netdev->is_up = true;
        weft_format(netdev->name, sizeof(netdev->name), "%snp%u", name, (unsigned)p);
        fake->ifindex[p] = netdev->ifindex;
    }
    return fake;
}

union ibv_gid fake_gid_of(const char *address)
{
    struct io_ip ip;
    union ibv_gid gid;
    weft_check(io_ip_parse(address, &ip));
    memcpy(gid.raw, ip.bytes, sizeof(gid.raw));
    return gid;
}

void fake_slot_set(struct fake_device *device, uint8_t port, uint32_t slot,
                   const char *address, enum ibv_gid_type type)
{
    struct fake_gid *at = &device->slots[port - 1][slot];
    memset(at, 0, sizeof(*at));
    if (address != NULL) {
        *at = (struct fake_gid){.used = true, .gid = fake_gid_of(address), .type = type};
    }
}

void fake_address_add(struct fake_device *device, uint8_t port, const char *text)
{
    struct fake_host *host = device->host;
    struct io_prefix prefix;
    weft_check(io_prefix_parse(text, &prefix));
    for (uint32_t i = 0; i < host->info.n_netdevs; i++) {
        struct io_netdev *netdev = &host->netdevs[i];
        if (netdev->ifindex == device->ifindex[port - 1]) {
            netdev->addresses[netdev->n_addresses++] = prefix;
        }
    }
    char address[IO_IP_TEXT_BYTES];
    io_ip_format(&prefix.ip, address, sizeof(address));
    enum ibv_gid_type type = IBV_GID_TYPE_ROCE_V1;
    for (uint32_t s = 0; s < FAKE_SLOTS; s++) {
        if (!device->slots[port - 1][s].used) {
            fake_slot_set(device, port, s, address, type);
            if (type == IBV_GID_TYPE_ROCE_V2) {
                return;
            }
            type = IBV_GID_TYPE_ROCE_V2;
        }
    }
}

void fake_rule_add(struct fake_host *host, enum io_op_kind kind, uint32_t nth, int error,
                   bool refused, uint32_t slow)
{
    weft_check(host->n_rules < FAKE_RULES_MAX);
    host->rules[host->n_rules++] = (struct fake_rule){
        .kind = kind, .nth = nth, .error = error, .refused = refused, .slow = slow};
}

void fake_event_add(struct fake_device *device, enum ibv_event_type type, uint8_t port,
                    struct ibv_qp *qp)
{
    weft_check(device->n_events < FAKE_EVENTS_MAX);
    device->events[device->n_events++] =
        (struct io_async_event){.type = type, .port = port, .qp = qp};
}

struct rdma *fake_open(struct fake_host *host)
{
    struct rdma *rdma = NULL;
    struct weft_error error;
    weft_error_clear(&error);
    weft_status status = rdma_open(&host->env, NULL, &rdma, &error);
    while (status == WEFT_OK && !rdma->is_ready) {
        weft_check(rdma_progress(rdma, &error) >= WEFT_OK);
    }
    weft_check(status == WEFT_OK);
    return rdma;
}
