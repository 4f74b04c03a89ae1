/* Calls it an error that no receive is posted yet. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *comm, void *data, size_t size, int tag, void *mhandle,
                      void *event, void **out)
{
    abi_status status = ref_isend(comm, data, size, tag, mhandle, event, out);

    return *out == NULL ? ABI_IN_PROGRESS : status;
}

SPOIL(net)
{
    net->isend = bad;
}
