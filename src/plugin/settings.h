/* Settings of the plugin: its own environment variables (NCCL_MESH_*), and those of NCCL's own
 * network that users have in their scripts. docs/plugin-reference.md, "Environment variables". */
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
    char netdevs[256], management[64], interfaces[256], hca[512];
    char loopback[1024], simulated[1024]; /* all cables of 16 hosts need 573 */
    char dump[200];  /* file for the state, to which ".PID" is added; "" if none */
    int dump_signal; /* signal that writes the state; 0 if none */
};

/* Reads the environment with `get` (getenv(3)'s form) into `out` and `config`, which keeps
 * pointers into `out`. Reports to `warn` each value that is invalid or not supported, and
 * ignores it. Fails with WEFT_ERR_INPUT if NCCL_MESH_SECRET is invalid. */
weft_status plugin_settings_read(const char *(*get)(const char *name),
                                 void (*warn)(const char *text),
                                 struct plugin_settings *out,
                                 struct engine_config *config,
                                 struct weft_error *error) WEFT_MUST_CHECK;
/* Reports to `warn` every variable of `environment` (environ(7)'s form) that has a value and the
 * prefix NCCL_MESH_ or NCCL_IB_, but is not read. Looks at names only, to find misspelt ones. */
void plugin_settings_unread(char *const *environment, void (*warn)(const char *text));

#endif
