/* The engine of this process, or those of a simulated mesh's hosts; settings and the log. */
#ifndef WEFT_PLUGIN_PROCESS_H
#define WEFT_PLUGIN_PROCESS_H

#include "plugin/engine.h"
#include "plugin/nccl_abi.h"

/* Starts what there is to start, the first time, and waits until it is ready. `logger` (may be
 * NULL) gets what is logged from now on. */
abi_status process_start(abi_logger logger);
/* False: not started, or this is the child of a fork. */
bool process_is_up(void);
/* Of all engines: NCCL's numbers of devices. Those of a simulated mesh go round its hosts, first
 * ports first. */
int process_n_devices(void);
/* Whose port a device is, and which. NULL: there is no such device. */
struct engine *process_device(int device, uint32_t *out_port);
/* Around engine_listen and engine_connect. */
void process_enter(void);
void process_leave(void);
/* NCCL was told that something is not done yet. */
void process_polled(void);
/* One line for NCCL's log. */
void process_log(int level, const char *format, ...) WEFT_PRINTF(2, 3);

#endif
