/* Scenarios on the Linux kernel's soft-RoCE: a namespace and a process per host (backends/lab),
 * in real time. Where this kernel cannot, the whole command runs in a guest that can
 * (guest.h). */
#ifndef WEFT_BACKENDS_RXE_BACKEND_H
#define WEFT_BACKENDS_RXE_BACKEND_H

#include "backends/lab/fabric.h"

extern const struct world_ops backend_rxe;

/* WEFT_ERR_ENVIRONMENT, with what is missing, if this kernel or user cannot have RoCE
 * devices for several hosts: user, RDMA, a release that can. `out_layout`: how it can.
 * One namespace for all would take over this machine's routing, so only a guest has it. */
weft_status rxe_probe(enum lab_layout *out_layout,
                      struct weft_error *error) WEFT_MUST_CHECK;
/* WEFT_ERR_UNSUPPORTED names the first thing in `spec` that the kernel cannot express. */
weft_status rxe_can_express(const struct world_spec *spec,
                            struct weft_error *error) WEFT_MUST_CHECK;
/* The same for what only this layout cannot. */
weft_status rxe_layout_can_express(const struct world_spec *spec, enum lab_layout layout,
                                   struct weft_error *error) WEFT_MUST_CHECK;

#endif
