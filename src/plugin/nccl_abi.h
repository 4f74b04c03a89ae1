/* The binary interface between NCCL and a net plugin, in Weft's own declarations: the tables
 * `ncclNetPlugin_v8` to `_v12` that NCCL looks up, and their types. nccl_abi.c checks the layout
 * field by field.
 *
 *   v8    sizes are int
 *   v9    isend and irecv take size_t; forceFlush, vProps and limits in the properties;
 *         makeVDevice
 *   v10   profiler callback and handles; a config (traffic class) for each connect
 *   v11   a context for each communicator, from init to finalize; setNetAttr;
 *         maxMultiRequestSize
 *   v12   up to 8 devices fused; railId, planeId
 *
 * Source: the interface facts of NCCL 2.25 to 2.30. */
#ifndef WEFT_PLUGIN_NCCL_ABI_H
#define WEFT_PLUGIN_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

enum abi_result {
    ABI_SUCCESS = 0,
    ABI_UNHANDLED_CUDA_ERROR = 1,
    ABI_SYSTEM_ERROR = 2,
    ABI_INTERNAL_ERROR = 3,
    ABI_INVALID_ARGUMENT = 4,
    ABI_INVALID_USAGE = 5,
    ABI_REMOTE_ERROR = 6,
    ABI_IN_PROGRESS = 7
};
/* enum abi_result, returned by every function of a table */
typedef int abi_status;

#define ABI_HANDLE_BYTES 128
#define ABI_REQUESTS_MAX 32 /* open on a comm; multiplied by maxRecvs for a sender */
#define ABI_PTR_HOST 1
#define ABI_PTR_CUDA 2
#define ABI_PTR_DMABUF 4
/* *request on entry of irecv: the completion will not be tested (v9 and later) */
#define ABI_OPTIONAL_RECEIVE 0x1
#define ABI_DEVICE_HOST 0
#define ABI_P2P_BYTES_MAX (UINT64_C(1) << 40) /* upper limit of maxP2pBytes */
#define ABI_SIZE_MAX_V8 (UINT64_C(1) << 30)   /* maximum size of a message, up to v8 */
#define ABI_UNDEFINED (-1)                    /* traffic class, rail, plane */

/* Levels of NCCL's logger. */
enum abi_log_level {
    ABI_LOG_NONE = 0,
    ABI_LOG_VERSION = 1,
    ABI_LOG_WARN = 2,
    ABI_LOG_INFO = 3,
    ABI_LOG_ABORT = 4,
    ABI_LOG_TRACE = 5
};
#define ABI_SUBSYSTEM_INIT 0x1ul
#define ABI_SUBSYSTEM_NET 0x10ul
typedef void (*abi_logger)(int level, unsigned long subsystems, const char *file,
                           int line, const char *format, ...);
typedef abi_status (*abi_profiler)(void **event, int type, void *parent,
                                   int64_t plugin_id, void *extra);

/* Device offload to the GPU; unused by plugins of type ABI_DEVICE_HOST. */
struct abi_device_handle {
    int type, version;
    void *handle;
    size_t size;
    int needs_proxy_progress;
};

struct abi_properties_v8 {
    char *name;
    char *pci_path; /* sysfs path of the PCI function; NULL if none */
    uint64_t guid;  /* equal guids mean the same port */
    int ptr_support;
    int reg_is_global;
    int speed; /* Mbit/s */
    int port;
    float latency; /* us */
    int max_comms;
    int max_recvs; /* maximum number of buffers of a grouped receive */
    int net_device_type, net_device_version;
};

struct abi_vdevice_v9 {
    int n_devices;
    int devices[4];
};

struct abi_properties_v9 { /* and v10 */
    char *name;
    char *pci_path;
    uint64_t guid;
    int ptr_support;
    int reg_is_global;
    int force_flush;
    int speed;
    int port;
    float latency;
    int max_comms;
    int max_recvs;
    int net_device_type, net_device_version;
    struct abi_vdevice_v9 vdevice;
    size_t max_p2p_bytes;
    size_t max_coll_bytes;
};

struct abi_properties_v11 {
    char *name;
    char *pci_path;
    uint64_t guid;
    int ptr_support;
    int reg_is_global;
    int force_flush;
    int speed;
    int port;
    float latency;
    int max_comms;
    int max_recvs;
    int net_device_type, net_device_version;
    struct abi_vdevice_v9 vdevice;
    size_t max_p2p_bytes;
    size_t max_coll_bytes;
    int max_multi_request_size;
};

struct abi_vdevice_v12 {
    int n_devices;
    int devices[8];
};

struct abi_properties_v12 {
    char *name;
    char *pci_path;
    uint64_t guid;
    int ptr_support;
    int reg_is_global;
    int force_flush;
    int speed;
    int port;
    float latency;
    int max_comms;
    int max_recvs;
    int net_device_type, net_device_version;
    struct abi_vdevice_v12 vdevice;
    size_t max_p2p_bytes;
    size_t max_coll_bytes;
    int max_multi_request_size;
    int16_t rail_id;
    int16_t plane_id;
};

/* For a connection (v10) or a communicator (v11). */
struct abi_config {
    int traffic_class;
};

struct abi_attributes_of_comm {
    int32_t max_concurrent_peers, min_concurrent_peers;
    int32_t max_flows_per_peer, min_flows_per_peer;
};

struct abi_attributes {
    struct abi_attributes_of_comm send, receive;
    uint32_t operation, algorithm, protocol;
};

/* Functions with the same type in all versions, in the order of the tables. */
#define ABI_FUNCTIONS_MEMORY                                                             \
    abi_status (*reg_mr)(void *comm, void *data, size_t size, int type, void **mhandle); \
    abi_status (*reg_mr_dmabuf)(void *comm, void *data, size_t size, int type,           \
                                uint64_t offset, int fd, void **mhandle);                \
    abi_status (*dereg_mr)(void *comm, void *mhandle);
#define ABI_FUNCTIONS_END                                                                \
    abi_status (*iflush)(void *comm, int n, void **data, int *sizes, void **mhandles,    \
                         void **request);                                                \
    abi_status (*test)(void *request, int *done, int *sizes);                            \
    abi_status (*close_send)(void *comm);                                                \
    abi_status (*close_recv)(void *comm);                                                \
    abi_status (*close_listen)(void *comm);                                              \
    abi_status (*get_device_mr)(void *comm, void *mhandle, void **device_mhandle);       \
    abi_status (*irecv_consumed)(void *comm, int n, void *request);

struct abi_net_v8 {
    const char *name;
    abi_status (*init)(abi_logger logger);
    abi_status (*devices)(int *n);
    abi_status (*get_properties)(int device, struct abi_properties_v8 *out);
    abi_status (*listen)(int device, void *handle, void **comm);
    abi_status (*connect)(int device, void *handle, void **comm,
                          struct abi_device_handle **device_comm);
    abi_status (*accept)(void *listener, void **comm,
                         struct abi_device_handle **device_comm);
    ABI_FUNCTIONS_MEMORY
    abi_status (*isend)(void *comm, void *data, int size, int tag, void *mhandle,
                        void **request);
    abi_status (*irecv)(void *comm, int n, void **data, int *sizes, int *tags,
                        void **mhandles, void **request);
    ABI_FUNCTIONS_END
};

struct abi_net_v9 {
    const char *name;
    abi_status (*init)(abi_logger logger);
    abi_status (*devices)(int *n);
    abi_status (*get_properties)(int device, struct abi_properties_v9 *out);
    abi_status (*listen)(int device, void *handle, void **comm);
    abi_status (*connect)(int device, void *handle, void **comm,
                          struct abi_device_handle **device_comm);
    abi_status (*accept)(void *listener, void **comm,
                         struct abi_device_handle **device_comm);
    ABI_FUNCTIONS_MEMORY
    abi_status (*isend)(void *comm, void *data, size_t size, int tag, void *mhandle,
                        void **request);
    abi_status (*irecv)(void *comm, int n, void **data, size_t *sizes, int *tags,
                        void **mhandles, void **request);
    ABI_FUNCTIONS_END
    abi_status (*make_vdevice)(int *device, struct abi_vdevice_v9 *properties);
};

struct abi_net_v10 {
    const char *name;
    abi_status (*init)(abi_logger logger, abi_profiler profiler);
    abi_status (*devices)(int *n);
    abi_status (*get_properties)(int device, struct abi_properties_v9 *out);
    abi_status (*listen)(int device, void *handle, void **comm);
    abi_status (*connect)(int device, struct abi_config *config, void *handle,
                          void **comm, struct abi_device_handle **device_comm);
    abi_status (*accept)(void *listener, void **comm,
                         struct abi_device_handle **device_comm);
    ABI_FUNCTIONS_MEMORY
    abi_status (*isend)(void *comm, void *data, size_t size, int tag, void *mhandle,
                        void *event, void **request);
    abi_status (*irecv)(void *comm, int n, void **data, size_t *sizes, int *tags,
                        void **mhandles, void **events, void **request);
    ABI_FUNCTIONS_END
    abi_status (*make_vdevice)(int *device, struct abi_vdevice_v9 *properties);
};

struct abi_net_v11 {
    const char *name;
    abi_status (*init)(void **context, uint64_t comm_id, struct abi_config *config,
                       abi_logger logger, abi_profiler profiler);
    abi_status (*devices)(int *n);
    abi_status (*get_properties)(int device, struct abi_properties_v11 *out);
    abi_status (*listen)(void *context, int device, void *handle, void **comm);
    abi_status (*connect)(void *context, int device, void *handle, void **comm,
                          struct abi_device_handle **device_comm);
    abi_status (*accept)(void *listener, void **comm,
                         struct abi_device_handle **device_comm);
    ABI_FUNCTIONS_MEMORY
    abi_status (*isend)(void *comm, void *data, size_t size, int tag, void *mhandle,
                        void *event, void **request);
    abi_status (*irecv)(void *comm, int n, void **data, size_t *sizes, int *tags,
                        void **mhandles, void **events, void **request);
    ABI_FUNCTIONS_END
    abi_status (*make_vdevice)(int *device, struct abi_vdevice_v9 *properties);
    abi_status (*finalize)(void *context);
    abi_status (*set_attributes)(void *context, struct abi_attributes *attributes);
};

struct abi_net_v12 {
    const char *name;
    abi_status (*init)(void **context, uint64_t comm_id, struct abi_config *config,
                       abi_logger logger, abi_profiler profiler);
    abi_status (*devices)(int *n);
    abi_status (*get_properties)(int device, struct abi_properties_v12 *out);
    abi_status (*listen)(void *context, int device, void *handle, void **comm);
    abi_status (*connect)(void *context, int device, void *handle, void **comm,
                          struct abi_device_handle **device_comm);
    abi_status (*accept)(void *listener, void **comm,
                         struct abi_device_handle **device_comm);
    ABI_FUNCTIONS_MEMORY
    abi_status (*isend)(void *comm, void *data, size_t size, int tag, void *mhandle,
                        void *event, void **request);
    abi_status (*irecv)(void *comm, int n, void **data, size_t *sizes, int *tags,
                        void **mhandles, void **events, void **request);
    ABI_FUNCTIONS_END
    abi_status (*make_vdevice)(int *device, struct abi_vdevice_v12 *properties);
    abi_status (*finalize)(void *context);
    abi_status (*set_attributes)(void *context, struct abi_attributes *attributes);
};

#endif
