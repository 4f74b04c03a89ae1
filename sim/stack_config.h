/* Building and changing a simulated host's IP stack; what uses it is in sim/stack.h. */
#ifndef WEFT_SIM_STACK_CONFIG_H
#define WEFT_SIM_STACK_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/engine.h"
#include "sim/ip.h"

struct sim_stack;
struct sim_port;

/* Effective values for every interface of the host. */
struct sim_sysctl {
    int rp_filter; /* 0 none, 1 strict, 2 loose */
    int arp_ignore;
    int arp_announce;
    int arp_filter;
    int ip_forward;
    int accept_local;
    int promote_secondaries;
};

/* Closed interval of destination ports whose segments the firewall drops silently. */
struct sim_port_range {
    uint16_t low, high;
    bool is_udp; /* else TCP */
};

struct sim_stack_config {
    const char *host; /* outlives the stack */
    struct sim_sysctl sysctl;
    bool forward_accept;                     /* firewall: policy of forwarded packets */
    const struct sim_port_range *input_drop; /* [n_input_drop], copied */
    uint32_t n_input_drop;
    uint32_t tcp_chunk_bytes; /* most that one TCP send or recv moves; 0: no limit. For
                               * tests that want every read and write partial. */
};

struct sim_stack *sim_stack_create(struct sim_engine *engine,
                                   const struct sim_stack_config *config);
/* Frees it with all streams. Its ports are destroyed before, or never call it again. */
void sim_stack_destroy(struct sim_stack *stack);

struct sim_gid_config {
    uint32_t n_slots;
    bool has_roce_v1;
    uint32_t n_foreign; /* slots of other network namespaces, before this host's own */
};

/* Adds the netdev of RDMA port `port`; ifindexes count from 2 (1 is lo) in the order of
 * adding. The default GIDs are made at once. Returns the ifindex. */
uint32_t sim_stack_add_port(struct sim_stack *stack, struct sim_port *port,
                            const struct sim_gid_config *gids);
/* Adds a VLAN (1..4094) on the port's netdev `lower`: a netdev of its own, with the MAC and
 * MTU of its lower, whose table holds its GIDs. It comes with its link-local address.
 * Returns the ifindex; 0 if there is no such netdev or it has that VLAN. */
uint32_t sim_stack_add_vlan(struct sim_stack *stack, uint32_t lower, uint16_t vlan_id);
/* Adds a bond (active-backup) named `name` over ports' netdevs, which have one MAC and no
 * addresses. Its GIDs are in the table of the active port. Returns the ifindex. */
uint32_t sim_stack_add_bond(struct sim_stack *stack, const char *name,
                            const uint32_t *slaves, uint32_t n_slaves);
/* Adds the netdev of a port on the management network: no GIDs. */
uint32_t sim_stack_add_management(struct sim_stack *stack, struct sim_port *port);

/* An address of a netdev (struct in_ifaddr, struct inet6_ifaddr). */
struct sim_address {
    struct sim_ip ip;   /* the host's own (ifa_local) */
    uint8_t prefix_len; /* of the peer */
    struct sim_ip peer; /* ifa_address; `ip` itself if there is no peer */
    bool is_secondary;  /* IPv4: another one is before it in the same subnet */
};

/* Adds an address with its connected route and its GIDs. EEXIST if the netdev has it (as
 * the link-local one of its MAC, which comes of itself),
 * ENODEV without such a netdev, ENOSPC if the GID table is full (the address is added).
 */
int sim_stack_add_address(struct sim_stack *stack, uint32_t ifindex,
                          const struct sim_prefix *address);
/* `ip address add IP peer PEER/LEN`: the connected route is the peer's, and so is the IPv4
 * GID, although the host does not have the address. */
int sim_stack_add_peer_address(struct sim_stack *stack, uint32_t ifindex,
                               const struct sim_ip *ip, const struct sim_prefix *peer);
/* Takes it away with its connected route and GIDs. EADDRNOTAVAIL if it is not there. The
 * secondaries of a primary go with it, unless `promote_secondaries` makes the first of
 * them the primary. */
int sim_stack_del_address(struct sim_stack *stack, uint32_t ifindex,
                          const struct sim_ip *ip);
/* The sysctl, while the host runs. */
void sim_stack_set_promotion(struct sim_stack *stack, bool on);
/* Takes only the GIDs of `ip` away, or puts them back: what drivers and netdev events do
 * to a table (index drift). EADDRNOTAVAIL if there is nothing to take, ENOSPC, EEXIST. */
int sim_stack_del_gid(struct sim_stack *stack, uint32_t ifindex, const struct sim_ip *ip);
int sim_stack_add_gid(struct sim_stack *stack, uint32_t ifindex, const struct sim_ip *ip);
/* The RDMA device of `port` is made anew and looks at all addresses at once: IPv4 before
 * IPv6, whatever the order in which they came. Nobody may hold a slot. ENODEV. */
int sim_stack_scan_gids(struct sim_stack *stack, const struct sim_port *port);

/* A static route; `gateway` NULL: on link. */
int sim_stack_add_route(struct sim_stack *stack, const struct sim_prefix *to,
                        uint32_t ifindex, const struct sim_ip *gateway);
/* The same, by the netdev in whose subnet the gateway is. ENETUNREACH: there is none. */
int sim_stack_add_route_via(struct sim_stack *stack, const struct sim_prefix *to,
                            const struct sim_ip *gateway);

/* Its process dies: the kernel resets its streams, which is what tells the peers. */
void sim_stack_reset_streams(struct sim_stack *stack);
/* One process of the host died: the streams and listeners whose waker `is_its` knows. */
void sim_stack_reset_streams_of(struct sim_stack *stack,
                                bool (*is_its)(const void *waker, const void *who),
                                const void *who);
/* The host dies: it sends nothing more, answers nothing, and no stream is ever woken. */
void sim_stack_kill(struct sim_stack *stack);

/* Facts for the host itself. */
struct sim_netdev_info {
    uint32_t ifindex;
    const char *name;
    uint64_t mac;
    uint32_t mtu_bytes;
    uint64_t speed_bps;
    bool is_up;
    bool is_management;
    uint16_t vlan_id;                    /* 0: it is no VLAN's */
    uint32_t master;                     /* ifindex of its bond; 0: it is in none */
    const struct sim_address *addresses; /* [n_addresses], in the order they were added */
    uint32_t n_addresses;
};
uint32_t sim_stack_n_netdevs(const struct sim_stack *stack);
/* `index` from 0, in ifindex order. Pointers inside are valid until an address changes.
 */
struct sim_netdev_info sim_stack_netdev(const struct sim_stack *stack, uint32_t index);
/* Of the port's own netdev, or with `vlan_id` of that VLAN's; 0: there is none. */
uint32_t sim_stack_ifindex(const struct sim_stack *stack, const struct sim_port *port,
                           uint16_t vlan_id);

#endif
