/* Takes the mark for something to be kept. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *comm, int n, void **data, size_t *sizes, int *tags,
                      void **mhandles, void **events, void **out)
{
    void *mark = *out;
    abi_status status = ref_irecv(comm, n, data, sizes, tags, mhandles, events, out);

    if (mark == (void *)ABI_OPTIONAL_RECEIVE) {
        *out = mark;
    }
    return status;
}

SPOIL(net)
{
    net->irecv = bad;
}
