/* Closes, but says that it did not. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *listener)
{
    ref_close_listen(listener);
    return ABI_INTERNAL_ERROR;
}

SPOIL(net)
{
    net->close_listen = bad;
}
