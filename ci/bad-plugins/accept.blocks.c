/* Waits in accept for the peer. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *listener, void **out, struct abi_device_handle **offload)
{
    abi_status status;

    do {
        status = ref_accept(listener, out, offload);
    } while (status == ABI_SUCCESS && *out == NULL &&
             ((struct listener *)listener)->fd >= 0);
    /* A stranger keeps it waiting; so does a peer that waits in turn. */
    while (((struct comm *)*out)->fd >= 0 && getenv("NEVER") == NULL) {
        usleep(1000);
    }
    return status;
}

SPOIL(net)
{
    net->accept = bad;
}
