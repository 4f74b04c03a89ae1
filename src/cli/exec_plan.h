/* The command line of `weft exec`: which programs run on which hosts of a scenario. */
#ifndef WEFT_CLI_EXEC_PLAN_H
#define WEFT_CLI_EXEC_PLAN_H

#include "base/text.h"
#include "io/programs.h"
#include "scenario/scenario.h"

/* The device of a port, as the world that runs the programs calls it. */
typedef void (*exec_device_name)(const struct world_spec *spec, uint32_t host,
                                 uint32_t port, char *out, size_t n_bytes);

struct exec_plan {
    struct world_program
        *items; /* Owned [n]: by step, then in the order of hosts as given */
    uint32_t n;
};

/* What stands before the first "--": [n_hosts] names. What stands behind: [n_words]. A word ":"
 * ends a command where names of hosts and "--" follow, or "--" alone; the command behind is the
 * next step. A command without hosts is for every host that no other command names.
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
bool exec_plan_make(const struct scenario_world *world, exec_device_name device,
                    char *const *hosts, size_t n_hosts, char *const *words,
                    size_t n_words, struct exec_plan *out, struct weft_text *why);
void exec_plan_fini(struct exec_plan *plan);

#endif
