/* Reports that a send is done some looks after it was, and before that looks whether the peer is
 * there: one that has everything and has closed makes the send fail. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

#define LOOKS 50

static abi_status bad_test(void *opaque, int *done, int *sizes)
{
    struct request *request = opaque;
    struct comm *comm = request->comm;
    abi_status status = ABI_SUCCESS;
    char byte;

    if (!comm->is_sender) {
        return ref_test(opaque, done, sizes);
    }
    *done = 0;
    pthread_mutex_lock(&comm->lock);
    if (!request->is_done) {
        status = progress(comm);
    } else if (recv(comm->fd, &byte, 1, MSG_PEEK) == 0) {
        status = ABI_REMOTE_ERROR;
    } else {
        request->n_in++; /* a sender has no other use for it */
    }
    pthread_mutex_unlock(&comm->lock);
    return request->n_in < LOOKS ? status : ref_test(opaque, done, sizes);
}

SPOIL(net)
{
    net->test = bad_test;
}
