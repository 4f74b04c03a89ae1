/* What a process of the plugin tells of itself on every cable, and what relays pass on, in one
 * datagram: who it is, how to connect to it, and whom it hears. Pure and bounded; docs/wire.md,
 * "Beacons". */
#ifndef WEFT_PLUGIN_BEACON_H
#define WEFT_PLUGIN_BEACON_H

#include "conn/auth.h"
#include "conn/conn.h"
#include "io/oob.h"

#define BEACON_VERSION 2u
#define BEACON_NEIGHBOURS_MAX 64u
#define BEACON_NAME_BYTES 32u

#define BEACON_MAY_RELAY 1u /* forwards for others, if its host's others leave it to it */
#define BEACON_DEDICATED 2u /* does nothing else: the first choice of its host */

struct beacon {
    uint64_t teller;     /* the process that sent this datagram */
    uint64_t process;    /* whose beacon it is; random, not 0 */
    uint64_t started_ns; /* on its host's monotonic clock */
    uint32_t sequence;   /* from 1; a higher one replaces a lower one */
    uint32_t flags;      /* BEACON_* */
    char name[BEACON_NAME_BYTES];
    uint8_t host_id[16]; /* as the handle tells it */
    uint8_t
        handle[CONN_HANDLE_BYTES]; /* of its listener; without the number of a listen */
    /* Processes of other hosts that it hears itself. A place in here is a name for one of
     * them, which relays of this process take: it stays while the process is heard. 0: free. */
    uint32_t n_neighbours;
    uint64_t neighbours[BEACON_NEIGHBOURS_MAX];
};

/* The key of beacons, from the job's secret (32 bytes), or without one. */
void beacon_key(const uint8_t *secret, uint8_t out[AUTH_KEY_BYTES]);
/* Returns the bytes written. */
size_t beacon_encode(const struct beacon *beacon, const uint8_t key[AUTH_KEY_BYTES],
                     uint8_t out[IO_ANNOUNCEMENT_MAX]);
/* WEFT_ERR_PROTOCOL: no beacon; WEFT_ERR_UNSUPPORTED: of another version; WEFT_ERR_AUTH: of
 * another job. */
weft_status beacon_decode(const uint8_t *bytes, size_t n_bytes,
                          const uint8_t key[AUTH_KEY_BYTES],
                          struct beacon *out) WEFT_MUST_CHECK;

#endif
