/* A simulated host's IP stack, as far as RDMA connections use it: netdevs, addresses,
 * routes, ARP and neighbour discovery, GID tables, TCP streams. Modelled on Linux
 * 6.12. */
#ifndef WEFT_SIM_STACK_H
#define WEFT_SIM_STACK_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/engine.h"
#include "sim/ip.h"
#include "sim/port.h"
#include "sim/stack_config.h"

/* One slot of a GID table. */
struct sim_gid {
    union ibv_gid gid;
    enum ibv_gid_type type;
    uint32_t ifindex; /* of the port's netdev, or of a VLAN on it */
    uint16_t vlan_id; /* of that netdev; 0 if none */
    bool valid;
};

/* Address resolution as the kernel does it inside modify_qp(RTR), which blocks for up to
 * 1 s there and takes virtual time here. The caller owns it until it is done or
 * cancelled. */
struct sim_resolve {
    struct sim_waker done; /* set by the caller */
    int error;             /* 0 or ETIMEDOUT, when done */
    uint64_t destination_mac;
    struct sim_event timeout; /* private to the stack */
    struct sim_resolve *next; /* private to the stack */
    void *entry;              /* private to the stack */
};

/* Starts resolving `dgid` from the slot `sgid_index` of `port`'s table. Returns
 * EINPROGRESS if done.wake is to follow, or 0 with the MAC. Fails at once with EINVAL for
 * an index beyond the table or if both GIDs are of different families, with ENODATA for
 * an empty slot, with ENETUNREACH without a route or (IPv4) if the host does not have the
 * source address, or with ENODEV. A neighbour that is known to be missing is probed
 * again; its errno is ETIMEDOUT, too. */
int sim_stack_resolve(struct sim_stack *stack, struct sim_port *port, uint32_t sgid_index,
                      const union ibv_gid *dgid, struct sim_resolve *resolve);
void sim_stack_resolve_cancel(struct sim_stack *stack, struct sim_resolve *resolve);

/* Fails with ENODATA for an empty slot, with EINVAL beyond the table. */
int sim_stack_gid(const struct sim_stack *stack, const struct sim_port *port,
                  uint32_t index, struct sim_gid *out);
uint32_t sim_stack_gid_length(const struct sim_stack *stack, const struct sim_port *port);
/* Returns true if a valid slot of this port's table that belongs to that VLAN (0: to
 * none) holds `gid`. RoCE frames for other destinations are dropped. */
bool sim_stack_owns_gid(const struct sim_stack *stack, const struct sim_port *port,
                        const union ibv_gid *gid, uint16_t vlan_id);
/* Returns true if the port has a netdev of that VLAN. */
bool sim_stack_has_vlan(const struct sim_stack *stack, const struct sim_port *port,
                        uint16_t vlan_id);

/* Returns true if the host's IP stack admits a RoCE v2 packet from `source`, by
 * rp_filter, accept_local and the firewall's input rules. Only software devices depend on
 * it. */
bool sim_stack_admits_roce(const struct sim_stack *stack, const struct sim_port *port,
                           const union ibv_gid *source, uint16_t vlan_id);
/* Returns true if the firewall drops RoCE v2 packets. */
bool sim_stack_bars_roce(const struct sim_stack *stack);
/* Handles a RoCE v2 frame that arrived at `port` for an address that is not the host's.
 * Forwards it like other IP packets, or drops it if that is not allowed. Returns false if
 * the frame is for the host itself, or the host does not forward (ip_forward). */
struct sim_frame;
bool sim_stack_forward_roce(struct sim_stack *stack, struct sim_port *port,
                            const struct sim_frame *frame);
/* Holds a slot for a QP or address handle. If its address is removed meanwhile, the slot
 * is "pending delete": empty for all users, but not refilled until it is released
 * (core/cache.c). Holding an empty slot, or one beyond the table, does nothing. */
void sim_stack_gid_hold(struct sim_stack *stack, const struct sim_port *port,
                        uint32_t index);
void sim_stack_gid_release(struct sim_stack *stack, const struct sim_port *port,
                           uint32_t index);
/* Calls `changed` for every slot of `port`'s table that is filled or emptied
 * (IBV_EVENT_GID_CHANGE). One listener per port; NULL for none. */
void sim_stack_watch_gids(struct sim_stack *stack, const struct sim_port *port,
                          void (*changed)(void *context, struct sim_port *port),
                          void *context);

#endif
