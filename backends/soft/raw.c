#define _GNU_SOURCE
#include "backends/soft/raw.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/soft/udp.h"
#include "base/check.h"
#include "base/text.h"
#include "sim/neighbour.h"
#include "sim/packet.h"
#include "sim/port_bytes.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23 /* linux/if_packet.h, since 4.20 */
#endif

enum {
    RX_MESSAGES = 64,
    RX_BYTES = 9216,
    RX_BUFFER_BYTES = 8 << 20,
    ETHERNET_BYTES = 14,
    ARP_BYTES = 28,
    VLAN_ID_MASK = 0xfff,
    ADVERTISEMENT_BYTES = 40 + 24, /* IPv6 and ICMPv6 headers without options */
    ICMPV6_ADVERTISEMENT = 136
};

struct rx {
    struct mmsghdr headers[RX_MESSAGES];
    struct iovec iovs[RX_MESSAGES];
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
    } controls[RX_MESSAGES];
    uint8_t buffers[RX_MESSAGES][RX_BYTES];
};

struct soft_raw {
    struct soft_wire wire;
    struct soft_raw_config config;
    struct rx *rx; /* Owned */
    /* Holds the RoCE port, otherwise the kernel would reply that the port is unreachable; -1 if
     * another process holds it. Nothing is read from it. */
    int holder_fd;
};

/* ---- filter ---- */

#define LOAD_BYTE(at) BPF_STMT(BPF_LD | BPF_B | BPF_ABS, at)
#define LOAD_HALF(at) BPF_STMT(BPF_LD | BPF_H | BPF_ABS, at)
#define IF_EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define TAKE BPF_STMT(BPF_RET | BPF_K, 0x40000)
#define LEAVE BPF_STMT(BPF_RET | BPF_K, 0)

/* Accepts ARP, neighbour advertisements, and UDP to `roce_port` (0 if RoCE uses another wire). */
static int set_filter(int fd, uint16_t roce_port)
{
    struct sock_filter code[] = {
        /*  0 */ LOAD_HALF(12),
        /*  1 */ IF_EQUAL(ETH_P_ARP, 14, 0),
        /*  2 */ IF_EQUAL(ETH_P_IP, 0, 5),
        /*  3 */ LOAD_BYTE(23),
        /*  4 */ IF_EQUAL(IPPROTO_UDP, 0, 10),
        /*  5 */ BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
        /*  6 */ BPF_STMT(BPF_LD | BPF_H | BPF_IND, 16),
        /*  7 */ IF_EQUAL(roce_port, 8, 7),
        /*  8 */ IF_EQUAL(ETH_P_IPV6, 0, 6),
        /*  9 */ LOAD_BYTE(20),
        /* 10 */ IF_EQUAL(IPPROTO_UDP, 0, 2),
        /* 11 */ LOAD_HALF(56),
        /* 12 */ IF_EQUAL(roce_port, 3, 2),
        /* 13 */ LOAD_BYTE(54),
        /* 14 */ IF_EQUAL(ICMPV6_ADVERTISEMENT, 1, 0),
        /* 15 */ LEAVE,
        /* 16 */ TAKE,
    };
    const struct sock_fprog program = {.len = WEFT_LENGTH(code), .filter = code};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0
               ? 0
               : errno;
}

/* ---- sending ---- */

static void target_of(const struct soft_raw *raw, const uint8_t *frame,
                      struct soft_target *out)
{
    struct sockaddr_ll name = {
        .sll_family = AF_PACKET, .sll_ifindex = (int)raw->config.ifindex, .sll_halen = 6};
    memcpy(&name.sll_protocol, frame + 12, 2);
    memcpy(name.sll_addr, frame, 6);
    memset(out, 0, sizeof *out);
    out->fd = raw->wire.fd;
    out->n_name = sizeof name;
    memcpy(out->name, &name, sizeof name);
}

static void on_frame(void *context, const struct sim_frame *frame)
{
    struct soft_raw *raw = context;
    struct soft_batch *batch = raw->config.engine->batch;
    struct soft_target target;
    uint8_t *slot = soft_batch_slot(batch);
    size_t n = sim_packet_encode(frame, slot, SOFT_SLOT_BYTES);
    weft_check(n > ETHERNET_BYTES);
    target_of(raw, slot, &target);
    soft_batch_put(batch, &target, slot, (uint32_t)n);
}

void soft_raw_ask(struct soft_raw *raw, struct sim_packet *packet)
{
    struct soft_batch *batch = raw->config.engine->batch;
    struct soft_target target;
    const struct sim_neigh_packet *body = packet->payload;
    if (packet->kind == SIM_FRAME_NEIGH && !body->is_reply) {
        uint8_t *slot = soft_batch_slot(batch);
        size_t n = sim_port_packet_bytes(raw->config.port, packet, slot, SOFT_SLOT_BYTES);
        if (n > ETHERNET_BYTES) {
            target_of(raw, slot, &target);
            soft_batch_put(batch, &target, slot, (uint32_t)n);
        }
    }
    sim_packet_free(packet);
}

static void on_packet(void *context, struct sim_packet *packet)
{
    soft_raw_ask(context, packet);
}

/* ---- receiving ---- */

static uint64_t mac_at(const uint8_t *bytes)
{
    uint64_t mac = 0;
    for (int i = 0; i < 6; i++) {
        mac = mac << 8 | bytes[i];
    }
    return mac;
}

static struct sim_ip mapped_at(const uint8_t *bytes)
{
    struct sim_ip ip = {{[10] = 0xff, [11] = 0xff}};
    memcpy(ip.bytes + 12, bytes, 4);
    return ip;
}

static struct sim_ip ipv6_at(const uint8_t *bytes)
{
    struct sim_ip ip;
    memcpy(ip.bytes, bytes, sizeof ip.bytes);
    return ip;
}

/* Reads an ARP reply (RFC 826). The kernel handles requests. */
static bool read_arp(const uint8_t *arp, size_t n, struct sim_neigh_packet *out)
{
    static const uint8_t head[8] = {0, 1, 8, 0, 6, 4, 0, 2};
    if (n < ARP_BYTES || memcmp(arp, head, sizeof head) != 0) {
        return false;
    }
    *out = (struct sim_neigh_packet){.is_reply = true,
                                     .sender_mac = mac_at(arp + 8),
                                     .sender = mapped_at(arp + 14),
                                     .target_mac = mac_at(arp + 18),
                                     .target = mapped_at(arp + 24)};
    return true;
}

/* Reads a neighbour advertisement (RFC 4861, 4.4). Without an option, its link-layer address is
 * the frame's source. */
static bool read_advertisement(const uint8_t *ip, size_t n, uint64_t source_mac,
                               struct sim_neigh_packet *out)
{
    if (n < ADVERTISEMENT_BYTES || ip[6] != IPPROTO_ICMPV6 || ip[7] != 255 ||
        ip[40] != ICMPV6_ADVERTISEMENT) {
        return false;
    }
    bool has_option = n >= ADVERTISEMENT_BYTES + 8 && ip[ADVERTISEMENT_BYTES] == 2 &&
                      ip[ADVERTISEMENT_BYTES + 1] == 1;
    *out = (struct sim_neigh_packet){
        .is_reply = true,
        .sender_mac = has_option ? mac_at(ip + ADVERTISEMENT_BYTES + 2) : source_mac,
        .sender = ipv6_at(ip + 48),
        .target = ipv6_at(ip + 24)};
    return true;
}

static void take_neighbour(struct soft_raw *raw, const uint8_t *frame, size_t n)
{
    struct sim_neigh_packet body;
    bool is_arp = frame[12] == 0x08 && frame[13] == 0x06;
    const uint8_t *at = frame + ETHERNET_BYTES;
    bool is_one =
        is_arp ? read_arp(at, n - ETHERNET_BYTES, &body)
               : read_advertisement(at, n - ETHERNET_BYTES, mac_at(frame + 6), &body);
    if (!is_one) {
        return;
    }
    struct sim_packet *packet = weft_calloc(1, sizeof *packet);
    packet->kind = SIM_FRAME_NEIGH;
    packet->source_mac = mac_at(frame + 6);
    packet->destination_mac = mac_at(frame);
    packet->wire_bytes = (uint32_t)(n < 60 ? 64 : n + 4);
    packet->n_payload = sizeof body;
    packet->payload = weft_alloc(sizeof body);
    memcpy(packet->payload, &body, sizeof body);
    sim_port_receive_outside(raw->config.port, packet);
}

/* Returns the status of a received frame (TP_STATUS_*), and the VLAN whose tag the kernel has
 * removed; 0 if none. */
static uint32_t read_auxdata(struct msghdr *header, uint16_t *out_vlan)
{
    struct tpacket_auxdata aux = {.tp_status = 0};
    for (struct cmsghdr *at = CMSG_FIRSTHDR(header); at != NULL;
         at = CMSG_NXTHDR(header, at)) {
        if (at->cmsg_level == SOL_PACKET && at->cmsg_type == PACKET_AUXDATA) {
            memcpy(&aux, CMSG_DATA(at), sizeof aux);
        }
    }
    bool has_vlan = (aux.tp_status & TP_STATUS_VLAN_VALID) != 0;
    *out_vlan = has_vlan ? aux.tp_vlan_tci & VLAN_ID_MASK : 0;
    return aux.tp_status;
}

static void take_frame(struct soft_raw *raw, struct msghdr *header, uint8_t *frame,
                       size_t n)
{
    bool is_ipv4 = frame[12] == 0x08 && frame[13] == 0x00;
    bool is_ipv6 = frame[12] == 0x86 && frame[13] == 0xdd;
    size_t udp = ETHERNET_BYTES + (is_ipv4 ? 20u : 40u);
    bool is_udp = (is_ipv4 && n > 23 && frame[23] == IPPROTO_UDP) ||
                  (is_ipv6 && n > 20 && frame[20] == IPPROTO_UDP);
    uint16_t vlan_id = 0;
    uint32_t aux = read_auxdata(header, &vlan_id);
    if (vlan_id != 0) {
        return; /* for a netdev of that VLAN */
    }
    if (!is_udp) {
        take_neighbour(raw, frame, n);
        return;
    }
    /* A sender's kernel can leave the checksum to a NIC that does not exist (veth). */
    if (n >= udp + 8 && (aux & TP_STATUS_CSUMNOTREADY) != 0) {
        frame[udp + 6] = 0;
        frame[udp + 7] = 0;
    }
    (void)sim_port_put_bytes(raw->config.port, frame, n);
}

static bool on_readable(struct soft_wire *wire)
{
    struct soft_raw *raw = weft_container_of(wire, struct soft_raw, wire);
    struct rx *rx = raw->rx;
    for (uint32_t i = 0; i < RX_MESSAGES; i++) {
        rx->iovs[i] = (struct iovec){.iov_base = rx->buffers[i], .iov_len = RX_BYTES};
        rx->headers[i].msg_hdr =
            (struct msghdr){.msg_iov = &rx->iovs[i],
                            .msg_iovlen = 1,
                            .msg_control = &rx->controls[i],
                            .msg_controllen = sizeof rx->controls[i]};
    }
    int n = recvmmsg(wire->fd, rx->headers, RX_MESSAGES, MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++) {
        if (rx->headers[i].msg_len > ETHERNET_BYTES) {
            take_frame(raw, &rx->headers[i].msg_hdr, rx->buffers[i],
                       rx->headers[i].msg_len);
        }
    }
    return n < RX_MESSAGES;
}

/* ---- set-up and release ---- */

static int set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value) == 0 ? 0 : errno;
}

/* Binds only after setting the filter, so that no other packets are queued. */
static int open_socket(const struct soft_raw_config *config, int *out_fd)
{
    struct sockaddr_ll name = {.sll_family = AF_PACKET,
                               .sll_protocol = htons(ETH_P_ALL),
                               .sll_ifindex = (int)config->ifindex};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    int error = set_filter(fd, config->carries_frames ? SOFT_UDP_PORT : 0);
    if (error == 0) {
        error = set_option(fd, SOL_PACKET, PACKET_AUXDATA, 1);
    }
    if (error == 0) {
        error = set_option(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
    }
    if (error == 0 && bind(fd, (struct sockaddr *)(void *)&name, sizeof name) != 0) {
        error = errno;
    }
    if (error != 0) {
        close(fd);
        return error;
    }
    if (set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, RX_BUFFER_BYTES) != 0) {
        (void)set_option(fd, SOL_SOCKET, SO_RCVBUF, RX_BUFFER_BYTES);
    }
    *out_fd = fd;
    return 0;
}

/* Binds the RoCE port on all addresses of both families. If that fails, another process has bound
 * it, which is as good. */
static int hold_port(void)
{
    const struct sockaddr_in6 name = {.sin6_family = AF_INET6,
                                      .sin6_port = htons(SOFT_UDP_PORT)};
    struct sock_filter code[] = {LEAVE};
    const struct sock_fprog none = {.len = 1, .filter = code};
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    (void)set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &none, sizeof none) != 0 ||
        bind(fd, (const struct sockaddr *)(const void *)&name, sizeof name) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int soft_raw_create(const struct soft_raw_config *config, struct soft_raw **out)
{
    struct soft_raw *raw = weft_calloc(1, sizeof *raw);
    raw->config = *config;
    raw->holder_fd = -1;
    int error = open_socket(config, &raw->wire.fd);
    if (error != 0) {
        free(raw);
        return error;
    }
    raw->wire.receive = on_readable;
    raw->rx = weft_alloc(sizeof *raw->rx);
    error = soft_engine_add_wire(config->engine, &raw->wire);
    if (error != 0) {
        soft_raw_destroy(raw);
        return error;
    }
    if (config->carries_frames) {
        const struct sim_outside outside = {.frame = on_frame,
                                            .packet = on_packet,
                                            .context = raw,
                                            .rate_bps = config->rate_bps,
                                            .is_up = config->is_up};
        sim_port_set_outside(config->port, &outside);
        raw->holder_fd = hold_port();
    }
    *out = raw;
    return 0;
}

void soft_raw_destroy(struct soft_raw *raw)
{
    if (raw == NULL) {
        return;
    }
    close(raw->wire.fd);
    if (raw->holder_fd >= 0) {
        close(raw->holder_fd);
    }
    free(raw->rx);
    free(raw);
}
