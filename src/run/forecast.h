/* Predicts how the set-up of connections fails under the policy of a scenario, before a run. */
#ifndef WEFT_RUN_FORECAST_H
#define WEFT_RUN_FORECAST_H

#include "diag/diag.h"
#include "scenario/scenario.h"

/* Adds the findings that a job would have if the hosts of `input`, on which nothing has run, used
 * the ports and GIDs that the policy of the scenario chooses. Ignores the scenario's faults. Only
 * ranks whose hosts share a cable, or the only two, are examined, because a job need not connect
 * others. Policy weft uses only ports that face each other: adds nothing then, and makes a warning
 * of each error about two ports in one subnet that no rank uses. */
void run_forecast(const struct scenario *scenario, const struct diag_input *input,
                  struct diag_findings *out);

#endif
