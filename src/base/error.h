/* Structured errors. The function that detects a failure fills a struct weft_error; its callers
 * pass it up and can add the object's name. Only the CLI, the plugin's log and the JSON writer turn
 * it into text. */
#ifndef WEFT_BASE_ERROR_H
#define WEFT_BASE_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/phase.h"
#include "base/status.h"
#include "base/value.h"

/* A named fact known to this end, e.g. path_mtu=4096 or local_gid="::ffff:10.0.0.1". Its kind is
 * weft_value_kind(name); the other of `number` and `text` is empty. */
struct weft_value {
    enum weft_value_name name;
    int64_t number;
    char text[96];
};

#define WEFT_ERROR_VALUES_MAX 24

struct weft_error {
    weft_status status;    /* WEFT_OK while nothing has failed */
    enum weft_phase phase; /* operation that failed */
    char phase_detail[20]; /* of a relay: its reason and a member, "memory.3"; else "" */
    char object[48];       /* object of the operation: "titanic:p0 qp 17" */
    char message[160]; /* lower case; actual and expected value; never an assumed cause */
    int sys_errno;     /* positive errno of the I/O interface (src/io), or 0 */
    int wc_status;     /* enum ibv_wc_status of a failed completion, or 0 */
    unsigned n_values;
    struct weft_value values[WEFT_ERROR_VALUES_MAX];
};

/* Resets `error` to WEFT_OK. Like all functions below, it ignores NULL. */
void weft_error_clear(struct weft_error *error);

/* Fills `error`, unless it already holds an earlier failure, which is kept. Returns `status`, so
 * that callers can write `return weft_fail(...)`. Truncates the text to its field. */
weft_status weft_fail(struct weft_error *error, weft_status status, enum weft_phase phase,
                      const char *format, ...) WEFT_PRINTF(4, 5);

/* Like weft_fail, with WEFT_ERR_SYSTEM and a positive errno that the I/O interface returned. */
weft_status weft_fail_errno(struct weft_error *error, int sys_errno,
                            enum weft_phase phase, const char *format, ...)
    WEFT_PRINTF(4, 5);

/* Like weft_fail, with WEFT_ERR_COMPLETION and the status of a failed completion (enum
 * ibv_wc_status). */
weft_status weft_fail_completion(struct weft_error *error, int wc_status,
                                 enum weft_phase phase, const char *format, ...)
    WEFT_PRINTF(4, 5);

/* Sets the object of the operation that failed. Only the first call has an effect. */
void weft_error_object(struct weft_error *error, const char *format, ...)
    WEFT_PRINTF(2, 3);

#define WEFT_PHASE_TEXT_BYTES 24

/* Returns the phase with its detail, as in an ABORT or in JSON: "rtr" or "relay.memory.3". Writes
 * to `out` only if there is a detail. */
const char *weft_error_phase_text(const struct weft_error *error,
                                  char out[WEFT_PHASE_TEXT_BYTES]);

/* Sets the phase and its detail from a text as weft_error_phase_text returns it. */
void weft_error_set_phase(struct weft_error *error, const char *text);

/* Returns the phase in which the peer failed (value "peer_phase"), or WEFT_PHASE_NONE if the peer
 * reported no failure. */
enum weft_phase weft_error_peer_phase(const struct weft_error *error);

/* Returns the phase of the end that failed first: the peer's, otherwise that of `error`. */
enum weft_phase weft_error_first_phase(const struct weft_error *error);

/* Adds a named value. Ignored if WEFT_ERROR_VALUES_MAX values are stored, or one with this name, or
 * if the value is of the other kind, as in a file that another program wrote. */
void weft_error_int(struct weft_error *error, enum weft_value_name name, int64_t number);
void weft_error_text(struct weft_error *error, enum weft_value_name name,
                     const char *text);

/* Returns the value called `name`, or NULL. */
const struct weft_value *weft_error_value(const struct weft_error *error,
                                          enum weft_value_name name);

/* Writes "phase: message (errno 110 Connection timed out)" into `out`, or "ok" if `error` holds no
 * failure. Truncates to `out_bytes` and always terminates. */
void weft_error_format(const struct weft_error *error, char *out, size_t out_bytes);

#endif
