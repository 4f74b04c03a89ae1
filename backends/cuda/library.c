#define _GNU_SOURCE
#include "backends/cuda/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "backends/linux/nvml.h"
#include "base/check.h"

#define SYMBOL(field, name, needed)                                                      \
    {                                                                                    \
        name, offsetof(struct cuda_driver, field), needed                                \
    }

static const struct {
    const char *name;
    size_t offset; /* of the pointer within struct cuda_driver */
    bool is_needed;
} symbols[] = {
    SYMBOL(init, "cuInit", true),
    SYMBOL(version, "cuDriverGetVersion", true),
    SYMBOL(error_name, "cuGetErrorName", true),
    SYMBOL(count, "cuDeviceGetCount", true),
    SYMBOL(device, "cuDeviceGet", true),
    SYMBOL(name, "cuDeviceGetName", true),
    SYMBOL(attribute, "cuDeviceGetAttribute", true),
    SYMBOL(uuid, "cuDeviceGetUuid_v2", true),
    SYMBOL(pci_bus_id, "cuDeviceGetPCIBusId", true),
    SYMBOL(can_access, "cuDeviceCanAccessPeer", true),
    SYMBOL(retain, "cuDevicePrimaryCtxRetain", true),
    SYMBOL(release, "cuDevicePrimaryCtxRelease_v2", true),
    SYMBOL(push, "cuCtxPushCurrent_v2", true),
    SYMBOL(pop, "cuCtxPopCurrent_v2", true),
    SYMBOL(alloc, "cuMemAlloc_v2", true),
    SYMBOL(free, "cuMemFree_v2", true),
    SYMBOL(host_alloc, "cuMemHostAlloc", true),
    SYMBOL(host_free, "cuMemFreeHost", true),
    SYMBOL(set, "cuMemsetD8_v2", true),
    SYMBOL(copy, "cuMemcpy", true),
    SYMBOL(copy_async, "cuMemcpyAsync", true),
    SYMBOL(stream_create, "cuStreamCreate", true),
    SYMBOL(stream_destroy, "cuStreamDestroy_v2", true),
    SYMBOL(stream_sync, "cuStreamSynchronize", true),
    SYMBOL(stream_wait, "cuStreamWaitEvent", true),
    SYMBOL(event_create, "cuEventCreate", true),
    SYMBOL(event_destroy, "cuEventDestroy_v2", true),
    SYMBOL(event_record, "cuEventRecord", true),
    SYMBOL(event_query, "cuEventQuery", true),
    SYMBOL(ipc_export, "cuIpcGetMemHandle", true),
    SYMBOL(ipc_open, "cuIpcOpenMemHandle_v2", true),
    SYMBOL(ipc_close, "cuIpcCloseMemHandle", true),
    SYMBOL(ipc_export_event, "cuIpcGetEventHandle", true),
    SYMBOL(ipc_open_event, "cuIpcOpenEventHandle", true),
    SYMBOL(range, "cuMemGetAddressRange_v2", true),
    SYMBOL(pointer, "cuPointerGetAttribute", true),
    SYMBOL(module_load, "cuModuleLoadData", true),
    SYMBOL(module_unload, "cuModuleUnload", true),
    SYMBOL(function, "cuModuleGetFunction", true),
    SYMBOL(launch, "cuLaunchKernel", true),
    SYMBOL(host_function, "cuLaunchHostFunc", true),
    SYMBOL(range_handle, "cuMemGetHandleForAddressRange", false),
    SYMBOL(flush_writes, "cuFlushGPUDirectRDMAWrites", false),
    SYMBOL(physical, "cuMemRetainAllocationHandle", false),
    SYMBOL(physical_release, "cuMemRelease", false),
    SYMBOL(physical_export, "cuMemExportToShareableHandle", false),
    SYMBOL(physical_import, "cuMemImportFromShareableHandle", false),
    SYMBOL(reserve, "cuMemAddressReserve", false),
    SYMBOL(unreserve, "cuMemAddressFree", false),
    SYMBOL(map, "cuMemMap", false),
    SYMBOL(unmap, "cuMemUnmap", false),
    SYMBOL(set_access, "cuMemSetAccess", false),
};

weft_status cuda_fail(const struct cuda_driver *driver, struct weft_error *error,
                      const char *call, int result)
{
    const char *name = NULL;

    if (driver->error_name(result, &name) != CUDA_OK || name == NULL) {
        name = "an unknown result";
    }
    weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_CUDA, "%s: %s (%d)", call, name,
              result);
    weft_error_text(error, WEFT_VALUE_CALL, call);
    weft_error_int(error, WEFT_VALUE_RESULT, result);
    return WEFT_ERR_ENVIRONMENT;
}

static weft_status find_symbols(struct cuda_driver *driver, struct weft_error *error)
{
    for (size_t i = 0; i < WEFT_LENGTH(symbols); i++) {
        void *address = dlsym(driver->handle, symbols[i].name);

        if (address == NULL && symbols[i].is_needed) {
            return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_CUDA,
                             "the CUDA driver is too old: no %s", symbols[i].name);
        }
        memcpy((char *)driver + symbols[i].offset, &address, sizeof(address));
    }
    return WEFT_OK;
}

weft_status cuda_driver_open(struct cuda_driver *out, struct weft_error *error)
{
    weft_status status;
    int result, n = 0;

    *out = (struct cuda_driver){.handle = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL),
                                .fabric = linux_nvml_fabric_here};
    if (out->handle == NULL) {
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_CUDA,
                         "no CUDA driver: %s", dlerror());
    }
    status = find_symbols(out, error);
    if (status == WEFT_OK) {
        result = out->init(0);
        status = result == CUDA_OK ? WEFT_OK : cuda_fail(out, error, "cuInit", result);
    }
    if (status == WEFT_OK && (out->count(&n) != CUDA_OK || n == 0)) {
        status =
            weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_CUDA, "no CUDA device");
    }
    if (status != WEFT_OK) {
        cuda_driver_close(out);
    }
    return status;
}

void cuda_driver_close(struct cuda_driver *driver)
{
    if (driver->handle != NULL) {
        dlclose(driver->handle);
    }
    *driver = (struct cuda_driver){.handle = NULL};
}

int cuda_errno(int result)
{
    switch (result) {
    case CUDA_OK:
        return 0;
    case CUDA_INVALID_VALUE:
    case CUDA_INVALID_HANDLE:
        return EINVAL;
    case CUDA_OUT_OF_MEMORY:
    case CUDA_MAP_FAILED:
        return ENOMEM;
    case CUDA_NOT_READY:
        return EINPROGRESS;
    case CUDA_ALREADY_MAPPED:
        return EALREADY;
    case CUDA_PEER_ACCESS_UNSUPPORTED:
    case CUDA_TOO_MANY_PEERS:
        return EACCES;
    case CUDA_OPERATING_SYSTEM:
        return EPERM;
    case CUDA_NOT_SUPPORTED:
        return EOPNOTSUPP;
    case CUDA_NOT_INITIALIZED:
    case CUDA_INVALID_CONTEXT:
        return EAGAIN;
    default:
        return EIO;
    }
}
