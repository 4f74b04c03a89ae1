/* The reference plugin's last part: its tables for every version, each with its own arguments. */
#ifndef REFERENCE_TABLES_H
#define REFERENCE_TABLES_H

#include "reference_data.h"

static abi_status init_v10(abi_logger logger, abi_profiler profiler)
{
    (void)profiler;
    log_to = logger;
    return ABI_SUCCESS;
}

static abi_status init_v9(abi_logger logger)
{
    return init_v10(logger, NULL);
}

static abi_status properties_v9(int device, struct abi_properties_v9 *out)
{
    struct abi_properties_v12 all;

    memset(out, 0, sizeof(*out));
    ref_properties(device, &all);
    COPY(out, &all);
    out->max_p2p_bytes = out->max_coll_bytes = all.max_p2p_bytes;
    return ABI_SUCCESS;
}

static abi_status properties_v8(int device, struct abi_properties_v8 *out)
{
    struct abi_properties_v12 all;

    memset(out, 0, sizeof(*out));
    ref_properties(device, &all);
    COPY(out, &all);
    return ABI_SUCCESS;
}

static abi_status listen_v10(int device, void *handle, void **out)
{
    return ref_listen(NULL, device, handle, out);
}

static abi_status connect_v10(int device, struct abi_config *config, void *handle,
                              void **out, struct abi_device_handle **offload)
{
    (void)config;
    return ref_connect(NULL, device, handle, out, offload);
}

static abi_status connect_v9(int device, void *handle, void **out,
                             struct abi_device_handle **offload)
{
    return ref_connect(NULL, device, handle, out, offload);
}

static abi_status isend_v9(void *comm, void *data, size_t size, int tag, void *mhandle,
                           void **out)
{
    return ref_isend(comm, data, size, tag, mhandle, NULL, out);
}

static abi_status isend_v8(void *comm, void *data, int size, int tag, void *mhandle,
                           void **out)
{
    return ref_isend(comm, data, (size_t)size, tag, mhandle, NULL, out);
}

static abi_status irecv_v9(void *comm, int n, void **data, size_t *sizes, int *tags,
                           void **mhandles, void **out)
{
    return ref_irecv(comm, n, data, sizes, tags, mhandles, NULL, out);
}

static abi_status irecv_v8(void *comm, int n, void **data, int *sizes, int *tags,
                           void **mhandles, void **out)
{
    size_t wide[GROUP_MAX];

    for (int i = 0; i < n; i++) {
        wide[i] = (size_t)sizes[i];
    }
    return ref_irecv(comm, n, data, wide, tags, mhandles, NULL, out);
}

const struct abi_net_v8 ncclNetPlugin_v8 = {REST,
                                            .init = init_v9,
                                            .get_properties = properties_v8,
                                            .listen = listen_v10,
                                            .connect = connect_v9,
                                            .isend = isend_v8,
                                            .irecv = irecv_v8};
const struct abi_net_v9 ncclNetPlugin_v9 = {REST,
                                            .init = init_v9,
                                            .get_properties = properties_v9,
                                            .listen = listen_v10,
                                            .connect = connect_v9,
                                            .isend = isend_v9,
                                            .irecv = irecv_v9};
const struct abi_net_v10 ncclNetPlugin_v10 = {REST,
                                              .init = init_v10,
                                              .get_properties = properties_v9,
                                              .listen = listen_v10,
                                              .connect = connect_v10,
                                              .isend = ref_isend,
                                              .irecv = ref_irecv};
const struct abi_net_v11 ncclNetPlugin_v11 = {SINCE_V11(ref_properties_v11)};
const struct abi_net_v12 ncclNetPlugin_v12 = {SINCE_V11(ref_properties)};

#endif
