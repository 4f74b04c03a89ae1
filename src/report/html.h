/* A self-contained page for one or several runs: no scripts, nothing fetched. */
#ifndef WEFT_REPORT_HTML_H
#define WEFT_REPORT_HTML_H

#include <jansson.h>

#include "base/text.h"

/* Renders `runs` (an array of run documents) and the head of their `story`. */
void report_html(const json_t *runs, const struct weft_text *story,
                 struct weft_text *out);

#endif
