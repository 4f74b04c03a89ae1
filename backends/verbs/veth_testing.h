/* Two hosts in namespaces, a veth pair (port p0) and a management network between them; what
 * NICs they have is the test's to say. The kernel's are rxe devices: that needs rdma_rxe that
 * knows namespaces (7.1 or newer). */
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
/* Of the kernel's devices: over libibverbs. */
weft_status veth_testing_open_verbs(struct linux_loop *loop,
                                    const struct world_spec *spec, uint32_t host,
                                    int netns, struct veth_testing_host *out,
                                    struct weft_error *error);

/* Before a world is made. */
struct veth_testing {
    veth_testing_open open;
    bool has_rxe[2]; /* which hosts' p0 gets an rxe device */
};
extern struct veth_testing veth_testing;
extern const struct world_ops veth_testing_ops;

/* False, with the reason: the kernel has none, or there may be no namespaces. */
bool veth_testing_has_rxe(const char **out_why);

#endif
