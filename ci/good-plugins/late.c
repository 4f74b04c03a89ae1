/* The reference plugin with tables that hold only name and init until init has run, as those of
 * nccl-rdma-sharp-plugins do, and whose init of a table before v11 may be called only once. */
#define ncclNetPlugin_v8 whole_v8
#define ncclNetPlugin_v9 whole_v9
#define ncclNetPlugin_v10 whole_v10
#define ncclNetPlugin_v11 whole_v11
#define ncclNetPlugin_v12 whole_v12
#include "reference.c"
#undef ncclNetPlugin_v8
#undef ncclNetPlugin_v9
#undef ncclNetPlugin_v10
#undef ncclNetPlugin_v11
#undef ncclNetPlugin_v12

/* A second call of an old init finds the table filled. */
#define LATE_OLD(version, parameters, arguments)                                         \
    static abi_status late_v##version parameters;                                        \
    struct abi_net_v##version ncclNetPlugin_v##version = {.name = "Late",                \
                                                          .init = late_v##version};      \
    static abi_status late_v##version parameters                                         \
    {                                                                                    \
        if (ncclNetPlugin_v##version.devices != NULL) {                                  \
            return ABI_INVALID_USAGE;                                                    \
        }                                                                                \
        ncclNetPlugin_v##version = whole_v##version;                                     \
        ncclNetPlugin_v##version.init = late_v##version;                                 \
        return whole_v##version.init arguments;                                          \
    }

LATE_OLD(8, (abi_logger logger), (logger))
LATE_OLD(9, (abi_logger logger), (logger))
LATE_OLD(10, (abi_logger logger, abi_profiler profiler), (logger, profiler))

#define LATE(version)                                                                    \
    static abi_status late_v##version(void **context, uint64_t id,                       \
                                      struct abi_config *config, abi_logger logger,      \
                                      abi_profiler profiler);                            \
    struct abi_net_v##version ncclNetPlugin_v##version = {.name = "Late",                \
                                                          .init = late_v##version};      \
    static abi_status late_v##version(void **context, uint64_t id,                       \
                                      struct abi_config *config, abi_logger logger,      \
                                      abi_profiler profiler)                             \
    {                                                                                    \
        if (ncclNetPlugin_v##version.devices == NULL) {                                  \
            ncclNetPlugin_v##version = whole_v##version;                                 \
            ncclNetPlugin_v##version.init = late_v##version;                             \
        }                                                                                \
        return whole_v##version.init(context, id, config, logger, profiler);             \
    }

LATE(11)
LATE(12)
