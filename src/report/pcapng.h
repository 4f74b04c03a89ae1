/* Writes captures in pcapng (draft-ietf-opsawg-pcapng): one interface per RDMA port, named
 * "host:port", with its speed; nanosecond timestamps and directions; comments on frames that were
 * dropped (with the reason), "corrupt", "duplicate" or "delayed". */
#ifndef WEFT_REPORT_PCAPNG_H
#define WEFT_REPORT_PCAPNG_H

#include <stdio.h>

#include "io/world.h"

struct pcapng {
    FILE *file;                    /* Not owned. */
    const struct world_spec *spec; /* Not owned; names the interfaces */
    uint32_t *first_interface;     /* Owned [n_hosts]: interface of each host's port 0 */
    bool failed;                   /* a write failed; nothing more is written */
};

/* Writes the section and interface blocks. Returns false, with errno, if that failed. The caller
 * calls pcapng_close() in either case. */
bool pcapng_open(struct pcapng *pcapng, FILE *file, const struct world_spec *spec);
/* Writes a frame. Can be used as world_ops.tap with the pcapng as context. */
void pcapng_frame(void *context, const struct world_frame *frame);
/* Flushes the file, which stays open and the caller's. Returns false if anything was not
 * written. */
bool pcapng_close(struct pcapng *pcapng);

#endif
