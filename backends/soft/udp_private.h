/* Shared by backends/soft/udp*.c only. */
#ifndef WEFT_BACKENDS_SOFT_UDP_PRIVATE_H
#define WEFT_BACKENDS_SOFT_UDP_PRIVATE_H

#include <netinet/in.h>

#include "backends/soft/udp.h"
#include "sim/packet.h"

enum { SOFT_TARGETS = 64, SOFT_RX_MESSAGES = 16 };

/* One socket: one GID of the port. */
struct soft_socket {
    struct soft_wire wire;
    struct soft_udp *udp;
    struct io_ip seen; /* the GID */
};

/* Where frames of one path go. */
struct soft_known_target {
    const struct sim_path *path; /* NULL: nothing */
    uint32_t process;
    bool is_reachable;
    struct soft_target target;
};

struct soft_udp {
    struct soft_udp_config config;
    struct soft_socket
        *sockets; /* Owned [n_sockets], room for as many as there are GIDs */
    uint32_t n_sockets;
    uint16_t local_port;
    uint32_t link; /* of the aliases */
    struct soft_known_target targets[SOFT_TARGETS];
    struct soft_rx *rx; /* Owned */
    struct soft_udp_counters counters;
    /* Of the last socket that could not be bound, or 0; not that its address is not there: it may
     * come, as that of a port without a cable never does. */
    int error;
};

/* udp_receive.c */
struct soft_rx *soft_rx_create(void);
void soft_rx_destroy(struct soft_rx *rx);
void soft_udp_receive(struct soft_wire *wire);

/* A station's address, made of its IP: nobody on this wire asks for it. */
uint64_t soft_udp_mac(const struct io_ip *ip);
/* Whether the alias is at the other end, or ours. */
bool soft_udp_reaches(const struct soft_udp *udp, const struct linux_alias *alias);

#endif
