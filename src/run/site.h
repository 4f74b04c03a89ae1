/* A scenario of what is there: processes on machines of which nobody wrote a scenario tell each
 * other their hosts, ports and addresses, and all make the same file of it. A cable is between
 * two ports in one subnet; where more share it there is a switch. */
#ifndef WEFT_RUN_SITE_H
#define WEFT_RUN_SITE_H

#include "base/error.h"
#include "base/text.h"
#include "io/world.h"

struct run_site_options {
    uint32_t rank, n_ranks;
    const char *name; /* of this host; NULL or "": the machine's */
    struct io_endpoint rendezvous;
    weft_ns patience_ns;   /* for ranks that have not started yet; 0: default */
    uint64_t seed;         /* of the job's key, as in the run */
    const uint8_t *secret; /* run_options.secret */
    const char *netdevs;   /* only ports on these, separated by commas; NULL: all */
};

/* `world` has one host, this process, on its machine as it is: ports are those of its devices, or
 * of all its netdevs if it has none. Appends the file's text to `out`. WEFT_ERR_ENVIRONMENT: no
 * port, or several hosts that no cable joins. */
weft_status run_site(struct world *world, const struct run_site_options *options,
                     struct weft_text *out, struct weft_error *error) WEFT_MUST_CHECK;

/* Every rank's text to every rank, before there is a job: `mine`, and all[n_ranks], each empty at
 * first and the caller's. Another gather, or a run, may follow at the same place. */
weft_status run_site_gather(struct world *world, const struct run_site_options *options,
                            const struct weft_text *mine, struct weft_text *all,
                            struct weft_error *error) WEFT_MUST_CHECK;

/* ---- site_file.c ---- */

/* What each rank told, [n_ranks], JSON texts; pure. */
weft_status run_site_file(const struct weft_text *facts, uint32_t n_ranks,
                          struct weft_text *out,
                          struct weft_error *error) WEFT_MUST_CHECK;

#endif
