/* Internal to the host stack: shared by netdev.c, stack*.c, neighbour.c, tcp*.c
 * and udp.c only. */
#ifndef WEFT_SIM_STACK_IMPL_H
#define WEFT_SIM_STACK_IMPL_H

#include "sim/gid_table.h"
#include "sim/neighbour.h"
#include "sim/stack.h"
#include "sim/tcp.h"
#include "sim/udp.h"

#define SIM_ETHERNET_BYTES 18 /* header and FCS */
#define SIM_TAG_BYTES 4u      /* of 802.1Q */
#define SIM_FRAME_BYTES_MIN 64

struct sim_netdev {
    struct sim_stack *stack;
    struct sim_port *port; /* Not owned. */
    /* VLAN: the netdev below. Bond: the active slave. NULL for a port's own netdev. */
    struct sim_netdev *lower;
    struct sim_netdev *master; /* slave: its bond; otherwise NULL */
    struct sim_bond *bond;     /* Owned; NULL if not a bond */
    uint16_t vlan_id;          /* 0 if untagged */
    char name[48];             /* the port's; "p0.100" for a VLAN */
    uint32_t ifindex;
    uint64_t mac;
    bool is_management;
    struct sim_ip link_local;      /* always valid, never listed */
    struct sim_address *addresses; /* Owned [n_addresses] */
    uint32_t n_addresses;
    /* No slots on the management network, and for a VLAN or bond, whose GIDs are in the
     * table of `lower`. */
    struct sim_gid_table gids;
    void (*gids_changed)(void *context, struct sim_port *port);
    void *gids_context;
    struct sim_neigh_table neighbours;
};

struct sim_route {
    struct sim_prefix to;
    struct sim_netdev *netdev;
    bool has_gateway;
    bool is_connected; /* added with an address */
    struct sim_ip gateway;
};

/* Reports of IP to TCP, which is above it (struct net_protocol in Linux): a packet for
 * this host, and one of this host for which no neighbour was found (sim/tcp.h). */
struct sim_tcp_ops {
    void (*input)(struct sim_tcp *tcp, struct sim_netdev *netdev,
                  const struct sim_packet *packet);
    void (*unreachable)(struct sim_tcp *tcp, const struct sim_packet *packet, int error);
};

struct sim_bond;   /* sim/stack_bond.c */
struct sim_looped; /* a packet that the host sends to itself */

struct sim_stack {
    struct sim_engine *engine;
    const char *host;
    struct sim_sysctl sysctl;
    bool forward_accept;
    struct sim_port_range *input_drop; /* Owned [n_input_drop] */
    uint32_t n_input_drop;
    bool is_dead;
    struct sim_netdev **netdevs; /* Owned [n_netdevs], in ifindex order */
    uint32_t n_netdevs;
    struct sim_route *routes; /* Owned [n_routes], in the order added */
    uint32_t n_routes;
    struct sim_tcp *tcp;
    const struct sim_tcp_ops *tcp_ops;
    struct sim_announcer *announcers; /* Owned; in the order of opening */
    struct sim_event loopback;        /* delivers the first of `looped` */
    struct sim_looped *looped_first;
    struct sim_looped *looped_last;
};

struct sim_netdev *sim_stack_find(const struct sim_stack *stack, uint32_t ifindex);
/* Returns the port's netdev of that VLAN (0: its own), or NULL. */
struct sim_netdev *sim_stack_vlan_of(const struct sim_stack *stack,
                                     const struct sim_port *port, uint16_t vlan_id);
/* Returns the port's own netdev, or NULL. */
struct sim_netdev *sim_stack_netdev_of(const struct sim_stack *stack,
                                       const struct sim_port *port);

/* Returns the netdev's address `ip`, or NULL. */
struct sim_address *sim_netdev_address(const struct sim_netdev *netdev,
                                       const struct sim_ip *ip);
/* Returns true if `ip` is in the address's subnet, which is its peer's
 * (inet_ifa_match). */
bool sim_address_covers(const struct sim_address *address, const struct sim_ip *ip);
/* Returns true for broadcast addresses of the netdev's subnets, and for
 * 255.255.255.255. */
bool sim_netdev_is_broadcast(const struct sim_netdev *netdev, const struct sim_ip *ip);
/* Returns the netdev whose table holds the GIDs of `netdev`. */
static inline struct sim_netdev *sim_netdev_holder(struct sim_netdev *netdev)
{
    return netdev->lower == NULL ? netdev : netdev->lower;
}

/* Fill or empty the slots of `ip`, and report that. Fail with ENOSPC or EEXIST, and with
 * EADDRNOTAVAIL. */
int sim_netdev_add_gid(struct sim_netdev *netdev, const struct sim_ip *ip);
int sim_netdev_del_gid(struct sim_netdev *netdev, const struct sim_ip *ip);
/* Fills the default slots of the table that holds its GIDs with the GID of its MAC. */
void sim_netdev_set_default_gids(struct sim_netdev *netdev);
/* Empties the table of a port's own netdev. */
void sim_netdev_clear_gids(struct sim_netdev *netdev);
/* Empties all slots of the netdev. */
void sim_netdev_drop_gids(struct sim_netdev *netdev, bool with_default);
/* Creates a netdev without GIDs, with the port's MAC and name. */
struct sim_netdev *sim_stack_new_netdev(struct sim_stack *stack, struct sim_port *port);
/* A slave's carrier changed; the host died; the stack is being freed. The last two ignore
 * NULL. */
void sim_bond_carrier(struct sim_bond *bond);
void sim_bond_stop(struct sim_bond *bond);
void sim_bond_free(struct sim_bond *bond);
/* Adds the GIDs of all its addresses, in the order in which Linux lists them. */
void sim_netdev_scan(struct sim_netdev *netdev);
/* Sends a packet from the netdev, tagged if it is a VLAN; takes it over. */
void sim_netdev_send(struct sim_netdev *netdev, struct sim_packet *packet);
bool sim_netdev_owns(const struct sim_netdev *netdev, const struct sim_ip *ip);
/* Returns the first netdev that has `ip`, or NULL. */
struct sim_netdev *sim_stack_owner(const struct sim_stack *stack,
                                   const struct sim_ip *ip);
/* Selects the netdev's source address towards `to`, of the same family: a primary address
 * in whose subnet `to` is, otherwise the first primary (inet_select_addr). Returns false
 * if it has none. */
bool sim_netdev_select(const struct sim_netdev *netdev, const struct sim_ip *to,
                       struct sim_ip *out);

struct sim_hop {
    struct sim_netdev *netdev;
    struct sim_ip next; /* the destination itself or the gateway */
};
/* Selects the route with the longest prefix, and of several the first added; only routes
 * of `oif` unless it is NULL. With `oif`, an IPv4 destination that no route covers counts
 * as on link, as in fib's ip_route_output_key, and so does a link-local one. Otherwise
 * fails with ENETUNREACH. Does not look for local destinations. */
int sim_route_lookup(const struct sim_stack *stack, const struct sim_ip *to,
                     struct sim_netdev *oif, struct sim_hop *out);
void sim_route_add(struct sim_stack *stack, const struct sim_route *route);
void sim_route_del_connected(struct sim_stack *stack, const struct sim_netdev *netdev,
                             const struct sim_prefix *address);
/* Returns true if a packet from `source` may arrive on `netdev` (fib_validate_source). */
bool sim_source_is_valid(const struct sim_netdev *netdev, const struct sim_ip *source);

bool sim_stack_firewall_drops(const struct sim_stack *stack, bool is_udp, uint16_t port);
/* Sends a TCP packet through `oif`, or by route if it is NULL. Takes the packet over.
 * Returns 0 even if it is lost later; ENETUNREACH if there is no route. */
int sim_stack_output(struct sim_stack *stack, struct sim_netdev *oif,
                     struct sim_packet *packet);

/* Handles a TCP packet that arrived on `netdev`; takes it over. */
void sim_stack_tcp_input(struct sim_netdev *netdev, struct sim_packet *packet);
void sim_stack_loopback_init(struct sim_stack *stack);
void sim_stack_loopback_fini(struct sim_stack *stack);

/* Encodes the Ethernet frame of a NEIGH, TCP or UDP packet, for taps; see
 * sim_packet_encoder. */
size_t sim_stack_encode(const struct sim_packet *packet, uint8_t *out, size_t out_bytes);
/* Returns the length with FCS of the Ethernet frame that carries `ip_bytes`. */
uint32_t sim_frame_bytes(uint32_t ip_bytes);

#endif
