/* Waits in test for the message. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *request, int *done, int *sizes)
{
    abi_status status;

    do {
        status = ref_test(request, done, sizes);
    } while (status == ABI_SUCCESS && *done == 0);
    return status;
}

SPOIL(net)
{
    net->test = bad;
}
