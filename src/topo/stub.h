/* Completes topology documents that clouds ship for NCCL_TOPO_FILE: PCI functions only, without the
 * GPUs and ports on them, which NCCL adds from what it finds on the machine. */
#ifndef WEFT_TOPO_STUB_H
#define WEFT_TOPO_STUB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

/* What was added. */
struct topo_stub {
    bool is_stub; /* there was no `gpu`, but a function of class 0x03 */
    uint32_t n_gpus, n_nets;
    uint32_t n_absent; /* GPUs of the machine that the document has no function for */
    bool has_cpu;      /* a CPU had no `arch` */
    int sm;            /* of the GPUs, by default; 0 with facts */
};

/* Replaces the document in `text` by a complete one if it is a stub. `facts` is the document of the
 * machine that it is for (topo_describe), or NULL: then GPUs and ports are by bus id, GPUs have the
 * sm of what the PCIe link suggests (80 to 16 GT/s, 90 at 32, 100 above) and GPUDirect, no GPU has
 * an NVLink, a port has 100, 200, 400 or 800 Gbit/s, what its PCIe link carries, and CPUs are
 * Intel's Skylake. WEFT_ERR_INPUT: one of the two is no document, or the machine has no GPU where
 * the stub has one. */
weft_status topo_complete(struct weft_text *text, const struct weft_text *facts,
                          struct topo_stub *out, struct weft_error *error);

#endif
