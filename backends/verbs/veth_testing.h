/* Two hosts in namespaces, connected by a veth pair (port p0) and a management network. The test
 * selects their NICs. The kernel's are rxe devices, which need an rdma_rxe that supports
 * namespaces (7.1 or newer). */
#ifndef WEFT_BACKENDS_VERBS_VETH_TESTING_H
#define WEFT_BACKENDS_VERBS_VETH_TESTING_H

#include "backends/verbs/host.h"
#include "io/world.h"

struct veth_testing_host {
    void *host; /* Owned by the world */
    struct io_env *env;
    void (*destroy)(void *host);
};

/* Opens host `host` of `spec` in `netns`. */
typedef weft_status (*veth_testing_open)(struct linux_loop *loop,
                                         const struct world_spec *spec, uint32_t host,
                                         int netns, struct veth_testing_host *out,
                                         struct weft_error *error);
/* Opens a host with the kernel's devices, over libibverbs. */
weft_status veth_testing_open_verbs(struct linux_loop *loop,
                                    const struct world_spec *spec, uint32_t host,
                                    int netns, struct veth_testing_host *out,
                                    struct weft_error *error);

/* Set before a world is created. */
struct veth_testing {
    veth_testing_open open;
    bool has_rxe[2]; /* create an rxe device on p0 of this host */
};
extern struct veth_testing veth_testing;
extern const struct world_ops veth_testing_ops;

/* Returns false, with the reason, if the kernel has no rdma_rxe or namespaces are not
 * permitted. */
bool veth_testing_has_rxe(const char **out_why);

#endif
