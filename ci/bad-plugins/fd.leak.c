/* Never closes what it asked the machine with. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void **context, uint64_t id, struct abi_config *config,
                      abi_logger logger, abi_profiler profiler)
{
    return open("/dev/null", O_RDONLY) < 0
               ? ABI_SYSTEM_ERROR
               : ref_init(context, id, config, logger, profiler);
}

SPOIL(net)
{
    net->init = bad;
}
