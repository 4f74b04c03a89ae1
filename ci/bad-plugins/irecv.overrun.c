/* Ends what it receives with a zero. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *comm, int n, void **data, size_t *sizes, int *tags,
                      void **mhandles, void **events, void **out)
{
    ((char *)data[n - 1])[sizes[n - 1]] = 0;
    return ref_irecv(comm, n, data, sizes, tags, mhandles, events, out);
}

SPOIL(net)
{
    net->irecv = bad;
}
