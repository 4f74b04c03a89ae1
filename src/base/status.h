/* The result of every Weft function that can fail (success, not yet, error), and the types for
 * time. */
#ifndef WEFT_BASE_STATUS_H
#define WEFT_BASE_STATUS_H

#include <stdint.h>

/* Time in nanoseconds since an origin that only the world (io/world.h) knows. */
typedef int64_t weft_ns;
/* Time of the simulator in picoseconds, so that serialisation delays are exact. */
typedef int64_t weft_ps;

/* No deadline. */
#define WEFT_NEVER INT64_MAX

/* WEFT_OK and WEFT_AGAIN are not errors. WEFT_AGAIN means that the operation cannot go on now; call
 * again when the task is woken. Negative values are errors and come with a filled struct weft_error
 * (base/error.h) if the function has such a parameter. */
typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_AGAIN = 1,
    WEFT_ERR_INPUT = -1,        /* invalid file, flag or argument from the user */
    WEFT_ERR_NOMEM = -2,        /* this process is out of memory */
    WEFT_ERR_SYSTEM = -3,       /* a call of the I/O interface failed: error.sys_errno */
    WEFT_ERR_COMPLETION = -4,   /* a work request failed: error.wc_status */
    WEFT_ERR_PROTOCOL = -5,     /* the peer violated the protocol */
    WEFT_ERR_AUTH = -6,         /* the peer could not prove that it knows the secret */
    WEFT_ERR_TIMEOUT = -7,      /* a deadline passed */
    WEFT_ERR_CLOSED = -8,       /* the peer closed the connection or exited */
    WEFT_ERR_LIMIT = -9,        /* a limit would be exceeded */
    WEFT_ERR_ROUTE = -10,       /* no route to the peer */
    WEFT_ERR_UNSUPPORTED = -11, /* not supported by this build, device or backend */
    WEFT_ERR_DATA = -12,        /* result differs from the oracle's */
    WEFT_ERR_ENVIRONMENT = -13  /* a device, module or permission is missing */
} weft_status;

#define WEFT_MUST_CHECK __attribute__((warn_unused_result))
/* Marks the rare part of a hot function. As a separate call it does not make the common part save
 * registers. */
#define WEFT_APART __attribute__((noinline))
#define WEFT_PRINTF(format_arg, first_arg)                                               \
    __attribute__((format(printf, format_arg, first_arg)))

/* Returns "ok", "again", "timeout", ...: static text, never NULL. */
const char *weft_status_name(weft_status status);

#endif
