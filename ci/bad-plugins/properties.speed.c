/* Does not know how fast it is. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(int device, struct abi_properties_v11 *out)
{
    abi_status status = ref_properties_v11(device, out);

    out->speed = -1;
    return status;
}

SPOIL(net)
{
    net->get_properties = bad;
}
