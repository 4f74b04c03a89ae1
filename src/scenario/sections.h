/* Readers of the sections after the topology, one file each. */
#ifndef WEFT_SCENARIO_SECTIONS_H
#define WEFT_SCENARIO_SECTIONS_H

#include "scenario/topology.h"

/* `node` is NULL if the section is absent. Call in this order. */
void ranks_read(const struct topology *topology, const struct tree_node *node);
void jobs_read(const struct topology *topology, const struct tree_node *node);
void faults_read(const struct topology *topology, const struct tree_node *node);
void expect_read(const struct topology *topology, const struct tree_node *node);

/* programs.c: reads the body of a job `exec`. Never returns NULL, also after complaints. */
const struct scenario_exec *programs_read(const struct topology *topology,
                                          const struct tree_node *node,
                                          struct scenario_mark mark);

/* fault_calls.c: arguments of faults. `is_on_port` is true if the fault is on ports instead of
 * a whole node. */
bool fault_verb_read(struct loader *loader, const struct tree_node *node,
                     enum world_call *out);
bool fault_call_read(struct loader *loader, const struct tree_node *node,
                     enum world_fault_kind kind, bool is_on_port, enum world_call *out);
bool fault_event_read(struct loader *loader, const struct tree_node *node, int *out);
bool fault_icrc_read(struct loader *loader, const struct tree_node *node, bool *out_good);
/* `send` is NULL if the strangers send nothing. */
bool fault_stranger_read(const struct topology *topology, const struct tree_node *from,
                         const struct tree_node *send, struct world_fault *out);
/* moment.c: reads `at`, a time or a moment of the job, into moment and at_ns. */
bool fault_moment_read(const struct topology *topology, const struct tree_node *node,
                       struct world_fault *out);
/* Checks that a fault that processes of out->host apply themselves does not wait for an event
 * of another host, which they do not know. */
bool fault_moment_check(struct loader *loader, const struct tree_node *node,
                        const struct world_fault *fault);
/* Parses "row 9" at the beginning of `at` into `*out_row`; `*out_rest` is the text after the
 * number. Returns false if `at` names no row. */
bool fault_moment_row(const char *text, uint64_t *out_row, const char **out_rest);
/* Reads an address of `port`. Without a prefix, takes the one that the address has on the
 * port, so that it is restored when the fault ends, or a single host's if the port does not
 * have the address. */
bool fault_address_read(struct loader *loader, const struct tree_node *node,
                        const char *name, const struct world_port *port,
                        struct io_prefix *out);

/* set.c: applies --set number `set` (from 1). Returns the new root, or NULL after a complaint. */
struct tree_node *set_apply(struct loader *loader, struct tree_node *root, uint32_t set);

#endif
