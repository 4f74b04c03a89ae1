/* Turns over a bit of what it received. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *opaque, int *done, int *sizes)
{
    struct request *request = opaque;
    bool is_receive = !request->comm->is_sender && !request->is_flush;
    void *data = request->data[0];
    abi_status status = ref_test(request, done, sizes);

    if (*done != 0 && is_receive && sizes[0] > 100) {
        ((char *)data)[50] ^= 4;
    }
    return status;
}

SPOIL(net)
{
    net->test = bad;
}
