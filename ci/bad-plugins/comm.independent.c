/* Receives of a process end in the order of posting, whatever their comm. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static pthread_mutex_t order_lock = PTHREAD_MUTEX_INITIALIZER;
static struct request *order[4096];
static unsigned n_order;

static abi_status bad_irecv(void *comm, int n, void **data, size_t *sizes, int *tags,
                            void **mhandles, void **events, void **out)
{
    abi_status status;

    pthread_mutex_lock(&order_lock);
    status = ref_irecv(comm, n, data, sizes, tags, mhandles, events, out);
    if (*out != NULL) {
        order[n_order++] = *out;
    }
    pthread_mutex_unlock(&order_lock);
    return status;
}

static abi_status bad_test(void *opaque, int *done, int *sizes)
{
    struct request *request = opaque;
    abi_status status;

    if (request->comm->is_sender || request->is_flush) {
        return ref_test(request, done, sizes);
    }
    pthread_mutex_lock(&order_lock);
    *done = 0;
    status = progress(request->comm);
    if (request == order[0] && status == ABI_SUCCESS) {
        status = ref_test(request, done, sizes);
        if (*done != 0) {
            memmove(order, order + 1, --n_order * sizeof(order[0]));
        }
    }
    pthread_mutex_unlock(&order_lock);
    return status;
}

SPOIL(net)
{
    net->irecv = bad_irecv;
    net->test = bad_test;
}
