/* Documents of runs that never were, for tests. */
#ifndef WEFT_REPORT_DOCUMENT_TESTING_H
#define WEFT_REPORT_DOCUMENT_TESTING_H

#include <jansson.h>

/* A new reference; `text` must be JSON. */
json_t *document_of(const char *text);

#endif
