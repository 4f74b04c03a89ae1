/* Which member of a job this process is, and where the others are: flags say, or else whoever
 * started it: torchrun, mpirun or srun. */
#ifndef WEFT_CLI_MEMBER_H
#define WEFT_CLI_MEMBER_H

#include "cli/cli.h"
#include "cli/secret.h"
#include "io/oob.h"

struct cli_member {
    const char *started_by; /* "torchrun"; NULL: by hand */
    bool is_relay;
    bool is_soft; /* simulated NICs: --backend soft */
    bool has_rank;
    uint32_t rank, n_ranks;
    uint32_t local_rank; /* of this host; 0 unless told */
    char name[96];       /* of the host in the scenario, or "HOST/1"; "": rank tells */
    bool has_rendezvous;
    struct io_endpoint rendezvous; /* at rank 0, where it listens */
    bool has_secret;
    uint8_t secret[CLI_SECRET_BYTES];
};

/* False after a message on stderr. */
bool cli_member_find(const struct cli_options *options, bool is_relay,
                     struct cli_member *out);
/* The member's name, from its rank, and whether there are as many ranks as the scenario has.
 * False after a message. */
bool cli_member_place(struct cli_member *member, const struct scenario *scenario);

#endif
