/* Needs 132 bytes. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *context, int device, void *handle, void **out)
{
    memset((char *)handle + ABI_HANDLE_BYTES, 0, 4);
    return ref_listen(context, device, handle, out);
}

SPOIL(net)
{
    net->listen = bad;
}
