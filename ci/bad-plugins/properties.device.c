/* Offers an offload that it does not have. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(int device, struct abi_properties_v11 *out)
{
    abi_status status = ref_properties_v11(device, out);

    out->net_device_type = 1;
    return status;
}

SPOIL(net)
{
    net->get_properties = bad;
}
