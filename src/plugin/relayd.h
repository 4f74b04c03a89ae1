/* `weft relayd` without a scenario: the plugin's relay, for a host on which no rank of the job
 * runs. */
#ifndef WEFT_PLUGIN_RELAYD_H
#define WEFT_PLUGIN_RELAYD_H

#include <stdbool.h>

#include "base/error.h"
#include "base/log.h"

/* Forwards for plugins of other hosts until `is_over` says so, which is asked some times a
 * second. Settings are the plugin's, by `get` (getenv(3)'s form); `tell` gets a line when it is
 * ready and one at the end. WEFT_ERR_ENVIRONMENT: no device. */
weft_status plugin_relayd(const char *(*get)(const char *name), struct weft_log *log,
                          bool (*is_over)(void), void (*tell)(const char *line),
                          struct weft_error *error) WEFT_MUST_CHECK;

#endif
