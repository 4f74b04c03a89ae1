/* Predicts how the set-up of connections fails under the policy of a scenario, before a run. */
#ifndef WEFT_RUN_FORECAST_H
#define WEFT_RUN_FORECAST_H

#include "diag/diag.h"
#include "scenario/scenario.h"

/* Adds the findings that a job would have if the hosts of `input`, on which nothing has run, used
 * the ports and GIDs that the policy of the scenario chooses. Ignores the scenario's faults. Only
 * hosts that share a cable are examined, because a job need not connect others. Adds nothing under
 * policy weft, which uses only ports that face each other. */
void run_forecast(const struct scenario *scenario, const struct diag_input *input,
                  struct diag_findings *out);

#endif
