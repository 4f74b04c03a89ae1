/* Plans which programs run on which hosts of a scenario, from the command line of `weft exec` or
 * from a scenario's jobs. */
#ifndef WEFT_RUN_PROGRAM_PLAN_H
#define WEFT_RUN_PROGRAM_PLAN_H

#include "base/text.h"
#include "io/programs.h"
#include "scenario/scenario.h"

/* Writes the name of a port's device in the world that runs the programs. */
typedef void (*program_device_name)(const struct world_spec *spec, uint32_t host,
                                    uint32_t port, char *out, size_t n_bytes);

struct program_plan {
    struct world_program
        *items; /* Owned [n]; ordered by step, then by the given order of hosts */
    uint32_t n;
};

/* A command as it was given. */
struct program_group {
    char *const *hosts; /* [n_hosts]; 0: every host that no other command names */
    size_t n_hosts;
    char *const *words; /* [n_words], at least one */
    size_t n_words;
};

/* Plans the commands of one job, which run one step after the other.
 *
 * In each word of a command {NAME} and {NAME:ARGUMENT}, where NAME consists of letters a-z, are
 * replaced. {{NAME}} becomes {NAME}; ${NAME} and all other braces stay:
 *
 * {host}          the name of the host
 * {rank}          its first rank, from 0
 * {peer}          the other host if the commands name two; otherwise its only neighbour
 * {address:PEER}  the address of PEER at the first cable to it; of its port with PEER:PORT
 * {device:PEER}   the RDMA device of this host at that cable; with PEER:PORT, at that port
 * {address} {device}  the same with the peer as PEER
 *
 * On error returns false, appends a line to `*why` and leaves `*out` empty. */
bool program_plan_groups(const struct scenario_world *world, program_device_name device,
                         const struct program_group *groups, size_t n_groups,
                         struct program_plan *out, struct weft_text *why);
/* Plans the commands of a command line: `hosts` are the names before the first "--", `words` all
 * words after it. A word ":" ends a command if it is followed by host names and "--", or by "--"
 * alone. */
bool program_plan_make(const struct scenario_world *world, program_device_name device,
                       char *const *hosts, size_t n_hosts, char *const *words,
                       size_t n_words, struct program_plan *out, struct weft_text *why);
void program_plan_fini(struct program_plan *plan);

#endif
