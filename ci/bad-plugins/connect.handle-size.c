/* Keeps its state behind the handle. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *context, int device, void *handle, void **out,
                      struct abi_device_handle **offload)
{
    ((char *)handle)[ABI_HANDLE_BYTES + 4] = 1;
    return ref_connect(context, device, handle, out, offload);
}

SPOIL(net)
{
    net->connect = bad;
}
