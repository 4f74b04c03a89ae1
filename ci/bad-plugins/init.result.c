/* Finds nothing that it could use. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static abi_status bad(void **context, uint64_t id, struct abi_config *config,
                      abi_logger logger, abi_profiler profiler)
{
    (void)context;
    (void)id;
    (void)config;
    (void)logger;
    (void)profiler;
    return ABI_SYSTEM_ERROR;
}

SPOIL(net)
{
    net->init = bad;
}
