#include "base/check.h"
#include "coll/coll.h"

/* What software and NICs add to every message beyond the wire: chosen, of the order that
 * verbs on current NICs take from post to completion. */
#define MESSAGE_PS INT64_C(1000000)
/* Reductions compete with the NIC for memory: chosen, 200 GB/s. */
#define REDUCE_PS_PER_BYTE 5
/* Ethernet with preamble, FCS and gap 38, IPv4 20, UDP 8, BTH 12, ICRC 4. */
#define PACKET_OVERHEAD_BYTES 82

__extension__ typedef unsigned __int128 wide;

/* Time of `bytes` on the wire as full packets, rounded up. */
static weft_ps serialise_ps(uint64_t bytes, const struct coll_cost_input *cost)
{
    uint64_t mtu = cost->path_mtu == 0 ? 1024 : cost->path_mtu;
    uint64_t n_packets = (bytes + mtu - 1) / mtu;
    wide bits = (wide)(bytes + n_packets * PACKET_OVERHEAD_BYTES) * 8;

    weft_check(cost->rate_bps > 0);
    return (weft_ps)((bits * 1000000000000u + cost->rate_bps - 1) / cost->rate_bps);
}

/* A ring over `bytes`: 2(n - 1) steps of a chunk each, none shorter than a message. */
static weft_ps ring_ps(uint64_t bytes, const struct coll_cost_input *cost)
{
    uint64_t chunk = (bytes + cost->n_ranks - 1) / cost->n_ranks;
    uint64_t slice = chunk / 8 < 16384 ? 16384 : chunk / 8 > 524288 ? 524288 : chunk / 8;
    weft_ps chunk_ps = serialise_ps(chunk, cost);
    weft_ps message_ps =
        serialise_ps(chunk < slice ? chunk : slice, cost) + cost->delay_ps + MESSAGE_PS;
    weft_ps step_ps = chunk_ps > message_ps ? chunk_ps : message_ps;

    return 2 * ((weft_ps)cost->n_ranks - 1) * step_ps + message_ps +
           REDUCE_PS_PER_BYTE * (weft_ps)chunk * ((weft_ps)cost->n_ranks - 1);
}

weft_ps coll_cost_ps(enum coll_algorithm algorithm, uint64_t size_bytes,
                     const struct coll_cost_input *cost)
{
    weft_check(cost->n_ranks > 0);
    weft_check(algorithm != COLL_AUTO);
    if (cost->n_ranks == 1) {
        return 0;
    }
    switch (algorithm) {
    case COLL_RINGS:
        /* Each ring has its own direction of every cable; on one cable both are the same.
         */
        return ring_ps(cost->n_ranks == 2 ? size_bytes : (size_bytes + 1) / 2, cost);
    case COLL_DIRECT:
        /* Every pair has its own cable: one message time whatever n is. */
        return serialise_ps(size_bytes, cost) + cost->delay_ps + MESSAGE_PS +
               REDUCE_PS_PER_BYTE * (weft_ps)size_bytes * ((weft_ps)cost->n_ranks - 1);
    case COLL_AUTO:
    case COLL_RING:
        break;
    }
    return ring_ps(size_bytes, cost);
}

enum coll_algorithm coll_choose(uint64_t size_bytes, const struct coll_cost_input *cost)
{
    static const enum coll_algorithm candidates[] = {COLL_DIRECT, COLL_RING, COLL_RINGS};
    bool has_all_pairs = cost->n_ranks <= 3 || cost->neighbours[0];
    enum coll_algorithm best = COLL_RING;
    weft_ps best_ps = INT64_MAX;

    for (size_t i = 0; i < WEFT_LENGTH(candidates); i++) {
        weft_ps ps = coll_cost_ps(candidates[i], size_bytes, cost);

        if (ps < best_ps && (candidates[i] != COLL_DIRECT || has_all_pairs)) {
            best = candidates[i];
            best_ps = ps;
        }
    }
    return best;
}
