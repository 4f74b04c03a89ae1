/* Waits in connect until the peer has accepted. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *context, int device, void *handle, void **out,
                      struct abi_device_handle **offload)
{
    abi_status status;

    do {
        status = ref_connect(context, device, handle, out, offload);
    } while (status == ABI_SUCCESS && *out == NULL);
    return status;
}

SPOIL(net)
{
    net->connect = bad;
}
