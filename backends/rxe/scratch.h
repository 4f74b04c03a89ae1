/* A guest's scratch folder, and the file systems of its inside. */
#ifndef WEFT_BACKENDS_RXE_SCRATCH_H
#define WEFT_BACKENDS_RXE_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

#define SCRATCH_PATH_BYTES 512
#define SCRATCH_PREFIX "weft-guest."

/* Makes a fresh folder, for this user only. Its name has the number of this process, so that it has
 * an owner from the start; *out_lock holds its lock until the caller closes it, because numbers of
 * processes come again. Returns false with errno if there is none; *out_lock is -1 then. */
bool scratch_make(char out[SCRATCH_PATH_BYTES], int *out_lock);
/* Removes it with all that is in it. */
void scratch_remove(const char *scratch);
void scratch_path(const char *scratch, const char *name, char out[SCRATCH_PATH_BYTES]);
bool scratch_write(const char *scratch, const char *name, const void *bytes, size_t n);
/* The whole file, terminated; free() it. NULL if it cannot be read. */
char *scratch_read(const char *scratch, const char *name, size_t *out_n);
/* It is there, and not empty. */
bool scratch_has(const char *scratch, const char *name);

/* The number at the start of a text; 0 if there is none. */
int scratch_number(const char *text);

/* Inside a guest, as its first process: /proc, /sys, /dev, /run; loopback. */
void guest_mount(void);
_Noreturn void guest_power_off(void);

#endif
