/* The three-way answer of every Weft function that can fail, and the units of time. */
#ifndef WEFT_BASE_STATUS_H
#define WEFT_BASE_STATUS_H

#include <stdint.h>

/* Core time: signed nanoseconds since an origin that only the world knows. */
typedef int64_t weft_ns;
/* The simulator's own time: signed picoseconds, so that serialisation is exact. */
typedef int64_t weft_ps;

/* A deadline that never comes. */
#define WEFT_NEVER INT64_MAX

/* WEFT_OK and WEFT_AGAIN are not errors: AGAIN means "nothing more can be done now; come
 * back when woken". Negative values are errors and come with a filled struct weft_error
 * (base/error.h) wherever the function takes one. */
typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_AGAIN = 1,
    WEFT_ERR_INPUT = -1,        /* a file, flag or argument of the user's is wrong */
    WEFT_ERR_NOMEM = -2,        /* this process is out of memory */
    WEFT_ERR_SYSTEM = -3,       /* an operation of the waist failed: error.sys_errno */
    WEFT_ERR_COMPLETION = -4,   /* a work request failed: error.wc_status */
    WEFT_ERR_PROTOCOL = -5,     /* the peer sent what the protocol forbids */
    WEFT_ERR_AUTH = -6,         /* the peer could not prove that it knows the secret */
    WEFT_ERR_TIMEOUT = -7,      /* a declared deadline passed */
    WEFT_ERR_CLOSED = -8,       /* the peer closed or died */
    WEFT_ERR_LIMIT = -9,        /* a declared limit would be exceeded */
    WEFT_ERR_ROUTE = -10,       /* no way to the peer */
    WEFT_ERR_UNSUPPORTED = -11, /* this build, device or backend cannot do it */
    WEFT_ERR_DATA = -12,        /* bytes differ from the oracle's */
    WEFT_ERR_ENVIRONMENT = -13  /* a device, module or permission is missing */
} weft_status;

#define WEFT_MUST_CHECK __attribute__((warn_unused_result))
/* The rare part of a function that millions of packets pass: a call, so that the common part
 * need not save registers for it. */
#define WEFT_APART __attribute__((noinline))
#define WEFT_PRINTF(format_arg, first_arg)                                               \
    __attribute__((format(printf, format_arg, first_arg)))

/* "ok", "again", "timeout", ...: static text, never NULL. */
const char *weft_status_name(weft_status status);

#endif
