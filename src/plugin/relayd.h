/* `weft relayd` without a scenario: the plugin's relay, for a host on which the job has no rank. */
#ifndef WEFT_PLUGIN_RELAYD_H
#define WEFT_PLUGIN_RELAYD_H

#include <stdbool.h>

#include "base/error.h"
#include "base/log.h"

/* Forwards for plugins of other hosts until `is_over`, called about four times per second,
 * returns true. Reads the plugin's settings with `get` (getenv(3)'s form). `report` receives a
 * line when the relay is ready and one at the end. Fails with WEFT_ERR_ENVIRONMENT if there is
 * no device. */
weft_status plugin_relayd(const char *(*get)(const char *name), struct weft_log *log,
                          bool (*is_over)(void), void (*report)(const char *line),
                          struct weft_error *error) WEFT_MUST_CHECK;

#endif
