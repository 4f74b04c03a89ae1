/* Ports of this host that one owner's connections must not use now: those that are down, and those
 * that a failure named. A flow has one such list, and a relay has one for all its lanes. */
#ifndef WEFT_XFER_SUSPECTS_H
#define WEFT_XFER_SUSPECTS_H

#include "conn/conn.h"

struct suspect {
    uint32_t device;
    uint8_t port;
    bool is_down; /* an event reported it down; false: it may be tried again */
};

struct suspects {
    struct suspect list[CONN_EXCLUDED_MAX];
    uint32_t n;
    weft_ns flapped_ns; /* when a port went down last; 0: never */
    weft_ns blamed_ns;  /* when a failure named a port last; the owner's */
};

/* Adds a port, or marks it down if it is there already. Ignored when the list is full. */
void suspects_add(struct suspects *suspects, uint32_t device, uint8_t port, bool is_down);
/* Removes entry i. */
void suspects_acquit(struct suspects *suspects, uint32_t i);
/* Removes every port that no event reported down. */
void suspects_acquit_unproved(struct suspects *suspects);

/* Adds a port to those that `config` excludes; ignored when they are full. */
void suspects_exclude(struct conn_config *config, uint32_t device, uint8_t port);
/* Excludes all ports of the list, or only those that are down. */
void suspects_exclude_all(const struct suspects *suspects, struct conn_config *config);
void suspects_exclude_down(const struct suspects *suspects, struct conn_config *config);

/* Returns the port of this host that the failure of a connection is about, or NULL: the one that
 * its error names, or else the one whose rail the peer or this end was stuck at. */
const struct rdma_port *suspects_accused(const struct rdma *rdma,
                                         const struct weft_error *why);
const struct rdma_port *suspects_blamed(const struct rdma *rdma, const struct conn *conn,
                                        const struct weft_error *why);

/* Returns true if set-up of `conn` failed because a port is down or lost a GID at either end, or
 * went down after set-up started, or because nothing passed: the same set-up can succeed later.
 * Reads the ports again, because the event of one can come later than the failure it caused. */
bool suspects_wait_for_port(const struct suspects *suspects, struct rdma *rdma,
                            const struct conn *conn, const struct weft_error *why);

/* Returns the rail of a connection (NULL: none) that uses a port, or NULL. */
const struct conn_rail *suspects_rail(const struct conn *conn, uint32_t device,
                                      uint8_t port);
/* Adds both ends of a rail to `why`, as the connection's own failures name them. */
void suspects_name_rail(struct weft_error *why, const struct conn *conn,
                        const struct conn_rail *rail);
/* Returns true if a port of this host is active, as last read. An event says what was, and its port
 * can be back when the event is handled. */
bool suspects_is_active(const struct rdma *rdma, uint32_t device, uint8_t port);
/* Returns true if a failure is that of a port which is up again, here or at the peer of `conn`
 * (NULL: nothing is known of it): it had no carrier as an attempt began, or went down, or lost its
 * GID, during one. Reads the ports of this host again. */
bool suspects_is_back(struct rdma *rdma, const struct conn *conn,
                      const struct weft_error *why);

#endif
