/* Run documents for tests, without a run. */
#ifndef WEFT_REPORT_DOCUMENT_TESTING_H
#define WEFT_REPORT_DOCUMENT_TESTING_H

#include <jansson.h>

/* Returns a new reference. `text` must be JSON. */
json_t *document_of(const char *text);

#endif
