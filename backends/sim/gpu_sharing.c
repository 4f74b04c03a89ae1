/* Sharing of a simulated GPU's memory with other processes of its host. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/gpu_private.h"
#include "base/check.h"
#include "base/text.h"

#define DRIVER 12040 /* as from cudaDriverGetVersion(); arbitrary */

/* The content of a handle. */
struct sim_handle {
    uint64_t secret;
    uint32_t process;
};
_Static_assert(sizeof(struct sim_handle) <= IO_GPU_HANDLE_BYTES, "a handle holds it");

int sim_gpu_identify(struct io_gpu *gpu, struct io_gpu_identity *out)
{
    struct sim_process *process = sim_gpu_process(sim_gpu_of(gpu));
    *out = (struct io_gpu_identity){
        .ordinal = world_host_gpu(process->host->spec, process->index),
        .driver = DRIVER,
        .kinds = 1u << IO_GPU_HANDLE_LEGACY,
        .pid = process->index + 1,
        .pid_ns = process->info.shm_dev};
    weft_format(out->uuid, sizeof out->uuid, "%s", gpu->uuid);
    return 0;
}

/* Returns true for the GPU's own memory, too, even that of another process on it. */
bool sim_gpu_can_access(struct io_gpu *gpu, const char *peer_uuid)
{
    const struct sim_host *host = sim_gpu_process(sim_gpu_of(gpu))->host;
    if (host->spec->n_gpus == 0 || host->spec->has_no_peer_access) {
        return host->spec->n_gpus > 0 && strcmp(gpu->uuid, peer_uuid) == 0;
    }
    for (uint32_t i = 0; i < host->n_processes; i++) {
        if (strcmp(host->processes[i].gpu.io.uuid, peer_uuid) == 0) {
            return true;
        }
    }
    return false;
}

int sim_gpu_export(struct io_gpu *gpu, const void *address, uint32_t kinds,
                   struct io_gpu_export *out)
{
    struct sim_process *process = sim_gpu_process(sim_gpu_of(gpu));
    struct sim_allocation *at = sim_gpu_of(gpu)->first;
    while (at != NULL && (!at->is_device || at->is_freed ||
                          (uintptr_t)address - (uintptr_t)at->memory >= at->n_bytes)) {
        at = at->next;
    }
    if (at == NULL || (kinds >> IO_GPU_HANDLE_LEGACY & 1) == 0) {
        return at == NULL ? EINVAL : EOPNOTSUPP;
    }
    while (at->secret == 0) {
        process->env.ops->random(&process->env, &at->secret, sizeof at->secret);
    }
    struct sim_handle handle;
    memset(&handle, 0, sizeof handle);
    handle.secret = at->secret;
    handle.process = process->index;
    memset(out, 0, sizeof *out);
    out->kind = IO_GPU_HANDLE_LEGACY;
    out->base = (uintptr_t)at->memory;
    out->n_bytes = at->n_bytes;
    out->buffer_id = at->buffer_id;
    memcpy(out->handle.bytes, &handle, sizeof handle);
    return 0;
}

void sim_gpu_unexport(struct io_gpu *gpu, const struct io_gpu_export *exported)
{
    (void)gpu;
    (void)exported;
}

static bool is_open(const struct sim_gpu_device *device,
                    const struct sim_allocation *allocation)
{
    const struct sim_import *at = device->imports;
    while (at != NULL && at->allocation != allocation) {
        at = at->next;
    }
    return at != NULL;
}

int sim_gpu_import(struct io_gpu *gpu, const struct io_gpu_export *exported, void **out)
{
    struct sim_gpu_device *device = sim_gpu_of(gpu);
    struct sim_host *host = sim_gpu_process(device)->host;
    struct sim_handle named;
    memcpy(&named, exported->handle.bytes, sizeof named);
    if (exported->kind != IO_GPU_HANDLE_LEGACY) {
        return EOPNOTSUPP;
    }
    if (named.secret == 0 || named.process >= host->n_processes ||
        &host->processes[named.process].gpu == device) {
        return EINVAL; /* a process cannot open its own memory */
    }
    struct sim_process *owner = &host->processes[named.process];
    struct sim_allocation *at = owner->gpu.first;
    while (at != NULL && at->secret != named.secret) {
        at = at->next;
    }
    if (at == NULL) {
        return ENOENT;
    }
    if (exported->n_bytes > at->n_bytes) {
        return EINVAL;
    }
    if (!sim_gpu_can_access(gpu, owner->gpu.io.uuid)) {
        return EACCES; /* like CUDA_ERROR_PEER_ACCESS_UNSUPPORTED */
    }
    if (is_open(device, at)) {
        return EALREADY;
    }
    struct sim_import *import = weft_calloc(1, sizeof *import);
    *import = (struct sim_import){device->imports, owner, at};
    device->imports = import;
    at->n_openers++;
    *out = at->memory;
    return 0;
}

static void close_import(struct sim_import **from)
{
    struct sim_import *import = *from;
    struct sim_gpu_device *owner = &import->owner->gpu;
    struct sim_allocation **at = &owner->first;
    *from = import->next;
    while (*at != import->allocation) {
        at = &(*at)->next;
    }
    if (--(*at)->n_openers == 0 && (*at)->is_freed) {
        sim_allocation_drop(owner, at);
    }
    free(import);
}

void sim_gpu_unimport(struct io_gpu *gpu, void *memory)
{
    struct sim_gpu_device *device = sim_gpu_of(gpu);
    for (struct sim_import **at = &device->imports; *at != NULL; at = &(*at)->next) {
        if ((*at)->allocation->memory == memory) {
            close_import(at);
            return;
        }
    }
    weft_check(memory == NULL);
}
