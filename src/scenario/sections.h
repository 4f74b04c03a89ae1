/* The sections of a scenario after the topology, each read by its own file. */
#ifndef WEFT_SCENARIO_SECTIONS_H
#define WEFT_SCENARIO_SECTIONS_H

#include "scenario/topology.h"

/* `node` is NULL where the section is absent. Call in this order. */
void ranks_read(const struct topology *topology, const struct tree_node *node);
void jobs_read(const struct topology *topology, const struct tree_node *node);
void faults_read(const struct topology *topology, const struct tree_node *node);
void expect_read(const struct topology *topology, const struct tree_node *node);

/* programs.c: the body of a job `exec`, also after complaints. */
const struct scenario_exec *programs_read(const struct topology *topology,
                                          const struct tree_node *node,
                                          struct scenario_mark mark);

/* fault_calls.c: what a fault is about. `is_on_port`: not of a whole node. */
bool fault_verb_read(struct loader *loader, const struct tree_node *node, int *out);
bool fault_call_read(struct loader *loader, const struct tree_node *node,
                     enum world_fault_kind kind, bool is_on_port, enum world_call *out);
bool fault_event_read(struct loader *loader, const struct tree_node *node, int *out);
bool fault_icrc_read(struct loader *loader, const struct tree_node *node, bool *out_good);
/* `send` may be NULL: silent. */
bool fault_stranger_read(const struct topology *topology, const struct tree_node *from,
                         const struct tree_node *send, struct world_fault *out);
/* moment.c: reads `at`, a time or a moment of the job, into moment and at_ns. */
bool fault_moment_read(const struct topology *topology, const struct tree_node *node,
                       struct world_fault *out);
/* Checks that the fault on out->host, of a kind that processes meet, waits for nothing that only
 * others know. */
bool fault_moment_check(struct loader *loader, const struct tree_node *node,
                        const struct world_fault *fault);
/* "row 9" as in `at` (with "+10us" or without), as `*out_row`; false if it is none. `*out_rest` is
 * what follows the number. */
bool fault_moment_row(const char *text, uint64_t *out_row, const char **out_rest);
/* Reads an address that `port` has. One without a prefix has the prefix it has there, so that it
 * comes back as it was when the fault ends; if the port does not have it, that of a single host. */
bool fault_address_read(struct loader *loader, const struct tree_node *node,
                        const char *name, const struct scenario_port *port,
                        struct io_prefix *out);

/* set.c: applies --set number `set` (from 1); returns the new root, or NULL after a
 * complaint. */
struct tree_node *set_apply(struct loader *loader, struct tree_node *root, uint32_t set);

#endif
