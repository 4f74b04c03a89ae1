/* Parses and formats quantities with units, as scenario files write them. Parsing is exact, in
 * integers; text without a unit is not accepted where one is expected. */
#ifndef WEFT_BASE_UNITS_H
#define WEFT_BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Each function parses the whole of `text` and sets `*out` only on success. Returns false on an
 * unknown or missing unit, a sign, overflow, or a fraction finer than the smallest unit. Rates: bps
 * Kbps Mbps Gbps Tbps, 10^n bit/s. */
bool weft_parse_rate_bps(const char *text, uint64_t *out);
/* Sizes: B KiB MiB GiB TiB (2^10n), KB MB GB TB (10^3n); a bare integer is bytes. */
bool weft_parse_size_bytes(const char *text, uint64_t *out);
/* Times: ns us ms s, less than WEFT_NEVER, in nanoseconds. */
bool weft_parse_time_ns(const char *text, weft_ns *out);
/* Shares: "0.1%", or a decimal from 0.0 to 1.0 with a decimal point, in parts per 10^9. */
bool weft_parse_share_ppb(const char *text, uint32_t *out);
/* Absolute bandwidth: KBps MBps GBps (10^n byte/s); one blank may precede the unit. */
bool weft_parse_bandwidth(const char *text, uint64_t *out_bytes_per_s);

/* Write the shortest exact text: 100Gbps, 1MiB, 1.5us. `out` must hold at least 24 bytes.
 * WEFT_NEVER is "never"; a negative time has a minus sign. */
void weft_format_rate(uint64_t rate_bps, char *out, size_t out_bytes);
void weft_format_size(uint64_t size_bytes, char *out, size_t out_bytes);
void weft_format_time(weft_ns time_ns, char *out, size_t out_bytes);

#endif
