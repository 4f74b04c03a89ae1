/* Fills the array of sizes to its end. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *request, int *done, int *sizes)
{
    int n = ((struct request *)request)->n;
    abi_status status = ref_test(request, done, sizes);

    for (int i = n; i < GROUP_MAX && *done != 0; i++) {
        sizes[i] = 0;
    }
    return status;
}

SPOIL(net)
{
    net->test = bad;
}
