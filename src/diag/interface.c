#include "diag/interface.h"

#include <string.h>

#include "io/interface.h"

/* As in NCCL, any value of `family` other than these two selects both families. */
static bool has_address(const struct io_interface *interface, const char *family)
{
    if (family != NULL && strcmp(family, "AF_INET") == 0) {
        return interface->has_v4;
    }
    if (family != NULL && strcmp(family, "AF_INET6") == 0) {
        return interface->has_v6;
    }
    return interface->has_v4 || interface->has_v6;
}

static void list(struct weft_text *out, const char *name, const char *why)
{
    weft_text_add(out, "%s%s%s", out->n > 0 ? ", " : "", name, why);
}

bool diag_interface_missing(const struct io_interface *interfaces, uint32_t n,
                            const char *setting, const char *family,
                            struct weft_text *out_named, struct weft_text *out_others)
{
    bool is_missing = true;

    for (uint32_t i = 0; i < n; i++) {
        const struct io_interface *interface = &interfaces[i];
        bool is_named = io_interface_is_selected(setting, interface->name);

        if (has_address(interface, family) && interface->is_running) {
            is_missing = is_missing && !is_named;
            if (!is_named) {
                list(out_others, interface->name, "");
            }
        } else if (is_named) {
            list(out_named, interface->name,
                 interface->is_running ? " (no address)" : " (down)");
        }
    }
    return is_missing;
}
