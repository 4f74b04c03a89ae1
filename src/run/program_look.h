/* Records what a host of programs knows about itself: its ports, their counters and GIDs, and how
 * often each port has lost its carrier. */
#ifndef WEFT_RUN_PROGRAM_LOOK_H
#define WEFT_RUN_PROGRAM_LOOK_H

#include "base/log.h"
#include "base/text.h"
#include "diag/diag.h"
#include "io/world.h"

/* Writes the backend's name for the RDMA device of a port (backends/registry.h). */
typedef void program_look_device(const struct world_spec *spec, uint32_t host,
                                 uint32_t port, char *out, size_t n_bytes);

/* Requests that a port's device gave up since it exists; IO_UNKNOWN if it was not read. */
struct program_given_up {
    int64_t unanswered; /* ended with IBV_WC_RETRY_EXC_ERR */
    int64_t not_ready;  /* ended with IBV_WC_RNR_RETRY_EXC_ERR */
};

struct program_look {
    bool is_seen; /* if false, all else is zero */
    struct diag_host
        host; /* Owned; ports have the scenario's names; no errors or events */
    /* Owned [n_ports of the host]; carrier losses since the port exists, or IO_UNKNOWN. */
    int64_t *losses;
    struct program_given_up *given_up; /* Owned [n_ports of the host] */
    /* Owned; records of the host's processes (program_watched.h), or NULL. */
    char *watched;
};

/* Appends the encoded facts of this host; must run inside its namespace. Appends nothing if its
 * devices cannot be opened. */
void program_look_make(const struct world_host *host, struct weft_log *log,
                       struct weft_text *out);
/* Appends the counters of all hosts' devices; must run where all devices are visible. */
void program_look_outside(const struct world_spec *spec, program_look_device *device,
                          struct weft_text *out);
/* Decodes what program_look_make() wrote [n]. If it is malformed, `out` is not seen. */
void program_look_decode(const struct world_spec *spec, uint32_t host,
                         program_look_device *device, const char *bytes, size_t n,
                         struct program_look *out);
/* Decodes what program_look_outside() wrote [n] and sets the counters in `looks` [n_hosts]. */
void program_look_count(const struct world_spec *spec, const char *bytes, size_t n,
                        struct program_look *looks);
/* Makes `look` one at the same host when its devices were new: all ports are up, and nothing is
 * counted yet. */
void program_look_reset(const struct world_host *host, struct program_look *look);
void program_look_fini(struct program_look *look);

#endif
