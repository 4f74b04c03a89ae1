/* Fills the later of two receives first. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *opaque, int n, void **data, size_t *sizes, int *tags,
                      void **mhandles, void **events, void **out)
{
    struct comm *comm = opaque;
    abi_status status = ref_irecv(comm, n, data, sizes, tags, mhandles, events, out);

    if (*out != NULL && n == 1 && comm->last > 1) {
        struct request *now = *out, *before = comm->receives[(comm->last - 2) % GROUPS];

        if (before != NULL && before->n == 1 && before->n_in == 0 &&
            before->posted[0] == now->posted[0]) {
            comm->receives[(comm->last - 2) % GROUPS] = now;
            comm->receives[(comm->last - 1) % GROUPS] = before;
        }
    }
    return status;
}

SPOIL(net)
{
    net->irecv = bad;
}
