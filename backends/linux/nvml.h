/* NVIDIA's management library, opened at run time. Declares only what is called, after its
 * reference manual (NVML API Reference). */
#ifndef WEFT_BACKENDS_LINUX_NVML_H
#define WEFT_BACKENDS_LINUX_NVML_H

#include <stdbool.h>

#include "io/machine.h"

#define NVML_LIBRARY "libnvidia-ml.so.1"

struct nvml_device;

/* nvmlPciInfo_t of any version: the bus id comes first, the rest is not read. */
struct nvml_pci_info {
    char bus_id[16]; /* "0000:07:00.0" */
    char rest[112];
};

/* nvmlFieldValue_t */
struct nvml_field {
    unsigned field, scope;
    long long timestamp, latency_us;
    int value_type;
    int result;
    union {
        unsigned number;
        unsigned long long widest;
    } value;
};

/* nvmlGpuFabricInfo_v2_t */
struct nvml_fabric {
    unsigned version;
    unsigned char cluster[16];
    int status; /* result of the registration; valid once it is completed */
    unsigned clique;
    unsigned char state;
    unsigned health;
};

enum {
    NVML_OK = 0,
    NVML_ENABLED = 1,
    NVML_CAP_P2P_SUPPORTED = 0,
    NVML_FIELD_NVLINK_STATE = 165,
    NVML_FIELD_C2C_LINKS = 170,
    NVML_FIELD_C2C_STATUS = 171,
    NVML_FIELD_C2C_MAX_BW = 172,
    NVML_FABRIC_COMPLETED = 3,
    NVML_FABRIC_VERSION = 0x02000024 /* version and size of the struct above */
};

/* Entry points. Each returns NVML_OK or an error. The last can be NULL, because older drivers do
 * not have it. */
struct linux_nvml {
    void *handle; /* Owned, or NULL */
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *out);
    int (*device)(unsigned index, struct nvml_device **out);
    int (*pci_info)(struct nvml_device *device, struct nvml_pci_info *out);
    int (*uuid)(struct nvml_device *device, char *out, unsigned n_bytes);
    int (*capability)(struct nvml_device *device, int *out_major, int *out_minor);
    int (*link_state)(struct nvml_device *device, unsigned link, int *out);
    int (*link_capability)(struct nvml_device *device, unsigned link, int capability,
                           unsigned *out);
    int (*link_remote)(struct nvml_device *device, unsigned link,
                       struct nvml_pci_info *out);
    int (*fields)(struct nvml_device *device, int n, struct nvml_field *fields);
    int (*fabric)(struct nvml_device *device, struct nvml_fabric *out);
};

/* Returns false if the library or the driver is missing, which is not an error. */
bool linux_nvml_open(struct linux_nvml *out);
void linux_nvml_close(struct linux_nvml *nvml);

/* Reads what NVML reports about a GPU and its links, except PCI facts. Returns false on
 * failure. */
bool linux_nvml_gpu(const struct linux_nvml *nvml, unsigned index, char bus_id[16],
                    struct io_gpu_facts *out);

/* Reads the NVLink fabric that the GPU with this UUID has joined: its cluster, and the clique of
 * GPUs that reach each other. Returns false and writes nothing if there is none or it is
 * unknown. */
bool linux_nvml_fabric(const struct linux_nvml *nvml, const char *uuid,
                       uint8_t out_cluster[16], uint32_t *out_clique);
/* Like linux_nvml_fabric(), with this machine's NVML. */
bool linux_nvml_fabric_here(const char *uuid, uint8_t out_cluster[16],
                            uint32_t *out_clique);

#endif
