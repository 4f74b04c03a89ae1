/* Calls it an error that the connection is not up yet. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *context, int device, void *handle, void **out,
                      struct abi_device_handle **offload)
{
    abi_status status = ref_connect(context, device, handle, out, offload);

    return *out == NULL ? ABI_IN_PROGRESS : status;
}

SPOIL(net)
{
    net->connect = bad;
}
