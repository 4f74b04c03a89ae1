/* Faults that wait for a moment of the job: whether and when they began. */
#include <stdlib.h>

#include "base/text.h"
#include "base/units.h"
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

/* Returns when the first rank entered its jobs; 0 if none did. */
static weft_ns jobs_began_ns(const struct run *run)
{
    weft_ns first = 0;

    for (uint32_t rank = 0; rank < run->n_ranks; rank++) {
        weft_ns one = run->hosts[rank]->jobs_started_ns;

        first = one != 0 && (first == 0 || one < first) ? one : first;
    }
    return first;
}

bool run_fault_missed(const struct scenario *scenario, uint32_t number, weft_ns jobs_ns,
                      weft_ns ended_ns, char *out, size_t out_bytes)
{
    const struct world_fault *first = NULL;
    bool is_before = true, is_after = true;
    char moment[SCENARIO_MOMENT_BYTES], at[32], from[32];

    for (uint32_t i = 0; i < scenario->n_faults; i++) {
        const struct world_fault *fault = &scenario->faults[i].spec;

        if (scenario->faults[i].number != number) {
            continue;
        }
        if (waits(&scenario->faults[i])) {
            return false;
        }
        first = first == NULL ? fault : first;
        /* A fault from the start on is how the hosts are set up. */
        is_before &= fault->at_ns > 0 && fault->for_ns > 0 &&
                     fault->at_ns + fault->for_ns <= jobs_ns;
        is_after &= fault->at_ns >= ended_ns;
    }
    if (first == NULL || (!is_before && !is_after)) {
        return false;
    }
    scenario_moment_text(scenario, first, moment, sizeof(moment));
    weft_format_time(first->at_ns, at, sizeof(at));
    weft_format_time(jobs_ns - jobs_ns % 1000000, from, sizeof(from));
    if (is_after) {
        weft_format(out, out_bytes, "fault %u %s never came: the run was over before",
                    number, moment);
    } else {
        weft_format(out, out_bytes,
                    "fault %u %s was over before the job began, %s after the start: "
                    "jobs+%s counts from there",
                    number, moment, from, at);
    }
    return true;
}

/* Processes take long to start, so that a time in the file can be before their job. Simulated hosts
 * start at once. */
static void warn_of_times(const struct run *run, json_t *warnings)
{
    uint32_t last = 0;

    for (uint32_t i = 0; i < run->scenario->n_faults && run->are_records; i++) {
        uint32_t number = run->scenario->faults[i].number;
        char text[SCENARIO_MOMENT_BYTES + 160];

        if (number != last && run_fault_missed(run->scenario, number, jobs_began_ns(run),
                                               run->ended_ns, text, sizeof(text))) {
            json_array_append_new(warnings, json_string(text));
        }
        last = number;
    }
}

void run_warn_of_faults(const struct run *run, json_t *warnings)
{
    const struct scenario *scenario = run->scenario;
    uint32_t last = 0;

    warn_of_times(run, warnings);
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
