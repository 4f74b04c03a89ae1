/* Inside of the host stack: shared by stack*.c, neighbour.c and tcp*.c only. */
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
    /* Of a VLAN: what it is on. Of a bond: the active slave. NULL: the port's own netdev */
    struct sim_netdev *lower;
    struct sim_netdev *master; /* of a slave: the bond */
    struct sim_bond *bond;     /* Owned; of a bond */
    uint16_t vlan_id;          /* 0: untagged */
    char name[48];             /* the port's, "p0.100" of a VLAN */
    uint32_t ifindex;
    uint64_t mac;
    bool is_management;
    struct sim_ip link_local;      /* always there, never listed */
    struct sim_address *addresses; /* Owned [n_addresses] */
    uint32_t n_addresses;
    /* No slots on the management network, nor of a VLAN, whose GIDs are in its lower's. */
    struct sim_gid_table gids;
    void (*gids_changed)(void *context, struct sim_port *port);
    void *gids_context;
    struct sim_neigh_table neighbours;
};

struct sim_route {
    struct sim_prefix to;
    struct sim_netdev *netdev;
    bool has_gateway;
    bool is_connected; /* came with an address */
    struct sim_ip gateway;
};

struct sim_bond;   /* sim/stack_bond.c */
struct sim_looped; /* a packet of the host to itself */

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
    struct sim_announcer *announcers; /* Owned; in the order of opening */
    struct sim_event loopback;        /* the first of `looped` */
    struct sim_looped *looped_first;
    struct sim_looped *looped_last;
};

struct sim_netdev *sim_stack_find(const struct sim_stack *stack, uint32_t ifindex);
/* The port's netdev of that VLAN (0: its own), or NULL. */
struct sim_netdev *sim_stack_vlan_of(const struct sim_stack *stack,
                                     const struct sim_port *port, uint16_t vlan_id);
/* The port's own. */
struct sim_netdev *sim_stack_netdev_of(const struct sim_stack *stack,
                                       const struct sim_port *port);

/* Whether `ip` is in the address's subnet, which is its peer's (inet_ifa_match). */
bool sim_address_covers(const struct sim_address *address, const struct sim_ip *ip);
/* Of the netdev's own subnets, or 255.255.255.255. */
bool sim_netdev_is_broadcast(const struct sim_netdev *netdev, const struct sim_ip *ip);
/* Fills or empties the slots of `ip`, and tells. ENOSPC, EEXIST; EADDRNOTAVAIL. */
int sim_netdev_add_gid(struct sim_netdev *netdev, const struct sim_ip *ip);
int sim_netdev_del_gid(struct sim_netdev *netdev, const struct sim_ip *ip);
/* Fills the default slots of its holder's table with its MAC's. */
void sim_netdev_set_default_gids(struct sim_netdev *netdev);
/* Empties all slots that are the netdev's. */
void sim_netdev_drop_gids(struct sim_netdev *netdev, bool with_default);
/* A netdev without GIDs, with the port's MAC and name. */
struct sim_netdev *sim_stack_new_netdev(struct sim_stack *stack, struct sim_port *port);
/* A slave's carrier changed; the host died; the stack goes. NULL is ignored by the last two. */
void sim_bond_carrier(struct sim_bond *bond);
void sim_bond_stop(struct sim_bond *bond);
void sim_bond_free(struct sim_bond *bond);
/* Adds the GIDs of all of its addresses, in the order in which Linux lists them. */
void sim_netdev_scan(struct sim_netdev *netdev);
/* Sends a packet from the netdev, tagged if it is a VLAN's; takes it over. */
void sim_netdev_send(struct sim_netdev *netdev, struct sim_packet *packet);
bool sim_netdev_owns(const struct sim_netdev *netdev, const struct sim_ip *ip);
/* The first netdev that owns `ip`, or NULL. */
struct sim_netdev *sim_stack_owner(const struct sim_stack *stack,
                                   const struct sim_ip *ip);
/* The netdev's own source address towards `to`, of its family: a primary one in whose
 * subnet `to` is, else the first (inet_select_addr). False if it has none. */
bool sim_netdev_select(const struct sim_netdev *netdev, const struct sim_ip *to,
                       struct sim_ip *out);

struct sim_hop {
    struct sim_netdev *netdev;
    struct sim_ip next; /* the destination itself, or the gateway */
};
/* Longest prefix, then first added; only routes of `oif` unless it is NULL. With `oif`,
 * an IPv4 destination that no route covers counts as on link there, as in fib's
 * ip_route_output_key. ENETUNREACH. Local destinations are the caller's to look for
 * first. */
int sim_route_lookup(const struct sim_stack *stack, const struct sim_ip *to,
                     struct sim_netdev *oif, struct sim_hop *out);
void sim_route_add(struct sim_stack *stack, const struct sim_route *route);
void sim_route_del_connected(struct sim_stack *stack, const struct sim_netdev *netdev,
                             const struct sim_prefix *address);
/* Whether a packet from `source` may come in on `netdev` (fib_validate_source). */
bool sim_source_is_valid(const struct sim_netdev *netdev, const struct sim_ip *source);

bool sim_stack_firewall_drops(const struct sim_stack *stack, bool is_udp, uint16_t port);
/* Sends a TCP packet on its way, `oif` NULL: by route. Takes the packet over. 0 also when
 * it is lost later; ENETUNREACH if there is no way. */
int sim_stack_output(struct sim_stack *stack, struct sim_netdev *oif,
                     struct sim_packet *packet);

/* A TCP packet came in on `netdev`; takes it over. */
void sim_stack_tcp_input(struct sim_netdev *netdev, struct sim_packet *packet);
void sim_stack_loopback_init(struct sim_stack *stack);
void sim_stack_loopback_fini(struct sim_stack *stack);

/* The bytes of a NEIGH, TCP or UDP packet's Ethernet frame, for taps; see sim_packet_encoder.
 */
size_t sim_stack_encode(const struct sim_packet *packet, uint8_t *out, size_t out_bytes);
/* Length with FCS of the Ethernet frame that carries so many bytes. */
uint32_t sim_frame_bytes(uint32_t ip_bytes);

#endif
