/* Defines element types and reductions, shared by the GPU backends and the collectives. */
#ifndef WEFT_BASE_REDUCE_H
#define WEFT_BASE_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

enum weft_dtype {
    WEFT_INT8,
    WEFT_UINT8,
    WEFT_INT16,
    WEFT_UINT16,
    WEFT_INT32,
    WEFT_UINT32,
    WEFT_INT64,
    WEFT_UINT64,
    WEFT_FLOAT16,
    WEFT_BFLOAT16,
    WEFT_FLOAT32,
    WEFT_FLOAT64,
    WEFT_N_DTYPES
};

enum weft_redop { WEFT_SUM, WEFT_PROD, WEFT_MIN, WEFT_MAX, WEFT_AVG, WEFT_N_REDOPS };

size_t weft_dtype_bytes(enum weft_dtype dtype);
const char *weft_dtype_name(enum weft_dtype dtype); /* "float32", as in scenario files */
const char *weft_redop_name(enum weft_redop op);

/* Sets out[i] = a[i] op b[i] for `count` elements. `out` may be equal to `a` or `b`; otherwise the
 * ranges must not overlap. float16 and bfloat16 are computed in float32 and rounded to nearest even
 * once per element; integers wrap. WEFT_AVG only adds; the caller divides once at the end with
 * weft_reduce_divide. */
void weft_reduce(enum weft_dtype dtype, enum weft_redop op, void *out, const void *a,
                 const void *b, size_t count);

/* Sets values[i] /= divisor (integers truncate towards zero); divisor > 0. */
void weft_reduce_divide(enum weft_dtype dtype, void *values, size_t count, int divisor);

#endif
