/* What is wrong with one host before anything ran: its ports, addresses, limits, and the settings
 * under which NCCL would start. Pure, as diag.h; whatever is unknown argues for nothing. */
#ifndef WEFT_DIAG_PREFLIGHT_H
#define WEFT_DIAG_PREFLIGHT_H

#include "diag/diag.h"
#include "diag/interface.h"

struct diag_setting {
    const char *name, *value; /* Not owned */
    const char *source;       /* "environment", "/etc/nccl.conf" */
};

struct diag_preflight {
    const struct diag_setting
        *settings; /* [n_settings] NCCL's: the first of a name counts */
    uint32_t n_settings;
    const char *const *known; /* [n_known] names of the plugin's own settings */
    uint32_t n_known;
    enum diag_known has_plugin;            /* NCCL would find libnccl-net-mesh.so */
    int64_t cma_total_kib, cma_free_kib;   /* of /proc/meminfo; IO_UNKNOWN: not there */
    const struct io_interface *interfaces; /* [n_interfaces]; none: not known */
    uint32_t n_interfaces;
};

/* Least locked memory that jobs get along with: buffers of NCCL's channels. */
#define DIAG_MEMLOCK_MIN (INT64_C(1) << 30)

/* Adds what it finds; the most severe first. `host` tells its ports and limits. */
void diag_preflight(const struct diag_host *host, const struct diag_preflight *more,
                    struct diag_findings *out);

/* What both ends of cables show: addresses that two hosts have, prefixes that differ. diag() says
 * the rest of it. */
void diag_preflight_ends(const struct diag_input *input, struct diag_findings *out);
/* Both are up, with addresses that face each other: there is a cable, or should be. */
bool diag_preflight_faces(const struct diag_port *a, const struct diag_port *b);

#endif
