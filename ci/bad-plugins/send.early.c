/* Done before the bytes have left. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *opaque, int *done, int *sizes)
{
    struct request *request = opaque;

    if (!request->comm->is_sender || request->is_done) {
        return ref_test(request, done, sizes);
    }
    sizes[0] = (int)request->size[0];
    *done = 1;
    return ABI_SUCCESS;
}

SPOIL(net)
{
    net->test = bad;
}
