/* Conversion between endpoints and socket addresses: ip(7), ipv6(7). */
#ifndef WEFT_BACKENDS_LINUX_ADDRESS_H
#define WEFT_BACKENDS_LINUX_ADDRESS_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "io/addr.h"

union linux_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Converts an endpoint for a socket of `family`; an IPv4 address also fits an IPv6 socket
 * (mapped). Returns the number of bytes of the address. */
socklen_t linux_to_sockaddr(const struct io_endpoint *from, int family,
                            union linux_address *out);
/* Returns an all-zero endpoint if the address is neither IPv4 nor IPv6. */
struct io_endpoint linux_from_sockaddr(const union linux_address *from);

#endif
