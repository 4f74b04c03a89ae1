/* Returns all names in one buffer. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static char name[16];

static abi_status bad(int device, struct abi_properties_v11 *out)
{
    abi_status status = ref_properties_v11(device, out);

    snprintf(name, sizeof(name), "lo%d", device);
    out->name = name;
    return status;
}

SPOIL(net)
{
    net->get_properties = bad;
}
