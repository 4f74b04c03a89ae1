/* Dumps a scenario and its world as text, one line per item, so that tests can compare them as
 * a whole. */
#ifndef WEFT_SCENARIO_SCENARIO_TESTING_H
#define WEFT_SCENARIO_SCENARIO_TESTING_H

#include "base/text.h"
#include "scenario/scenario.h"

void dump_world(const struct scenario_world *world, struct weft_text *out);
/* Appends what is not part of the world: names, ranks, jobs, expectations. */
void dump_scenario(const struct scenario *scenario, struct weft_text *out);

/* Returns the contents of a file, terminated; fails the test if it cannot be read. The caller
 * frees it. */
char *testing_read_file(const char *path, size_t *out_n_bytes);

#endif
