/* Builds and changes a simulated host's IP stack; sim/stack.h uses it. */
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

/* Closed interval of destination ports whose packets the firewall drops silently. */
struct sim_port_range {
    uint16_t low, high;
    bool is_udp; /* false: TCP */
};

struct sim_stack_config {
    const char *host; /* must outlive the stack */
    struct sim_sysctl sysctl;
    /* the firewall's policy for forwarded packets */
    bool forward_accept;
    const struct sim_port_range *input_drop; /* [n_input_drop], copied */
    uint32_t n_input_drop;
    /* Maximum number of bytes that one TCP send or recv moves; 0 if no limit. For tests
     * in which every read and write is partial. */
    uint32_t tcp_chunk_bytes;
};

struct sim_stack *sim_stack_create(struct sim_engine *engine,
                                   const struct sim_stack_config *config);
/* Frees the stack with all streams. Its ports must be destroyed before, or never call it
 * again. */
void sim_stack_destroy(struct sim_stack *stack);

struct sim_gid_config {
    uint32_t n_slots;
    bool has_roce_v1;
    /* number of leading slots that belong to other network namespaces */
    uint32_t n_foreign;
};

/* Adds the netdev of RDMA port `port` with its default GIDs. Returns the ifindex; these
 * count from 2 (1 is lo) in the order of adding. */
uint32_t sim_stack_add_port(struct sim_stack *stack, struct sim_port *port,
                            const struct sim_gid_config *gids);
/* Adds a VLAN (1 to 4094) on the port's netdev `lower`, as a netdev with the MAC and MTU
 * of `lower`, whose table holds its GIDs. It has its link-local address from the start.
 * Returns the ifindex; 0 if there is no such netdev or it has that VLAN. */
uint32_t sim_stack_add_vlan(struct sim_stack *stack, uint32_t lower, uint16_t vlan_id);
/* Adds a bond (active-backup) called `name` over netdevs of ports, which must have one
 * MAC and no addresses. Its GIDs are in the table of the active port. Returns the
 * ifindex. */
uint32_t sim_stack_add_bond(struct sim_stack *stack, const char *name,
                            const uint32_t *slaves, uint32_t n_slaves);
/* Adds the netdev of a port on the management network, without GIDs. Returns the
 * ifindex. */
uint32_t sim_stack_add_management(struct sim_stack *stack, struct sim_port *port);

/* An address of a netdev (struct in_ifaddr, struct inet6_ifaddr). */
struct sim_address {
    struct sim_ip ip;   /* the host's own address (ifa_local) */
    uint8_t prefix_len; /* of the peer */
    struct sim_ip peer; /* ifa_address; equal to `ip` if there is no peer */
    bool is_secondary;  /* IPv4: an earlier address is in the same subnet */
};

/* Adds an address with its connected route and its GIDs. Fails with EEXIST if the netdev
 * has it (including the link-local address of its MAC, which it always has), with ENODEV
 * without such a netdev, with ENOSPC if the GID table is full; the address is then added
 * without all of its GIDs. */
int sim_stack_add_address(struct sim_stack *stack, uint32_t ifindex,
                          const struct sim_prefix *address);
/* Adds an address with a peer (`ip address add IP peer PEER/LEN`). The connected route
 * and the IPv4 GID are the peer's, although the host does not have that address. */
int sim_stack_add_peer_address(struct sim_stack *stack, uint32_t ifindex,
                               const struct sim_ip *ip, const struct sim_prefix *peer);
/* Removes an address with its connected route and GIDs. Fails with EADDRNOTAVAIL if the
 * netdev does not have it. The secondaries of a primary address are removed with it,
 * unless `promote_secondaries` makes the first of them the primary. */
int sim_stack_del_address(struct sim_stack *stack, uint32_t ifindex,
                          const struct sim_ip *ip);
/* Sets the sysctl promote_secondaries while the host runs. */
void sim_stack_set_promotion(struct sim_stack *stack, bool on);
/* Remove only the GIDs of `ip`, or add them again, as drivers and netdev events do (index
 * drift). Fail with EADDRNOTAVAIL if there is nothing to remove, with ENOSPC or
 * EEXIST. */
int sim_stack_del_gid(struct sim_stack *stack, uint32_t ifindex, const struct sim_ip *ip);
int sim_stack_add_gid(struct sim_stack *stack, uint32_t ifindex, const struct sim_ip *ip);
/* Creates the GID table of `port` anew from all addresses, as for a new RDMA device: IPv4
 * before IPv6, regardless of the order in which they were added. No slot may be held.
 * Fails with ENODEV. */
int sim_stack_scan_gids(struct sim_stack *stack, const struct sim_port *port);

/* Adds a static route; `gateway` is NULL for a route on link. Fails with ENODEV. */
int sim_stack_add_route(struct sim_stack *stack, const struct sim_prefix *to,
                        uint32_t ifindex, const struct sim_ip *gateway);
/* Adds a static route through the netdev in whose subnet the gateway is. Fails with
 * ENETUNREACH if there is none. */
int sim_stack_add_route_via(struct sim_stack *stack, const struct sim_prefix *to,
                            const struct sim_ip *gateway);

/* Resets all streams, as the kernel does when the process dies; this is how peers
 * notice. */
void sim_stack_reset_streams(struct sim_stack *stack);
/* Does so for one process of the host: resets the streams and closes the listeners for
 * whose waker `is_its` returns true. */
void sim_stack_reset_streams_of(struct sim_stack *stack,
                                bool (*is_its)(const void *waker, const void *who),
                                const void *who);
/* Stops the host: it sends nothing more, answers nothing, and wakes no stream. */
void sim_stack_kill(struct sim_stack *stack);

/* A netdev as the host itself sees it. */
struct sim_netdev_info {
    uint32_t ifindex;
    const char *name;
    uint64_t mac;
    uint32_t mtu_bytes;
    uint64_t speed_bps;
    bool is_up;
    bool is_management;
    uint16_t vlan_id;                    /* 0 if not a VLAN */
    uint32_t master;                     /* ifindex of its bond; 0 if it is in none */
    const struct sim_address *addresses; /* [n_addresses], in the order they were added */
    uint32_t n_addresses;
};
uint32_t sim_stack_n_netdevs(const struct sim_stack *stack);
/* Returns the netdev at `index` (from 0), in ifindex order. Pointers inside are valid
 * until an address changes. */
struct sim_netdev_info sim_stack_netdev(const struct sim_stack *stack, uint32_t index);
/* Returns the ifindex of the port's own netdev, or of that VLAN's; 0 if there is none. */
uint32_t sim_stack_ifindex(const struct sim_stack *stack, const struct sim_port *port,
                           uint16_t vlan_id);

#endif
