/* Never done connecting. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *context, int device, void *handle, void **out,
                      struct abi_device_handle **offload)
{
    (void)context, (void)device, (void)handle, (void)offload;
    *out = NULL;
    return ABI_SUCCESS;
}

SPOIL(net)
{
    net->connect = bad;
}
