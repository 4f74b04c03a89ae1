/* The tables that NCCL looks up: thin shims around plugin.h. makeVDevice is NULL, so that NCCL
 * does not fuse ports whose cables lead to different peers. */
#include <string.h>

#include "plugin/plugin.h"

#define EXPORTED __attribute__((visibility("default")))

/* ---- shims of older versions ---- */

static abi_status init_v10(abi_logger logger, abi_profiler profiler)
{
    void *context;

    return plugin_init(&context, 0, NULL, logger, profiler);
}

static abi_status init_v8(abi_logger logger)
{
    return init_v10(logger, NULL);
}

#define COPY_COMMON(to, from)                                                            \
    do {                                                                                 \
        (to)->name = (from)->name;                                                       \
        (to)->pci_path = (from)->pci_path;                                               \
        (to)->guid = (from)->guid;                                                       \
        (to)->ptr_support = (from)->ptr_support;                                         \
        (to)->reg_is_global = (from)->reg_is_global;                                     \
        (to)->speed = (from)->speed;                                                     \
        (to)->port = (from)->port;                                                       \
        (to)->latency = (from)->latency;                                                 \
        (to)->max_comms = (from)->max_comms;                                             \
        (to)->max_recvs = (from)->max_recvs;                                             \
        (to)->net_device_type = (from)->net_device_type;                                 \
        (to)->net_device_version = (from)->net_device_version;                           \
    } while (0)
#define COPY_SINCE_V9(to, from)                                                          \
    do {                                                                                 \
        COPY_COMMON(to, from);                                                           \
        (to)->force_flush = (from)->force_flush;                                         \
        (to)->vdevice.n_devices = (from)->vdevice.n_devices;                             \
        (to)->vdevice.devices[0] = (from)->vdevice.devices[0];                           \
        (to)->max_p2p_bytes = (from)->max_p2p_bytes;                                     \
        (to)->max_coll_bytes = (from)->max_coll_bytes;                                   \
    } while (0)

static abi_status properties_v8(int device, struct abi_properties_v8 *out)
{
    struct abi_properties_v12 all;
    abi_status status = plugin_properties(device, &all);

    memset(out, 0, sizeof(*out));
    COPY_COMMON(out, &all);
    return status;
}

static abi_status properties_v9(int device, struct abi_properties_v9 *out)
{
    struct abi_properties_v12 all;
    abi_status status = plugin_properties(device, &all);

    memset(out, 0, sizeof(*out));
    COPY_SINCE_V9(out, &all);
    return status;
}

static abi_status properties_v11(int device, struct abi_properties_v11 *out)
{
    struct abi_properties_v12 all;
    abi_status status = plugin_properties(device, &all);

    memset(out, 0, sizeof(*out));
    COPY_SINCE_V9(out, &all);
    out->max_multi_request_size = all.max_multi_request_size;
    return status;
}

static abi_status listen_v8(int device, void *handle, void **comm)
{
    return plugin_listen(NULL, device, handle, comm);
}

static abi_status connect_v10(int device, struct abi_config *config, void *handle,
                              void **comm, struct abi_device_handle **offload)
{
    return plugin_connect(plugin_context(config), device, handle, comm, offload);
}

static abi_status connect_v8(int device, void *handle, void **comm,
                             struct abi_device_handle **offload)
{
    return plugin_connect(NULL, device, handle, comm, offload);
}

static abi_status isend_v9(void *comm, void *data, size_t size, int tag, void *mhandle,
                           void **request)
{
    return plugin_isend(comm, data, size, tag, mhandle, NULL, request);
}

static abi_status isend_v8(void *comm, void *data, int size, int tag, void *mhandle,
                           void **request)
{
    *request = NULL;
    return size < 0 ? ABI_INVALID_ARGUMENT
                    : plugin_isend(comm, data, (size_t)size, tag, mhandle, NULL, request);
}

static abi_status irecv_v9(void *comm, int n, void **data, size_t *sizes, int *tags,
                           void **mhandles, void **request)
{
    return plugin_irecv(comm, n, data, sizes, tags, mhandles, NULL, request);
}

static abi_status irecv_v8(void *comm, int n, void **data, int *sizes, int *tags,
                           void **mhandles, void **request)
{
    size_t wide[8];

    *request = NULL;
    if (n < 1 || n > 8) {
        return ABI_INVALID_ARGUMENT;
    }
    for (int i = 0; i < n; i++) {
        if (sizes[i] < 0) {
            return ABI_INVALID_ARGUMENT;
        }
        wide[i] = (size_t)sizes[i];
    }
    return plugin_irecv(comm, n, data, wide, tags, mhandles, NULL, request);
}

/* ---- the tables ---- */

/* Members with one form in all versions. */
#define COMMON                                                                           \
    .name = PLUGIN_NAME, .devices = plugin_devices, .accept = plugin_accept,             \
    .reg_mr = plugin_reg_mr, .reg_mr_dmabuf = plugin_reg_mr_dmabuf,                      \
    .dereg_mr = plugin_dereg_mr, .iflush = plugin_iflush, .test = plugin_test,           \
    .close_send = plugin_close, .close_recv = plugin_close,                              \
    .close_listen = plugin_close_listen

extern const struct abi_net_v8 ncclNetPlugin_v8;
extern const struct abi_net_v9 ncclNetPlugin_v9;
extern const struct abi_net_v10 ncclNetPlugin_v10;
extern const struct abi_net_v11 ncclNetPlugin_v11;
extern const struct abi_net_v12 ncclNetPlugin_v12;

EXPORTED const struct abi_net_v8 ncclNetPlugin_v8 = {
    COMMON,
    .init = init_v8,
    .get_properties = properties_v8,
    .listen = listen_v8,
    .connect = connect_v8,
    .isend = isend_v8,
    .irecv = irecv_v8,
};

EXPORTED const struct abi_net_v9 ncclNetPlugin_v9 = {
    COMMON,
    .init = init_v8,
    .get_properties = properties_v9,
    .listen = listen_v8,
    .connect = connect_v8,
    .isend = isend_v9,
    .irecv = irecv_v9,
};

EXPORTED const struct abi_net_v10 ncclNetPlugin_v10 = {
    COMMON,
    .init = init_v10,
    .get_properties = properties_v9,
    .listen = listen_v8,
    .connect = connect_v10,
    .isend = plugin_isend,
    .irecv = plugin_irecv,
};

EXPORTED const struct abi_net_v11 ncclNetPlugin_v11 = {
    COMMON,
    .init = plugin_init,
    .get_properties = properties_v11,
    .listen = plugin_listen,
    .connect = plugin_connect,
    .isend = plugin_isend,
    .irecv = plugin_irecv,
    .finalize = plugin_finalize,
    .set_attributes = plugin_set_attributes,
};

EXPORTED const struct abi_net_v12 ncclNetPlugin_v12 = {
    COMMON,
    .init = plugin_init,
    .get_properties = plugin_properties,
    .listen = plugin_listen,
    .connect = plugin_connect,
    .isend = plugin_isend,
    .irecv = plugin_irecv,
    .finalize = plugin_finalize,
    .set_attributes = plugin_set_attributes,
};
