/* Errors are data: the first place that knows fills a struct weft_error; callers pass
 * it up and may add who; text is made from it at the edge (CLI, plugin log, JSON). */
#ifndef WEFT_BASE_ERROR_H
#define WEFT_BASE_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum weft_value_kind { WEFT_VALUE_INT, WEFT_VALUE_TEXT };

/* One named fact of this end, e.g. path_mtu=4096 or local_gid="::ffff:10.0.0.1". */
struct weft_value {
    char name[32];
    enum weft_value_kind kind;
    int64_t number;
    char text[64];
};

#define WEFT_ERROR_VALUES_MAX 24

struct weft_error {
    weft_status status; /* WEFT_OK while nothing has failed */
    char phase[24];    /* what was being done: "discover", "tcp", "auth", "rtr", "data" */
    char object[48];   /* what it was done to: "titanic:p0 qp 17" */
    char message[160]; /* lower case; actual and expected value; never a guessed cause */
    int sys_errno;     /* positive errno of the waist, or 0 */
    int wc_status;     /* enum ibv_wc_status of a failed completion, or 0 */
    unsigned n_values;
    struct weft_value values[WEFT_ERROR_VALUES_MAX];
};

/* Empties `error`. NULL is allowed and ignored, as in all functions below. */
void weft_error_clear(struct weft_error *error);

/* Fills `error` (unless it already holds an earlier failure, which is kept: the first
 * place that knows wins) and returns `status`, so that callers write `return
 * weft_fail(...)`. `error` may be NULL. `phase` and the text are truncated to their
 * fields. */
weft_status weft_fail(struct weft_error *error, weft_status status, const char *phase,
                      const char *format, ...) WEFT_PRINTF(4, 5);

/* weft_fail for an errno that the waist returned; `sys_errno` is positive. */
weft_status weft_fail_errno(struct weft_error *error, int sys_errno, const char *phase,
                            const char *format, ...) WEFT_PRINTF(4, 5);

/* weft_fail for a completion with error status `wc_status` (enum ibv_wc_status). */
weft_status weft_fail_completion(struct weft_error *error, int wc_status,
                                 const char *phase, const char *format, ...)
    WEFT_PRINTF(4, 5);

/* Names what failed. Only the first call has an effect. */
void weft_error_object(struct weft_error *error, const char *format, ...)
    WEFT_PRINTF(2, 3);

/* Adds a named value; silently full after WEFT_ERROR_VALUES_MAX. A name given twice keeps
 * the first value. */
void weft_error_int(struct weft_error *error, const char *name, int64_t number);
void weft_error_text(struct weft_error *error, const char *name, const char *text);

/* The value called `name`, or NULL. */
const struct weft_value *weft_error_value(const struct weft_error *error,
                                          const char *name);

/* Writes "phase: message (errno 110 Connection timed out)" into `out`; always
 * terminated. */
void weft_error_format(const struct weft_error *error, char *out, size_t out_bytes);

#endif
