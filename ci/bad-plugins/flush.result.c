/* Has no flush. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *comm, int n, void **data, int *sizes, void **mhandles,
                      void **out)
{
    (void)comm, (void)n, (void)data, (void)sizes, (void)mhandles, (void)out;
    return ABI_INTERNAL_ERROR;
}

SPOIL(net)
{
    net->iflush = bad;
}
