#include "plugin/hca.h"

#include <stdlib.h>
#include <string.h>

/* Whether `entry` [n], "NAME" or "NAME:PORT", is about the port. */
static bool is_about(const char *entry, size_t n, bool is_exact, const char *device,
                     uint32_t port)
{
    const char *colon = memchr(entry, ':', n);
    size_t n_name = colon == NULL ? n : (size_t)(colon - entry);

    if (n_name == 0 || strncmp(device, entry, n_name) != 0 ||
        (is_exact && device[n_name] != '\0')) {
        return false;
    }
    return colon == NULL || strtoul(colon + 1, NULL, 10) == port;
}

bool hca_takes(const char *list, const char *device, uint32_t port)
{
    bool is_not = list[0] == '^', is_exact, any = false, is_empty = true;

    list += is_not ? 1 : 0;
    is_exact = list[0] == '=';
    list += is_exact ? 1 : 0;
    while (*list != '\0') {
        size_t n = strcspn(list, ",");

        is_empty = is_empty && n == 0;
        any = any || is_about(list, n, is_exact, device, port);
        list += n + (list[n] == ',' ? 1 : 0);
    }
    return is_empty || any != is_not;
}
