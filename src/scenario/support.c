/* Fault kinds that the scenario format accepts but no backend implements yet (exit status 3). */

#include <stdio.h>

#include "base/check.h"
#include "base/text.h"
#include "scenario/arena.h"
#include "scenario/names.h"
#include "scenario/scenario.h"

static const char *const missing_faults[WORLD_N_FAULTS] = {
    [WORLD_FAULT_RESTART] = "restart",
    [WORLD_FAULT_CLOCK] = "clock",
};

static bool say(const struct scenario *scenario, const char **out_key,
                const char *section, uint32_t index, const char *key)
{
    char text[128];
    weft_format(text, sizeof(text), "%s.%u.%s", section, index, key);
    *out_key = arena_strdup(scenario->arena, text);
    return true;
}

bool scenario_not_implemented(const struct scenario *scenario, const char **out_key)
{
    for (uint32_t i = 0; i < scenario->n_faults; i++) {
        const char *kind = missing_faults[scenario->faults[i].spec.kind];
        if (kind != NULL) {
            return say(scenario, out_key, "faults", scenario->faults[i].number - 1, kind);
        }
    }
    return false;
}
