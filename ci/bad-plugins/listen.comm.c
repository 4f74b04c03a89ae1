/* Gives its comm at the second call. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *context, int device, void *handle, void **out)
{
    (void)context, (void)device, (void)handle;
    *out = NULL;
    return ABI_SUCCESS;
}

SPOIL(net)
{
    net->listen = bad;
}
