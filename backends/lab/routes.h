/* Separates hosts that share one network namespace, by policy routing. rdma_rxe needs this before
 * Linux 7.1, because it looked up routes in the initial namespace only, whatever the netdev's
 * namespace (rxe_find_route4, drivers/infiniband/sw/rxe/rxe_net.c).
 *
 * Each netdev has a routing table with only its own subnets. Rules that precede the table of
 * local addresses select it for packets that are sent through the netdev or from one of its
 * addresses. So packets to an address of this kernel still cross the cable. Packets sent without
 * a device or source address (TCP to a rendezvous) reach an address through the netdev at the
 * other end of its cable. */
#ifndef WEFT_BACKENDS_LAB_ROUTES_H
#define WEFT_BACKENDS_LAB_ROUTES_H

#include <stdbool.h>

#include "io/addr.h"

/* Moves the rule of the local table behind the rules added below. Returns an errno; EEXIST if
 * this has been done already. */
int lab_routes_begin(int route_fd);
/* Deletes all rules added below, and moves the rule of the local table back. */
void lab_routes_end(int route_fd);

/* Adds the rules of a netdev. Call once per netdev, which must exist. Returns an errno. */
int lab_routes_add_netdev(int route_fd, const char *netdev);
/* Adds the routes of an address of `netdev`: its subnet, link-local and multicast. Call again
 * after the netdev was down, because that deletes routes (but not rules). Ignores EEXIST. */
int lab_routes_add_subnet(int route_fd, const char *netdev,
                          const struct io_prefix *address);
/* Adds the rules for one address, or removes them if `adds` is false: packets from it leave
 * through `netdev`; packets to it without a bound source leave through `from`, or by the kernel's
 * own choice if `from` is NULL. */
int lab_routes_change_address(int route_fd, bool adds, const char *netdev,
                              const char *from, const struct io_prefix *address);

#endif
