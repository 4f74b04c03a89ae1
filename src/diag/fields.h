/* Converts structs to JSON and back by tables of their fields, one table for both directions. What
 * is read is not trusted: each value is checked, and the first error names its place in the
 * document. */
#ifndef WEFT_DIAG_FIELDS_H
#define WEFT_DIAG_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "diag/diag.h"

enum field_type {
    FIELD_INT,   /* int64_t; absent if IO_UNKNOWN */
    FIELD_SMALL, /* int or enum from 0 to `most`, or IO_UNKNOWN */
    FIELD_ENUM,  /* an enum or int from 0 to `most` */
    FIELD_U8,    /* uint8_t */
    FIELD_U32,   /* uint32_t */
    FIELD_U64,   /* uint64_t, at most INT64_MAX */
    FIELD_TEXT,  /* char[n_bytes]; absent if it is "" */
    FIELD_KNOWN, /* enum diag_known; absent if unknown */
    FIELD_STATE, /* enum diag_known: "up" or "down"; absent if unknown */
    FIELD_BOOL,  /* bool */
    FIELD_FLAG,  /* bool; absent if false */
    FIELD_IP,    /* struct io_ip, or the union ibv_gid with these bytes */
    FIELD_ROCE   /* int: 1 for "RoCE v1", 2 for "RoCE v2"; absent if 0 */
};

/* A member of a JSON object and of the struct that it stands for. The order of a table is that of
 * the members. */
struct field {
    const char *key;
    enum field_type type;
    size_t offset;
    size_t n_bytes; /* of FIELD_TEXT */
    int most;       /* of FIELD_SMALL and FIELD_ENUM */
    int64_t absent; /* of FIELD_INT and FIELD_SMALL: not written, like IO_UNKNOWN */
};

#define FIELD_INT_OR(type, key, member, absent)                                          \
    {                                                                                    \
        key, FIELD_INT, offsetof(type, member), 0, 0, absent                             \
    }
#define FIELD_SMALL(type, key, member, most, absent)                                     \
    {                                                                                    \
        key, FIELD_SMALL, offsetof(type, member), 0, most, absent                        \
    }
#define FIELD_TEXT(type, key, member)                                                    \
    {                                                                                    \
        key, FIELD_TEXT, offsetof(type, member), sizeof(((type *)NULL)->member), 0, 0    \
    }
#define FIELD_ENUM(type, key, member, most)                                              \
    {                                                                                    \
        key, FIELD_ENUM, offsetof(type, member), 0, most, IO_UNKNOWN                     \
    }
/* A field of any other kind: FIELD(BOOL, struct diag_host, "observed", was_observed) */
#define FIELD(kind, type, key, member)                                                   \
    {                                                                                    \
        key, FIELD_##kind, offsetof(type, member), 0, 0, IO_UNKNOWN                      \
    }
/* A table and its length. */
#define FIELDS(table) table, WEFT_LENGTH(table)

/* The position in a document that is read, for messages, and the first error. */
struct field_cursor {
    char path[160];
    weft_status status;
    struct weft_error *error;
    bool needs_all; /* a field that is absent is an error */
};

/* ---- single members ---- */

/* Writes nothing for IO_UNKNOWN. */
void field_put_int(json_t *object, const char *key, int64_t number);
/* Writes nothing for "", or for text that is not UTF-8: a peer's name arrives over the network. */
void field_put_text(json_t *object, const char *key, const char *text);
/* Writes nothing for DIAG_UNKNOWN. */
void field_put_known(json_t *object, const char *key, enum diag_known value);

/* Records an error at `key` of the current object, unless there is an earlier one. */
void field_bad(struct field_cursor *at, const char *key, const char *what);
int64_t field_get_int(struct field_cursor *at, const json_t *object, const char *key,
                      int64_t absent);
/* Writes "" if the key is absent. */
void field_get_text(struct field_cursor *at, const json_t *object, const char *key,
                    char *out, size_t out_bytes);
bool field_get_bool(struct field_cursor *at, const json_t *object, const char *key);
enum diag_known field_get_known(struct field_cursor *at, const json_t *object,
                                const char *key);
/* Returns the list `key`; NULL, with *out_n 0, if it is absent, invalid or longer than `max`. */
const json_t *field_get_list(struct field_cursor *at, const json_t *object,
                             const char *key, size_t max, uint32_t *out_n);
/* Returns element `i` and appends it to the path; field_leave() undoes that. Returns NULL if it is
 * not an object. */
const json_t *field_enter(struct field_cursor *at, const json_t *list, const char *key,
                          uint32_t i, size_t *out_mark);
void field_leave(struct field_cursor *at, size_t mark);

/* ---- tables ---- */

/* Writes all fields of a struct but those that are absent. */
void fields_put(json_t *object, const struct field *fields, size_t n, const void *from);
/* Writes every field, an empty text too, and "?" for text that is not UTF-8. A reader with
 * `needs_all` refuses an object that lacks one. */
void fields_put_all(json_t *object, const struct field *fields, size_t n,
                    const void *from);
void fields_get(struct field_cursor *at, const json_t *object, const struct field *fields,
                size_t n, void *out);

/* Convert the fields to the elements of a list, whose keys serve for messages only. */
json_t *fields_encode_row(const struct field *fields, size_t n, const void *from);
void fields_decode_row(struct field_cursor *at, const json_t *row,
                       const struct field *fields, size_t n, void *out);

#endif
