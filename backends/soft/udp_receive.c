/* Receives from UDP sockets. Converts datagrams, which the kernel may have joined (UDP_GRO), to
 * frames with the headers that they had. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "backends/soft/udp_private.h"
#include "base/check.h"
#include "base/text.h"
#include "base/wire.h"
#include "sim/icrc.h"
#include "sim/port_bytes.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif

/* Room before a datagram for the headers of its first frame. The headers of later frames
 * overwrite the end of the previous frame, which has been processed. */
enum {
    HEAD_ROOM = 64,
    DATAGRAM_MAX = 65536,
    ETHERNET_BYTES = 14,
    HOP_LIMIT = 64,
    BTH_BYTES = 12,
    ICRC_BYTES = 4
};

union control {
    struct cmsghdr align;
    uint8_t bytes[2 * CMSG_SPACE(sizeof(int)) + 16];
};

struct soft_rx {
    struct mmsghdr headers[SOFT_RX_MESSAGES];
    struct iovec iovs[SOFT_RX_MESSAGES];
    union control controls[SOFT_RX_MESSAGES];
    struct sockaddr_in6 names[SOFT_RX_MESSAGES]; /* or a sockaddr_in */
    uint8_t *buffers; /* Owned [SOFT_RX_MESSAGES * (HEAD_ROOM + DATAGRAM_MAX)] */
};

struct soft_rx *soft_rx_create(void)
{
    struct soft_rx *rx = weft_calloc(1, sizeof *rx);
    rx->buffers = weft_alloc((size_t)SOFT_RX_MESSAGES * (HEAD_ROOM + DATAGRAM_MAX));
    return rx;
}

void soft_rx_destroy(struct soft_rx *rx)
{
    free(rx->buffers);
    free(rx);
}

static uint8_t *buffer_at(const struct soft_rx *rx, uint32_t index)
{
    return rx->buffers + (size_t)index * (HEAD_ROOM + DATAGRAM_MAX) + HEAD_ROOM;
}

/* Metadata of a received datagram. */
struct arrival {
    struct io_ip from;
    uint16_t sport;
    uint8_t traffic_class;
    uint32_t segment_bytes; /* 0: a single frame */
};

static void read_control(struct msghdr *header, struct arrival *out)
{
    for (struct cmsghdr *at = CMSG_FIRSTHDR(header); at != NULL;
         at = CMSG_NXTHDR(header, at)) {
        int value = 0;
        if (at->cmsg_level == SOL_UDP && at->cmsg_type == UDP_GRO) {
            memcpy(&value, CMSG_DATA(at), sizeof value);
            out->segment_bytes = (uint32_t)value;
        } else if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_TOS) {
            memcpy(&out->traffic_class, CMSG_DATA(at), 1);
        } else if (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_TCLASS) {
            memcpy(&value, CMSG_DATA(at), sizeof value);
            out->traffic_class = (uint8_t)value;
        }
    }
}

/* Reads the source address. Returns false if no host with it can reach this port. */
static bool read_source(const struct soft_udp *udp, const struct sockaddr_in6 *name,
                        struct arrival *out)
{
    if (name->sin6_family == AF_INET) {
        struct sockaddr_in v4;
        uint8_t b[4];
        memcpy(&v4, name, sizeof v4);
        memcpy(b, &v4.sin_addr, 4);
        out->from = io_ip_v4(b[0], b[1], b[2], b[3]);
        out->sport = ntohs(v4.sin_port);
    } else {
        memcpy(out->from.bytes, &name->sin6_addr, 16);
        out->sport = ntohs(name->sin6_port);
    }
    if (udp->config.aliases == NULL) {
        return true;
    }
    const struct linux_alias *alias =
        linux_alias_of_real(udp->config.aliases, &out->from);
    if (!soft_udp_reaches(udp, alias)) {
        return false;
    }
    out->from = alias->seen;
    return true;
}

static uint16_t ip_checksum(const uint8_t *header)
{
    uint32_t sum = 0;
    for (int i = 0; i < 20; i += 2) {
        sum += (uint32_t)header[i] << 8 | header[i + 1];
    }
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t) ~((sum & 0xffff) + (sum >> 16));
}

static void put_mac(struct wire_writer *writer, uint64_t mac)
{
    wire_put_u24(writer, (uint32_t)(mac >> 24) & 0xffffff);
    wire_put_u24(writer, (uint32_t)mac & 0xffffff);
}

static void put_ip(struct wire_writer *writer, const struct soft_socket *to,
                   const struct arrival *arrival, uint32_t n_udp)
{
    if (io_ip_is_v4(&to->seen)) {
        uint8_t *header = writer->at;
        wire_put_u8(writer, 0x45);
        wire_put_u8(writer, arrival->traffic_class);
        wire_put_u16(writer, (uint16_t)(20 + n_udp));
        wire_put_u16(writer, 0);      /* id */
        wire_put_u16(writer, 0x4000); /* DF */
        wire_put_u8(writer, HOP_LIMIT);
        wire_put_u8(writer, IPPROTO_UDP);
        wire_put_u16(writer, 0);
        wire_put_bytes(writer, &arrival->from.bytes[12], 4);
        wire_put_bytes(writer, &to->seen.bytes[12], 4);
        uint16_t sum = ip_checksum(header);
        header[10] = (uint8_t)(sum >> 8);
        header[11] = (uint8_t)sum;
    } else {
        wire_put_u32(writer, 6u << 28 | (uint32_t)arrival->traffic_class << 20);
        wire_put_u16(writer, (uint16_t)n_udp);
        wire_put_u8(writer, IPPROTO_UDP);
        wire_put_u8(writer, HOP_LIMIT);
        wire_put_bytes(writer, arrival->from.bytes, 16);
        wire_put_bytes(writer, to->seen.bytes, 16);
    }
}

/* Passes the frame with this UDP payload to the port. There must be room for its headers before
 * `payload`. */
static void deliver_frame(struct soft_socket *self, const struct arrival *arrival,
                          uint8_t *payload, uint32_t n)
{
    struct soft_udp *udp = self->udp;
    uint32_t ip_bytes = io_ip_is_v4(&self->seen) ? 20 : 40;
    uint32_t n_before = ETHERNET_BYTES + ip_bytes + 8;
    uint8_t *frame = payload - n_before;
    struct wire_writer writer = wire_writer_init(frame, n_before);
    put_mac(&writer, sim_port_mac(udp->config.port));
    put_mac(&writer, soft_udp_mac(&arrival->from));
    wire_put_u16(&writer, ip_bytes == 20 ? 0x0800 : 0x86dd);
    put_ip(&writer, self, arrival, n + 8);
    wire_put_u16(&writer, arrival->sport);
    wire_put_u16(&writer, SOFT_UDP_PORT);
    wire_put_u16(&writer, (uint16_t)(n + 8));
    wire_put_u16(&writer, 0); /* the kernel has checked it */
    weft_check(!writer.bad && writer.at == payload);
    if (udp->config.icrc_is_unseen && n >= BTH_BYTES + ICRC_BYTES) {
        uint32_t icrc = sim_icrc(frame + ETHERNET_BYTES,
                                 n_before - ETHERNET_BYTES + n - ICRC_BYTES, false);
        for (uint32_t i = 0; i < ICRC_BYTES; i++) {
            payload[n - ICRC_BYTES + i] = (uint8_t)(icrc >> 8 * i);
        }
    }
    udp->counters.rx_frames++;
    if (sim_port_put_bytes(udp->config.port, frame, n_before + n) != SIM_PACKET_OK) {
        udp->counters.rx_refused++;
    }
}

static void deliver_datagram(struct soft_socket *self, uint32_t index)
{
    struct soft_rx *rx = self->udp->rx;
    struct arrival arrival = {.segment_bytes = 0};
    uint32_t n = rx->headers[index].msg_len;
    uint8_t *at = buffer_at(rx, index);
    read_control(&rx->headers[index].msg_hdr, &arrival);
    if (!read_source(self->udp, &rx->names[index], &arrival) ||
        io_ip_is_v4(&arrival.from) != io_ip_is_v4(&self->seen)) {
        self->udp->counters.rx_refused++;
        return;
    }
    uint32_t step = arrival.segment_bytes == 0 ? n : arrival.segment_bytes;
    for (uint32_t done = 0; done < n; done += step) {
        uint32_t left = n - done;
        deliver_frame(self, &arrival, at + done, left < step ? left : step);
    }
}

bool soft_udp_receive(struct soft_wire *wire)
{
    struct soft_socket *self = weft_container_of(wire, struct soft_socket, wire);
    struct soft_rx *rx = self->udp->rx;
    for (uint32_t i = 0; i < SOFT_RX_MESSAGES; i++) {
        rx->iovs[i] =
            (struct iovec){.iov_base = buffer_at(rx, i), .iov_len = DATAGRAM_MAX};
        rx->headers[i].msg_hdr =
            (struct msghdr){.msg_name = &rx->names[i],
                            .msg_namelen = sizeof rx->names[i],
                            .msg_iov = &rx->iovs[i],
                            .msg_iovlen = 1,
                            .msg_control = &rx->controls[i],
                            .msg_controllen = sizeof rx->controls[i]};
    }
    int n = recvmmsg(wire->fd, rx->headers, SOFT_RX_MESSAGES, MSG_DONTWAIT, NULL);
    for (int i = 0; i < n; i++) {
        self->udp->counters.rx_datagrams++;
        deliver_datagram(self, (uint32_t)i);
    }
    return n < SOFT_RX_MESSAGES;
}
