/* One interface to a plugin of any version. */
#ifndef WEFT_PLUGINCHECK_NET_H
#define WEFT_PLUGINCHECK_NET_H

#include <stdbool.h>

#include "plugin/nccl_abi.h"

struct check_net {
    unsigned version; /* 8 to 12 */
    bool is_init;     /* init has succeeded once, and the members below are valid */
    const char *name;
    union {
        const void *any;
        const struct abi_net_v8 *v8;
        const struct abi_net_v9 *v9;
        const struct abi_net_v10 *v10;
        const struct abi_net_v11 *v11;
        const struct abi_net_v12 *v12;
    } table;
    /* Same type in all versions. */
    abi_status (*devices)(int *n);
    abi_status (*accept)(void *listener, void **comm,
                         struct abi_device_handle **device_comm);
    ABI_FUNCTIONS_MEMORY
    ABI_FUNCTIONS_END
};

/* Takes the table of `version` at `symbol`, of which NCCL reads only name and init before it
 * calls init (ncclNetPluginLoad). Returns the missing member, or NULL. */
const char *check_net_take(struct check_net *net, unsigned version, const void *symbol);

/* Calls init as NCCL does: one call at a time in a process (netPluginMutex); from v11 on for
 * every communicator; with an older table once (refCount in plugin/net/net_v10.cc). Copies the
 * other functions after the first success. Callable from any thread. Before v11 *out_context is
 * NULL. *out_is_first is true if init had not succeeded before. *out_missing is a function that
 * the table lacks after init, or NULL. */
abi_status check_net_init(struct check_net *net, uint64_t comm_id, abi_logger logger,
                          void **out_context, bool *out_is_first,
                          const char **out_missing);
abi_status check_net_finalize(const struct check_net *net, void *context);
/* Fields that the version does not have are 0, but max_p2p_bytes is ABI_SIZE_MAX_V8, and rail_id
 * and plane_id are ABI_UNDEFINED. */
abi_status check_net_properties(const struct check_net *net, int device,
                                struct abi_properties_v12 *out);
abi_status check_net_listen(const struct check_net *net, void *context, int device,
                            void *handle, void **comm);
abi_status check_net_connect(const struct check_net *net, void *context, int device,
                             void *handle, void **comm);
abi_status check_net_isend(const struct check_net *net, void *comm, void *data,
                           size_t size, int tag, void *mhandle, void **request);
abi_status check_net_irecv(const struct check_net *net, void *comm, int n, void **data,
                           const size_t *sizes, int *tags, void **mhandles,
                           void **request);

#endif
