/* Names of the values of a failure: facts that one end knows, for example path_mtu=4096. The code
 * compares enumerators. The names appear in text, in JSON and in records of processes. */
#ifndef WEFT_BASE_VALUE_H
#define WEFT_BASE_VALUE_H

#include <stdbool.h>

/* Facts about both ends of a rail or a connection. X(enumerator, name, kind) makes a value of this
 * end, "local_port", and one of the peer, "remote_port". */
#define WEFT_VALUE_PAIRS(X)                                                              \
    X(PORT, "port", TEXT)                                                                \
    X(GID, "gid", TEXT)                                                                  \
    X(GID_TYPE, "gid_type", TEXT)                                                        \
    X(PREFIX_LEN, "prefix_len", INT)                                                     \
    X(QPN, "qpn", INT)                                                                   \
    X(MTU, "mtu", INT)               /* of the netdev, bytes */                          \
    X(ACTIVE_MTU, "active_mtu", INT) /* of the RDMA port, bytes */                       \
    X(KEPT_INDEX, "kept_index", INT) /* GID slot in which a rail was set up */           \
    X(INACTIVE, "inactive", TEXT)    /* the port that is down */                         \
    X(ADDRESSES, "addresses", TEXT)  /* all, "none" without any */                       \
    X(ADDRESS_0, "address_0", TEXT)  /* one each, "10.0.0.1/24" */                       \
    X(ADDRESS_1, "address_1", TEXT)                                                      \
    X(ADDRESS_2, "address_2", TEXT)                                                      \
    X(ADDRESS_3, "address_3", TEXT)                                                      \
    X(ADDRESS_4, "address_4", TEXT)                                                      \
    X(ADDRESS_5, "address_5", TEXT)

#define WEFT_VALUE_ADDRESSES 6 /* ADDRESS_0 to ADDRESS_5 */

/* Other facts: X(enumerator, name, kind). Names that end in _ns are nanoseconds, in _bytes or _mtu
 * bytes. */
#define WEFT_VALUES(X)                                                                   \
    /* of a rail and its queue pair */                                                   \
    X(PEER, "peer", TEXT) /* host name */                                                \
    X(RAIL, "rail", INT)                                                                 \
    X(RAILS, "rails", INT) /* number */                                                  \
    X(QP, "qp", INT)                                                                     \
    X(SGID_INDEX, "sgid_index", INT)                                                     \
    X(GID_WAS_READ, "gid_was_read", INT) /* 1: the program printed its GID */            \
    X(PATH_MTU, "path_mtu", INT)                                                         \
    X(LOWERED_MTU, "lowered_mtu", INT)                                                   \
    X(SUSPECTED_MTU, "suspected_mtu", INT)                                               \
    X(PROBE_BYTES, "probe_bytes", INT)                                                   \
    X(SMALL_PASSED, "small_passed", INT) /* 1: only small messages passed */             \
    X(WORK, "work", TEXT)                /* the work request that failed */              \
    X(VENDOR_ERR, "vendor_err", INT)                                                     \
    X(ACCESS, "access", INT) /* IBV_ACCESS_* of a registration */                        \
    X(BYTES, "bytes", INT)                                                               \
    X(MEMLOCK_BYTES, "memlock_bytes", INT)                                               \
    /* of a stream or a message */                                                       \
    X(FIELD, "field", TEXT)                                                              \
    X(VALUE, "value", INT)                                                               \
    X(BYTES_SENT, "bytes_sent", INT)                                                     \
    X(BYTES_RECEIVED, "bytes_received", INT)                                             \
    X(STREAM_ENDED, "stream_ended", INT) /* 1: FIN or RST of the peer's kernel */        \
    X(SILENT_NS, "silent_ns", INT)                                                       \
    X(WAYS, "ways", INT) /* pairs of addresses that were tried */                        \
    X(ATTEMPTS, "attempts", INT)                                                         \
    X(LIMIT_NS, "limit_ns", INT)                                                         \
    X(GAVE_UP, "gave_up", TEXT) /* phase in which a connector gave up */                 \
    /* as the peer reported its own failure */                                           \
    X(PEER_PHASE, "peer_phase", TEXT)                                                    \
    X(PEER_STATUS, "peer_status", TEXT)                                                  \
    X(PEER_REASON, "peer_reason", TEXT)                                                  \
    X(PEER_ERRNO, "peer_errno", INT)                                                     \
    X(PEER_WC_STATUS, "peer_wc_status", INT)                                             \
    X(PEER_EXITED, "peer_exited", INT)                                                   \
    /* of the rendezvous */                                                              \
    X(RANK, "rank", INT)                                                                 \
    X(RENDEZVOUS, "rendezvous", TEXT) /* address */                                      \
    X(MISSING, "missing", TEXT)       /* ranks that have not joined */                   \
    X(HEARD, "heard", INT) /* 1: the member's announcements came without a gap */        \
    X(SILENCED, "silenced",                                                              \
      INT) /* streams to the member that came up at once, and on   \
                                    which nothing came any more */                     \
    X(REASON, "reason", TEXT)                                                            \
    X(TOLD_BY, "told_by", INT) /* member that reported it */                             \
    X(ENDED, "ended", INT)                                                               \
    X(WAITED_NS, "waited_ns", INT)                                                       \
    X(LAST_ERRNO, "last_errno", INT)                                                     \
    /* of a flow, a relay or a transport */                                              \
    X(FROM, "from", INT)                                                                 \
    X(TO, "to", INT)                                                                     \
    X(LANES, "lanes", INT)                                                               \
    X(RELAY, "relay", INT) /* member */                                                  \
    X(NEXT_HOP, "next_hop",                                                              \
      INT) /* a lane's first relay, the connection to which failed */                    \
    X(STOOD_IN_RELAYS, "stood_in_relays", INT)                                           \
    X(FAILOVER_NS, "failover_ns", INT)                                                   \
    X(STILL_NS, "still_ns", INT)                                                         \
    X(STALLS, "stalls", INT)                                                             \
    X(LAST_PHASE, "last_phase", TEXT)                                                    \
    X(LAST_MESSAGE, "last_message", TEXT)                                                \
    X(REQUEST, "request", TEXT)                                                          \
    X(TRANSPORT, "transport", TEXT)                                                      \
    /* of a host and its jobs */                                                         \
    X(HOST, "host", TEXT)                                                                \
    X(STATE, "state", TEXT)                                                              \
    X(WAITS_FOR, "waits_for", TEXT) /* ranks */                                          \
    X(JOB, "job", INT)                                                                   \
    X(WRONG, "wrong", INT) /* elements that are wrong */                                 \
    X(FIRST, "first", INT) /* index of the first wrong one */                            \
    /* of a library or the system */                                                     \
    X(LIBRARY, "library", TEXT)                                                          \
    X(SYMBOL, "symbol", TEXT)                                                            \
    X(CALL, "call", TEXT)                                                                \
    X(RESULT, "result", INT)                                                             \
    X(ERRNO, "errno", INT)                                                               \
    X(FINDING, "finding", TEXT) /* codes of findings, separated by spaces */

enum weft_value_name {
    WEFT_VALUE_UNKNOWN, /* in a file, but not in the lists above */
#define WEFT_VALUE_PAIR(enumerator, name, kind)                                          \
    WEFT_VALUE_LOCAL_##enumerator, WEFT_VALUE_REMOTE_##enumerator,
    WEFT_VALUE_PAIRS(WEFT_VALUE_PAIR)
#undef WEFT_VALUE_PAIR
#define WEFT_VALUE_ENUMERATOR(enumerator, name, kind) WEFT_VALUE_##enumerator,
        WEFT_VALUES(WEFT_VALUE_ENUMERATOR)
#undef WEFT_VALUE_ENUMERATOR
            WEFT_VALUE_N
};

enum weft_kind { WEFT_KIND_INT, WEFT_KIND_TEXT };

/* Returns the name, "local_port". */
const char *weft_value_name(enum weft_value_name name);

enum weft_kind weft_value_kind(enum weft_value_name name);

/* Returns the value called `text`, or WEFT_VALUE_UNKNOWN. */
enum weft_value_name weft_value_find(const char *text);

/* Returns the same fact about the other end: LOCAL_PORT for REMOTE_PORT. Returns `name` if it is
 * not one of a pair. */
enum weft_value_name weft_value_turned(enum weft_value_name name);

/* Returns the value of the address with this index, WEFT_VALUE_LOCAL_ADDRESS_0 and so on. `index`
 * must be less than WEFT_VALUE_ADDRESSES. */
enum weft_value_name weft_value_local_address(unsigned index);
enum weft_value_name weft_value_remote_address(unsigned index);

#endif
