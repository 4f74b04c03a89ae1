/* A guest's scratch folder, and the file systems inside a guest. */
#ifndef WEFT_BACKENDS_RXE_SCRATCH_H
#define WEFT_BACKENDS_RXE_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

#define SCRATCH_PATH_BYTES 512
#define SCRATCH_PREFIX "weft-guest."

/* Creates a folder that only this user can access. Its name contains the number of this process,
 * so it has an owner from the start. *out_lock holds its lock until the caller closes it, because
 * process numbers are reused. Returns false with errno, and -1 in *out_lock, on failure. */
bool scratch_make(char out[SCRATCH_PATH_BYTES], int *out_lock);
/* Removes the folder and its content. */
void scratch_remove(const char *scratch);
void scratch_path(const char *scratch, const char *name, char out[SCRATCH_PATH_BYTES]);
bool scratch_write(const char *scratch, const char *name, const void *bytes, size_t n);
/* Reads a whole file and terminates it; the caller frees the result. Returns NULL on failure. */
char *scratch_read(const char *scratch, const char *name, size_t *out_n);
/* Returns true if the file exists and is not empty. */
bool scratch_has(const char *scratch, const char *name);

/* Returns the number at the start of a text; 0 if there is none. */
int scratch_number(const char *text);

/* As the first process of a guest: mounts /proc, /sys, /dev, /dev/shm and /run, and sets up
 * loopback. */
void guest_mount(void);
/* Adds a line to the first processor's part of /proc/cpuinfo. */
void guest_add_to_cpuinfo(const char *line);
_Noreturn void guest_power_off(void);

#endif
