/* Shared memory between processes of a real host. */
#ifndef WEFT_BACKENDS_LINUX_SHM_H
#define WEFT_BACKENDS_LINUX_SHM_H

#include <stdint.h>

#include "base/log.h"
#include "io/shm.h"

extern const struct io_shm_ops linux_shm_ops;

/* Returns st_dev of the /dev/shm that this process sees; 0 if there is none. */
uint64_t linux_shm_dev(void);
/* Removes segments whose creator died before unlinking them. Returns how many. */
unsigned linux_shm_sweep(struct weft_log *log);

#endif
