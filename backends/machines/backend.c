#include "backends/machines/backend.h"

#include <stdlib.h>
#include <string.h>

#include "backends/lab/elsewhere.h"
#include "backends/lab/world.h"

static weft_status refuse(const char *what, const char *of, struct weft_error *error)
{
    return lab_refuse("verbs", what, of, error);
}

static weft_status check_host(const struct world_host *host, struct weft_error *error)
{
    if (host->n_routes > 0) {
        return refuse("route over another host", host->name, error);
    }
    if (host->n_input_drop > 0 || !host->forward_accept) {
        return refuse("firewall", host->name, error);
    }
    if (host->gpu_document != NULL) {
        return refuse("topology of a host's inside", host->name, error);
    }
    return host->has_private_shm ? refuse("/dev/shm of its own", host->name, error)
                                 : WEFT_OK;
}

static weft_status check_cable(const struct world_spec *spec,
                               const struct world_cable *cable, struct weft_error *error)
{
    const struct world_impairment *is = &cable->impairment;
    const struct world_end *end = &cable->ends[cable->ends[0].is_switch ? 1 : 0];
    const char *at = spec->hosts[end->node].name;

    if (is->loss_ppb != 0 || is->corrupt_ppb != 0 || is->duplicate_ppb != 0 ||
        is->reorder_ppb != 0 || is->ecn_ppb != 0) {
        return refuse("impairment of a cable", at, error);
    }
    return cable->path_limit_bytes != 0 ? refuse("path_limit", at, error) : WEFT_OK;
}

static weft_status check_fault(const struct world_fault *fault, struct weft_error *error)
{
    bool is_kill = fault->kind == WORLD_FAULT_KILL && !fault->has_port;

    /* Machines do not report the stages that they reach. */
    if (is_kill && fault->moment.kind != WORLD_MOMENT_START) {
        return refuse("fault at a moment of the job", world_fault_name(fault->kind),
                      error);
    }
    return is_kill || lab_fault_is_of_process(fault)
               ? WEFT_OK
               : refuse("fault", world_fault_name(fault->kind), error);
}

weft_status machines_can_express(const struct world_spec *spec, struct weft_error *error)
{
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < spec->n_hosts && status == WEFT_OK; i++) {
        status = check_host(&spec->hosts[i], error);
    }
    for (uint32_t i = 0; i < spec->n_cables && status == WEFT_OK; i++) {
        status = check_cable(spec, &spec->cables[i], error);
    }
    for (uint32_t i = 0; i < spec->n_faults && status == WEFT_OK; i++) {
        status = check_fault(&spec->faults[i], error);
    }
    return status;
}

static weft_status create(const struct world_spec *spec, struct world **out,
                          struct weft_error *error)
{
    const char *line = getenv("WEFT_LAUNCH");
    const struct lab_world_kind kind = {
        .layout = LAB_NO_INTERFACES,
        .line = line != NULL && *line != '\0' ? line : LAB_ELSEWHERE_LINE};
    weft_status status = machines_can_express(spec, error);

    if (status == WEFT_OK && strstr(kind.line, "{command}") == NULL) {
        status = weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_LAUNCH,
                           "WEFT_LAUNCH without {command}: %.60s", kind.line);
    }
    return status == WEFT_OK
               ? lab_world_create(&backend_machines, &kind, spec, out, error)
               : status;
}

const struct world_ops backend_machines = {
    .name = "verbs",
    .is_unpaced = true,
    .is_elsewhere = true,
    .create = create,
    LAB_WORLD_OPS,
};
