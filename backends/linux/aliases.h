/* Aliases for hosts without interfaces: several hosts, each a process, share one network
 * namespace. Loopback addresses of this machine stand for the addresses of the hosts and their
 * neighbours; a multicast group on the loopback interface stands for a link. Only the ends of one
 * link reach each other, as if the cables existed. */
#ifndef WEFT_BACKENDS_LINUX_ALIASES_H
#define WEFT_BACKENDS_LINUX_ALIASES_H

#include "io/addr.h"
#include "io/hostinfo.h"

struct linux_alias {
    struct io_ip seen; /* address that the hosts use */
    struct io_ip real; /* address that the kernel uses, 127.x.y.z */
    uint32_t link;     /* link of the address; an arbitrary number */
};

/* A netdev of the host that has these aliases. */
struct linux_alias_netdev {
    uint32_t ifindex;   /* 0: traffic among the processes of the host */
    uint32_t link;      /* link to which it is connected */
    struct io_ip group; /* multicast group that stands for the link */
};

struct linux_aliases {
    /* Not owned [n_items]; aliases of all hosts. */
    const struct linux_alias *items;
    /* Not owned [n_netdevs]; of this host only. */
    const struct linux_alias_netdev *netdevs;
    const struct io_hostinfo *info; /* Not owned; replaces the kernel's facts */
    uint32_t n_items, n_netdevs;
};

/* Return the alias with this address as seen by hosts, or as used by the kernel; NULL if none. */
const struct linux_alias *linux_alias_of_seen(const struct linux_aliases *aliases,
                                              const struct io_ip *seen);
const struct linux_alias *linux_alias_of_real(const struct linux_aliases *aliases,
                                              const struct io_ip *real);
/* Returns NULL if the host has no such netdev. */
const struct linux_alias_netdev *
linux_alias_netdev_of(const struct linux_aliases *aliases, uint32_t ifindex);

/* Translate an address from the hosts' view to the kernel's, and back. Without aliases (NULL),
 * and for zero addresses, they change nothing. linux_alias_local() returns EADDRNOTAVAIL if the
 * address is not one of this host. */
int linux_alias_local(const struct linux_aliases *aliases, struct io_endpoint *at);
void linux_alias_show(const struct linux_aliases *aliases, struct io_endpoint *at);
/* Translates both endpoints of a connection to loopback addresses; chooses `from` if it is zero.
 * Returns ENETUNREACH if `to` is in no subnet of this host, EHOSTUNREACH if no host on that link
 * has it. */
int linux_alias_route(const struct linux_aliases *aliases, struct io_endpoint *from,
                      struct io_endpoint *to);

#endif
