/* Defines lists of ports of this host that an owner's connections must not use now, because they
 * are down or because a failure named them. A flow has one such list, and a relay has one for all
 * its lanes. */
#ifndef WEFT_XFER_SUSPECTS_H
#define WEFT_XFER_SUSPECTS_H

#include "conn/conn.h"

struct suspect {
    uint32_t device;
    uint8_t port;
    bool is_down; /* an event reported it down; a port that is not may be tried again */
};

struct suspects {
    struct suspect list[CONN_EXCLUDED_MAX];
    uint32_t n;
    weft_ns flapped_ns; /* when a port went down last; 0 if never */
    weft_ns blamed_ns;  /* when a failure named a port last; set by the owner */
};

/* Adds a port. A port that is in the list already is marked down if `is_down`. Does nothing if the
 * list is full. */
void suspects_add(struct suspects *suspects, uint32_t device, uint8_t port, bool is_down);
/* Removes entry i. */
void suspects_acquit(struct suspects *suspects, uint32_t i);
/* Removes every port that no event reported down. */
void suspects_acquit_unproved(struct suspects *suspects);

/* Adds a port to those that `config` excludes. Does nothing if their list is full. */
void suspects_exclude(struct conn_config *config, uint32_t device, uint8_t port);
/* Exclude all ports of the list, or only those that are down. */
void suspects_exclude_all(const struct suspects *suspects, struct conn_config *config);
void suspects_exclude_down(const struct suspects *suspects, struct conn_config *config);

/* Returns the port of this host that an error names, if it is a failure of a queue pair. Returns
 * NULL otherwise, or if the ports can be used with another probe or a smaller path MTU. */
const struct rdma_port *suspects_accused(const struct rdma *rdma,
                                         const struct weft_error *why);
/* Returns the port that suspects_accused() returns. If that is NULL, returns the port of the rail
 * at which this end or the peer was stuck, or NULL. */
const struct rdma_port *suspects_blamed(const struct rdma *rdma, const struct conn *conn,
                                        const struct weft_error *why);

/* Returns true if set-up of `conn` failed because a port is down or lost a GID at either end, or
 * because nothing passed. Also returns true if a port of this host went down after set-up started.
 * The same set-up can then succeed later. Reads the ports again, because the event of a port can
 * come later than the failure that it caused. */
bool suspects_wait_for_port(const struct suspects *suspects, struct rdma *rdma,
                            const struct conn *conn, const struct weft_error *why);

/* Returns the rail of a connection that uses a port, or NULL. `conn` may be NULL. */
const struct conn_rail *suspects_rail(const struct conn *conn, uint32_t device,
                                      uint8_t port);
/* Adds both ends of a rail to `why`, with the values of the connection's own failures. */
void suspects_name_rail(struct weft_error *why, const struct conn *conn,
                        const struct conn_rail *rail);
/* Returns true if a port of this host is active, as last read. An event can be out of date, because
 * its port can be back when the event is handled. */
bool suspects_is_active(const struct rdma *rdma, uint32_t device, uint8_t port);
/* Returns true if the cause of a failure was a port at either end, and that port is up again. The
 * port was inactive when an attempt began, or it went down or lost its GID during the attempt.
 * Reads the ports of this host again. Those of the peer are as reported to `conn`, which may be
 * NULL. */
bool suspects_is_back(struct rdma *rdma, const struct conn *conn,
                      const struct weft_error *why);

#endif
