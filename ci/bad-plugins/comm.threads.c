/* A comm works on the thread that made it only. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *opaque, void *data, size_t size, int tag, void *mhandle,
                      void *event, void **out)
{
    struct comm *comm = opaque;

    *out = NULL;
    if (!pthread_equal(comm->maker, pthread_self())) {
        return ABI_INVALID_USAGE;
    }
    return ref_isend(comm, data, size, tag, mhandle, event, out);
}

SPOIL(net)
{
    net->isend = bad;
}
