/* JUnit XML, as test viewers read it: a suite per run, a case per expectation. */
#ifndef WEFT_REPORT_JUNIT_H
#define WEFT_REPORT_JUNIT_H

#include <jansson.h>

#include "base/text.h"

/* Renders `runs`, an array of run documents. */
void report_junit(const json_t *runs, struct weft_text *out);

#endif
