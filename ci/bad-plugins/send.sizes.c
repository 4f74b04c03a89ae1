/* Returns no size of a send. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *request, int *done, int *sizes)
{
    int none[GROUP_MAX];
    bool is_sender = ((struct request *)request)->comm->is_sender;

    return ref_test(request, done, is_sender ? none : sizes);
}

SPOIL(net)
{
    net->test = bad;
}
