/* Checks one host before a run: its ports, addresses and limits, and the settings with which NCCL
 * would start. Pure functions, as in diag.h; unknown values support no finding. */
#ifndef WEFT_DIAG_PREFLIGHT_H
#define WEFT_DIAG_PREFLIGHT_H

#include "diag/diag.h"
#include "diag/interface.h"

struct diag_setting {
    const char *name, *value; /* Not owned */
    const char *source;       /* "environment", "/etc/nccl.conf" */
};

struct diag_preflight {
    /* [n_settings] NCCL's settings; the first one with a name takes effect */
    const struct diag_setting *settings;
    uint32_t n_settings;
    const char *const *known; /* [n_known] names of the plugin's own settings */
    uint32_t n_known;
    enum diag_known has_plugin;            /* NCCL would find libnccl-net-mesh.so */
    int64_t cma_total_kib, cma_free_kib;   /* from /proc/meminfo, or IO_UNKNOWN */
    const struct io_interface *interfaces; /* [n_interfaces]; 0 if unknown */
    uint32_t n_interfaces;
};

/* Minimum limit of locked memory that suffices for jobs, because NCCL registers the buffers of its
 * channels. */
#define DIAG_MEMLOCK_MIN (INT64_C(1) << 30)

/* Adds the findings about a host and sorts `out` by severity. `host` contains its ports and limits,
 * `more` everything else. */
void diag_preflight(const struct diag_host *host, const struct diag_preflight *more,
                    struct diag_findings *out);

/* Adds what only both ends of a cable show: addresses that two hosts have, prefix lengths that
 * differ, and bonds whose cables lead to different hosts. diag() adds the rest. Sorts `out` by
 * severity. */
void diag_preflight_ends(const struct diag_input *input, struct diag_findings *out);
/* Adds the causes of the errors of `input`, which a policy's set-up of connections is predicted to
 * meet, with the policy in their evidence. A cause replaces a warning of the same code at that
 * host. Sorts `out` by severity. */
void diag_preflight_errors(const struct diag_input *input, struct diag_findings *out);
/* Returns true if both ports are up and their addresses face each other, so that a cable joins
 * them, or should. */
bool diag_preflight_faces(const struct diag_port *a, const struct diag_port *b);

#endif
