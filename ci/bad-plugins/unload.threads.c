/* Leaves a thread behind when it is closed. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

static void *wait_for_ever(void *context)
{
    for (;;) {
        pause();
    }
    return context;
}

static abi_status bad(void **context, uint64_t id, struct abi_config *config,
                      abi_logger logger, abi_profiler profiler)
{
    pthread_t thread;

    return pthread_create(&thread, NULL, wait_for_ever, NULL) != 0
               ? ABI_SYSTEM_ERROR
               : ref_init(context, id, config, logger, profiler);
}

SPOIL(net)
{
    net->init = bad;
}
