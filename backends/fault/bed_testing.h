/* Fixture: two hosts and a cable, wrapped with faults, without users. */
#ifndef WEFT_BACKENDS_FAULT_BED_TESTING_H
#define WEFT_BACKENDS_FAULT_BED_TESTING_H

#include "backends/fault/fault.h"
#include "host/host_testing.h"

#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)

extern struct mesh_test mesh;
extern struct world *world;
extern struct io_env *ends[2];
extern struct io_task tasks[2]; /* of each end */

/* Value of mesh_test.wrap. */
struct world *wrap(struct world *inner, const struct world_spec *spec);
void open_world(void);
/* Opens `mesh` as it is. */
void open_mesh(void);
void close_world(void);
/* Returns a fault of host 0: the first call fails with ENOMEM. */
struct world_fault fault_of(enum world_fault_kind kind, enum world_call call);
void inject(const struct world_fault *fault);
/* Runs the world until `task` is woken (returns true), or `for_ns` has passed. Discards wake-ups
 * of other tasks. */
bool is_woken(const struct io_task *task, weft_ns for_ns);
void forget_wakes(void);

#endif
