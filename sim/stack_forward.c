/* Forwards RoCE v2 packets for other hosts. To the IP stack they are UDP packets, which
 * it routes (net/ipv4/ip_forward.c, net/ipv6/ip6_output.c). An RDMA device passes on the
 * packets that are not for its own addresses. Dropped packets are not reported by
 * ICMP. */
#include <string.h>

#include "base/check.h"
#include "sim/link.h"
#include "sim/memory.h"
#include "sim/stack_impl.h"

/* Stores the next hop and returns NULL, or returns why the packet is dropped. */
static const char *find_way(const struct sim_netdev *netdev, const struct sim_path *path,
                            struct sim_hop *out)
{
    const struct sim_stack *stack = netdev->stack;
    struct sim_ip from = sim_ip_of_gid(&path->source_gid);
    struct sim_ip to = sim_ip_of_gid(&path->destination_gid);
    if (!sim_source_is_valid(netdev, &from)) {
        return "rp_filter";
    }
    if (path->hop_limit <= 1) {
        return "hop_limit";
    }
    if (sim_route_lookup(stack, &to, NULL, out) != 0) {
        return "no_route";
    }
    return stack->forward_accept ? NULL : "forward_policy";
}

static struct sim_packet *wrap(struct sim_engine *engine, const struct sim_frame *frame)
{
    const struct sim_path *path = frame->path;
    struct sim_packet *packet = weft_calloc(1, sizeof *packet);
    struct sim_forwarded *forwarded;
    packet->kind = SIM_FRAME_ROCE;
    packet->vlan_id = sim_path_vlan(path);
    packet->wire_bytes = frame->wire_bytes - SIM_PREAMBLE_AND_GAP_BYTES;
    packet->ip_bytes = sim_frame_ip_bytes(path, rc_opcode_info(frame->opcode)->ext_bytes,
                                          frame->n_payload);
    packet->n_payload = sizeof *forwarded + frame->n_payload;
    packet->payload = weft_calloc(1, packet->n_payload);
    forwarded = packet->payload;
    forwarded->frame = *frame;
    forwarded->path = *path;
    forwarded->path.hop_limit--;
    if (frame->n_payload > 0 &&
        !sim_is_phantom(sim_engine_phantom(engine), frame->payload)) {
        memcpy(forwarded->payload, frame->payload, frame->n_payload);
    }
    return packet;
}

bool sim_stack_forward_roce(struct sim_stack *stack, struct sim_port *port,
                            const struct sim_frame *frame)
{
    const struct sim_path *path = frame->path;
    struct sim_netdev *netdev = sim_stack_vlan_of(stack, port, sim_path_vlan(path));
    struct sim_ip to = sim_ip_of_gid(&path->destination_gid);
    struct sim_hop hop;
    if (stack->sysctl.ip_forward == 0 || path->is_v1 || netdev == NULL ||
        path->destination_mac != netdev->mac || sim_ip_is_link_local_v6(&to) ||
        sim_stack_owner(stack, &to) != NULL) {
        return false;
    }
    const char *why = find_way(netdev, path, &hop);
    if (why != NULL) {
        sim_port_trace_drop(port, frame, why);
        return true;
    }
    sim_neigh_send(hop.netdev, &hop.next, wrap(stack->engine, frame));
    return true;
}
