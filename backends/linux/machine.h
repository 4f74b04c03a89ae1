/* What is inside this machine, from sysfs, /proc and NVML; or inside another one, from a copy of
 * its sysfs and /proc. */
#ifndef WEFT_BACKENDS_LINUX_MACHINE_H
#define WEFT_BACKENDS_LINUX_MACHINE_H

#include "backends/linux/nvml.h"

struct linux_machine_config {
    const char *root; /* what stands before /sys and /proc; "": this machine */
    const struct linux_nvml *nvml; /* NULL: there is none */
};

/* What cannot be read is unknown. GPUs are NVML's, which says their order, links and compute
 * capability. Without it they are NVIDIA's PCI functions by bus id, whose capability follows
 * from the device id, and of whose links nothing is known. io_machine_fini. */
void linux_machine_read(const struct linux_machine_config *config,
                        struct io_machine *out);
/* This machine, with NVML if it is there. */
void linux_machine_read_own(struct io_machine *out);

#endif
