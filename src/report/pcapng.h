/* Captures in pcapng (draft-ietf-opsawg-pcapng): one interface per RDMA port, named
 * "host:port", with its speed; nanosecond stamps, directions, and comments on what did not go
 * its plain way: why a frame was dropped, "corrupt", "duplicate", "delayed". */
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

/* Writes the section and interface blocks. False (with errno) if that failed. */
bool pcapng_open(struct pcapng *pcapng, FILE *file, const struct world_spec *spec);
/* One frame; suits world_ops.tap with the pcapng as context. */
void pcapng_frame(void *context, const struct world_frame *frame);
/* Flushes; false if anything was not written. The file stays the caller's. */
bool pcapng_close(struct pcapng *pcapng);

#endif
