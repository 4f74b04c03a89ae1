#include "run/drill_world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/verbs.h"
#include "run/carrier.h"
#include "run/private.h"

#define LOOK_NS INT64_C(100000)

uint32_t drill_network_order(uint32_t bits)
{
    const uint8_t bytes[] = {(uint8_t)(bits >> 24), (uint8_t)(bits >> 16),
                             (uint8_t)(bits >> 8), (uint8_t)bits};
    uint32_t ordered;

    memcpy(&ordered, bytes, sizeof(ordered));
    return ordered;
}

weft_ns drill_now(const struct run *run)
{
    return run->world->ops->now(run->world);
}

void drill_pass(struct run *run, weft_ns time)
{
    struct world *world = run->world;
    struct io_loop *tasks = world->ops->loop(world);
    weft_ns until = drill_now(run) + time;

    while (world->ops->step(world, until) == WEFT_OK) {
        while (io_loop_pop(tasks) != NULL) {
        }
    }
}

int drill_verb(struct run *run, struct io_device *device, struct io_op *op, weft_ns limit)
{
    weft_ns until = drill_now(run) + limit;
    int error = device->ops->submit(device, op);

    while (error == 0 && (error = device->ops->poll(device, op)) == EINPROGRESS) {
        if (drill_now(run) >= until) {
            device->ops->abandon(device, op);
            return DRILL_HANGS;
        }
        drill_pass(run, LOOK_NS);
        error = 0;
    }
    return error;
}

static bool is_open_fault(const struct world_fault *fault, weft_ns now)
{
    switch ((int)fault->kind) {
    case WORLD_FAULT_KILL:
    case WORLD_FAULT_RESTART:
    case WORLD_FAULT_VERB_ERROR:
    case WORLD_FAULT_CALL_ERROR:
    case WORLD_FAULT_CALL_LOST:
    case WORLD_FAULT_DEVICE_FATAL:
        return true;
    case WORLD_FAULT_ADDR_ADD:
    case WORLD_FAULT_ADDR_DEL:
    case WORLD_FAULT_GID_DELETE:
    case WORLD_FAULT_VERB_SLOW:
    case WORLD_FAULT_CALL_SLOW:
    case WORLD_FAULT_CALL_SHORT:
    case WORLD_FAULT_ASYNC_EVENT:
    case WORLD_FAULT_DOWN: /* see is_carrier_open() */
    case WORLD_FAULT_UP:
        return false;
    default:
        return !fault->has_match &&
               (fault->for_ns == 0 || fault->at_ns + fault->for_ns > now);
    }
}

/* Returns true if faults keep the port without carrier, or change it later. */
static bool is_carrier_open(const struct scenario *scenario, uint32_t host, uint32_t port,
                            weft_ns now)
{
    weft_ns quiet_ns = run_carrier_quiet_ns(scenario, host, port);
    size_t n;
    struct run_dark *darks = run_carrier_dark(scenario, host, port, &n);
    bool is_dark = n > 0 && darks[n - 1].to == WEFT_NEVER;

    free(darks);
    return quiet_ns > now || (quiet_ns >= 0 && is_dark);
}

static bool is_any_carrier_open(const struct scenario *scenario, weft_ns now)
{
    for (uint32_t i = 0; i < scenario->n_hosts; i++) {
        for (uint32_t k = 0; k < scenario->hosts[i].n_ports; k++) {
            if (is_carrier_open(scenario, i, k, now)) {
                return true;
            }
        }
    }
    return false;
}

bool drill_is_left_alone(const struct run *run)
{
    const struct scenario *scenario = run_as_it_came(run);

    if (scenario->n_faults < run->scenario->n_faults) {
        return false; /* a fault that has not begun can still begin */
    }
    for (uint32_t i = 0; i < scenario->n_faults; i++) {
        if (is_open_fault(&scenario->faults[i].spec, drill_now(run))) {
            return false;
        }
    }
    return !is_any_carrier_open(scenario, drill_now(run));
}
