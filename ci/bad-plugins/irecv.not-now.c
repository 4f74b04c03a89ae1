/* Calls it an error that it has no room now. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *comm, int n, void **data, size_t *sizes, int *tags,
                      void **mhandles, void **events, void **out)
{
    abi_status status;
    struct comm *of = comm;
    int open = 0;

    *out = NULL;
    for (int i = 0; i < REQUESTS; i++) {
        open += of->requests[i].is_used;
    }
    status = ref_irecv(comm, n, data, sizes, tags, mhandles, events, out);
    return open > 4 ? ABI_INTERNAL_ERROR : status;
}

SPOIL(net)
{
    net->irecv = bad;
}
