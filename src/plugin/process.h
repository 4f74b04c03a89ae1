/* The engine of this process, or the engines of a simulated mesh; settings. */
#ifndef WEFT_PLUGIN_PROCESS_H
#define WEFT_PLUGIN_PROCESS_H

#include "plugin/engine.h"
#include "plugin/nccl_abi.h"

/* Starts the engines on the first call, and waits until they are ready. `logger` (may be NULL)
 * receives all log lines from now on. */
abi_status process_start(abi_logger logger);
/* Returns false before the start, and in the child of a fork. */
bool process_is_up(void);
/* Returns the number of devices of all engines. In a simulated mesh devices alternate between
 * hosts: first the first port of each. */
int process_n_devices(void);
/* Returns the engine of a device and its port, or NULL if there is no such device. */
struct engine *process_device(int device, uint32_t *out_port);
/* Surround engine_listen() and engine_connect_as(). */
void process_enter(void);
void process_leave(void);
/* Called after an operation that is not complete was reported to NCCL. */
void process_polled(void);

#endif
