/* The end of one communicator is the end of all. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static bool is_over;

static abi_status bad_finalize(void *context)
{
    is_over = true;
    return ref_finalize(context);
}

static abi_status bad_isend(void *comm, void *data, size_t size, int tag, void *mhandle,
                            void *event, void **out)
{
    *out = NULL;
    return is_over ? ABI_INTERNAL_ERROR
                   : ref_isend(comm, data, size, tag, mhandle, event, out);
}

SPOIL(net)
{
    net->finalize = bad_finalize;
    net->isend = bad_isend;
}
