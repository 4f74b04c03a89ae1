/* Forgets every 37th message. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static struct request forgotten;

static abi_status bad(void *opaque, void *data, size_t size, int tag, void *mhandle,
                      void *event, void **out)
{
    struct comm *comm = opaque;
    static _Atomic int n;

    if (comm->first != comm->last && comm->groups[comm->first % GROUPS].grant.n == 1 &&
        n++ % 37 == 36) {
        comm->first++;
        forgotten = (struct request){.is_used = true, .is_done = true, .comm = comm};
        forgotten.n = 1;
        forgotten.size[0] = size;
        *out = &forgotten;
        return ABI_SUCCESS;
    }
    return ref_isend(comm, data, size, tag, mhandle, event, out);
}

SPOIL(net)
{
    net->isend = bad;
}
