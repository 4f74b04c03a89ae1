/* Neighbour resolution as Linux does it (net/core/neighbour.c, net/ipv4/arp.c,
 * net/ipv6/ndisc.c), with ARP and neighbour discovery as frames on the cable.
 *
 * An entry is probed three times, one second apart, and then becomes FAILED. Confirmed
 * entries stay REACHABLE for 30 s (base_reachable_time; Linux draws 15 to 45 s) and then
 * become STALE. A STALE entry is used at once, and probed 5 s later unless traffic has
 * confirmed it. Loss of carrier clears all entries that are not being resolved.
 * Simplified: entries are never garbage-collected, and replies take no time beyond the
 * wire's. */
#ifndef WEFT_SIM_NEIGHBOUR_H
#define WEFT_SIM_NEIGHBOUR_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/engine.h"
#include "sim/ip.h"
#include "sim/port.h"

struct sim_netdev;
struct sim_resolve;

/* Payload of SIM_FRAME_NEIGH: an ARP packet (IPv4), or a neighbour solicitation or
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
    struct sim_neighbour *buckets[SIM_NEIGH_BUCKETS]; /* for lookups only */
    struct sim_neighbour *first; /* Owned, in the order of creation */
    struct sim_neighbour *last;
};

void sim_neigh_fini(struct sim_netdev *netdev);
/* Cancels every timer and drops waiting packets, because the host died. */
void sim_neigh_stop(struct sim_netdev *netdev);
/* Clears the addresses learnt on this netdev, because it lost its carrier. */
void sim_neigh_flush(struct sim_netdev *netdev);

/* Resolves an address for an RDMA device. Returns 0 and the MAC, or EINPROGRESS; then
 * calls resolve->done within one second, with error 0 or ETIMEDOUT. A FAILED entry is
 * probed again (neigh_event_send). */
int sim_neigh_resolve(struct sim_netdev *netdev, const struct sim_ip *ip,
                      struct sim_resolve *resolve);
/* Cancels a request. Does nothing once it is complete. */
void sim_neigh_cancel(struct sim_resolve *resolve);
/* Sends `packet` to `ip` on the link, now or when its MAC is known; takes it over. If
 * resolution fails, drops it, and reports a TCP packet to sim_tcp_unreachable(). */
void sim_neigh_send(struct sim_netdev *netdev, const struct sim_ip *ip,
                    struct sim_packet *packet);
/* Confirms the entry of `ip`, because traffic shows that it is reachable. */
void sim_neigh_confirm(struct sim_netdev *netdev, const struct sim_ip *ip);
/* Announces the netdev's addresses to all hosts on the link (NETDEV_NOTIFY_PEERS), by ARP
 * requests for them and unsolicited advertisements. */
void sim_neigh_announce(struct sim_netdev *netdev);
#define SIM_MAC_ALL_NODES 0x333300000001ull /* MAC of ff02::1 */
/* Handles a NEIGH packet that arrived; takes it over. */
void sim_neigh_input(struct sim_netdev *netdev, struct sim_packet *packet);
/* Returns the state of an entry, for tests and tools. */
enum sim_neigh_state sim_neigh_state(const struct sim_netdev *netdev,
                                     const struct sim_ip *ip);

#endif
