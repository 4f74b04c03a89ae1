/* A receive is done when the message's header is there. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *opaque, int *done, int *sizes)
{
    struct request *request = opaque;
    struct comm *comm = request->comm;

    *done = 0;
    if (comm->is_sender || request->is_flush || request->n > 1 || request->is_done) {
        return ref_test(request, done, sizes);
    }
    pthread_mutex_lock(&comm->lock);
    if (comm->n_read < sizeof(comm->header)) {
        pump(comm->fd, false, &comm->header, sizeof(comm->header), &comm->n_read);
    }
    if (comm->n_read >= sizeof(comm->header) && comm->header.size > 0 &&
        comm->receives[comm->header.group % GROUPS] == request) {
        sizes[0] = (int)comm->header.size;
        *done = 1;
    }
    pthread_mutex_unlock(&comm->lock);
    return *done != 0 ? ABI_SUCCESS : ref_test(request, done, sizes);
}

SPOIL(net)
{
    net->test = bad;
}
