/* Generates a scenario for machines without one. The processes exchange their hosts, ports and
 * addresses, and all generate the same file. Two ports in one subnet share a cable; more than two
 * share a switch. */
#ifndef WEFT_RUN_SITE_H
#define WEFT_RUN_SITE_H

#include "base/error.h"
#include "base/text.h"
#include "io/world.h"

struct run_site_options {
    uint32_t rank, n_ranks;
    const char *name; /* name of this host; NULL or "": the machine's */
    struct io_endpoint rendezvous;
    weft_ns patience_ns;   /* how long ranks may take to start; 0: default */
    uint64_t seed;         /* for the job key, the same as of the run */
    const uint8_t *secret; /* run_options.secret */
    /* Only ports on these netdevs, separated by commas; NULL: all. */
    const char *netdevs;
};

/* `world` has one host, this process on its real machine. The ports are those of its devices, or
 * all its netdevs if it has no device. Appends the file's text to `out`. Fails with
 * WEFT_ERR_ENVIRONMENT if there are several machines, but no two have ports in one subnet. */
weft_status run_site(struct world *world, const struct run_site_options *options,
                     struct weft_text *out, struct weft_error *error) WEFT_MUST_CHECK;

/* Exchanges texts between all ranks before a job exists: sends `mine` and fills all[n_ranks], which
 * must be empty and which the caller frees. Another gather or a run can follow at the same
 * rendezvous. */
weft_status run_site_gather(struct world *world, const struct run_site_options *options,
                            const struct weft_text *mine, struct weft_text *all,
                            struct weft_error *error) WEFT_MUST_CHECK;

/* ---- site_file.c ---- */

/* Generates the file from the JSON texts [n_ranks] that the ranks sent. Pure. */
weft_status run_site_file(const struct weft_text *facts, uint32_t n_ranks,
                          struct weft_text *out,
                          struct weft_error *error) WEFT_MUST_CHECK;

#endif
