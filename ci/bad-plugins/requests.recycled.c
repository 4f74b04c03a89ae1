/* Has 256 requests, once. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *opaque, int *done, int *sizes)
{
    struct request *request = opaque;
    abi_status status = ref_test(request, done, sizes);

    request->is_used = request->is_used || (*done != 0 && !request->comm->is_sender);
    return status;
}

SPOIL(net)
{
    net->test = bad;
}
