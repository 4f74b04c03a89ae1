#define _GNU_SOURCE
#include "backends/soft/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/lab/world.h"
#include "backends/soft/host.h"
#include "backends/soft/loopback.h"
#include "backends/soft/places.h"
#include "base/check.h"
#include "base/text.h"

#define LAYOUT_SETTING "WEFT_SOFT_LAYOUT"

static weft_status refuse(struct weft_error *error, const char *what, const char *of)
{
    return lab_refuse("soft", what, of, error);
}

/* ---- checks of a scenario ---- */

weft_status soft_can_express(const struct world_spec *spec, struct weft_error *error)
{
    weft_status status = soft_host_can_express(spec, error);
    return status == WEFT_OK ? lab_can_express("soft", spec, error) : status;
}

/* Rejects impairments and faults of cables, which the loopback layout cannot produce. */
static weft_status check_loopback(const struct world_spec *spec, struct weft_error *error)
{
    for (uint32_t i = 0; i < spec->n_faults; i++) {
        const struct world_fault *fault = &spec->faults[i];

        if (world_fault_is_of_link(fault) && !lab_fault_is_of_process(fault)) {
            return refuse(error,
                          fault->on_management
                              ? "fault of the management network on loopback"
                              : "fault of a cable on loopback",
                          world_fault_name(spec->faults[i].kind));
        }
    }
    for (uint32_t i = 0; i < spec->n_cables; i++) {
        const struct world_impairment *impairment = &spec->cables[i].impairment;
        if (impairment->loss_ppb != 0 || impairment->corrupt_ppb != 0 ||
            impairment->duplicate_ppb != 0 || impairment->reorder_ppb != 0) {
            return refuse(error, "impairment on loopback",
                          spec->hosts[spec->cables[i].ends[0].node].name);
        }
    }
    return WEFT_OK;
}

/* ---- the world ---- */

/* Reserves a block until the program ends; other runs can use it once its processes have
 * ended. */
static weft_status claim_block(char *out, size_t n_bytes, struct weft_error *error)
{
    uint8_t block = 0;
    int fd = -1;
    int problem = soft_loopback_claim(&block, &fd);
    if (problem != 0) {
        return weft_fail_errno(error, problem, WEFT_PHASE_LOOPBACK,
                               "no block of loopback addresses is free");
    }
    weft_format(out, n_bytes, "%u", block);
    return WEFT_OK;
}

static weft_status choose_layout(enum lab_layout *out, struct weft_error *error)
{
    const char *asked = getenv(LAYOUT_SETTING);
    *out = LAB_NO_INTERFACES;
    if (asked != NULL && strcmp(asked, "loopback") == 0) {
        return WEFT_OK;
    }
    if (asked != NULL && strcmp(asked, "namespaces") != 0) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_SOFT,
                         LAYOUT_SETTING ": namespaces or loopback, not %.40s", asked);
    }
    int problem = soft_places_enter();
    if (problem == 0) {
        *out = LAB_NAMESPACES;
        return WEFT_OK;
    }
    if (asked != NULL) {
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_SOFT,
                         "this user cannot make network namespaces: %s",
                         strerrordesc_np(problem));
    }
    return WEFT_OK;
}

static weft_status create(const struct world_spec *spec, struct world **out,
                          struct weft_error *error)
{
    static char block[8]; /* the program has only one world */
    static const struct world_setting settings[] = {{"WEFT_NIC", "soft"},
                                                    {"WEFT_SOFT_BLOCK", block}};
    struct lab_world_kind kind = {.settings = settings, .n_settings = 1};
    weft_status status = soft_can_express(spec, error);
    if (status == WEFT_OK) {
        status = choose_layout(&kind.layout, error);
    }
    if (status == WEFT_OK && kind.layout == LAB_NO_INTERFACES) {
        kind.n_settings = 2;
        status = check_loopback(spec, error);
        if (status == WEFT_OK && block[0] == '\0') {
            status = claim_block(block, sizeof block, error);
        }
    }
    return status == WEFT_OK ? lab_world_create(&backend_soft, &kind, spec, out, error)
                             : status;
}

const struct world_ops backend_soft = {
    .name = "soft",
    .is_unpaced = true,
    .create = create,
    LAB_WORLD_OPS,
};
