/* Beacons: datagrams in which a process of the plugin announces itself on every cable, and which
 * relays forward. A beacon names the process, how to connect to it, and which processes it
 * receives beacons from. Pure and bounded; docs/wire.md, "Beacons". */
#ifndef WEFT_PLUGIN_BEACON_H
#define WEFT_PLUGIN_BEACON_H

#include "conn/auth.h"
#include "conn/conn.h"
#include "io/oob.h"

#define BEACON_VERSION 2u
#define BEACON_NEIGHBOURS_MAX 64u
#define BEACON_NAME_BYTES 32u

/* forwards for others, unless another process of its host does */
#define BEACON_MAY_RELAY 1u
/* only forwards (weft relayd); preferred over others of its host */
#define BEACON_DEDICATED 2u

/* One beacon, decoded. */
struct beacon {
    uint64_t sender;     /* the process that sent this datagram: its origin or a relay */
    uint64_t process;    /* the process that it describes; random, not 0 */
    uint64_t started_ns; /* start time on its host's monotonic clock */
    uint32_t sequence;   /* from 1; a higher one replaces a lower one */
    uint32_t flags;      /* BEACON_* */
    char name[BEACON_NAME_BYTES];
    uint8_t host_id[16]; /* from the handle */
    /* handle of its listener, without the number of a listen */
    uint8_t handle[CONN_HANDLE_BYTES];
    /* Processes of other hosts whose beacons it receives directly. Relays of this process are
     * addressed by their index, which does not change while they are heard. 0 if an entry is
     * free. */
    uint32_t n_neighbours;
    uint64_t neighbours[BEACON_NEIGHBOURS_MAX];
};

/* Derives the key of beacons from the job's secret (32 bytes), or from zeroes if `secret` is
 * NULL. */
void beacon_key(const uint8_t *secret, uint8_t out[AUTH_KEY_BYTES]);
/* Returns the number of bytes written. host_id is not encoded, because it is part of the handle. */
size_t beacon_encode(const struct beacon *beacon, const uint8_t key[AUTH_KEY_BYTES],
                     uint8_t out[IO_ANNOUNCEMENT_MAX]);
/* Fails with WEFT_ERR_PROTOCOL if the bytes are not a valid beacon, WEFT_ERR_UNSUPPORTED if they
 * are of another version, WEFT_ERR_AUTH if they were made with another key. */
weft_status beacon_decode(const uint8_t *bytes, size_t n_bytes,
                          const uint8_t key[AUTH_KEY_BYTES],
                          struct beacon *out) WEFT_MUST_CHECK;

#endif
