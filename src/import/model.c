/* Queries on the importer's model that all of its parts use. */
#include "import/model.h"

#include "base/check.h"

bool import_is_port(const struct import_device *device)
{
    return device->kind == IMPORT_ETHERNET;
}

bool import_same_network(const struct io_prefix *a, const struct io_prefix *b)
{
    return a->prefix_len == b->prefix_len &&
           io_ip_same_subnet(&a->ip, &b->ip, a->prefix_len);
}

bool import_overlap(const struct io_prefix *a, const struct io_prefix *b)
{
    struct io_prefix x = subnet_network(a);
    struct io_prefix y = subnet_network(b);

    return subnet_contains(&x, &y) || subnet_contains(&y, &x);
}

const char *import_port(const struct import_device *device, char *out, size_t out_bytes)
{
    if (device->is_cage) {
        weft_format(out, out_bytes, "p%u.%u", device->cage, device->function);
    } else {
        weft_format(out, out_bytes, "%s", device->name);
    }
    return out;
}

const char *import_place(const struct import *import, const struct import_device *device,
                         char *out, size_t out_bytes)
{
    char quoted[DIAGNOSE_QUOTE_BYTES];

    weft_format(out, out_bytes, "%s:%s", import->hosts[device->host].name,
                diagnose_quote(device->name, quoted));
    return out;
}
