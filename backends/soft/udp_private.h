/* Definitions shared by backends/soft/udp*.c only. */
#ifndef WEFT_BACKENDS_SOFT_UDP_PRIVATE_H
#define WEFT_BACKENDS_SOFT_UDP_PRIVATE_H

#include <netinet/in.h>

#include "backends/soft/udp.h"
#include "sim/packet.h"

enum { SOFT_TARGETS = 64, SOFT_RX_MESSAGES = 16 };

/* The socket of one GID of the port. */
struct soft_socket {
    struct soft_wire wire; /* its fd is -1 if the slot is free */
    struct soft_udp *udp;
    struct io_ip seen; /* the GID */
};

/* A cached target of the frames of one path. */
struct soft_known_target {
    const struct sim_path *path; /* NULL: unused */
    uint32_t process;
    bool is_reachable;
    struct soft_target target;
};

struct soft_udp {
    struct soft_udp_config config;
    struct soft_socket *sockets; /* Owned [n_sockets]; room for all GIDs */
    uint32_t n_sockets;          /* slots that have been used */
    uint16_t local_port;
    uint32_t link; /* link of the netdev's alias */
    struct soft_known_target targets[SOFT_TARGETS];
    struct soft_rx *rx; /* Owned */
    struct soft_udp_counters counters;
    bool is_open; /* created; IPv4 addresses that cannot be bound were reported then */
    /* Errno of the last failed bind, or 0. Ignores EADDRNOTAVAIL, because the address can still
     * appear, or never does on a port without a cable. */
    int error;
};

/* udp_receive.c */
struct soft_rx *soft_rx_create(void);
void soft_rx_destroy(struct soft_rx *rx);
bool soft_udp_receive(struct soft_wire *wire);

/* Returns a MAC derived from a station's IP address, because this wire resolves no MACs. */
static inline uint64_t soft_udp_mac(const struct io_ip *ip)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (int i = 0; i < 16; i++) {
        hash = (hash ^ ip->bytes[i]) * UINT64_C(0x100000001b3);
    }
    return UINT64_C(0x025355000000) | ((hash ^ hash >> 32) & 0xffffff);
}

/* Returns true if the alias is on this port's link. */
static inline bool soft_udp_reaches(const struct soft_udp *udp,
                                    const struct linux_alias *alias)
{
    return alias != NULL && alias->link == udp->link;
}

#endif
