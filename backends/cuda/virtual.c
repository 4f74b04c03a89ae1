/* Shares memory of the virtual-memory calls (cuMemCreate, used by PyTorch's expandable segments
 * and by NCCL) with other processes: as a descriptor, which they take from this process with
 * pidfd_getfd(2), or as a fabric handle. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/cuda/private.h"
#include "base/check.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/* The content of a handle of kind FD. */
struct descriptor {
    uint32_t pid; /* in the pid namespace of both processes */
    int32_t fd;
};
_Static_assert(sizeof(struct descriptor) <= IO_GPU_HANDLE_BYTES, "a handle holds it");
_Static_assert(sizeof(struct cuda_ipc_handle) <= IO_GPU_HANDLE_BYTES, "and this");

/* ---- exports ---- */

static void drop(struct cuda_gpu *cuda, uint32_t index)
{
    close(cuda->shared[index].fd);
    cuda->n_shared--;
    memmove(&cuda->shared[index], &cuda->shared[index + 1],
            (cuda->n_shared - index) * sizeof(cuda->shared[0]));
}

/* Closes descriptors of freed allocations, because a descriptor keeps its memory allocated. */
static void drop_stale(struct cuda_gpu *cuda)
{
    for (uint32_t i = cuda->n_shared; i-- > 0;) {
        unsigned long long id = 0;
        int result = cuda->driver.pointer(&id, CUDA_PTR_BUFFER_ID, cuda->shared[i].base);

        if (result != CUDA_OK || id != cuda->shared[i].id) {
            drop(cuda, i);
        }
    }
}

static int make_descriptor(struct cuda_gpu *cuda, cuda_physical physical,
                           cuda_pointer base, unsigned long long id, int *out)
{
    int result = cuda->driver.physical_export(out, physical, CUDA_HANDLE_FD, 0);

    if (result != CUDA_OK) {
        return result;
    }
    if (cuda->n_shared == CUDA_SHARED_MAX) {
        drop(cuda, 0);
    }
    cuda->shared[cuda->n_shared++] =
        (struct cuda_shared){.base = base, .id = id, .fd = *out};
    return CUDA_OK;
}

static int find_descriptor(const struct cuda_gpu *cuda, cuda_pointer base)
{
    for (uint32_t i = 0; i < cuda->n_shared; i++) {
        if (cuda->shared[i].base == base) {
            return cuda->shared[i].fd;
        }
    }
    return -1;
}

/* Exports an allocation of cuMemCreate as a handle of this kind. Returns EOPNOTSUPP if the
 * allocation is not from cuMemCreate. */
static int export_physical(struct cuda_gpu *cuda, cuda_pointer base,
                           unsigned long long id, enum io_gpu_handle_kind kind,
                           struct io_gpu_export *out)
{
    struct descriptor descriptor = {.pid = (uint32_t)getpid(), .fd = -1};
    struct cuda_ipc_handle fabric;
    cuda_physical physical;
    int fd = kind == IO_GPU_HANDLE_FD ? find_descriptor(cuda, base) : -1;
    int result = CUDA_OK;

    if (fd < 0) {
        result = cuda->driver.physical(&physical, (void *)(uintptr_t)base);
        if (result != CUDA_OK) {
            return result == CUDA_INVALID_VALUE ? EOPNOTSUPP : cuda_errno(result);
        }
        result =
            kind == IO_GPU_HANDLE_FD
                ? make_descriptor(cuda, physical, base, id, &fd)
                : cuda->driver.physical_export(&fabric, physical, CUDA_HANDLE_FABRIC, 0);
        (void)cuda->driver.physical_release(physical);
    }
    if (result != CUDA_OK) {
        return cuda_errno(result);
    }
    out->kind = kind;
    descriptor.fd = fd;
    if (kind == IO_GPU_HANDLE_FD) {
        memcpy(out->handle.bytes, &descriptor, sizeof(descriptor));
    } else {
        memcpy(out->handle.bytes, &fabric, sizeof(fabric));
    }
    return 0;
}

int cuda_virtual_export(struct cuda_gpu *cuda, cuda_pointer base, unsigned long long id,
                        uint32_t kinds, struct io_gpu_export *out)
{
    unsigned long long allowed = 0;
    int sys_errno = EOPNOTSUPP;

    drop_stale(cuda);
    if (cuda->driver.pointer(&allowed, CUDA_PTR_HANDLE_KINDS, base) != CUDA_OK) {
        return EOPNOTSUPP;
    }
    if (cuda->facts.has_handle_fabric && (kinds & 1u << IO_GPU_HANDLE_FABRIC) != 0 &&
        (allowed & CUDA_HANDLE_FABRIC) != 0) {
        sys_errno = export_physical(cuda, base, id, IO_GPU_HANDLE_FABRIC, out);
    }
    if (sys_errno != 0 && cuda->facts.has_handle_fd &&
        (kinds & 1u << IO_GPU_HANDLE_FD) != 0 && (allowed & CUDA_HANDLE_FD) != 0) {
        sys_errno = export_physical(cuda, base, id, IO_GPU_HANDLE_FD, out);
    }
    return sys_errno;
}

/* ---- imports ---- */

static int of_getfd(int sys_errno)
{
    switch (sys_errno) {
    case ESRCH:
    case EBADF:
        return ENOENT; /* the process or the descriptor no longer exists */
    case EPERM:
        return EACCES; /* forbidden by Yama: ptrace(2), "access mode checking" */
    case ENOSYS:
        return EOPNOTSUPP;
    case ENFILE:
        return EMFILE;
    default:
        return sys_errno;
    }
}

static int take_descriptor(const struct io_gpu_export *exported, int *out)
{
    struct descriptor descriptor;
    int sys_errno, pidfd;

    memcpy(&descriptor, exported->handle.bytes, sizeof(descriptor));
    if (descriptor.pid == (uint32_t)getpid()) {
        *out = fcntl(descriptor.fd, F_DUPFD_CLOEXEC, 0);
        return *out >= 0 ? 0 : of_getfd(errno);
    }
    pidfd = (int)syscall(SYS_pidfd_open, (pid_t)descriptor.pid, 0);
    if (pidfd < 0) {
        return of_getfd(errno);
    }
    *out = (int)syscall(SYS_pidfd_getfd, pidfd, descriptor.fd, 0);
    sys_errno = errno;
    close(pidfd);
    return *out >= 0 ? 0 : of_getfd(sys_errno);
}

static int import_physical(struct cuda_gpu *cuda, const struct io_gpu_export *exported,
                           cuda_physical *out)
{
    struct cuda_ipc_handle fabric;
    int fd = -1, result, sys_errno;

    if (exported->kind == IO_GPU_HANDLE_FABRIC) {
        memcpy(&fabric, exported->handle.bytes, sizeof(fabric));
        return cuda_errno(cuda->driver.physical_import(out, &fabric, CUDA_HANDLE_FABRIC));
    }
    sys_errno = take_descriptor(exported, &fd);
    if (sys_errno != 0) {
        return sys_errno;
    }
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA takes it so */
    result = cuda->driver.physical_import(out, (void *)(intptr_t)fd, CUDA_HANDLE_FD);
    close(fd);
    return cuda_errno(result);
}

int cuda_virtual_import(struct cuda_gpu *cuda, const struct io_gpu_export *exported,
                        struct cuda_import *out)
{
    const struct cuda_driver *driver = &cuda->driver;
    const struct cuda_access access = {.location_type = CUDA_LOCATION_DEVICE,
                                       .location = cuda->device,
                                       .flags = CUDA_ACCESS_READ_WRITE};
    size_t n = exported->n_bytes;
    int result, sys_errno = import_physical(cuda, exported, &out->physical);

    if (sys_errno != 0) {
        return sys_errno;
    }
    out->n_bytes = n;
    out->is_virtual = true;
    result = driver->reserve(&out->at, n, 0, 0, 0);
    if (result == CUDA_OK) {
        result = driver->map(out->at, n, 0, out->physical, 0);
        if (result != CUDA_OK) {
            (void)driver->unreserve(out->at, n);
        }
    }
    if (result != CUDA_OK) {
        (void)driver->physical_release(out->physical);
        return cuda_errno(result);
    }
    result = driver->set_access(out->at, n, &access, 1);
    if (result != CUDA_OK) {
        cuda_virtual_unimport(cuda, out);
    }
    return cuda_errno(result);
}

void cuda_virtual_unimport(struct cuda_gpu *cuda, const struct cuda_import *import)
{
    (void)cuda->driver.unmap(import->at, import->n_bytes);
    (void)cuda->driver.unreserve(import->at, import->n_bytes);
    (void)cuda->driver.physical_release(import->physical);
}

void cuda_virtual_fini(struct cuda_gpu *cuda)
{
    while (cuda->n_shared > 0) {
        drop(cuda, cuda->n_shared - 1);
    }
}
