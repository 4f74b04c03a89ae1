/* Scenarios on the Linux kernel's soft-RoCE: a namespace and a process per host (backends/lab),
 * in real time. If this kernel does not support that, the whole command runs in a guest kernel
 * (guest.h). */
#ifndef WEFT_BACKENDS_RXE_BACKEND_H
#define WEFT_BACKENDS_RXE_BACKEND_H

#include "backends/lab/fabric.h"

extern const struct world_ops backend_rxe;

/* Checks that this kernel and this user can have RoCE devices for several hosts; `*out_layout` is
 * how. LAB_ONE_NAMESPACE is for guests only, because it would take over this machine's routing.
 * Fails with WEFT_ERR_ENVIRONMENT, naming what is missing: RDMA, a kernel release, root. */
weft_status rxe_probe(enum lab_layout *out_layout,
                      struct weft_error *error) WEFT_MUST_CHECK;
/* Fails with WEFT_ERR_UNSUPPORTED, naming the first thing in `spec` that the kernel cannot
 * express. */
weft_status rxe_can_express(const struct world_spec *spec,
                            struct weft_error *error) WEFT_MUST_CHECK;
/* Like rxe_can_express(), for what only this layout cannot express. */
weft_status rxe_layout_can_express(const struct world_spec *spec, enum lab_layout layout,
                                   struct weft_error *error) WEFT_MUST_CHECK;

#endif
