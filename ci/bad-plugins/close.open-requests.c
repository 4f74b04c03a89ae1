/* Refuses to close while a request is open. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *opaque)
{
    struct comm *comm = opaque;

    for (int i = 0; i < REQUESTS; i++) {
        if (comm->requests[i].is_used) {
            return ABI_INTERNAL_ERROR;
        }
    }
    return ref_close(comm);
}

SPOIL(net)
{
    net->close_recv = bad;
}
