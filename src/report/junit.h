/* JUnit XML, as test viewers read it: a suite per file, a case per expectation, and a case for what
 * kept a file from being judged. */
#ifndef WEFT_REPORT_JUNIT_H
#define WEFT_REPORT_JUNIT_H

#include <jansson.h>

#include "base/text.h"

/* Renders `runs`, an array of run documents. A document may have `seconds`, how long the run took
 * by a clock on the wall, which is the suite's time; `error` becomes a case of its own. */
void report_junit(const json_t *runs, struct weft_text *out);

/* The same in parts: report_junit() is the head, a suite for each run, and the tail. */
void report_junit_head(struct weft_text *out);
void report_junit_suite(const json_t *run, struct weft_text *out);
void report_junit_tail(struct weft_text *out);

#endif
