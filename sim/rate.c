/* Rates of cables and ports, and the time that bytes take at them. */
#include "sim/link.h"

#define PS_PER_S 1000000000000u

struct sim_rate sim_rate_of(uint64_t bps)
{
    bool is_whole = 8ull * PS_PER_S % bps == 0;
    return (struct sim_rate){.bps = bps,
                             .ps_per_byte = is_whole ? 8ull * PS_PER_S / bps : 0};
}

weft_ps sim_rate_time_divided(const struct sim_rate *rate, uint32_t wire_bytes)
{
    /* Frames are shorter than 2^17 B, so the product stays below 2^60. */
    return (weft_ps)((wire_bytes * 8ull * PS_PER_S + rate->bps - 1) / rate->bps);
}
