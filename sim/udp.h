/* UDP as far as announcements to neighbours need it: datagrams to a link-local group on
 * one netdev, or between the processes of a host. They are never routed. Each user has a
 * queue of 64; further datagrams are lost.
 *
 * IPv4 uses 239.255.87.69 with hop limit 1, IPv6 uses ff12::5745 (RFC 2365, RFC 4291: for
 * private use), as in backends/linux. Simplified: no IGMP or MLD; every netdev receives
 * both groups. */
#ifndef WEFT_SIM_UDP_H
#define WEFT_SIM_UDP_H

#include <stddef.h>
#include <stdint.h>

#include "sim/engine.h"
#include "sim/ip.h"
#include "sim/port.h"

#define SIM_DATAGRAM_MAX 1024u

/* Payload of SIM_FRAME_UDP. */
struct sim_datagram {
    struct sim_endpoint source, destination;
    uint32_t n_bytes;
    uint8_t bytes[];
};

struct sim_netdev;
struct sim_stack;
struct sim_announcer;

/* As in io/oob.h; `ifindex` 0 is for processes within the host. Fails with ENODEV. */
int sim_udp_open(struct sim_stack *stack, uint32_t ifindex, uint16_t port,
                 struct sim_waker waker, struct sim_announcer **out);
int sim_udp_announce(struct sim_announcer *announcer, const void *bytes, size_t n_bytes);
int sim_udp_hear(struct sim_announcer *announcer, void *out, size_t cap, size_t *out_n,
                 struct sim_endpoint *out_from);
void sim_udp_close(struct sim_announcer *announcer);

/* For the stack. */
void sim_udp_destroy(struct sim_stack *stack);
/* Handles a packet that arrived on `netdev`; takes it over. */
void sim_udp_input(struct sim_netdev *netdev, struct sim_packet *packet);

#endif
