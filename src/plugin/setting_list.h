/* The plugin's settings, to be shown to users. */
#ifndef WEFT_PLUGIN_SETTING_LIST_H
#define WEFT_PLUGIN_SETTING_LIST_H

#include "base/error.h"

struct plugin_setting {
    const char *name, *usual, *text;
};
/* Returns the settings in the order of their names; NULL past the last. */
const struct plugin_setting *plugin_setting_at(unsigned index);

/* Reads the settings as the plugin does when it starts, with `get` (getenv(3)'s form) and from
 * `environment` (environ(7)'s form). Calls `warn` for each value and variable that the plugin
 * ignores. Fails if the plugin would not start with them. */
weft_status plugin_settings_check(const char *(*get)(const char *name),
                                  char *const *environment,
                                  void (*warn)(const char *text),
                                  struct weft_error *error) WEFT_MUST_CHECK;

#endif
