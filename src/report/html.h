/* Renders a self-contained HTML page for one or more runs, without scripts or external
 * resources. */
#ifndef WEFT_REPORT_HTML_H
#define WEFT_REPORT_HTML_H

#include <jansson.h>

#include "base/text.h"

/* Renders `runs` (an array of run documents) and the beginning of `story`, their event log. */
void report_html(const json_t *runs, const struct weft_text *story,
                 struct weft_text *out);

#endif
