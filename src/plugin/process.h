/* The one engine of this process and the thread that runs it; settings and the log. */
#ifndef WEFT_PLUGIN_PROCESS_H
#define WEFT_PLUGIN_PROCESS_H

#include "plugin/engine.h"
#include "plugin/nccl_abi.h"

/* Starts the engine, the first time, and waits until it is ready. `logger` (may be NULL) gets
 * what is logged from now on. */
abi_status process_start(abi_logger logger);
/* The engine; NULL: not started, or this is the child of a fork. */
struct engine *process_engine(void);
/* One line for NCCL's log. */
void process_log(int level, const char *format, ...) WEFT_PRINTF(2, 3);

#endif
