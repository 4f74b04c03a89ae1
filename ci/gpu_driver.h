/* What the files of the CUDA driver without a GPU share; gpu_driver.c says what it is. */
#ifndef WEFT_CI_GPU_DRIVER_H
#define WEFT_CI_GPU_DRIVER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "backends/cuda/library.h"

#define DRIVER_PAGE ((size_t)4096)

/* What was done, for FAKE_CUDA_LOG. */
struct driver_done {
    atomic_ulong n_copies, n_launches, n_device_bytes, n_host_bytes;
};
extern struct driver_done driver_done;

/* A number of the environment. */
long driver_setting(const char *name, long otherwise);
/* Where the bytes are of what the program has at `at`. */
uint8_t *driver_there(cuda_pointer at);

/* What a handle is: a file of another process. */
struct driver_handle {
    pid_t pid;
    int fd;
    size_t n_bytes;
};
int driver_tell(struct cuda_ipc_handle *out, int fd, size_t n_bytes);
/* Its file, or -1. */
int driver_take(const struct cuda_ipc_handle *given, struct driver_handle *out);

#endif
