/* A connection ends with its listener. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static struct {
    void *listener;
    int fd;
} known[1024];
static _Atomic unsigned n_known;

static abi_status bad_accept(void *listener, void **out,
                             struct abi_device_handle **offload)
{
    abi_status status = ref_accept(listener, out, offload);

    if (*out != NULL) {
        unsigned i = n_known++;

        known[i].listener = listener;
        known[i].fd = ((struct comm *)*out)->fd;
    }
    return status;
}

static abi_status bad_close(void *listener)
{
    for (unsigned i = 0; i < n_known; i++) {
        if (known[i].listener == listener) {
            shutdown(known[i].fd, SHUT_RDWR);
        }
    }
    return ref_close_listen(listener);
}

SPOIL(net)
{
    net->accept = bad_accept;
    net->close_listen = bad_close;
}
