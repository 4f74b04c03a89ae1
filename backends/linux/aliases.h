/* Hosts that are there in name only: several of them, each a process, in one network namespace
 * without interfaces of their own. What a host knows as its addresses, and its neighbours', are
 * stood for by loopback addresses of this machine; a link is stood for by a multicast group on
 * the loopback interface. Only ends of one link reach each other, as if the cables were there. */
#ifndef WEFT_BACKENDS_LINUX_ALIASES_H
#define WEFT_BACKENDS_LINUX_ALIASES_H

#include "io/addr.h"
#include "io/hostinfo.h"

struct linux_alias {
    struct io_ip seen; /* as hosts know it */
    struct io_ip real; /* 127.x.y.z */
    uint32_t link;     /* which the address is on; numbered as the maker pleases */
};

/* A netdev of the host that has these aliases. */
struct linux_alias_netdev {
    uint32_t ifindex;   /* 0: the host's processes among themselves */
    uint32_t link;      /* that it is on */
    struct io_ip group; /* that stands for the link */
};

struct linux_aliases {
    const struct linux_alias *items;          /* Not owned [n_items]; all hosts' */
    const struct linux_alias_netdev *netdevs; /* Not owned [n_netdevs]; one host's */
    const struct io_hostinfo *info; /* Not owned; facts, in place of the kernel's */
    uint32_t n_items, n_netdevs;
};

/* The alias of an address, by either of its faces; NULL if there is none. */
const struct linux_alias *linux_alias_of_seen(const struct linux_aliases *aliases,
                                              const struct io_ip *seen);
const struct linux_alias *linux_alias_of_real(const struct linux_aliases *aliases,
                                              const struct io_ip *real);
/* NULL if there is no such netdev. */
const struct linux_alias_netdev *
linux_alias_netdev_of(const struct linux_aliases *aliases, uint32_t ifindex);

/* Replaces what hosts know by what the kernel knows, and back. Without aliases (NULL) nothing
 * changes. Zero addresses stay zero. EADDRNOTAVAIL: no address of ours. */
int linux_alias_local(const struct linux_aliases *aliases, struct io_endpoint *at);
void linux_alias_show(const struct linux_aliases *aliases, struct io_endpoint *at);
/* Of a connection; `from` with a zero address is chosen. ENETUNREACH: in no subnet of ours;
 * EHOSTUNREACH: nobody with that address is at the other end. */
int linux_alias_route(const struct linux_aliases *aliases, struct io_endpoint *from,
                      struct io_endpoint *to);

#endif
