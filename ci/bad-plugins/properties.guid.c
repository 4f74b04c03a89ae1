/* All its ports are one. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(int device, struct abi_properties_v11 *out)
{
    abi_status status = ref_properties_v11(device, out);

    out->guid = 0;
    return status;
}

SPOIL(net)
{
    net->get_properties = bad;
}
