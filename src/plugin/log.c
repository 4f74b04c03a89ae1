#include "plugin/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static _Atomic(abi_logger) current;

void plugin_log_to(abi_logger logger)
{
    if (logger != NULL) {
        atomic_store(&current, logger);
    }
}

void plugin_log(int level, const char *format, ...)
{
    abi_logger logger = atomic_load(&current);
    char text[600];
    va_list arguments;

    if (logger == NULL) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    logger(level, ABI_SUBSYSTEM_INIT | ABI_SUBSYSTEM_NET, "NET/MESH", 0, "NET/MESH %s",
           text);
}
