/* CUDA's driver API, opened at run time. Declares only what is called, after the CUDA Driver API
 * reference manual. abi_test.c compares the declarations with <cuda.h> if that is installed. */
#ifndef WEFT_BACKENDS_CUDA_LIBRARY_H
#define WEFT_BACKENDS_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define CUDA_LIBRARY "libcuda.so.1"

/* CUresult */
enum {
    CUDA_OK = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_STUB_LIBRARY = 34,
    CUDA_DEVICE_UNAVAILABLE = 46, /* exclusive mode, and another process has the device */
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_MAP_FAILED = 205,
    CUDA_ALREADY_MAPPED = 208,
    CUDA_PEER_ACCESS_UNSUPPORTED = 217,
    CUDA_OPERATING_SYSTEM = 304,
    CUDA_INVALID_HANDLE = 400,
    CUDA_NOT_READY = 600,
    CUDA_TOO_MANY_PEERS = 711,
    CUDA_NOT_SUPPORTED = 801,
    CUDA_SYSTEM_DRIVER_MISMATCH = 803
};

/* CUdevice_attribute */
enum {
    CUDA_ATTR_MULTIPROCESSORS = 16,
    CUDA_ATTR_INTEGRATED = 18,
    CUDA_ATTR_PAGEABLE_ACCESS = 88,
    CUDA_ATTR_HOST_PAGE_TABLES = 100,
    CUDA_ATTR_HANDLE_FD = 103,
    CUDA_ATTR_RDMA_SUPPORTED = 116,
    CUDA_ATTR_RDMA_FLUSH = 117,
    CUDA_ATTR_RDMA_ORDERING = 118,
    CUDA_ATTR_DMA_BUF = 124,
    CUDA_ATTR_IPC_EVENT = 125,
    CUDA_ATTR_HANDLE_FABRIC = 128
};

/* CUpointer_attribute, CUmemorytype */
enum {
    CUDA_PTR_MEMORY_TYPE = 2,
    CUDA_PTR_BUFFER_ID = 7,
    CUDA_PTR_IS_MANAGED = 8,
    CUDA_PTR_LEGACY_IPC = 10,
    /* Bits CUDA_HANDLE_*: handle kinds allowed for cuMemCreate memory. */
    CUDA_PTR_HANDLE_KINDS = 14,
    CUDA_MEMORY_HOST = 1,
    CUDA_MEMORY_DEVICE = 2
};

/* Flags of several calls. */
enum {
    CUDA_HOST_PORTABLE = 1,
    CUDA_HOST_MAPPED = 2,
    CUDA_STREAM_NON_BLOCKING = 1,
    CUDA_EVENT_NO_TIMING = 2,
    CUDA_EVENT_INTERPROCESS = 4,
    CUDA_IPC_PEER_ACCESS = 1,
    CUDA_RANGE_DMA_BUF = 1,
    CUDA_HANDLE_FD = 1,
    CUDA_HANDLE_FABRIC = 8,
    CUDA_LOCATION_DEVICE = 1,
    CUDA_ACCESS_READ_WRITE = 3,
    CUDA_FLUSH_HOST = 1,
    CUDA_FLUSH_TARGET_CONTEXT = 0,
    CUDA_FLUSH_TO_OWNER = 100,
    CUDA_ORDERING_OWNER = 100
};

typedef int cuda_device;
typedef uint64_t cuda_pointer;
struct cuda_context;
struct cuda_stream;
struct cuda_event;
struct cuda_module;
struct cuda_function;

struct cuda_uuid {
    char bytes[16];
};
/* CUipcMemHandle, CUipcEventHandle: passed by value. */
struct cuda_ipc_handle {
    char bytes[64];
};

/* CUmemGenericAllocationHandle: a handle of physical memory. Below: CUmemAccessDesc. */
typedef unsigned long long cuda_physical;
struct cuda_access {
    int location_type, location; /* CUmemLocation */
    int flags;
};

/* Entry points of the driver. Each but `fabric` returns a CUresult. The last ones can be NULL,
 * because older drivers do not have them. */
struct cuda_driver {
    void *handle; /* Owned, or NULL */
    int (*init)(unsigned flags);
    int (*version)(int *out);
    int (*error_name)(int result, const char **out);
    int (*count)(int *out);
    int (*device)(cuda_device *out, int ordinal);
    int (*name)(char *out, int n_bytes, cuda_device device);
    int (*attribute)(int *out, int attribute, cuda_device device);
    int (*uuid)(struct cuda_uuid *out, cuda_device device);
    int (*pci_bus_id)(char *out, int n_bytes, cuda_device device);
    int (*can_access)(int *out, cuda_device device, cuda_device peer);
    int (*retain)(struct cuda_context **out, cuda_device device);
    int (*release)(cuda_device device);
    int (*push)(struct cuda_context *context);
    int (*pop)(struct cuda_context **out);
    int (*alloc)(cuda_pointer *out, size_t n_bytes);
    int (*free)(cuda_pointer memory);
    int (*host_alloc)(void **out, size_t n_bytes, unsigned flags);
    int (*host_free)(void *memory);
    int (*set)(cuda_pointer memory, unsigned char value, size_t n_bytes);
    int (*copy)(cuda_pointer to, cuda_pointer from, size_t n_bytes);
    int (*copy_async)(cuda_pointer to, cuda_pointer from, size_t n_bytes,
                      struct cuda_stream *stream);
    int (*stream_create)(struct cuda_stream **out, unsigned flags);
    int (*stream_destroy)(struct cuda_stream *stream);
    int (*stream_sync)(struct cuda_stream *stream);
    int (*stream_wait)(struct cuda_stream *stream, struct cuda_event *event,
                       unsigned flags);
    int (*event_create)(struct cuda_event **out, unsigned flags);
    int (*event_destroy)(struct cuda_event *event);
    int (*event_record)(struct cuda_event *event, struct cuda_stream *stream);
    int (*event_query)(struct cuda_event *event);
    int (*ipc_export)(struct cuda_ipc_handle *out, cuda_pointer memory);
    int (*ipc_open)(cuda_pointer *out, struct cuda_ipc_handle handle, unsigned flags);
    int (*ipc_close)(cuda_pointer memory);
    int (*ipc_export_event)(struct cuda_ipc_handle *out, struct cuda_event *event);
    int (*ipc_open_event)(struct cuda_event **out, struct cuda_ipc_handle handle);
    int (*range)(cuda_pointer *out_base, size_t *out_n_bytes, cuda_pointer memory);
    int (*pointer)(void *out, int attribute, cuda_pointer memory);
    int (*module_load)(struct cuda_module **out, const void *image);
    int (*module_unload)(struct cuda_module *module);
    int (*function)(struct cuda_function **out, struct cuda_module *module,
                    const char *name);
    int (*launch)(struct cuda_function *function, unsigned grid_x, unsigned grid_y,
                  unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                  unsigned shared_bytes, struct cuda_stream *stream, void **arguments,
                  void **extra);
    int (*host_function)(struct cuda_stream *stream, void (*function)(void *context),
                         void *context);
    int (*range_handle)(void *out, cuda_pointer memory, size_t n_bytes, int type,
                        unsigned long long flags); /* or NULL */
    int (*flush_writes)(int target, int scope);    /* or NULL */
    /* Virtual-memory calls: all are set, or the GPU does not use them. */
    int (*physical)(cuda_physical *out, void *memory);
    int (*physical_release)(cuda_physical physical);
    int (*physical_export)(void *out, cuda_physical physical, int kind,
                           unsigned long long flags);
    int (*physical_import)(cuda_physical *out, void *handle, int kind);
    int (*reserve)(cuda_pointer *out, size_t n_bytes, size_t alignment,
                   cuda_pointer wanted, unsigned long long flags);
    int (*unreserve)(cuda_pointer at, size_t n_bytes);
    int (*map)(cuda_pointer at, size_t n_bytes, size_t offset, cuda_physical physical,
               unsigned long long flags);
    int (*unmap)(cuda_pointer at, size_t n_bytes);
    int (*set_access)(cuda_pointer at, size_t n_bytes, const struct cuda_access *access,
                      size_t n);
    /* Not part of the driver, but of NVML: reports the NVLink fabric that the GPU with this UUID
     * has joined. Returns false and writes nothing if there is none. */
    bool (*fabric)(const char *uuid, uint8_t out_cluster[16], uint32_t *out_clique);
};

/* Opens the driver. Fails with WEFT_ERR_ENVIRONMENT if there is no driver, it is too old or it
 * has no device; the error says which. */
weft_status cuda_driver_open(struct cuda_driver *out,
                             struct weft_error *error) WEFT_MUST_CHECK;
void cuda_driver_close(struct cuda_driver *driver);
/* Converts a CUresult to an errno of the I/O interface; 0 for CUDA_OK. */
int cuda_errno(int result);
/* Fills `error` with the call and the driver's name of the result; returns
 * WEFT_ERR_ENVIRONMENT. */
weft_status cuda_fail(const struct cuda_driver *driver, struct weft_error *error,
                      const char *call, int result);

#endif
