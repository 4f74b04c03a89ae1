/* Which programs run on which hosts of a scenario, as `weft exec` has them on its command line, and
 * jobs of a scenario in its file. */
#ifndef WEFT_RUN_PROGRAM_PLAN_H
#define WEFT_RUN_PROGRAM_PLAN_H

#include "base/text.h"
#include "io/programs.h"
#include "scenario/scenario.h"

/* The device of a port, as the world that runs the programs calls it. */
typedef void (*program_device_name)(const struct world_spec *spec, uint32_t host,
                                    uint32_t port, char *out, size_t n_bytes);

struct program_plan {
    struct world_program
        *items; /* Owned [n]: by step, then in the order of hosts as given */
    uint32_t n;
};

/* A command as it was written. */
struct program_group {
    char *const *hosts; /* [n_hosts]; 0: every host that no other command names */
    size_t n_hosts;
    char *const *words; /* [n_words], at least one */
    size_t n_words;
};

/* The commands of one job, each a step after the one before.
 *
 * In each word of a command {NAME} and {NAME:ARGUMENT}, NAME of letters a-z, are replaced;
 * {{NAME}} is {NAME}, ${NAME} and all other braces stay:
 *
 *   {host}          the name of the host
 *   {rank}          its first rank, from 0
 *   {peer}          the other host, where commands are for two; else the only neighbour
 *   {address:PEER}  the address of PEER at the first cable to it; of its port with PEER:PORT
 *   {device:PEER}   the RDMA device of this host at that cable; with PEER:PORT, at that port
 *   {address} {device}  the same with the peer
 *
 * False: `*why` says what is wrong, a line, and `*out` is empty. */
bool program_plan_groups(const struct scenario_world *world, program_device_name device,
                         const struct program_group *groups, size_t n_groups,
                         struct program_plan *out, struct weft_text *why);
/* The same of a command line. What stands before the first "--": [n_hosts] names. What stands
 * behind: [n_words]. A word ":" ends a command where names of hosts and "--" follow, or "--"
 * alone. */
bool program_plan_make(const struct scenario_world *world, program_device_name device,
                       char *const *hosts, size_t n_hosts, char *const *words,
                       size_t n_words, struct program_plan *out, struct weft_text *why);
void program_plan_fini(struct program_plan *plan);

#endif
