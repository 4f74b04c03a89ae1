#define _GNU_SOURCE
#include "backends/linux/nvml.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

_Static_assert(sizeof(struct nvml_fabric) == (NVML_FABRIC_VERSION & 0xffffff),
               "a version has the size");

static const struct {
    const char *name;
    size_t offset; /* of the pointer in struct linux_nvml */
    bool is_needed;
} symbols[] = {
    {"nvmlInit_v2", offsetof(struct linux_nvml, init), true},
    {"nvmlShutdown", offsetof(struct linux_nvml, shutdown), true},
    {"nvmlDeviceGetCount_v2", offsetof(struct linux_nvml, count), true},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(struct linux_nvml, device), true},
    {"nvmlDeviceGetPciInfo_v3", offsetof(struct linux_nvml, pci_info), true},
    {"nvmlDeviceGetUUID", offsetof(struct linux_nvml, uuid), true},
    {"nvmlDeviceGetCudaComputeCapability", offsetof(struct linux_nvml, capability), true},
    {"nvmlDeviceGetNvLinkState", offsetof(struct linux_nvml, link_state), true},
    {"nvmlDeviceGetNvLinkCapability", offsetof(struct linux_nvml, link_capability), true},
    {"nvmlDeviceGetNvLinkRemotePciInfo", offsetof(struct linux_nvml, link_remote), true},
    {"nvmlDeviceGetFieldValues", offsetof(struct linux_nvml, fields), true},
    {"nvmlDeviceGetGpuFabricInfoV", offsetof(struct linux_nvml, fabric), false},
};

bool linux_nvml_open(struct linux_nvml *out)
{
    *out = (struct linux_nvml){.handle = dlopen(NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL)};
    if (out->handle == NULL) {
        return false;
    }
    for (size_t i = 0; i < WEFT_LENGTH(symbols); i++) {
        void *address = dlsym(out->handle, symbols[i].name);

        if (address == NULL && symbols[i].is_needed) {
            dlclose(out->handle);
            *out = (struct linux_nvml){.handle = NULL};
            return false;
        }
        memcpy((char *)out + symbols[i].offset, &address, sizeof(address));
    }
    if (out->init() != NVML_OK) {
        dlclose(out->handle);
        *out = (struct linux_nvml){.handle = NULL};
        return false;
    }
    return true;
}

void linux_nvml_close(struct linux_nvml *nvml)
{
    if (nvml->handle != NULL) {
        nvml->shutdown();
        dlclose(nvml->handle);
    }
    *nvml = (struct linux_nvml){.handle = NULL};
}

/* Converts to lower case, because sysfs has bus ids in lower case, NVML in upper case. */
static void copy_lower(const struct nvml_pci_info *info, char *out, size_t out_bytes)
{
    size_t n = 0;

    for (; n < sizeof(info->bus_id) && info->bus_id[n] != '\0' && n + 1 < out_bytes;
         n++) {
        out[n] = (char)tolower((unsigned char)info->bus_id[n]);
    }
    out[n] = '\0';
}

static bool ask_number(const struct linux_nvml *nvml, struct nvml_device *device,
                       unsigned field, unsigned scope, unsigned *out)
{
    struct nvml_field value = {.field = field, .scope = scope};
    bool is_told = nvml->fields(device, 1, &value) == NVML_OK && value.result == NVML_OK;

    *out = is_told ? value.value.number : 0;
    return is_told;
}

/* Returns the maximum number of links of a GPU of this capability, as in NCCL. */
static unsigned links_max(int sm)
{
    return sm < 60 ? 0 : sm < 70 ? 4 : sm < 80 ? 6 : sm < 90 ? 12 : 18;
}

static bool is_link_up(const struct linux_nvml *nvml, struct nvml_device *device, int sm,
                       unsigned link)
{
    unsigned can_p2p = 0, state = 0;
    int is_enabled = 0;

    if (nvml->link_capability(device, link, NVML_CAP_P2P_SUPPORTED, &can_p2p) !=
            NVML_OK ||
        can_p2p == 0) {
        return false;
    }
    if (sm >= 90) {
        return ask_number(nvml, device, NVML_FIELD_NVLINK_STATE, link, &state) &&
               state == NVML_ENABLED;
    }
    return nvml->link_state(device, link, &is_enabled) == NVML_OK &&
           is_enabled == NVML_ENABLED;
}

/* Counts links to the same end together. */
static void learn_links(const struct linux_nvml *nvml, struct nvml_device *device,
                        struct io_gpu_facts *out)
{
    for (unsigned link = 0; link < links_max(out->sm); link++) {
        struct nvml_pci_info remote = {.bus_id = ""};
        char target[sizeof(out->nvlinks[0].target)];
        uint32_t i = 0;

        if (!is_link_up(nvml, device, out->sm, link) ||
            nvml->link_remote(device, link, &remote) != NVML_OK) {
            continue;
        }
        copy_lower(&remote, target, sizeof(target));
        while (i < out->n_nvlinks && strcmp(out->nvlinks[i].target, target) != 0) {
            i++;
        }
        if (i == out->n_nvlinks) {
            weft_format(out->nvlinks[i].target, sizeof(out->nvlinks[i].target), "%s",
                        target);
            out->n_nvlinks++;
        }
        out->nvlinks[i].count++;
    }
}

static void learn_c2c(const struct linux_nvml *nvml, struct nvml_device *device,
                      struct io_gpu_facts *out)
{
    unsigned n_links = 0;

    if (out->sm < 90 || !ask_number(nvml, device, NVML_FIELD_C2C_LINKS, 0, &n_links)) {
        return;
    }
    for (unsigned link = 0; link < n_links; link++) {
        unsigned status = 0, bw = 0;

        if (ask_number(nvml, device, NVML_FIELD_C2C_STATUS, link, &status) &&
            ask_number(nvml, device, NVML_FIELD_C2C_MAX_BW, link, &bw) && status == 1) {
            out->c2c_bw = bw;
            out->c2c_count++;
        }
    }
}

bool linux_nvml_gpu(const struct linux_nvml *nvml, unsigned index, char bus_id[16],
                    struct io_gpu_facts *out)
{
    struct nvml_device *device = NULL;
    struct nvml_pci_info info = {.bus_id = ""};
    int major = 0, minor = 0;

    if (nvml->device(index, &device) != NVML_OK ||
        nvml->pci_info(device, &info) != NVML_OK ||
        nvml->capability(device, &major, &minor) != NVML_OK) {
        return false;
    }
    copy_lower(&info, bus_id, 16);
    out->dev = (int)index;
    out->sm = major * 10 + minor;
    if (nvml->uuid(device, out->uuid, sizeof(out->uuid)) != NVML_OK) {
        out->uuid[0] = '\0';
    }
    learn_links(nvml, device, out);
    learn_c2c(nvml, device, out);
    return true;
}

static bool find_by_uuid(const struct linux_nvml *nvml, const char *uuid,
                         struct nvml_device **out)
{
    unsigned n = 0;

    if (nvml->count(&n) != NVML_OK) {
        return false;
    }
    for (unsigned i = 0; i < n; i++) {
        char name[96];

        if (nvml->device(i, out) == NVML_OK &&
            nvml->uuid(*out, name, sizeof(name)) == NVML_OK && strcmp(name, uuid) == 0) {
            return true;
        }
    }
    return false;
}

bool linux_nvml_fabric(const struct linux_nvml *nvml, const char *uuid,
                       uint8_t out_cluster[16], uint32_t *out_clique)
{
    struct nvml_fabric fabric = {.version = NVML_FABRIC_VERSION};
    struct nvml_device *device = NULL;

    if (nvml->fabric == NULL || !find_by_uuid(nvml, uuid, &device) ||
        nvml->fabric(device, &fabric) != NVML_OK ||
        fabric.state != NVML_FABRIC_COMPLETED || fabric.status != NVML_OK) {
        return false;
    }
    memcpy(out_cluster, fabric.cluster, sizeof(fabric.cluster));
    *out_clique = fabric.clique;
    return true;
}

bool linux_nvml_fabric_here(const char *uuid, uint8_t out_cluster[16],
                            uint32_t *out_clique)
{
    struct linux_nvml nvml;
    bool is_told =
        linux_nvml_open(&nvml) && linux_nvml_fabric(&nvml, uuid, out_cluster, out_clique);

    linux_nvml_close(&nvml);
    return is_told;
}
