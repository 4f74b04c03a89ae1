/* Checks the layout of the plugin interface on LP64 machines (x86-64 and arm64). */
#include "plugin/nccl_abi.h"

#define AT(type, field, offset)                                                          \
    _Static_assert(offsetof(struct type, field) == (offset), #type "." #field)
#define SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type)
#define FUNCTION(type, field, index) AT(type, field, (index) * sizeof(void *))

_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8 && sizeof(int) == 4, "LP64");

SIZE(abi_device_handle, 32);
AT(abi_device_handle, handle, 8);
AT(abi_device_handle, needs_proxy_progress, 24);

SIZE(abi_properties_v8, 64);
AT(abi_properties_v8, guid, 16);
AT(abi_properties_v8, ptr_support, 24);
AT(abi_properties_v8, reg_is_global, 28);
AT(abi_properties_v8, speed, 32);
AT(abi_properties_v8, port, 36);
AT(abi_properties_v8, latency, 40);
AT(abi_properties_v8, max_comms, 44);
AT(abi_properties_v8, max_recvs, 48);
AT(abi_properties_v8, net_device_type, 52);
AT(abi_properties_v8, net_device_version, 56);

#define SINCE_V9(type)                                                                   \
    AT(type, guid, 16);                                                                  \
    AT(type, ptr_support, 24);                                                           \
    AT(type, reg_is_global, 28);                                                         \
    AT(type, force_flush, 32);                                                           \
    AT(type, speed, 36);                                                                 \
    AT(type, port, 40);                                                                  \
    AT(type, latency, 44);                                                               \
    AT(type, max_comms, 48);                                                             \
    AT(type, max_recvs, 52);                                                             \
    AT(type, net_device_type, 56);                                                       \
    AT(type, net_device_version, 60);                                                    \
    AT(type, vdevice, 64)

SINCE_V9(abi_properties_v9);
SIZE(abi_properties_v9, 104);
AT(abi_properties_v9, max_p2p_bytes, 88);
AT(abi_properties_v9, max_coll_bytes, 96);

SINCE_V9(abi_properties_v11);
SIZE(abi_properties_v11, 112);
AT(abi_properties_v11, max_p2p_bytes, 88);
AT(abi_properties_v11, max_coll_bytes, 96);
AT(abi_properties_v11, max_multi_request_size, 104);

SINCE_V9(abi_properties_v12);
SIZE(abi_properties_v12, 128);
AT(abi_properties_v12, max_p2p_bytes, 104);
AT(abi_properties_v12, max_coll_bytes, 112);
AT(abi_properties_v12, max_multi_request_size, 120);
AT(abi_properties_v12, rail_id, 124);
AT(abi_properties_v12, plane_id, 126);

SIZE(abi_vdevice_v9, 20);
SIZE(abi_vdevice_v12, 36);
SIZE(abi_config, 4);
SIZE(abi_attributes, 44);
AT(abi_attributes, receive, 16);
AT(abi_attributes, operation, 32);

#define FUNCTIONS(type)                                                                  \
    FUNCTION(type, init, 1);                                                             \
    FUNCTION(type, devices, 2);                                                          \
    FUNCTION(type, get_properties, 3);                                                   \
    FUNCTION(type, listen, 4);                                                           \
    FUNCTION(type, connect, 5);                                                          \
    FUNCTION(type, accept, 6);                                                           \
    FUNCTION(type, reg_mr, 7);                                                           \
    FUNCTION(type, reg_mr_dmabuf, 8);                                                    \
    FUNCTION(type, dereg_mr, 9);                                                         \
    FUNCTION(type, isend, 10);                                                           \
    FUNCTION(type, irecv, 11);                                                           \
    FUNCTION(type, iflush, 12);                                                          \
    FUNCTION(type, test, 13);                                                            \
    FUNCTION(type, close_send, 14);                                                      \
    FUNCTION(type, close_recv, 15);                                                      \
    FUNCTION(type, close_listen, 16);                                                    \
    FUNCTION(type, get_device_mr, 17);                                                   \
    FUNCTION(type, irecv_consumed, 18)

FUNCTIONS(abi_net_v8);
SIZE(abi_net_v8, 19 * sizeof(void *));
FUNCTIONS(abi_net_v9);
FUNCTION(abi_net_v9, make_vdevice, 19);
SIZE(abi_net_v9, 20 * sizeof(void *));
FUNCTIONS(abi_net_v10);
FUNCTION(abi_net_v10, make_vdevice, 19);
SIZE(abi_net_v10, 20 * sizeof(void *));
FUNCTIONS(abi_net_v11);
FUNCTION(abi_net_v11, make_vdevice, 19);
FUNCTION(abi_net_v11, finalize, 20);
FUNCTION(abi_net_v11, set_attributes, 21);
SIZE(abi_net_v11, 22 * sizeof(void *));
FUNCTIONS(abi_net_v12);
FUNCTION(abi_net_v12, make_vdevice, 19);
FUNCTION(abi_net_v12, finalize, 20);
FUNCTION(abi_net_v12, set_attributes, 21);
SIZE(abi_net_v12, 22 * sizeof(void *));
