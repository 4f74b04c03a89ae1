/* Renders JUnit XML: a suite per file, a case per expectation, and a case for an error that
 * prevented a verdict. */
#ifndef WEFT_REPORT_JUNIT_H
#define WEFT_REPORT_JUNIT_H

#include <jansson.h>

#include "base/text.h"

/* Renders `runs`, an array of run documents. A document's optional `seconds`, the wall-clock time
 * of the run, becomes the suite's time; its `error` becomes a case of its own. */
void report_junit(const json_t *runs, struct weft_text *out);

/* Render the parts of report_junit(): the head, a suite for each run, and the tail. */
void report_junit_head(struct weft_text *out);
void report_junit_suite(const json_t *run, struct weft_text *out);
void report_junit_tail(struct weft_text *out);

#endif
