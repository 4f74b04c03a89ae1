/* The library libweft-watch.so (backends/watch) in a guest: it is preloaded into programs and
 * records what they do with RDMA devices. */
#ifndef WEFT_BACKENDS_LAB_WATCH_H
#define WEFT_BACKENDS_LAB_WATCH_H

#include <stdint.h>

#include "base/text.h"

/* Copies the library, which is installed with this program, to the guest's own /run, and prepares
 * programs 0 to n - 1. If there is no library, programs are not watched. Takes no virtual time. New
 * files draw random numbers (shmem_get_inode() of mm/shmem.c), so chance must begin afterwards. */
void lab_watch_begin(uint32_t n);
/* Returns a descriptor that is readable once a process of a watched program has failed, and does
 * not wait; -1 if programs are not watched. */
int lab_watch_failures(void);
/* Returns a descriptor from which names of devices can be read, each with a newline, whenever a
 * queue pair of a watched program has been modified to RTS; -1 if programs are not watched. Call
 * once, after lab_watch_begin(). It does not wait, and the caller closes it. */
int lab_watch_ready(void);
/* Makes a folder for the records of program `id`, unless it exists. Takes no virtual time. */
void lab_watch_prepare(uint32_t id);
/* Adds the library to LD_PRELOAD of the calling process. Returns an errno. */
int lab_watch_preload(uint32_t id);
/* Appends the records of all processes of a host, each line as "ID LINE" with the number of its
 * program (backends/watch/records.h). `host` is NULL for the calling process's host. Takes no
 * virtual time. */
void lab_watch_read(const char *host, struct weft_text *out);

#endif
