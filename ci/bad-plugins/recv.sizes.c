/* Returns the size that was posted. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *opaque, int *done, int *sizes)
{
    struct request *request = opaque;
    struct request before = *request;
    abi_status status = ref_test(request, done, sizes);

    for (int i = 0; i < before.n && *done != 0 && !before.comm->is_sender; i++) {
        sizes[i] = (int)before.posted[i];
    }
    return status;
}

SPOIL(net)
{
    net->test = bad;
}
