#include "backends/rxe/backend.h"

#include "backends/lab/world.h"

static weft_status create(const struct world_spec *spec, struct world **out,
                          struct weft_error *error)
{
    struct lab_world_kind kind = {.layout = LAB_NAMESPACES, .with_devices = true};
    weft_status status = rxe_can_express(spec, error);

    if (status == WEFT_OK) {
        status = rxe_probe(&kind.layout, error);
    }
    if (status == WEFT_OK) {
        status = rxe_layout_can_express(spec, kind.layout, error);
    }
    return status == WEFT_OK ? lab_world_create(&backend_rxe, &kind, spec, out, error)
                             : status;
}

const struct world_ops backend_rxe = {
    .name = "rxe",
    .is_unpaced = true,
    .create = create,
    LAB_WORLD_OPS,
};
