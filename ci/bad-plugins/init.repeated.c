/* Only one communicator a process. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void **context, uint64_t id, struct abi_config *config,
                      abi_logger logger, abi_profiler profiler)
{
    static _Atomic int n;

    return n++ > 0 ? ABI_INVALID_USAGE : ref_init(context, id, config, logger, profiler);
}

SPOIL(net)
{
    net->init = bad;
}
