/* Returns an error if no peer has connected yet. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *listener, void **out, struct abi_device_handle **offload)
{
    abi_status status = ref_accept(listener, out, offload);

    return *out == NULL ? ABI_SYSTEM_ERROR : status;
}

SPOIL(net)
{
    net->accept = bad;
}
