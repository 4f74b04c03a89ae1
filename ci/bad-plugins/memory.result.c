/* Registers GPU memory only. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void *comm, void *data, size_t size, int type, void **mhandle)
{
    return type == ABI_PTR_HOST ? ABI_INVALID_USAGE
                                : ref_reg_mr(comm, data, size, type, mhandle);
}

SPOIL(net)
{
    net->reg_mr = bad;
}
