/* A net plugin that keeps the contract, over TCP on the loopback: what `weft plugin-check` is
 * tried on. Nothing for use. The plugins of ci/bad-plugins include it and break one thing each. */
#define _GNU_SOURCE
#include "reference_data.h"
#include "reference_setup.h"

#define COPY(to, from)                                                                   \
    ((to)->name = (from)->name, (to)->pci_path = (from)->pci_path,                       \
     (to)->guid = (from)->guid, (to)->ptr_support = (from)->ptr_support,                 \
     (to)->reg_is_global = (from)->reg_is_global, (to)->speed = (from)->speed,           \
     (to)->port = (from)->port, (to)->latency = (from)->latency,                         \
     (to)->max_comms = (from)->max_comms, (to)->max_recvs = (from)->max_recvs,           \
     (to)->net_device_type = (from)->net_device_type,                                    \
     (to)->net_device_version = (from)->net_device_version)

__attribute__((unused)) static abi_status
ref_properties_v11(int device, struct abi_properties_v11 *out)
{
    struct abi_properties_v12 all;

    memset(out, 0, sizeof(*out));
    ref_properties(device, &all);
    COPY(out, &all);
    out->vdevice.n_devices = 1;
    out->vdevice.devices[0] = device;
    out->max_p2p_bytes = out->max_coll_bytes = all.max_p2p_bytes;
    out->max_multi_request_size = 1;
    return ABI_SUCCESS;
}

#define REST                                                                             \
    .accept = ref_accept, .reg_mr = ref_reg_mr, .reg_mr_dmabuf = ref_reg_mr_dmabuf,      \
    .dereg_mr = ref_dereg_mr, .iflush = ref_iflush, .test = ref_test,                    \
    .close_send = ref_close, .close_recv = ref_close, .close_listen = ref_close_listen,  \
    .devices = ref_devices, .name = "Reference"

/* Versions 11 and 12 differ in what they report of a device. */
#define SINCE_V11(properties)                                                            \
    REST, .init = ref_init, .get_properties = properties, .listen = ref_listen,          \
          .connect = ref_connect, .isend = ref_isend, .irecv = ref_irecv,                \
          .finalize = ref_finalize

__attribute__((unused)) static const struct abi_net_v11 reference_v11 = {
    SINCE_V11(ref_properties_v11)};

#ifndef BAD_PLUGIN

#include "reference_tables.h"

#else

/* A copy of the table for a plugin to spoil, in a function that follows. */
#define SPOIL(net)                                                                       \
    struct abi_net_v11 ncclNetPlugin_v11;                                                \
    static void spoil_it(struct abi_net_v11 *net);                                       \
    __attribute__((constructor)) static void spoil(void)                                 \
    {                                                                                    \
        ncclNetPlugin_v11 = reference_v11;                                               \
        spoil_it(&ncclNetPlugin_v11);                                                    \
    }                                                                                    \
    static void spoil_it(struct abi_net_v11 *net)

#endif
