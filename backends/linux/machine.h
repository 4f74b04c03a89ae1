/* Hardware inside this machine, from sysfs, /proc and NVML; or inside another machine, from a
 * copy of its sysfs and /proc. */
#ifndef WEFT_BACKENDS_LINUX_MACHINE_H
#define WEFT_BACKENDS_LINUX_MACHINE_H

#include "backends/linux/nvml.h"

struct linux_machine_config {
    const char *root;              /* prefix of /sys and /proc; "" for this machine */
    const struct linux_nvml *nvml; /* NULL if not available */
};

/* Reads the facts; what cannot be read is unknown. GPUs come from NVML, with their order, links
 * and compute capability. Without NVML they are NVIDIA's PCI functions in the order of bus ids;
 * their capability is derived from the device id, and their links are unknown. The caller frees
 * `*out` with io_machine_fini(). */
void linux_machine_read(const struct linux_machine_config *config,
                        struct io_machine *out);
/* Reads the facts of this machine, with NVML if it is available. */
void linux_machine_read_own(struct io_machine *out);

#endif
