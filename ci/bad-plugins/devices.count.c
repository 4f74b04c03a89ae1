/* Finds none, and says that this is fine. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(int *n)
{
    *n = 0;
    return ABI_SUCCESS;
}

SPOIL(net)
{
    net->devices = bad;
}
