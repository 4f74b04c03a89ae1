/* Memory that processes of one host share. A segment has a name as long as others are to attach
 * to it; memory and name are gone when the last process that had it is. What decides whether two
 * processes can share at all is a fact of hostinfo: the same `shm_dev`. */
#ifndef WEFT_IO_SHM_H
#define WEFT_IO_SHM_H

#include <stddef.h>

struct io_env;

#define IO_SHM_NAME_BYTES 48

/* A segment as this process has it attached; backends derive from it. */
struct io_shm {
    void *memory; /* [n_bytes], page-aligned, at another address in every process */
    size_t n_bytes;
};

struct io_shm_ops {
    /* Makes a segment of zeroes under a new name that nobody can guess: text without blanks,
     * NUL-terminated. The room is there afterwards: ENOSPC, never a fault later. EACCES,
     * EMFILE, ENOMEM; EINVAL for 0 bytes. */
    int (*create)(struct io_env *env, size_t n_bytes, char out_name[IO_SHM_NAME_BYTES],
                  struct io_shm **out);
    /* Attaches to what another process made with as many bytes. ENOENT: no such name here;
     * EINVAL: of another size, or no name of a segment. */
    int (*attach)(struct io_env *env, const char *name, size_t n_bytes,
                  struct io_shm **out);
    /* Takes the name away: nobody attaches any more, whoever did keeps the memory. Of the one
     * that made it; once more does nothing. */
    void (*unlink)(struct io_shm *segment);
    /* Detaches; takes the name away first, if it made it. NULL is ignored. */
    void (*close)(struct io_shm *segment);
};

#endif
