/* The plugin's settings: environment variables, ours (NCCL_MESH_*) and those of NCCL's own
 * network that users have in their scripts. docs/plugin.md, "Settings". */
#ifndef WEFT_PLUGIN_SETTINGS_H
#define WEFT_PLUGIN_SETTINGS_H

#include <stdbool.h>

#include "backends/registry.h"
#include "plugin/engine.h"
#include "plugin/setting_list.h"

struct plugin_settings {
    struct plain_config plain;
    bool is_debug;
    /* Storage of what `plain` points to. */
    char netdevs[256], management[64], loopback[512], simulated[512], hca[512];
    char dump[200];  /* file for the state, ".PID" to be added; "": none is wanted */
    int dump_signal; /* that asks for it; 0: none does */
};

/* Reads the environment by `get` (getenv(3)'s form) into `out` and `config`. What cannot be
 * honoured, or makes no sense, is told to `warn` with its value; and then it is as if it were
 * not set. */
void plugin_settings_read(const char *(*get)(const char *name),
                          void (*warn)(const char *text), struct plugin_settings *out,
                          struct engine_config *config);
/* Tells `warn` of every variable of `environment` (environ(7)'s form) that has a value, is called
 * as if it were the plugin's or NCCL's own RDMA network's, and is read by nothing here: by name
 * only, for whoever mistyped NCCL_MESH_SECRET. */
void plugin_settings_unread(char *const *environment, void (*warn)(const char *text));

#endif
