/* Neighbour resolution as Linux does it (net/core/neighbour.c, net/ipv4/arp.c,
 * net/ipv6/ndisc.c), with ARP and neighbour discovery as frames on the cable.
 *
 * An entry is probed three times, one second apart, then it has FAILED. Confirmed entries
 * stay REACHABLE for 30 s (base_reachable_time; Linux draws 15 to 45 s) and turn STALE; a
 * STALE one is used at once, and probed 5 s later unless traffic confirmed it. Carrier
 * loss forgets all. Simplified: entries are never garbage-collected; replies take no time
 * beyond the wire's. */
#ifndef WEFT_SIM_NEIGHBOUR_H
#define WEFT_SIM_NEIGHBOUR_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/engine.h"
#include "sim/ip.h"
#include "sim/port.h"

struct sim_netdev;
struct sim_resolve;

/* Payload of SIM_FRAME_NEIGH: an ARP packet (IPv4) or neighbour solicitation and
 * advertisement (IPv6). */
struct sim_neigh_packet {
    bool is_reply;
    struct sim_ip sender, target;
    uint64_t sender_mac, target_mac; /* target_mac: replies only */
};

enum sim_neigh_state {
    SIM_NEIGH_NONE,
    SIM_NEIGH_INCOMPLETE,
    SIM_NEIGH_REACHABLE,
    SIM_NEIGH_STALE,
    SIM_NEIGH_DELAY,
    SIM_NEIGH_PROBE,
    SIM_NEIGH_FAILED
};

#define SIM_NEIGH_BUCKETS 64

struct sim_neighbour;
struct sim_neigh_table {
    struct sim_neighbour *buckets[SIM_NEIGH_BUCKETS]; /* for looking up only */
    struct sim_neighbour *first; /* Owned; in the order of creation */
    struct sim_neighbour *last;
};

void sim_neigh_fini(struct sim_netdev *netdev);
/* Cancels every timer and forgets what waits: the host died. */
void sim_neigh_stop(struct sim_netdev *netdev);
/* Carrier was lost: addresses learnt on this netdev are forgotten. */
void sim_neigh_flush(struct sim_netdev *netdev);

/* What an RDMA device asks: 0 with the MAC, or EINPROGRESS: resolve->done within a second,
 * with error 0 or ETIMEDOUT. A FAILED entry is asked anew (neigh_event_send). */
int sim_neigh_resolve(struct sim_netdev *netdev, const struct sim_ip *ip,
                      struct sim_resolve *resolve);
/* Takes a request back; no-op once it was answered. */
void sim_neigh_cancel(struct sim_resolve *resolve);
/* Sends `packet` to `ip` on the link, now or when its MAC is known; takes it over. If it
 * never is, the stack is told (sim_tcp_unreachable). */
void sim_neigh_send(struct sim_netdev *netdev, const struct sim_ip *ip,
                    struct sim_packet *packet);
/* Traffic shows that `ip` is there. */
void sim_neigh_confirm(struct sim_netdev *netdev, const struct sim_ip *ip);
/* Tells everybody on the link of the netdev's addresses (NETDEV_NOTIFY_PEERS): ARP requests
 * for itself, unsolicited advertisements. */
void sim_neigh_announce(struct sim_netdev *netdev);
#define SIM_MAC_ALL_NODES 0x333300000001ull /* of ff02::1 */
/* A NEIGH packet arrived; takes it over. */
void sim_neigh_input(struct sim_netdev *netdev, struct sim_packet *packet);
/* For tests and tools. */
enum sim_neigh_state sim_neigh_state(const struct sim_netdev *netdev,
                                     const struct sim_ip *ip);

#endif
