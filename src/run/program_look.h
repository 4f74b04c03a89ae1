/* What a host of programs sees of itself: its ports, their counters and GIDs, and how often each
 * has lost its carrier. */
#ifndef WEFT_RUN_PROGRAM_LOOK_H
#define WEFT_RUN_PROGRAM_LOOK_H

#include "base/log.h"
#include "base/text.h"
#include "diag/diag.h"
#include "io/world.h"

/* How a backend calls the RDMA device of a port (backends/registry.h). */
typedef void program_look_device(const struct world_spec *spec, uint32_t host,
                                 uint32_t port, char *out, size_t n_bytes);

struct program_look {
    bool is_seen; /* false: the rest is zero */
    struct diag_host
        host;        /* Owned; with the scenario's names; without errors and events */
    int64_t *losses; /* Owned [n_ports of the host] of carrier, ever; or IO_UNKNOWN */
};

/* From within the host: appends what is to be decoded. Nothing if it has no RDMA device. */
void program_look_make(const struct world_host *host, struct weft_log *log,
                       struct weft_text *out);
/* Where the devices of all hosts are seen: appends what they counted. */
void program_look_outside(const struct world_spec *spec, program_look_device *device,
                          struct weft_text *out);
/* What was looked at within a host [n]; not seen where it is not that. */
void program_look_decode(const struct world_spec *spec, uint32_t host,
                         program_look_device *device, const char *bytes, size_t n,
                         struct program_look *out);
/* What was looked at outside [n]: adds to `looks` [n_hosts] what their devices counted. */
void program_look_count(const struct world_spec *spec, const char *bytes, size_t n,
                        struct program_look *looks);
void program_look_fini(struct program_look *look);

#endif
