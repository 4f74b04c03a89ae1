/* Writes the state of this process's engines to a file, on a signal or after a connection
 * failed, to debug jobs that hang. docs/plugin.md, "A job that hangs". */
#ifndef WEFT_PLUGIN_DUMP_H
#define WEFT_PLUGIN_DUMP_H

#include "plugin/engine.h"

/* Enables appending the state to `path`.PID, after failures and on the signal (0: none). `wake`
 * is called with `context` from another thread, to make the thread that runs the engines call
 * dump_look(). Returns NULL, or, if the signal cannot be used, a static string that says why and
 * what to do; failures still write the state. Call once per process. */
const char *dump_start(const char *path, int signal_number, void (*wake)(void *context),
                       void *context);
/* Writes the state of engines [n] if requested. Called by the thread that runs them, after work
 * was done. */
void dump_look(struct engine *const *engines, uint32_t n);

#endif
