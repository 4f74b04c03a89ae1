/* Memory shared by processes of one host. A segment has a name while other processes are to attach
 * to it. The memory is freed when the last process that has it attached closes it or exits; a name
 * that a killed process leaves behind is removed when a later one creates a segment. Two processes
 * can share memory only if hostinfo reports the same `shm_dev` for both. */
#ifndef WEFT_IO_SHM_H
#define WEFT_IO_SHM_H

#include <stddef.h>

struct io_env;

#define IO_SHM_NAME_BYTES 48

/* A segment as attached in this process; backends derive from it. */
struct io_shm {
    void *memory; /* [n_bytes], page-aligned; its address differs between processes */
    size_t n_bytes;
};

struct io_shm_ops {
    /* Creates a zeroed segment under a new unpredictable name: text without blanks, NUL-terminated.
     * Reserves the memory, so that a shortage returns ENOSPC now and causes no fault later. EACCES,
     * EMFILE, ENOMEM; EINVAL for 0 bytes. */
    int (*create)(struct io_env *env, size_t n_bytes, char out_name[IO_SHM_NAME_BYTES],
                  struct io_shm **out);
    /* Attaches to a segment that another process created with the same size. ENOENT if there is no
     * such name here; EINVAL if the size differs, or if `name` cannot be that of a segment. */
    int (*attach)(struct io_env *env, const char *name, size_t n_bytes,
                  struct io_shm **out);
    /* Removes the name: no process can attach any more, but those attached keep the memory. Only
     * for the process that created it; repeating it has no effect. */
    void (*unlink)(struct io_shm *segment);
    /* Detaches; in the process that created the segment, also removes its name. NULL is ignored. */
    void (*close)(struct io_shm *segment);
};

#endif
