/* Forgets every 37th message. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static struct request forgotten[64]; /* ranks forget at the same time */

static abi_status bad(void *opaque, void *data, size_t size, int tag, void *mhandle,
                      void *event, void **out)
{
    struct comm *comm = opaque;
    static _Atomic unsigned n_sent, n_forgotten;
    struct request *request;

    if (comm->first == comm->last || comm->groups[comm->first % GROUPS].grant.n != 1 ||
        ++n_sent % 37 != 0) {
        return ref_isend(comm, data, size, tag, mhandle, event, out);
    }
    comm->first++;
    request = &forgotten[n_forgotten++ % 64];
    *request = (struct request){.is_used = true, .is_done = true, .comm = comm};
    request->n = 1;
    request->size[0] = size;
    *out = request;
    return ABI_SUCCESS;
}

SPOIL(net)
{
    net->isend = bad;
}
