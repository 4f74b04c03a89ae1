#include "diag/interface.h"

#include <string.h>

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

/* Returns true if the list contains `name` or, unless `is_exact`, a prefix of it. Names are
 * separated by commas and end at a colon. Empty names are ignored, and a list without names
 * contains every interface. */
static bool is_in_list(const char *list, bool is_exact, const char *name)
{
    bool is_empty = true;

    while (*list != '\0') {
        size_t n_entry = strcspn(list, ",");
        size_t n_name = strcspn(list, ",:");

        if (n_name > 0) {
            is_empty = false;
            if (strncmp(list, name, n_name) == 0 && (!is_exact || name[n_name] == '\0')) {
                return true;
            }
        }
        list += n_entry + (list[n_entry] == ',' ? 1 : 0);
    }
    return is_empty;
}

bool diag_interface_is_named(const char *setting, const char *name)
{
    bool is_not = setting[0] == '^', is_exact;

    setting += is_not ? 1 : 0;
    is_exact = setting[0] == '=';
    return is_in_list(setting + (is_exact ? 1 : 0), is_exact, name) != is_not;
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
        bool is_named = diag_interface_is_named(setting, interface->name);

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
