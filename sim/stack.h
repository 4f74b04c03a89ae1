/* A simulated host's IP stack as far as RDMA connections meet it: netdevs, addresses,
 * routes, ARP and neighbour discovery, GID tables, TCP streams. Modelled on Linux 6.12.
 */
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
    uint16_t vlan_id; /* of that; 0: none */
    bool valid;
};

/* Address resolution as the kernel does it inside modify_qp(RTR): blocks up to 1 s there,
 * spends virtual time here. Owned by the caller until done or cancelled. */
struct sim_resolve {
    struct sim_waker done; /* set by the caller */
    int error;             /* 0 or ETIMEDOUT, when done */
    uint64_t destination_mac;
    struct sim_event timeout; /* the stack's */
    struct sim_resolve *next; /* the stack's */
    void *entry;              /* the stack's */
};

/* Starts resolving `dgid` from the slot `sgid_index` of `port`'s table. Returns
 * EINPROGRESS (done.wake follows), 0 with the MAC filled in, or an errno at once: EINVAL
 * beyond the table or if the two are of different families, ENODATA for an empty slot,
 * ENETUNREACH without a route or (IPv4) if the host does not have the source, ENODEV. A
 * neighbour that was found missing before is asked again: its errno is ETIMEDOUT, too. */
int sim_stack_resolve(struct sim_stack *stack, struct sim_port *port, uint32_t sgid_index,
                      const union ibv_gid *dgid, struct sim_resolve *resolve);
void sim_stack_resolve_cancel(struct sim_stack *stack, struct sim_resolve *resolve);

/* ENODATA for an empty slot, EINVAL beyond the table. */
int sim_stack_gid(const struct sim_stack *stack, const struct sim_port *port,
                  uint32_t index, struct sim_gid *out);
uint32_t sim_stack_gid_length(const struct sim_stack *stack, const struct sim_port *port);
/* True if `gid` is in a valid slot of this port's table that belongs to that VLAN (0: to
 * none): a RoCE frame for any other destination is dropped. */
bool sim_stack_owns_gid(const struct sim_stack *stack, const struct sim_port *port,
                        const union ibv_gid *gid, uint16_t vlan_id);
/* True if the port has a netdev of that VLAN. */
bool sim_stack_has_vlan(const struct sim_stack *stack, const struct sim_port *port,
                        uint16_t vlan_id);

/* Whether the host's IP stack lets a RoCE v2 packet from `source` in, where it is asked, which
 * only devices made of software do: rp_filter, accept_local, the firewall's input rules. */
bool sim_stack_admits_roce(const struct sim_stack *stack, const struct sim_port *port,
                           const union ibv_gid *source, uint16_t vlan_id);
/* Whether it is the firewall that would not. */
bool sim_stack_bars_roce(const struct sim_stack *stack);
/* A RoCE v2 frame came in at `port` that is for none of the host's addresses: forwards it as it
 * does IP packets, or drops it where that is not allowed. False: it is the host's own, or the
 * host forwards nothing (ip_forward). */
struct sim_frame;
bool sim_stack_forward_roce(struct sim_stack *stack, struct sim_port *port,
                            const struct sim_frame *frame);
/* A QP or address handle uses the slot: if its address goes away meanwhile, the slot
 * stays "pending delete": empty for everybody, not refilled until released
 * (core/cache.c). Holding an empty slot, or one beyond the table, is ignored. */
void sim_stack_gid_hold(struct sim_stack *stack, const struct sim_port *port,
                        uint32_t index);
void sim_stack_gid_release(struct sim_stack *stack, const struct sim_port *port,
                           uint32_t index);
/* Tells `changed` whenever a slot of `port`'s table is filled or emptied
 * (IBV_EVENT_GID_CHANGE). One listener per port; NULL: nobody. */
void sim_stack_watch_gids(struct sim_stack *stack, const struct sim_port *port,
                          void (*changed)(void *context, struct sim_port *port),
                          void *context);

/* A packet of kind NEIGH, TCP or UDP arrived on `port`; the stack takes it over. */
void sim_stack_input(struct sim_stack *stack, struct sim_port *port,
                     struct sim_packet *packet);
/* The carrier of `port` changed. */
void sim_stack_carrier(struct sim_stack *stack, struct sim_port *port, bool is_up);

#endif
