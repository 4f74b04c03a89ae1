/* Readers of a document's members that return a default if the member is null, missing or of
 * another type. */
#ifndef WEFT_REPORT_JSON_READ_H
#define WEFT_REPORT_JSON_READ_H

#include <jansson.h>
#include <stdint.h>

static inline const char *json_read_text(const json_t *object, const char *key,
                                         const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : otherwise;
}

static inline int64_t json_read_int(const json_t *object, const char *key,
                                    int64_t otherwise)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) ? (int64_t)json_integer_value(value) : otherwise;
}

static inline double json_read_real(const json_t *object, const char *key,
                                    double otherwise)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : otherwise;
}

#endif
