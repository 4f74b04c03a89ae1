/* One listener at a time for each proxy, whose calls are those of one thread. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static _Thread_local int n_open;

static abi_status bad_listen(void *context, int device, void *handle, void **out)
{
    *out = NULL;
    return n_open++ > 0 ? ABI_SYSTEM_ERROR : ref_listen(context, device, handle, out);
}

static abi_status bad_close(void *listener)
{
    n_open--;
    return ref_close_listen(listener);
}

SPOIL(net)
{
    net->listen = bad_listen;
    net->close_listen = bad_close;
}
