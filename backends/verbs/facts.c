/* Facts of a device. libibverbs reports most. What it does not report, or reports incorrectly for
 * some device, comes from the kernel's files and from trials (docs/verbs.md lists these with
 * sources). */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/linux/netns.h"
#include "backends/verbs/device.h"
#include "base/text.h"

#define VENDOR_RXE 0xffffffu  /* RXE_VENDOR_ID, drivers/infiniband/sw/rxe/rxe_param.h */
#define VENDOR_HUAWEI 0x19e5u /* pci_ids.h */
#define HIP09_REVISION 0x30u  /* PCI_REVISION_ID_HIP09, hns_roce_device.h */
#define RXE_MAX_MSG_BYTES (8u << 20) /* tested limit; it reports 2^31 */
#define GIDS_TO_SCAN 1024

/* ---- files ---- */

static bool read_file(const char *path, char *out, size_t out_bytes)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    bool got = fgets(out, (int)out_bytes, file) != NULL;
    fclose(file);
    if (got) {
        out[strcspn(out, "\n")] = '\0';
    }
    return got;
}

static bool read_port_file(const struct verbs_device *device, uint8_t port,
                           const char *what, uint32_t index, char *out, size_t out_bytes)
{
    char path[400];
    weft_format(path, sizeof path, "%s/ports/%u/%s/%u", device->sysfs, port, what, index);
    return read_file(path, out, out_bytes);
}

/* Returns the last component of a link's target. Returns false if there is none. */
static bool read_link_name(const char *path, char *out, size_t out_bytes)
{
    char target[PATH_MAX];
    if (realpath(path, target) == NULL) {
        return false;
    }
    const char *slash = strrchr(target, '/');
    weft_format(out, out_bytes, "%s", slash == NULL ? target : slash + 1);
    return true;
}

/* ---- ports and GIDs ---- */

/* ibv_query_port is a macro over two ABIs. Providers fill the whole structure, but the library's
 * symbol only its first part, because old callers have no room for more. */
int verbs_query_port(struct verbs_device *device, uint8_t port, struct ibv_port_attr *out)
{
    struct verbs_context *extended = verbs_get_ctx_op(device->context, query_port);
    memset(out, 0, sizeof *out);
    errno = 0;
    if (extended != NULL) {
        return verbs_result(
            extended->query_port(device->context, port, out, sizeof *out));
    }
    return verbs_result(device->library->query_port(
        device->context, port, (struct _compat_ibv_port_attr *)(void *)out));
}

static bool is_zero_gid(const union ibv_gid *gid)
{
    static const union ibv_gid zero;
    return memcmp(gid, &zero, sizeof zero) == 0;
}

static int type_of_uapi(uint32_t type, enum ibv_gid_type *out)
{
    if (type == IBV_GID_TYPE_ROCE_V1 || type == IBV_GID_TYPE_ROCE_V2 ||
        type == IBV_GID_TYPE_IB) {
        *out = (enum ibv_gid_type)type;
        return 0;
    }
    return ENODATA;
}

/* Parses "fe80:0000:0000:0000:5054:00ff:fe12:3456". */
static bool parse_gid(const char *text, union ibv_gid *out)
{
    for (size_t i = 0; i < 8; i++) {
        char *end;
        unsigned long part = strtoul(text, &end, 16);
        if (end != text + 4 || *end != (i == 7 ? '\0' : ':')) {
            return false;
        }
        out->raw[2 * i] = (uint8_t)(part >> 8);
        out->raw[2 * i + 1] = (uint8_t)part;
        text = end + 1;
    }
    return true;
}

/* Reads a GID from sysfs if the library or the kernel is too old for the query. An empty slot
 * reads as a zero GID, and its type cannot be read. */
static int query_gid_sysfs(struct verbs_device *device, uint8_t port, uint32_t index,
                           struct io_gid_entry *out)
{
    char text[64];
    if (!read_port_file(device, port, "gids", index, text, sizeof text) ||
        !parse_gid(text, &out->gid) || is_zero_gid(&out->gid) ||
        !read_port_file(device, port, "gid_attrs/types", index, text, sizeof text)) {
        return ENODATA;
    }
    out->type =
        strcmp(text, "RoCE v2") == 0 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
    if (read_port_file(device, port, "gid_attrs/ndevs", index, text, sizeof text)) {
        out->ifindex = linux_netdev_index(text);
    }
    return 0;
}

int verbs_query_gid(struct verbs_device *device, uint8_t port, uint32_t index,
                    struct io_gid_entry *out)
{
    struct ibv_gid_entry entry = {.gid_index = index};
    *out = (struct io_gid_entry){.index = index};
    if (index >= device->gid_tbl_len[port - 1]) {
        return EINVAL;
    }
    int result = EOPNOTSUPP;
    if (device->library->query_gid_ex != NULL) {
        errno = 0;
        result = verbs_result(device->library->query_gid_ex(device->context, port, index,
                                                            &entry, 0, sizeof entry));
    }
    if (result == EOPNOTSUPP || result == ENOSYS || result == EPROTONOSUPPORT) {
        return query_gid_sysfs(device, port, index, out);
    }
    if (result != 0) {
        return result;
    }
    if (is_zero_gid(&entry.gid)) {
        return ENODATA;
    }
    out->gid = entry.gid;
    out->ifindex = entry.ndev_ifindex;
    return type_of_uapi(entry.gid_type, &out->type);
}

/* ---- the netdev of a port ---- */

/* Returns fe80::EUI-64 of a MAC, the kernel's default GID (roce_gid_mgmt.c). */
static union ibv_gid default_gid(const uint8_t mac[6])
{
    union ibv_gid out = {.raw = {0xfe, 0x80}};
    const uint8_t id[8] = {mac[0] ^ 2, mac[1], mac[2], 0xff,
                           0xfe,       mac[3], mac[4], mac[5]};
    memcpy(&out.raw[8], id, sizeof id);
    return out;
}

static bool is_eui64(const union ibv_gid *gid)
{
    return gid->raw[0] == 0xfe && gid->raw[1] == 0x80 && gid->raw[11] == 0xff &&
           gid->raw[12] == 0xfe;
}

static bool has_address(const struct io_netdev *netdev, const union ibv_gid *gid)
{
    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        if (memcmp(netdev->addresses[i].ip.bytes, gid->raw, sizeof gid->raw) == 0) {
            return true;
        }
    }
    return false;
}

/* Finds the netdev of a port by its GIDs. Since Linux 7.1 every namespace shows all devices, and
 * an ifindex of the device's namespace may name another netdev in ours. A default GID is as
 * unique as its MAC, so it decides if there is one; otherwise an address that both have. */
static uint32_t netdev_by_gids(struct verbs_device *device, uint8_t port,
                               const struct io_hostinfo *info)
{
    const struct io_netdev *candidate = NULL;
    bool address_matches = false, mac_matches = false, mac_differs = false;
    uint32_t n = device->gid_tbl_len[port - 1];
    for (uint32_t i = 0; i < n && i < GIDS_TO_SCAN; i++) {
        struct io_gid_entry entry;
        if (verbs_query_gid(device, port, i, &entry) != 0 || entry.ifindex == 0) {
            continue;
        }
        const struct io_netdev *netdev = io_hostinfo_netdev(info, entry.ifindex);
        candidate = candidate == NULL ? netdev : candidate;
        if (netdev == NULL || netdev != candidate) {
            continue; /* a VLAN, or not in this namespace */
        }
        union ibv_gid expected = default_gid(netdev->mac);
        bool is_default = memcmp(&expected, &entry.gid, sizeof expected) == 0;
        mac_matches = mac_matches || is_default;
        mac_differs = mac_differs || (i < 2 && is_eui64(&entry.gid) && !is_default);
        address_matches = address_matches || has_address(netdev, &entry.gid);
    }
    bool is_it = mac_matches || (address_matches && !mac_differs);
    return is_it ? candidate->ifindex : 0;
}

static uint32_t netdev_by_name(const struct io_hostinfo *info, const char *name,
                               const uint64_t *guid)
{
    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        union ibv_gid expected = default_gid(info->netdevs[i].mac);
        uint64_t id = 0;
        for (int j = 8; j < 16; j++) {
            id = id << 8 | expected.raw[j];
        }
        if (strcmp(info->netdevs[i].name, name) == 0 && (guid == NULL || id == *guid)) {
            return info->netdevs[i].ifindex;
        }
    }
    return 0;
}

/* Finds the netdev of an rxe port without usable GIDs, for example because its netdev is down.
 * rxe names its netdev in `parent`, and its node GUID is that netdev's EUI-64. */
static uint32_t netdev_by_parent(const struct verbs_device *device,
                                 const struct io_hostinfo *info)
{
    char path[300], name[32];
    weft_format(path, sizeof path, "%s/parent", device->sysfs);
    return read_file(path, name, sizeof name)
               ? netdev_by_name(info, name, &device->io.guid)
               : 0;
}

/* ---- the profile ---- */

static void learn_profile(struct verbs_device *device, const struct ibv_device_attr *attr)
{
    char path[300], driver[64];
    if (attr->vendor_id == VENDOR_RXE) {
        weft_format(device->profile, sizeof device->profile, "rxe");
    } else if (attr->vendor_id == VENDOR_HUAWEI) {
        weft_format(device->profile, sizeof device->profile, "%s",
                    attr->hw_ver >= HIP09_REVISION ? "hns-hip09" : "hns-hip08");
    } else {
        weft_format(path, sizeof path, "%s/device/driver", device->sysfs);
        if (!read_link_name(path, driver, sizeof driver)) {
            weft_format(driver, sizeof driver, "unknown");
        }
        driver[strcspn(driver, "_")] = '\0'; /* "mlx5_core" */
        weft_format(device->profile, sizeof device->profile, "%.31s", driver);
    }
    device->attr.profile = device->profile;
}

static void learn_pci_path(struct verbs_device *device)
{
    char path[300], function[64];
    weft_format(path, sizeof path, "%s/device", device->sysfs);
    if (read_link_name(path, function, sizeof function)) {
        weft_format(device->io.pci_path, sizeof device->io.pci_path,
                    "/sys/bus/pci/devices/%.40s", function);
    }
}

/* ---- capabilities, by trial ---- */

/* Returns the largest inline size that a new QP grants. ibv_query_device does not report it; mlx5
 * rejects too large sizes, hns reduces them silently. */
static uint32_t try_inline(struct verbs_device *device, struct ibv_pd *pd,
                           struct ibv_cq *cq)
{
    static const uint32_t sizes[] = {1024, 512, 256, 128, 64, 32, 0};
    const struct verbs_library *library = device->library;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct ibv_qp_init_attr init = {.send_cq = cq,
                                        .recv_cq = cq,
                                        .qp_type = IBV_QPT_RC,
                                        .cap = {.max_send_wr = 1,
                                                .max_recv_wr = 1,
                                                .max_send_sge = 1,
                                                .max_recv_sge = 1,
                                                .max_inline_data = sizes[i]}};
        struct ibv_qp *qp = library->create_qp(pd, &init);
        if (qp == NULL) {
            continue;
        }
        if (library->query_qp_data_in_order != NULL) {
            device->attr.writes_in_order =
                library->query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0) > 0;
        }
        library->destroy_qp(qp);
        return init.cap.max_inline_data;
    }
    return 0;
}

/* Tries an invalid descriptor. A driver that supports dma-buf looks at it and fails with
 * EBADF. */
static bool try_dmabuf(const struct verbs_library *library, struct ibv_pd *pd)
{
    if (library->reg_dmabuf_mr == NULL) {
        return false;
    }
    errno = 0;
    struct ibv_mr *mr =
        library->reg_dmabuf_mr(pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE);
    if (mr != NULL) {
        library->dereg_mr(mr);
        return true;
    }
    return errno == EBADF;
}

/* Returns true if a module lets the kernel's RDMA core access GPU memory. */
static bool has_peer_memory(void)
{
    return access("/sys/kernel/mm/memory_peers/nv_mem/version", F_OK) == 0 ||
           access("/sys/module/nvidia_peermem/version", F_OK) == 0;
}

static void try_capabilities(struct verbs_device *device)
{
    const struct verbs_library *library = device->library;
    struct ibv_pd *pd = library->alloc_pd(device->context);
    if (pd == NULL) {
        return; /* creating a PD later reports the reason */
    }
    struct ibv_cq *cq = library->create_cq(device->context, 1, NULL, NULL, 0);
    if (cq != NULL) {
        device->attr.max_inline_bytes = try_inline(device, pd, cq);
        library->destroy_cq(cq);
    }
    device->attr.has_dmabuf = try_dmabuf(library, pd);
    device->attr.has_peer_memory = has_peer_memory();
    library->dealloc_pd(pd);
}

/* ---- all facts ---- */

static int learn_port(struct verbs_device *device, uint8_t port,
                      const struct io_hostinfo *info)
{
    struct ibv_port_attr attr;
    int result = verbs_query_port(device, port, &attr);
    if (result != 0) {
        return result;
    }
    device->gid_tbl_len[port - 1] = (uint32_t)attr.gid_tbl_len;
    uint32_t ifindex = 0;
    if (attr.link_layer == IBV_LINK_LAYER_ETHERNET) {
        ifindex = netdev_by_gids(device, port, info);
        ifindex = ifindex != 0 ? ifindex : netdev_by_parent(device, info);
    }
    device->ifindexes[port - 1] = ifindex;
    if (port == 1 || attr.max_msg_sz < device->attr.max_msg_bytes) {
        device->attr.max_msg_bytes = attr.max_msg_sz;
    }
    return 0;
}

int verbs_learn_facts(struct verbs_device *device,
                      const struct verbs_device_config *config)
{
    struct ibv_device_attr *attr = &device->attr.ibv;
    int result = verbs_result(device->library->query_device(device->context, attr));
    if (result != 0) {
        return result;
    }
    learn_profile(device, attr);
    learn_pci_path(device);
    bool is_rxe = strcmp(device->profile, "rxe") == 0;
    /* Rxe never gives up with 7: rxe_comp.c. */
    device->attr.retry_cnt_max = is_rxe ? 6 : 7;
    device->attr.may_stall = is_rxe;
    device->attr.flush_on_poll = strcmp(device->profile, "hns-hip08") == 0;
    device->attr.general_err_is_harmless =
        strncmp(device->profile, "hns-", 4) == 0; /* hns_roce_hw_v2.c, CQE status 0x23 */
    /* A device with a port for each of its functions (switchdev) can have more than the kernel can
     * report, which is 255 (ib_uverbs_query_device). */
    device->io.n_ports =
        attr->phys_port_cnt < IO_PORTS_MAX ? attr->phys_port_cnt : IO_PORTS_MAX;
    device->gid_tbl_len = weft_calloc((size_t)device->io.n_ports + 1, sizeof(uint32_t));
    device->ifindexes = weft_calloc((size_t)device->io.n_ports + 1, sizeof(uint32_t));
    for (uint8_t port = 1; port <= device->io.n_ports && result == 0; port++) {
        result = learn_port(device, port, config->info);
    }
    if (is_rxe && device->attr.max_msg_bytes > RXE_MAX_MSG_BYTES) {
        device->attr.max_msg_bytes = RXE_MAX_MSG_BYTES;
    }
    if (result == 0 && verbs_device_is_ours(device)) {
        try_capabilities(device);
    }
    return result;
}

bool verbs_device_is_ours(const struct verbs_device *device)
{
    for (uint32_t i = 0; i < device->io.n_ports; i++) {
        if (device->ifindexes[i] != 0) {
            return true;
        }
    }
    return false;
}
