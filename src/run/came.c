/* Faults that wait for a moment of the job: whether and when they began. */
#include <stdlib.h>

#include "base/text.h"
#include "run/private.h"

static bool waits(const struct scenario_fault *fault)
{
    return fault->spec.moment.kind != WORLD_MOMENT_START;
}

static bool is_known(const struct run *run)
{
    return run->world != NULL && run->world->ops->fault_began != NULL;
}

static weft_ns began_ns(const struct run *run, uint32_t fault)
{
    return run->world->ops->fault_began(run->world, fault);
}

void run_note_came(struct run *run)
{
    const struct scenario *scenario = run->scenario;
    bool any_waits = false;

    for (uint32_t i = 0; i < scenario->n_faults; i++) {
        any_waits = any_waits || waits(&scenario->faults[i]);
    }
    if (!any_waits || !is_known(run)) {
        return;
    }
    run->came = *scenario;
    run->came.faults = weft_calloc(scenario->n_faults, sizeof(scenario->faults[0]));
    run->came.n_faults = 0;
    for (uint32_t i = 0; i < scenario->n_faults; i++) {
        struct scenario_fault fault = scenario->faults[i];

        if (waits(&fault)) {
            weft_ns began = began_ns(run, i);

            if (began == WEFT_NEVER) {
                continue;
            }
            fault.spec.at_ns = began - run->origin_ns;
            fault.spec.moment = (struct world_moment){.kind = WORLD_MOMENT_START};
        }
        run->came.faults[run->came.n_faults++] = fault;
    }
}

const struct scenario *run_as_it_came(const struct run *run)
{
    return run->came.faults != NULL ? &run->came : run->scenario;
}

/* Returns true if no fault with that `number` in the file began. */
static bool never_came(const struct run *run, uint32_t number)
{
    const struct scenario *scenario = run->scenario;

    for (uint32_t i = 0; i < scenario->n_faults; i++) {
        if (scenario->faults[i].number == number && began_ns(run, i) != WEFT_NEVER) {
            return false;
        }
    }
    return true;
}

void run_warn_of_faults(const struct run *run, json_t *warnings)
{
    const struct scenario *scenario = run->scenario;
    uint32_t last = 0;

    for (uint32_t i = 0; i < scenario->n_faults && is_known(run); i++) {
        const struct scenario_fault *fault = &scenario->faults[i];
        char moment[SCENARIO_MOMENT_BYTES], text[SCENARIO_MOMENT_BYTES + 80];

        if (fault->number == last || !waits(fault)) {
            continue;
        }
        last = fault->number;
        if (never_came(run, fault->number)) {
            scenario_moment_text(scenario, &fault->spec, moment, sizeof(moment));
            weft_format(text, sizeof(text),
                        "fault %u %s never came: the run was over before", fault->number,
                        moment);
            json_array_append_new(warnings, json_string(text));
        }
    }
}
