#include "report/document_testing.h"

#include <check.h>

json_t *document_of(const char *text)
{
    json_error_t error;
    json_t *document = json_loads(text, 0, &error);

    ck_assert_msg(document != NULL, "%s", error.text);
    return document;
}
