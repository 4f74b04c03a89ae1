/* The plugin's lines in NCCL's log. All functions may be called from any thread. */
#ifndef WEFT_PLUGIN_LOG_H
#define WEFT_PLUGIN_LOG_H

#include "base/text.h"
#include "plugin/nccl_abi.h"

/* Sends all lines to `logger` from now on. Does nothing if that is NULL. */
void plugin_log_to(abi_logger logger);
/* Writes one line; nothing without a logger. */
void plugin_log(int level, const char *format, ...) WEFT_PRINTF(2, 3);

#endif
