/* Completes topology documents that clouds ship for NCCL_TOPO_FILE. They contain PCI functions
 * only; NCCL adds the GPUs and ports that it finds on the machine. */
#ifndef WEFT_NCCL_STUB_H
#define WEFT_NCCL_STUB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

/* Additions to a document, and facts that it lacked. */
struct topo_stub {
    bool is_stub;  /* no GPU of the document has a rank, but it has functions for GPUs */
    bool has_gpus; /* it has `gpu` elements */
    bool
        is_guessed; /* functions without a class count as GPUs, because there are no others */
    bool has_cpu;  /* something was added that identifies a CPU */
    bool has_link; /* the speed or width of a PCIe link was missing */
    uint32_t n_gpus, n_nets;
    uint32_t n_added; /* functions of the machine that the document does not have */
    int sm;           /* sm chosen for the GPUs; 0 if there are facts */
};

/* Replaces the document in `text` by a complete one if it is a stub. `facts` is the machine's
 * document (topo_describe). Functions that only the machine has are added, and those that it does
 * not have are removed, as NCCL does. If `facts` is NULL, GPUs and ports are numbered by bus id.
 * Each GPU gets what it lacks of these: the sm that its PCIe link suggests (80 below 32 GT/s, 90 at
 * 32, 100 above), GPUDirect and no NVLink. A port gets 100, 200, 400 or 800 Gbit/s, as its PCIe
 * link permits, and CPUs are Intel's Skylake. A link without speed and width has 8 GT/s and 16
 * lanes, as in NCCL. Fails with WEFT_ERR_INPUT if one of the two is no document, or if the machine
 * has no GPU where the stub has one. */
weft_status topo_complete(struct weft_text *text, const struct weft_text *facts,
                          struct topo_stub *out, struct weft_error *error);

#endif
