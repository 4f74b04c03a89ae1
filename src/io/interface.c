#include "io/interface.h"

#include <stddef.h>
#include <string.h>

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

bool io_interface_is_selected(const char *setting, const char *name)
{
    bool is_not = setting[0] == '^', is_exact;

    setting += is_not ? 1 : 0;
    is_exact = setting[0] == '=';
    return is_in_list(setting + (is_exact ? 1 : 0), is_exact, name) != is_not;
}
