/* Packets that leave, enter, pass or stay in the host: of TCP, and of RoCE v2 for other
 * hosts. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/link.h"
#include "sim/memory.h"
#include "sim/stack_impl.h"

/* Delay of packets from the host to itself, roughly that of a softirq; chosen. */
#define LOOPBACK_PS ((weft_ps)5000000)
#define ROCE_UDP_PORT 4791

struct sim_looped {
    struct sim_looped *next;
    weft_ps arrival;
    struct sim_packet *packet;
};

bool sim_stack_firewall_drops(const struct sim_stack *stack, bool is_udp, uint16_t port)
{
    for (uint32_t i = 0; i < stack->n_input_drop; i++) {
        const struct sim_port_range *range = &stack->input_drop[i];
        if (range->is_udp == is_udp && port >= range->low && port <= range->high) {
            return true;
        }
    }
    return false;
}

/* ---- TCP to itself ---- */

static struct sim_packet *take_looped(struct sim_stack *stack)
{
    struct sim_looped *looped = stack->looped_first;
    struct sim_packet *packet = looped->packet;
    stack->looped_first = looped->next;
    if (stack->looped_first == NULL) {
        stack->looped_last = NULL;
    }
    free(looped);
    return packet;
}

static void on_loopback(struct sim_event *event)
{
    struct sim_stack *stack = weft_container_of(event, struct sim_stack, loopback);
    struct sim_packet *packet = take_looped(stack);
    if (stack->looped_first != NULL) {
        sim_schedule(stack->engine, &stack->loopback, stack->looped_first->arrival);
    }
    if (!stack->is_dead) {
        stack->tcp_ops->input(stack->tcp, NULL, packet);
    }
    sim_packet_free(packet);
}

void sim_stack_loopback_init(struct sim_stack *stack)
{
    sim_event_init(&stack->loopback, on_loopback);
}

void sim_stack_loopback_fini(struct sim_stack *stack)
{
    sim_cancel(stack->engine, &stack->loopback);
    while (stack->looped_first != NULL) {
        sim_packet_free(take_looped(stack));
    }
}

static void loop_back(struct sim_stack *stack, struct sim_packet *packet)
{
    struct sim_looped *looped = weft_calloc(1, sizeof *looped);
    looped->packet = packet;
    looped->arrival = sim_now(stack->engine) + LOOPBACK_PS;
    if (stack->looped_last == NULL) {
        stack->looped_first = looped;
        sim_schedule(stack->engine, &stack->loopback, looped->arrival);
    } else {
        stack->looped_last->next = looped;
    }
    stack->looped_last = looped;
}

/* ---- TCP out, in, through ---- */

int sim_stack_output(struct sim_stack *stack, struct sim_netdev *oif,
                     struct sim_packet *packet)
{
    const struct sim_tcp_segment *segment = packet->payload;
    if (stack->is_dead) {
        sim_packet_free(packet);
        return 0;
    }
    struct sim_netdev *owner = sim_stack_owner(stack, &segment->destination.ip);
    bool is_loopback = sim_ip_is_loopback(&segment->destination.ip);
    if (is_loopback || (owner != NULL && (oif == NULL || owner == oif))) {
        loop_back(stack, packet);
        return 0;
    }
    struct sim_hop hop;
    int error = sim_route_lookup(stack, &segment->destination.ip, oif, &hop);
    if (error != 0) {
        sim_packet_free(packet);
        return error;
    }
    sim_neigh_send(hop.netdev, &hop.next, packet);
    return 0;
}

static void forward_tcp(struct sim_netdev *netdev, struct sim_packet *packet)
{
    struct sim_stack *stack = netdev->stack;
    struct sim_tcp_segment *segment = packet->payload;
    bool is_allowed = stack->sysctl.ip_forward != 0 && stack->forward_accept;
    struct sim_hop hop;
    if (!is_allowed || segment->hop_limit <= 1 ||
        sim_route_lookup(stack, &segment->destination.ip, NULL, &hop) != 0) {
        sim_packet_free(packet);
        return;
    }
    segment->hop_limit--;
    sim_neigh_send(hop.netdev, &hop.next, packet);
}

void sim_stack_tcp_input(struct sim_netdev *netdev, struct sim_packet *packet)
{
    struct sim_stack *stack = netdev->stack;
    const struct sim_tcp_segment *segment = packet->payload;
    if (packet->destination_mac != netdev->mac ||
        !sim_source_is_valid(netdev, &segment->source.ip)) {
        sim_packet_free(packet);
        return;
    }
    bool is_mine = sim_ip_is_link_local_v6(&segment->destination.ip)
                       ? sim_netdev_owns(netdev, &segment->destination.ip)
                       : sim_stack_owner(stack, &segment->destination.ip) != NULL;
    if (!is_mine) {
        forward_tcp(netdev, packet);
        return;
    }
    if (!sim_stack_firewall_drops(stack, false, segment->destination.port)) {
        stack->tcp_ops->input(stack->tcp, netdev, packet);
    }
    sim_packet_free(packet);
}

/* ---- RoCE ----
 *
 * To the IP stack RoCE v2 packets are UDP packets, which it routes (net/ipv4/ip_forward.c,
 * net/ipv6/ip6_output.c). An RDMA device passes on the packets that are not for its own
 * addresses. Dropped packets are not reported by ICMP. */

bool sim_stack_admits_roce(const struct sim_stack *stack, const struct sim_port *port,
                           const union ibv_gid *source, uint16_t vlan_id)
{
    const struct sim_netdev *netdev = sim_stack_vlan_of(stack, port, vlan_id);
    struct sim_ip from = sim_ip_of_gid(source);
    return netdev != NULL && sim_source_is_valid(netdev, &from) &&
           !sim_stack_bars_roce(stack);
}

bool sim_stack_bars_roce(const struct sim_stack *stack)
{
    return sim_stack_firewall_drops(stack, true, ROCE_UDP_PORT);
}

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
