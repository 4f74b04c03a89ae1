#include "rdma/rdma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "io/verbs.h"
#include "rdma/mr.h"

/* ibv_global_route.sgid_index has 8 bits, so that higher slots cannot be used. */
#define GID_SLOTS_MAX 256

static uint32_t table_len(const struct ibv_port_attr *attr)
{
    int n = attr->gid_tbl_len;
    return n <= 0 ? 0 : n > GID_SLOTS_MAX ? GID_SLOTS_MAX : (uint32_t)n;
}

uint32_t rdma_mtu_bytes(enum ibv_mtu mtu)
{
    int code = (int)mtu;
    if (code < IBV_MTU_256 || code > IBV_MTU_4096) {
        return 0;
    }
    return 128u << code;
}

enum ibv_mtu rdma_mtu_enum(uint32_t bytes)
{
    for (int code = IBV_MTU_256; code <= IBV_MTU_4096; code++) {
        if (bytes == 128u << code) {
            return (enum ibv_mtu)code;
        }
    }
    return (enum ibv_mtu)0;
}

char *rdma_gid_format(const union ibv_gid *gid, char *out, size_t out_bytes)
{
    struct io_ip ip;
    memcpy(ip.bytes, gid->raw, sizeof(ip.bytes));
    return io_ip_format(&ip, out, out_bytes);
}

const char *rdma_gid_type_name(enum ibv_gid_type type)
{
    switch (type) {
    case IBV_GID_TYPE_IB:
        return "IB";
    case IBV_GID_TYPE_ROCE_V1:
        return "RoCE v1";
    case IBV_GID_TYPE_ROCE_V2:
        return "RoCE v2";
    default:
        return "?";
    }
}

/* Returns the prefix length of the address of the netdev that equals the GID, or 0 if none does. */
static uint8_t prefix_len_of(const struct io_hostinfo *info, uint32_t ifindex,
                             const union ibv_gid *gid)
{
    const struct io_netdev *netdev = io_hostinfo_netdev(info, ifindex);
    if (netdev == NULL) {
        return 0;
    }
    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        if (memcmp(netdev->addresses[i].ip.bytes, gid->raw, sizeof(gid->raw)) == 0) {
            return netdev->addresses[i].prefix_len;
        }
    }
    return 0;
}

/* Returns true if a GID of `before` that had an address behind it is in no slot of `port` now. */
static bool has_lost_any(const struct rdma_port *port, const struct rdma_gid *before,
                         uint32_t n_before)
{
    for (uint32_t i = 0; i < n_before; i++) {
        if (before[i].prefix_len > 0 &&
            rdma_port_gid(port, &before[i].gid, before[i].type) == NULL) {
            return true;
        }
    }
    return false;
}

/* Reads the GID table. A slot that cannot be read counts as empty. In a container, query_gid of an
 * empty slot can fail with EINVAL where the kernel's own tools see ENODATA. */
static void read_gids(struct rdma_port *port, uint32_t n_slots,
                      const struct io_hostinfo *info, weft_ns now)
{
    struct io_device *device = port->device;
    struct rdma_gid *before = port->gids;
    uint32_t n_before = port->n_gids;
    port->gids = NULL;
    port->n_gids = 0;
    uint32_t cap = 0;
    for (uint32_t i = 0; i < n_slots; i++) {
        struct io_gid_entry entry;
        if (device->ops->query_gid(device, port->port, i, &entry) != 0) {
            continue;
        }
        if (port->n_gids == cap) {
            cap = cap == 0 ? 8 : 2 * cap;
            port->gids = weft_realloc(port->gids, cap * sizeof(*port->gids));
        }
        uint32_t ifindex = entry.ifindex != 0 ? entry.ifindex : port->ifindex;
        port->gids[port->n_gids++] = (struct rdma_gid){
            .gid = entry.gid,
            .type = entry.type,
            .index = i,
            .ifindex = ifindex,
            .prefix_len = prefix_len_of(info, ifindex, &entry.gid),
        };
    }
    if (has_lost_any(port, before, n_before)) {
        port->gid_lost_ns = now;
    }
    free(before);
}

/* Reads the facts that can change while the program runs. */
static weft_status read_port(struct rdma *rdma, const struct io_hostinfo *info,
                             struct rdma_port *port, struct weft_error *error)
{
    struct io_device *device = port->device;
    struct ibv_port_attr attr;
    if (rdma->is_lost[port->device_index]) {
        return WEFT_OK; /* keeps the last facts, and is inactive */
    }
    memset(&attr, 0, sizeof(attr));
    int failure = device->ops->query_port(device, port->port, &attr);
    if (failure != 0) {
        weft_status status = weft_fail_errno(error, failure, WEFT_PHASE_DISCOVER,
                                             "query_port %u", (unsigned)port->port);
        weft_error_object(error, "%s:%s", rdma->env->name, port->name);
        return status;
    }
    port->is_active = attr.state == IBV_PORT_ACTIVE;
    port->active_mtu = rdma_mtu_bytes(attr.active_mtu);
    /* A port without a netdev can still be used by its GIDs. Only its rate and IP MTU are
     * unknown. */
    uint32_t ifindex = 0;
    if (device->ops->port_netdev(device, port->port, &ifindex) != 0) {
        ifindex = 0;
    }
    port->ifindex = ifindex;
    const struct io_netdev *netdev = io_hostinfo_netdev(info, ifindex);
    port->netdev[0] = '\0';
    port->rate_bps = 0;
    port->netdev_mtu = 0;
    if (netdev != NULL) {
        weft_format(port->netdev, sizeof(port->netdev), "%s", netdev->name);
        port->rate_bps = netdev->speed_bps;
        port->netdev_mtu = netdev->mtu_bytes;
    }
    read_gids(port, table_len(&attr), info, io_now(rdma->env));
    return WEFT_OK;
}

weft_status rdma_refresh(struct rdma *rdma, struct weft_error *error)
{
    const struct io_hostinfo *info = rdma->env->ops->hostinfo(rdma->env);
    for (uint32_t i = 0; i < rdma->n_ports; i++) {
        weft_status status = read_port(rdma, info, &rdma->ports[i], error);
        if (status != WEFT_OK) {
            return status;
        }
    }
    return WEFT_OK;
}

/* Lists the ports of all devices, in device then port order, without what read_port fills. */
static void list_ports(struct rdma *rdma)
{
    struct io_env *env = rdma->env;
    uint32_t n = 0;
    for (uint32_t d = 0; d < env->n_devices; d++) {
        n += env->devices[d]->n_ports;
    }
    rdma->ports = weft_calloc(n > 0 ? n : 1, sizeof(*rdma->ports));
    for (uint32_t d = 0; d < env->n_devices; d++) {
        struct io_device *device = env->devices[d];
        for (uint8_t p = 1; p <= device->n_ports; p++) {
            struct rdma_port *port = &rdma->ports[rdma->n_ports++];
            port->device = device;
            port->device_index = d;
            port->port = p;
            if (p == 1) {
                weft_format(port->name, sizeof(port->name), "%s", device->name);
            } else {
                weft_format(port->name, sizeof(port->name), "%s/%u", device->name,
                            (unsigned)p);
            }
        }
    }
}

static weft_status fail_device(struct rdma *rdma, uint32_t device, int failure,
                               const char *verb, struct weft_error *error)
{
    weft_status status = weft_fail_errno(error, failure, WEFT_PHASE_DISCOVER, "%s", verb);
    weft_error_object(error, "%s:%s", rdma->env->name, rdma->env->devices[device]->name);
    return status;
}

static weft_status start(struct rdma *rdma, struct weft_error *error)
{
    struct io_env *env = rdma->env;
    for (uint32_t d = 0; d < env->n_devices; d++) {
        struct io_device *device = env->devices[d];
        int failure = device->ops->query_device(device, &rdma->attrs[d]);
        if (failure != 0) {
            return fail_device(rdma, d, failure, "query_device", error);
        }
    }
    list_ports(rdma);
    weft_status status = rdma_refresh(rdma, error);
    if (status != WEFT_OK) {
        return status;
    }
    for (uint32_t d = 0; d < env->n_devices; d++) {
        struct io_op *op = &rdma->pd_ops[d];
        op->kind = IO_OP_ALLOC_PD;
        op->task = rdma->task;
        int failure = env->devices[d]->ops->submit(env->devices[d], op);
        if (failure != 0) {
            return fail_device(rdma, d, failure, "alloc_pd", error);
        }
    }
    return WEFT_OK;
}

static struct rdma *create(struct io_env *env, struct io_task *task)
{
    struct rdma *rdma = weft_calloc(1, sizeof(*rdma));
    rdma->env = env;
    rdma->task = task;
    rdma->attrs = weft_calloc((size_t)env->n_devices + 1, sizeof(*rdma->attrs));
    rdma->pds = weft_calloc((size_t)env->n_devices + 1, sizeof(struct ibv_pd *));
    rdma->pd_ops = weft_calloc((size_t)env->n_devices + 1, sizeof(*rdma->pd_ops));
    rdma->is_lost = weft_calloc((size_t)env->n_devices + 1, sizeof(*rdma->is_lost));
    rdma->mrs = rdma_mr_cache_create(rdma);
    return rdma;
}

struct rdma *rdma_open_none(struct io_env *env, struct io_task *task)
{
    weft_check(env->n_devices == 0);
    return create(env, task);
}

weft_status rdma_open(struct io_env *env, struct io_task *task, struct rdma **out,
                      struct weft_error *error)
{
    *out = NULL;
    if (env->n_devices == 0) {
        weft_status status =
            weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_DISCOVER, "no RDMA device");
        weft_error_object(error, "%s", env->name);
        return status;
    }
    struct rdma *rdma = create(env, task);
    weft_status status = start(rdma, error);
    if (status != WEFT_OK) {
        rdma_close(rdma);
        return status;
    }
    *out = rdma;
    return WEFT_OK;
}

static bool is_any_left(const struct rdma *rdma)
{
    for (uint32_t d = 0; d < rdma->env->n_devices; d++) {
        if (!rdma->is_lost[d]) {
            return true;
        }
    }
    return false;
}

void rdma_lose_device(struct rdma *rdma, uint32_t device_index)
{
    weft_check(device_index < rdma->env->n_devices);
    rdma->is_lost[device_index] = true;
    for (uint32_t i = 0; i < rdma->n_ports; i++) {
        if (rdma->ports[i].device_index == device_index) {
            rdma->ports[i].is_active = false;
        }
    }
}

weft_status rdma_progress(struct rdma *rdma, struct weft_error *error)
{
    struct io_env *env = rdma->env;
    bool all = true;
    if (env->n_devices > 0 && !is_any_left(rdma)) {
        return fail_device(rdma, 0, ENODEV, "every device is gone", error);
    }
    for (uint32_t d = 0; d < env->n_devices; d++) {
        if (rdma->pds[d] != NULL || rdma->is_lost[d]) {
            continue;
        }
        struct io_device *device = env->devices[d];
        int failure = device->ops->poll(device, &rdma->pd_ops[d]);
        if (failure == EINPROGRESS) {
            all = false;
            continue;
        }
        if (failure != 0) {
            return fail_device(rdma, d, failure, "alloc_pd", error);
        }
        rdma->pds[d] = rdma->pd_ops[d].out.pd;
    }
    rdma->is_ready = all;
    return all ? WEFT_OK : WEFT_AGAIN;
}

void rdma_close(struct rdma *rdma)
{
    if (rdma == NULL) {
        return;
    }
    rdma_mr_cache_destroy(rdma->mrs);
    for (uint32_t d = 0; d < rdma->env->n_devices; d++) {
        struct io_device *device = rdma->env->devices[d];
        struct io_op *op = &rdma->pd_ops[d];
        if (op->state == IO_OP_RUNNING) {
            device->ops->abandon(device, op);
        } else if (op->state == IO_OP_DONE && op->error == 0) {
            struct io_op dealloc = {.kind = IO_OP_DEALLOC_PD};
            dealloc.arg.dealloc_pd = op->out.pd;
            rdma_forget_op(device, &dealloc);
        }
    }
    for (uint32_t i = 0; i < rdma->n_ports; i++) {
        free(rdma->ports[i].gids);
    }
    free(rdma->ports);
    free(rdma->paths);
    free(rdma->attrs);
    free(rdma->pds);
    free(rdma->pd_ops);
    free(rdma->is_lost);
    free(rdma);
}

/* Returns true if the slot is not empty. Sets `*out_same` to true if it holds this GID and type. */
static bool look_at_slot(const struct rdma_port *port, uint32_t index,
                         const union ibv_gid *gid, enum ibv_gid_type type, bool *out_same)
{
    struct io_gid_entry entry;
    struct io_device *device = port->device;
    if (device->ops->query_gid(device, port->port, index, &entry) != 0) {
        return false;
    }
    *out_same =
        entry.type == type && memcmp(entry.gid.raw, gid->raw, sizeof(gid->raw)) == 0;
    return true;
}

static bool slot_holds(const struct rdma_port *port, uint32_t index,
                       const union ibv_gid *gid, enum ibv_gid_type type)
{
    bool is_same;
    return look_at_slot(port, index, gid, type, &is_same) && is_same;
}

bool rdma_gid_is_anothers(const struct rdma_port *port, uint32_t index,
                          const union ibv_gid *gid, enum ibv_gid_type type)
{
    bool is_same;
    return look_at_slot(port, index, gid, type, &is_same) && !is_same;
}

int rdma_find_gid(struct rdma *rdma, const struct rdma_port *port,
                  const union ibv_gid *gid, enum ibv_gid_type type, uint32_t *out_index)
{
    weft_check(port >= rdma->ports && port < rdma->ports + rdma->n_ports);
    /* Query the last known slot first, because it is nearly always still right. One query then
     * replaces those of a whole table. */
    for (uint32_t i = 0; i < port->n_gids; i++) {
        const struct rdma_gid *known = &port->gids[i];
        if (known->type == type && memcmp(&known->gid, gid, sizeof(*gid)) == 0 &&
            slot_holds(port, known->index, gid, type)) {
            *out_index = known->index;
            return 0;
        }
    }
    struct ibv_port_attr attr;
    memset(&attr, 0, sizeof(attr));
    int failure = port->device->ops->query_port(port->device, port->port, &attr);
    if (failure != 0) {
        return failure;
    }
    for (uint32_t i = 0; i < table_len(&attr); i++) {
        if (slot_holds(port, i, gid, type)) {
            *out_index = i;
            return 0;
        }
    }
    return ENODATA;
}

const struct rdma_gid *rdma_port_gid(const struct rdma_port *port,
                                     const union ibv_gid *gid, enum ibv_gid_type type)
{
    for (uint32_t i = 0; i < port->n_gids; i++) {
        const struct rdma_gid *known = &port->gids[i];
        if (known->type == type && memcmp(&known->gid, gid, sizeof(*gid)) == 0) {
            return known;
        }
    }
    return NULL;
}

bool rdma_port_has_netdev(const struct rdma_port *port, const struct io_netdev *netdev)
{
    bool has = port->ifindex == netdev->ifindex;
    for (uint32_t i = 0; i < port->n_gids && !has; i++) {
        has = port->gids[i].ifindex == netdev->ifindex && port->gids[i].prefix_len > 0;
    }
    return has;
}

/* Returns the length of the part of a PCI path that all functions of a card share. Paths end in
 * "domain:bus:device.function", so that they differ in the last character only. */
static size_t card_len(const char *pci_path)
{
    size_t n = strlen(pci_path);
    return n >= 2 && pci_path[n - 2] == '.' ? n - 1 : n;
}

uint32_t rdma_nic(const struct rdma *rdma, uint32_t device_index)
{
    weft_check(device_index < rdma->env->n_devices);
    const char *path = rdma->env->devices[device_index]->pci_path;
    size_t n = card_len(path);
    for (uint32_t d = 0; n > 0 && d < device_index; d++) {
        const char *other = rdma->env->devices[d]->pci_path;
        if (card_len(other) == n && memcmp(other, path, n) == 0) {
            return d;
        }
    }
    return device_index;
}
