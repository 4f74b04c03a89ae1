#include "diag/fields.h"

#include <string.h>

#include "base/text.h"

_Static_assert(sizeof(weft_ns) == sizeof(int64_t), "FIELD_INT reads times too");

/* ---- writing ---- */

void field_put_int(json_t *object, const char *key, int64_t number)
{
    if (number != IO_UNKNOWN) {
        json_object_set_new(object, key, json_integer(number));
    }
}

void field_put_text(json_t *object, const char *key, const char *text)
{
    json_t *value = text[0] != '\0' ? json_string(text) : NULL;

    if (value != NULL) {
        json_object_set_new(object, key, value);
    }
}

void field_put_known(json_t *object, const char *key, enum diag_known value)
{
    if (value != DIAG_UNKNOWN) {
        json_object_set_new(object, key, json_boolean(value == DIAG_YES));
    }
}

/* Returns text as it is written if every field is; "?" if it is not UTF-8. */
static json_t *any_text(const char *text)
{
    json_t *value = json_string(text);

    return value != NULL ? value : json_string("?");
}

/* Returns the value of the field at `at`, or NULL if it is absent. */
static json_t *encode_field(const struct field *field, const void *at, bool is_all)
{
    char ip[IO_IP_TEXT_BYTES];
    int64_t number;

    switch (field->type) {
    case FIELD_INT:
    case FIELD_SMALL:
        number = field->type == FIELD_INT ? *(const int64_t *)at : *(const int *)at;
        return is_all || (number != field->absent && number != IO_UNKNOWN)
                   ? json_integer(number)
                   : NULL;
    case FIELD_ENUM:
        return json_integer(*(const int *)at);
    case FIELD_U8:
        return json_integer(*(const uint8_t *)at);
    case FIELD_U32:
        return json_integer(*(const uint32_t *)at);
    case FIELD_U64:
        return json_integer((json_int_t) * (const uint64_t *)at);
    case FIELD_TEXT:
        return is_all                          ? any_text(at)
               : ((const char *)at)[0] != '\0' ? json_string(at)
                                               : NULL;
    case FIELD_KNOWN:
        return *(const enum diag_known *)at == DIAG_UNKNOWN
                   ? NULL
                   : json_boolean(*(const enum diag_known *)at == DIAG_YES);
    case FIELD_STATE:
        return *(const enum diag_known *)at == DIAG_UNKNOWN
                   ? NULL
                   : json_string(*(const enum diag_known *)at == DIAG_YES ? "up"
                                                                          : "down");
    case FIELD_BOOL:
        return json_boolean(*(const bool *)at);
    case FIELD_FLAG:
        return *(const bool *)at ? json_true() : NULL;
    case FIELD_IP:
        return json_string(io_ip_format(at, ip, sizeof(ip)));
    case FIELD_ROCE:
        return *(const int *)at == 0
                   ? NULL
                   : json_string(*(const int *)at == 2 ? "RoCE v2" : "RoCE v1");
    }
    return NULL;
}

static void put(json_t *object, const struct field *fields, size_t n, const void *from,
                bool is_all)
{
    for (size_t i = 0; i < n; i++) {
        json_t *value =
            encode_field(&fields[i], (const char *)from + fields[i].offset, is_all);

        if (value != NULL) {
            json_object_set_new(object, fields[i].key, value);
        }
    }
}

void fields_put(json_t *object, const struct field *fields, size_t n, const void *from)
{
    put(object, fields, n, from, false);
}

void fields_put_all(json_t *object, const struct field *fields, size_t n,
                    const void *from)
{
    put(object, fields, n, from, true);
}

json_t *fields_encode_row(const struct field *fields, size_t n, const void *from)
{
    json_t *row = json_array();

    for (size_t i = 0; i < n; i++) {
        json_array_append_new(
            row, encode_field(&fields[i], (const char *)from + fields[i].offset, true));
    }
    return row;
}

/* ---- reading ---- */

void field_bad(struct field_cursor *at, const char *key, const char *what)
{
    if (at->status == WEFT_OK) {
        at->status = weft_fail(at->error, WEFT_ERR_INPUT, WEFT_PHASE_OBSERVATIONS,
                               "%s%s: %s", at->path, key, what);
    }
}

static int64_t decode_int(struct field_cursor *at, const json_t *value, const char *key,
                          int64_t absent)
{
    if (value == NULL) {
        return absent;
    }
    if (!json_is_integer(value)) {
        field_bad(at, key, "must be an integer");
        return absent;
    }
    return json_integer_value(value);
}

/* Returns a number from 0 to `most`, or 0. */
static uint64_t decode_unsigned(struct field_cursor *at, const json_t *value,
                                const char *key, int64_t most)
{
    int64_t number = decode_int(at, value, key, 0);

    if (number < 0 || number > most) {
        field_bad(at, key, "is out of range");
        return 0;
    }
    return (uint64_t)number;
}

/* Returns a number from 0 to `most`, or IO_UNKNOWN if that is written, or `absent`. */
static int decode_small(struct field_cursor *at, const json_t *value,
                        const struct field *field)
{
    int64_t number = decode_int(at, value, field->key, field->absent);

    if (number != IO_UNKNOWN && (number < 0 || number > field->most)) {
        field_bad(at, field->key, "is out of range");
        return (int)field->absent;
    }
    return (int)number;
}

static void decode_text(struct field_cursor *at, const json_t *value, const char *key,
                        char *out, size_t out_bytes)
{
    out[0] = '\0';
    if (value == NULL) {
        return;
    }
    if (!json_is_string(value) || strlen(json_string_value(value)) >= out_bytes) {
        field_bad(at, key, "must be a text that is not too long");
        return;
    }
    weft_format(out, out_bytes, "%s", json_string_value(value));
}

static bool decode_bool(struct field_cursor *at, const json_t *value, const char *key)
{
    if (value != NULL && !json_is_boolean(value)) {
        field_bad(at, key, "must be true or false");
    }
    return json_is_true(value);
}

/* Returns 1 or 2 if the text is `first` or `second`, 0 for any other or none. */
static int decode_word(struct field_cursor *at, const json_t *value, const char *key,
                       const char *first, const char *second)
{
    char text[16];

    decode_text(at, value, key, text, sizeof(text));
    return strcmp(text, first) == 0 ? 1 : strcmp(text, second) == 0 ? 2 : 0;
}

static enum diag_known decode_known(struct field_cursor *at, const json_t *value,
                                    const char *key)
{
    if (value == NULL) {
        return DIAG_UNKNOWN;
    }
    return decode_bool(at, value, key) ? DIAG_YES : DIAG_NO;
}

/* Reads a value, NULL if it is absent. */
static void decode_field(struct field_cursor *at, const json_t *value,
                         const struct field *field, void *out)
{
    static const enum diag_known states[] = {DIAG_UNKNOWN, DIAG_YES, DIAG_NO};
    char ip[IO_IP_TEXT_BYTES];

    if (value == NULL && at->needs_all) {
        field_bad(at, field->key, "is missing");
    }
    switch (field->type) {
    case FIELD_INT:
        *(int64_t *)out = decode_int(at, value, field->key, field->absent);
        break;
    case FIELD_SMALL:
        *(int *)out = decode_small(at, value, field);
        break;
    case FIELD_ENUM:
        *(int *)out = (int)decode_unsigned(at, value, field->key, (uint32_t)field->most);
        break;
    case FIELD_U8:
        *(uint8_t *)out = (uint8_t)decode_unsigned(at, value, field->key, UINT8_MAX);
        break;
    case FIELD_U32:
        *(uint32_t *)out = (uint32_t)decode_unsigned(at, value, field->key, UINT32_MAX);
        break;
    case FIELD_U64:
        *(uint64_t *)out = decode_unsigned(at, value, field->key, INT64_MAX);
        break;
    case FIELD_TEXT:
        decode_text(at, value, field->key, out, field->n_bytes);
        break;
    case FIELD_KNOWN:
        *(enum diag_known *)out = decode_known(at, value, field->key);
        break;
    case FIELD_STATE:
        *(enum diag_known *)out =
            states[decode_word(at, value, field->key, "up", "down")];
        break;
    case FIELD_BOOL:
    case FIELD_FLAG:
        *(bool *)out = decode_bool(at, value, field->key);
        break;
    case FIELD_IP:
        decode_text(at, value, field->key, ip, sizeof(ip));
        if (!io_ip_parse(ip, out)) {
            field_bad(at, field->key, "must be an IP address");
        }
        break;
    case FIELD_ROCE:
        *(int *)out = decode_word(at, value, field->key, "RoCE v1", "RoCE v2");
        break;
    }
}

int64_t field_get_int(struct field_cursor *at, const json_t *object, const char *key,
                      int64_t absent)
{
    return decode_int(at, json_object_get(object, key), key, absent);
}

void field_get_text(struct field_cursor *at, const json_t *object, const char *key,
                    char *out, size_t out_bytes)
{
    decode_text(at, json_object_get(object, key), key, out, out_bytes);
}

bool field_get_bool(struct field_cursor *at, const json_t *object, const char *key)
{
    return decode_bool(at, json_object_get(object, key), key);
}

enum diag_known field_get_known(struct field_cursor *at, const json_t *object,
                                const char *key)
{
    return decode_known(at, json_object_get(object, key), key);
}

const json_t *field_get_list(struct field_cursor *at, const json_t *object,
                             const char *key, size_t max, uint32_t *out_n)
{
    const json_t *list = json_object_get(object, key);

    *out_n = 0;
    if (list == NULL && !at->needs_all) {
        return NULL;
    }
    if (!json_is_array(list) || json_array_size(list) > max) {
        field_bad(at, key, "must be a list that is not too long");
        return NULL;
    }
    *out_n = (uint32_t)json_array_size(list);
    return list;
}

const json_t *field_enter(struct field_cursor *at, const json_t *list, const char *key,
                          uint32_t i, size_t *out_mark)
{
    const json_t *item = json_array_get(list, i);

    *out_mark = strlen(at->path);
    weft_format(at->path + *out_mark, sizeof(at->path) - *out_mark, "%s[%u].", key, i);
    if (!json_is_object(item)) {
        field_bad(at, "", "must be an object");
        return NULL;
    }
    return item;
}

void field_leave(struct field_cursor *at, size_t mark)
{
    at->path[mark] = '\0';
}

void fields_get(struct field_cursor *at, const json_t *object, const struct field *fields,
                size_t n, void *out)
{
    for (size_t i = 0; i < n; i++) {
        decode_field(at, json_object_get(object, fields[i].key), &fields[i],
                     (char *)out + fields[i].offset);
    }
}

void fields_decode_row(struct field_cursor *at, const json_t *row,
                       const struct field *fields, size_t n, void *out)
{
    if (!json_is_array(row) || json_array_size(row) != n) {
        field_bad(at, "", "must be a list of as many values as there are fields");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        decode_field(at, json_array_get(row, i), &fields[i],
                     (char *)out + fields[i].offset);
    }
}
