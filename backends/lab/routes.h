/* Hosts that share one network namespace, kept apart by policy routing: how rdma_rxe can be
 * used before Linux 7.1, when it asked for routes in the first namespace only, whichever its
 * netdev was in (rxe_find_route4, drivers/infiniband/sw/rxe/rxe_net.c).
 *
 * Each netdev has a routing table with its own subnets alone. Rules of higher priority than
 * the table of local addresses choose it: for whoever sends through the netdev, or from one
 * of its addresses. So packets to an address that is this kernel's own still cross the
 * cable. Who says neither (TCP towards a rendezvous) reaches an address from the netdev at
 * the other end. */
#ifndef WEFT_BACKENDS_LAB_ROUTES_H
#define WEFT_BACKENDS_LAB_ROUTES_H

#include <stdbool.h>

#include "io/addr.h"

/* The local table's rule goes behind ours. An errno; EEXIST: somebody did already. */
int lab_routes_begin(int route_fd);
/* Takes back every rule of ours, and puts that of the local table where it was. */
void lab_routes_end(int route_fd);

/* The rules of a netdev that exists: once. */
int lab_routes_add_netdev(int route_fd, const char *netdev);
/* The subnet of an address of `netdev`. Again after the netdev was down, which loses
 * routes but not rules; EEXIST is no error. */
int lab_routes_add_subnet(int route_fd, const char *netdev,
                          const struct io_prefix *address);
/* What is sent from the address leaves by `netdev`; what is sent to it by whoever does not
 * say from where, by `from` (NULL: as the kernel likes). `adds` false takes it back. */
int lab_routes_change_address(int route_fd, bool adds, const char *netdev,
                              const char *from, const struct io_prefix *address);

#endif
