#include "sim/udp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/stack_impl.h"

#define QUEUE_MAX 64u
#define HEADER_BYTES 8u

struct heard {
    struct heard *next;
    struct sim_datagram *datagram; /* Owned */
};

struct sim_announcer {
    struct sim_stack *stack;
    struct sim_netdev *netdev; /* NULL for processes within the host */
    struct sim_announcer *next;
    uint16_t port;
    struct sim_waker waker;
    struct heard *first, *last; /* Owned */
    uint32_t n_heard;
};

static const struct sim_ip group_v4 = {
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 255, 87, 69}};
static const struct sim_ip group_v6 = {{0xff, 0x12, [14] = 0x57, [15] = 0x45}};
/* RFC 1112, 6.4; RFC 2464, 7 */
static const uint64_t mac_v4 = 0x01005e7f5745;
static const uint64_t mac_v6 = 0x333300005745;

int sim_udp_open(struct sim_stack *stack, uint32_t ifindex, uint16_t port,
                 struct sim_waker waker, struct sim_announcer **out)
{
    struct sim_announcer *announcer;
    struct sim_announcer **end = &stack->announcers;

    weft_check(port != 0);
    if (ifindex != 0 && sim_stack_find(stack, ifindex) == NULL) {
        return ENODEV;
    }
    announcer = weft_calloc(1, sizeof *announcer);
    announcer->stack = stack;
    announcer->netdev = ifindex == 0 ? NULL : sim_stack_find(stack, ifindex);
    announcer->port = port;
    announcer->waker = waker;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = announcer;
    *out = announcer;
    return 0;
}

static struct sim_datagram *take(struct sim_announcer *announcer)
{
    struct heard *heard = announcer->first;
    struct sim_datagram *datagram = heard->datagram;

    announcer->first = heard->next;
    announcer->last = heard->next == NULL ? NULL : announcer->last;
    announcer->n_heard--;
    free(heard);
    return datagram;
}

void sim_udp_close(struct sim_announcer *announcer)
{
    struct sim_announcer **at;

    if (announcer == NULL) {
        return;
    }
    at = &announcer->stack->announcers;
    while (*at != announcer) {
        at = &(*at)->next;
    }
    *at = announcer->next;
    while (announcer->first != NULL) {
        free(take(announcer));
    }
    free(announcer);
}

void sim_udp_destroy(struct sim_stack *stack)
{
    while (stack->announcers != NULL) {
        sim_udp_close(stack->announcers);
    }
}

static struct sim_datagram *new_datagram(const struct sim_announcer *announcer,
                                         const struct sim_ip *from,
                                         const struct sim_ip *to, const void *bytes,
                                         size_t n_bytes)
{
    struct sim_datagram *datagram = weft_calloc(1, sizeof *datagram + n_bytes);

    datagram->source = (struct sim_endpoint){.ip = *from, .port = announcer->port};
    datagram->destination = (struct sim_endpoint){.ip = *to, .port = announcer->port};
    datagram->n_bytes = (uint32_t)n_bytes;
    memcpy(datagram->bytes, bytes, n_bytes);
    return datagram;
}

/* Gives every announcer of the port on `netdev` a copy, except `but` and those whose
 * queue is full. */
static void deliver(struct sim_stack *stack, const struct sim_netdev *netdev,
                    const struct sim_datagram *datagram, const struct sim_announcer *but)
{
    size_t n_bytes = sizeof *datagram + datagram->n_bytes;

    for (struct sim_announcer *to = stack->announcers; to != NULL; to = to->next) {
        struct heard *heard;

        if (to->netdev != netdev || to->port != datagram->destination.port || to == but ||
            to->n_heard == QUEUE_MAX) {
            continue;
        }
        heard = weft_calloc(1, sizeof *heard);
        heard->datagram = weft_alloc(n_bytes);
        memcpy(heard->datagram, datagram, n_bytes);
        if (to->last == NULL) {
            to->first = heard;
        } else {
            to->last->next = heard;
        }
        to->last = heard;
        to->n_heard++;
        sim_wake(&to->waker);
    }
}

static void put_on_wire(struct sim_announcer *announcer, const struct sim_ip *from,
                        bool is_v4, const void *bytes, size_t n_bytes)
{
    struct sim_packet *packet = weft_calloc(1, sizeof *packet);
    struct sim_netdev *netdev = announcer->netdev;

    packet->kind = SIM_FRAME_UDP;
    packet->destination_mac = is_v4 ? mac_v4 : mac_v6;
    packet->ip_bytes = (uint32_t)n_bytes + HEADER_BYTES + (is_v4 ? 20 : 40);
    packet->wire_bytes = sim_frame_bytes(packet->ip_bytes);
    packet->n_payload = sizeof(struct sim_datagram) + n_bytes;
    packet->payload =
        new_datagram(announcer, from, is_v4 ? &group_v4 : &group_v6, bytes, n_bytes);
    sim_netdev_send(netdev, packet);
}

/* Returns the address by which the other processes of the host reach this one. */
static int own_address(const struct sim_stack *stack, struct sim_ip *out)
{
    if (stack->n_netdevs == 0) {
        return EADDRNOTAVAIL;
    }
    *out = stack->netdevs[0]->n_addresses > 0 ? stack->netdevs[0]->addresses[0].ip
                                              : stack->netdevs[0]->link_local;
    return 0;
}

int sim_udp_announce(struct sim_announcer *announcer, const void *bytes, size_t n_bytes)
{
    struct sim_stack *stack = announcer->stack;
    struct sim_netdev *netdev = announcer->netdev;
    struct sim_datagram *datagram;
    struct sim_ip from;
    int error;

    if (n_bytes > SIM_DATAGRAM_MAX) {
        return EMSGSIZE;
    }
    if (stack->is_dead) {
        return ENETDOWN;
    }
    if (netdev == NULL) {
        error = own_address(stack, &from);
        if (error == 0) {
            datagram = new_datagram(announcer, &from, &from, bytes, n_bytes);
            deliver(stack, NULL, datagram, announcer);
            free(datagram);
        }
        return error;
    }
    if (!sim_port_is_up(netdev->port)) {
        return ENETDOWN;
    }
    put_on_wire(announcer, &netdev->link_local, false, bytes, n_bytes);
    if (sim_netdev_select(netdev, &group_v4, &from)) {
        put_on_wire(announcer, &from, true, bytes, n_bytes);
    }
    return 0;
}

int sim_udp_hear(struct sim_announcer *announcer, void *out, size_t cap, size_t *out_n,
                 struct sim_endpoint *out_from)
{
    struct sim_datagram *datagram;

    if (announcer->first == NULL) {
        return EAGAIN;
    }
    datagram = take(announcer);
    *out_n = datagram->n_bytes < cap ? datagram->n_bytes : cap;
    memcpy(out, datagram->bytes, *out_n);
    *out_from = datagram->source;
    if (announcer->netdev != NULL) {
        out_from->ifindex = announcer->netdev->ifindex;
    }
    free(datagram);
    return 0;
}

void sim_udp_input(struct sim_netdev *netdev, struct sim_packet *packet)
{
    const struct sim_datagram *datagram = packet->payload;

    if (sim_source_is_valid(netdev, &datagram->source.ip) &&
        !sim_stack_firewall_drops(netdev->stack, true, datagram->destination.port)) {
        deliver(netdev->stack, netdev, datagram, NULL);
    }
    sim_packet_free(packet);
}
