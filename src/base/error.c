#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

/* Names of enum ibv_wc_status without IBV_WC_ (infiniband/verbs.h). */
static const char *const wc_status_names[] = {
    "SUCCESS",          "LOC_LEN_ERR",       "LOC_QP_OP_ERR",     "LOC_EEC_OP_ERR",
    "LOC_PROT_ERR",     "WR_FLUSH_ERR",      "MW_BIND_ERR",       "BAD_RESP_ERR",
    "LOC_ACCESS_ERR",   "REM_INV_REQ_ERR",   "REM_ACCESS_ERR",    "REM_OP_ERR",
    "RETRY_EXC_ERR",    "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR",  "REM_INV_RD_REQ_ERR",
    "REM_ABORT_ERR",    "INV_EECN_ERR",      "INV_EEC_STATE_ERR", "FATAL_ERR",
    "RESP_TIMEOUT_ERR", "GENERAL_ERR",
};

/* Copies text to a field, as much as fits without splitting a character of UTF-8, which would be no
 * text for JSON. */
static void put(char *out, size_t out_bytes, const char *text)
{
    size_t n = weft_text_cut(text, strlen(text), out_bytes - 1);

    memcpy(out, text, n);
    out[n] = '\0';
}

static void put_formatted(char *out, size_t out_bytes, const char *format, va_list args)
    WEFT_PRINTF(3, 0);

static void put_formatted(char *out, size_t out_bytes, const char *format, va_list args)
{
    char whole[512] = ""; /* longer than any field */

    vsnprintf(whole, sizeof(whole), format, args);
    put(out, out_bytes, whole);
}

void weft_error_clear(struct weft_error *error)
{
    if (error != NULL) {
        *error = (struct weft_error){0};
    }
}

/* Starts filling `error`. Returns false if it is NULL or already holds a failure. */
static bool begin(struct weft_error *error, weft_status status, enum weft_phase phase)
{
    weft_check(status < 0);
    if (error == NULL || error->status != WEFT_OK) {
        return false;
    }
    error->status = status;
    error->phase = phase;
    return true;
}

weft_status weft_fail(struct weft_error *error, weft_status status, enum weft_phase phase,
                      const char *format, ...)
{
    va_list args;

    if (begin(error, status, phase)) {
        va_start(args, format);
        put_formatted(error->message, sizeof(error->message), format, args);
        va_end(args);
    }
    return status;
}

weft_status weft_fail_errno(struct weft_error *error, int sys_errno,
                            enum weft_phase phase, const char *format, ...)
{
    va_list args;

    weft_check(sys_errno > 0);
    if (begin(error, WEFT_ERR_SYSTEM, phase)) {
        error->sys_errno = sys_errno;
        va_start(args, format);
        put_formatted(error->message, sizeof(error->message), format, args);
        va_end(args);
    }
    return WEFT_ERR_SYSTEM;
}

weft_status weft_fail_completion(struct weft_error *error, int wc_status,
                                 enum weft_phase phase, const char *format, ...)
{
    va_list args;

    weft_check(wc_status > 0);
    if (begin(error, WEFT_ERR_COMPLETION, phase)) {
        error->wc_status = wc_status;
        va_start(args, format);
        put_formatted(error->message, sizeof(error->message), format, args);
        va_end(args);
    }
    return WEFT_ERR_COMPLETION;
}

const char *weft_error_phase_text(const struct weft_error *error,
                                  char out[WEFT_PHASE_TEXT_BYTES])
{
    if (error->phase_detail[0] == '\0') {
        return weft_phase_name(error->phase);
    }
    weft_format(out, WEFT_PHASE_TEXT_BYTES, "%s.%s", weft_phase_name(error->phase),
                error->phase_detail);
    return out;
}

void weft_error_set_phase(struct weft_error *error, const char *text)
{
    const char *stop = strchr(text, '.');

    error->phase = weft_phase_find(text);
    weft_format(error->phase_detail, sizeof(error->phase_detail), "%s",
                stop != NULL ? stop + 1 : "");
}

enum weft_phase weft_error_peer_phase(const struct weft_error *error)
{
    const struct weft_value *phase = weft_error_value(error, WEFT_VALUE_PEER_PHASE);

    return phase != NULL ? weft_phase_find(phase->text) : WEFT_PHASE_NONE;
}

enum weft_phase weft_error_first_phase(const struct weft_error *error)
{
    enum weft_phase peer = weft_error_peer_phase(error);

    return peer != WEFT_PHASE_NONE ? peer : error->phase;
}

void weft_error_object(struct weft_error *error, const char *format, ...)
{
    va_list args;

    if (error == NULL || error->object[0] != '\0') {
        return;
    }
    va_start(args, format);
    put_formatted(error->object, sizeof(error->object), format, args);
    va_end(args);
}

static struct weft_value *value_add(struct weft_error *error, enum weft_value_name name,
                                    enum weft_kind kind)
{
    struct weft_value *value;

    if (error == NULL || error->n_values == WEFT_ERROR_VALUES_MAX ||
        name == WEFT_VALUE_UNKNOWN || weft_value_kind(name) != kind ||
        weft_error_value(error, name) != NULL) {
        return NULL;
    }
    value = &error->values[error->n_values++];
    *value = (struct weft_value){.name = name};
    return value;
}

void weft_error_int(struct weft_error *error, enum weft_value_name name, int64_t number)
{
    struct weft_value *value = value_add(error, name, WEFT_KIND_INT);

    if (value != NULL) {
        value->number = number;
    }
}

void weft_error_text(struct weft_error *error, enum weft_value_name name,
                     const char *text)
{
    struct weft_value *value = value_add(error, name, WEFT_KIND_TEXT);

    if (value != NULL) {
        put(value->text, sizeof(value->text), text);
    }
}

const struct weft_value *weft_error_value(const struct weft_error *error,
                                          enum weft_value_name name)
{
    if (error == NULL) {
        return NULL;
    }
    for (unsigned i = 0; i < error->n_values; i++) {
        if (error->values[i].name == name) {
            return &error->values[i];
        }
    }
    return NULL;
}

void weft_error_format(const struct weft_error *error, char *out, size_t out_bytes)
{
    char number[96] = "";
    char phase[WEFT_PHASE_TEXT_BYTES];

    if (error == NULL || error->status == WEFT_OK) {
        weft_format(out, out_bytes, "ok");
        return;
    }
    if (error->sys_errno != 0) {
        char text[64];

        if (strerror_r(error->sys_errno, text, sizeof(text)) != 0) {
            weft_format(text, sizeof(text), "unknown");
        }
        weft_format(number, sizeof(number), " (errno %d %s)", error->sys_errno, text);
    } else if (error->wc_status != 0) {
        size_t index = (size_t)error->wc_status;
        const char *name =
            index < WEFT_LENGTH(wc_status_names) ? wc_status_names[index] : "unknown";

        weft_format(number, sizeof(number), " (wc_status %d %s)", error->wc_status, name);
    }
    weft_format(out, out_bytes, "%s: %s%s", weft_error_phase_text(error, phase),
                error->message, number);
}
