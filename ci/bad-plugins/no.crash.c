/* Ends the process when it is busy. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *comm, void *data, size_t size, int tag, void *mhandle,
                      void *event, void **out)
{
    static _Atomic int n;

    if (n++ == 20) {
        abort();
    }
    return ref_isend(comm, data, size, tag, mhandle, event, out);
}

SPOIL(net)
{
    net->isend = bad;
}
