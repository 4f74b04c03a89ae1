/* Fails to describe its second port. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(int device, struct abi_properties_v11 *out)
{
    abi_status status = ref_properties_v11(device, out);

    if (device > 0) {
        status = ABI_INTERNAL_ERROR;
    }
    return status;
}

SPOIL(net)
{
    net->get_properties = bad;
}
