/* Completes topology documents that clouds ship for NCCL_TOPO_FILE. They contain PCI functions
 * only; NCCL adds the GPUs and ports that it finds on the machine. */
#ifndef WEFT_TOPO_STUB_H
#define WEFT_TOPO_STUB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

/* What was added. */
struct topo_stub {
    bool is_stub; /* the document had no `gpu`, but a bare function of class 0x03 */
    uint32_t n_gpus, n_nets;
    uint32_t n_absent; /* GPUs of the machine for which the document has no function */
    bool has_cpu;      /* some CPU had no `arch`, which was added */
    int sm;            /* sm chosen for the GPUs; 0 if there are facts */
};

/* Replaces the document in `text` by a complete one if it is a stub. `facts` is the machine's
 * document (topo_describe). If it is NULL, GPUs and ports are numbered by bus id. GPUs then
 * get the sm that the PCIe link suggests (80 below 32 GT/s, 90 at 32, 100 above), GPUDirect
 * and no NVLink. A port gets 100, 200, 400 or 800 Gbit/s, as its PCIe link permits, and CPUs
 * are Intel's Skylake. Fails with WEFT_ERR_INPUT if one of the two is no document, or the
 * machine has no GPU where the stub has one. */
weft_status topo_complete(struct weft_text *text, const struct weft_text *facts,
                          struct topo_stub *out, struct weft_error *error);

#endif
