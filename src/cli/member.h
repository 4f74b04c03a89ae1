/* Determines which member of a job this process is and where rank 0 is, from flags or from the
 * launcher's environment (torchrun, mpirun or srun). */
#ifndef WEFT_CLI_MEMBER_H
#define WEFT_CLI_MEMBER_H

#include "cli/cli.h"
#include "cli/secret.h"
#include "io/oob.h"

struct cli_member {
    const char *started_by; /* "torchrun"; NULL if started by hand */
    bool is_relay;
    bool is_soft; /* simulated NICs (--backend soft) */
    bool has_rank;
    uint32_t rank, n_ranks;
    uint32_t local_rank; /* rank on this host; 0 if unknown */
    /* Host in the scenario, or "HOST/1"; "" if the rank determines it. */
    char name[96];
    bool has_rendezvous;
    struct io_endpoint rendezvous; /* where rank 0 listens */
    bool has_secret;
    uint8_t secret[CLI_SECRET_BYTES];
};

/* Fills `out`. Returns false after a message on stderr. */
bool cli_member_find(const struct cli_options *options, bool is_relay,
                     struct cli_member *out);
/* Sets the member's name from its rank. Returns false after a message if the scenario has another
 * number of ranks. */
bool cli_member_place(struct cli_member *member, const struct scenario *scenario);

#endif
