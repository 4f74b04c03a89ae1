/* The state of this process's engine in a file, when a signal asks for it or a connection failed:
 * for jobs that hang. docs/plugin.md, "A job that hangs". */
#ifndef WEFT_PLUGIN_DUMP_H
#define WEFT_PLUGIN_DUMP_H

#include "plugin/engine.h"

/* The state goes to `path`.PID, appended. `signal_number` 0: no signal asks for it. `wake`, with
 * `context`, lets whoever runs the engines call dump_look. False, after which only failures ask:
 * the application has a handler of its own for the signal. Once a process. */
bool dump_start(const char *path, int signal_number, void (*wake)(void *context),
                void *context);
/* By whoever runs the engines [n], whenever something was done: writes if somebody asked. */
void dump_look(struct engine *const *engines, uint32_t n);

#endif
