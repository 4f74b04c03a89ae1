/* Renders an event log as a Chrome/Perfetto trace (Trace Event Format, JSON): a process per host, a
 * thread per object, an instant per event. */
#ifndef WEFT_REPORT_PERFETTO_H
#define WEFT_REPORT_PERFETTO_H

#include <jansson.h>

#include "base/text.h"

/* Renders `story`. The first of `runs` names the trace. */
void report_perfetto(const json_t *runs, const struct weft_text *story,
                     struct weft_text *out);

#endif
