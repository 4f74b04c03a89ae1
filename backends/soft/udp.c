#define _GNU_SOURCE
#include "backends/soft/udp.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/soft/raw.h"
#include "base/check.h"
#include "base/log.h"
#include "base/text.h"
#include "base/wire.h"
#include "sim/icrc.h"
#include "sim/neighbour.h"
#include "sim/packet.h"
#include "sim/port_bytes.h"

enum { SOFT_TARGETS = 64, SOFT_RX_MESSAGES = 16 };

/* The socket of one GID of the port. */
struct soft_socket {
    struct soft_wire wire; /* its fd is -1 if the slot is free */
    struct soft_udp *udp;
    struct io_ip seen; /* the GID */
};

/* A cached target of the frames of one path. */
struct soft_known_target {
    const struct sim_path *path; /* NULL: unused */
    uint32_t process;
    bool is_reachable;
    struct soft_target target;
};

struct soft_udp {
    struct soft_udp_config config;
    struct soft_socket *sockets; /* Owned [n_sockets]; room for all GIDs */
    uint32_t n_sockets;          /* slots that have been used */
    uint16_t local_port;
    uint32_t link; /* link of the netdev's alias */
    struct soft_known_target targets[SOFT_TARGETS];
    struct soft_rx *rx; /* Owned */
    struct soft_udp_counters counters;
    bool is_open; /* created; IPv4 addresses that cannot be bound were reported then */
    /* Errno of the last failed bind, or 0. Ignores EADDRNOTAVAIL, because the address can still
     * appear, or never does on a port without a cable. */
    int error;
};

/* Returns a MAC derived from a station's IP address, because this wire resolves no MACs. */
static uint64_t soft_udp_mac(const struct io_ip *ip)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (int i = 0; i < 16; i++) {
        hash = (hash ^ ip->bytes[i]) * UINT64_C(0x100000001b3);
    }
    return UINT64_C(0x025355000000) | ((hash ^ hash >> 32) & 0xffffff);
}

/* Returns true if the alias is on this port's link. */
static bool soft_udp_reaches(const struct soft_udp *udp, const struct linux_alias *alias)
{
    return alias != NULL && alias->link == udp->link;
}

/* ---- receiving ---- */

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

static struct soft_rx *soft_rx_create(void)
{
    struct soft_rx *rx = weft_calloc(1, sizeof *rx);
    rx->buffers = weft_alloc((size_t)SOFT_RX_MESSAGES * (HEAD_ROOM + DATAGRAM_MAX));
    return rx;
}

static void soft_rx_destroy(struct soft_rx *rx)
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

static bool soft_udp_receive(struct soft_wire *wire)
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

#ifndef UDP_GRO
#define UDP_GRO 104 /* linux/udp.h, since 5.0 */
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif

#define RX_BUFFER_BYTES (8 << 20)

/* ---- addresses ---- */

static struct io_ip ip_of_gid(const union ibv_gid *gid)
{
    struct io_ip ip;
    memcpy(ip.bytes, gid->raw, sizeof ip.bytes);
    return ip;
}

static socklen_t name_of(const struct io_ip *ip, uint16_t port, uint32_t ifindex,
                         void *out)
{
    if (io_ip_is_v4(ip)) {
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&v4.sin_addr, &ip->bytes[12], 4);
        memcpy(out, &v4, sizeof v4);
        return sizeof v4;
    }
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    memcpy(&v6.sin6_addr, ip->bytes, 16);
    v6.sin6_scope_id = io_ip_is_link_local(ip) ? ifindex : 0;
    memcpy(out, &v6, sizeof v6);
    return sizeof v6;
}

/* ---- sending ---- */

static const struct soft_socket *socket_of(const struct soft_udp *udp,
                                           const union ibv_gid *gid)
{
    for (uint32_t i = 0; i < udp->n_sockets; i++) {
        const struct soft_socket *one = &udp->sockets[i];
        if (one->wire.fd >= 0 &&
            memcmp(one->seen.bytes, gid->raw, sizeof gid->raw) == 0) {
            return one;
        }
    }
    return NULL;
}

static void find_target(struct soft_udp *udp, struct soft_known_target *known)
{
    const struct sim_path *path = known->path;
    const struct soft_socket *from = socket_of(udp, &path->source_gid);
    struct io_ip to = ip_of_gid(&path->destination_gid);
    uint16_t port = (uint16_t)(SOFT_UDP_PORT + known->process);
    memset(&known->target, 0, sizeof known->target);
    known->is_reachable = from != NULL && !path->is_v1 && path->tag_bytes == 0;
    if (known->is_reachable && udp->config.aliases != NULL) {
        const struct linux_alias *alias = linux_alias_of_seen(udp->config.aliases, &to);
        known->is_reachable = soft_udp_reaches(udp, alias);
        to = known->is_reachable ? alias->real : to;
    }
    if (!known->is_reachable) {
        return;
    }
    known->target.fd = from->wire.fd;
    known->target.is_ipv6 = !io_ip_is_v4(&to);
    known->target.n_name = name_of(&to, port, udp->config.ifindex, known->target.name);
    known->target.traffic_class = path->traffic_class;
    known->target.hop_limit = path->hop_limit == 64 ? 0 : path->hop_limit;
    known->target.may_segment = !udp->config.no_segments;
    known->target.n_refused = &udp->counters.tx_refused;
}

static const struct soft_known_target *target_of(struct soft_udp *udp,
                                                 const struct sim_frame *frame)
{
    uint32_t process = frame->dest_qpn >> SOFT_PROCESS_SHIFT;
    uintptr_t hash = (uintptr_t)frame->path / 64 + process;
    struct soft_known_target *known = &udp->targets[hash % SOFT_TARGETS];
    if (known->path != frame->path || known->process != process) {
        known->path = frame->path;
        known->process = process;
        find_target(udp, known);
    }
    return known;
}

static void on_frame(void *context, const struct sim_frame *frame)
{
    struct soft_udp *udp = context;
    struct soft_batch *batch = udp->config.engine->batch;
    const struct soft_known_target *known = target_of(udp, frame);
    struct sim_roce roce;
    if (!known->is_reachable) {
        udp->counters.tx_dropped++;
        return;
    }
    sim_roce_of_frame(frame, &roce);
    roce.sport = udp->local_port;
    roce.ipv4_id = 0;
    uint8_t *slot = soft_batch_slot(batch);
    size_t n = sim_roce_encode(&roce, slot, SOFT_SLOT_BYTES);
    size_t n_before = 14u + frame->path->header_bytes; /* the kernel adds these headers */
    weft_check(n > n_before);
    soft_batch_put(batch, &known->target, slot + n_before, (uint32_t)(n - n_before));
    udp->counters.tx_frames++;
}

/* ---- neighbours ---- */

/* Answers a neighbour request here if the link cannot be asked, provided that a host with this
 * address can exist, because the kernel resolves addresses for its sockets. */
static void on_packet(void *context, struct sim_packet *packet)
{
    struct soft_udp *udp = context;
    const struct sim_neigh_packet *asked = packet->payload;
    if (udp->config.neighbours != NULL) {
        soft_raw_ask(udp->config.neighbours, packet);
        return;
    }
    if (packet->kind != SIM_FRAME_NEIGH || asked->is_reply) {
        sim_packet_free(packet);
        return;
    }
    struct io_ip target;
    memcpy(target.bytes, asked->target.bytes, sizeof target.bytes);
    const struct linux_aliases *aliases = udp->config.aliases;
    if (aliases != NULL &&
        !soft_udp_reaches(udp, linux_alias_of_seen(aliases, &target))) {
        sim_packet_free(packet);
        return;
    }
    struct sim_neigh_packet answer = {.is_reply = true,
                                      .sender = asked->target,
                                      .target = asked->sender,
                                      .sender_mac = soft_udp_mac(&target),
                                      .target_mac = asked->sender_mac};
    memcpy(packet->payload, &answer, sizeof answer);
    packet->source_mac = answer.sender_mac;
    packet->destination_mac = sim_port_mac(udp->config.port);
    sim_port_receive_outside(udp->config.port, packet);
}

/* ---- sockets ---- */

static int set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value) == 0 ? 0 : errno;
}

/* Sets the largest buffers allowed, because frames that do not fit are lost and retransmitted. */
static uint32_t enlarge(int fd)
{
    int n_bytes = 0;
    socklen_t n_value = sizeof n_bytes;
    if (set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, RX_BUFFER_BYTES) != 0) {
        (void)set_option(fd, SOL_SOCKET, SO_RCVBUF, RX_BUFFER_BYTES);
    }
    if (set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, RX_BUFFER_BYTES) != 0) {
        (void)set_option(fd, SOL_SOCKET, SO_SNDBUF, RX_BUFFER_BYTES);
    }
    (void)getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &n_bytes, &n_value);
    return (uint32_t)n_bytes;
}

static int configure(int fd, bool is_v4)
{
    int error = is_v4 ? set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
                      : set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    if (error == 0 && !is_v4) {
        error = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    }
    if (error == 0) {
        error = is_v4 ? set_option(fd, IPPROTO_IP, IP_RECVTOS, 1)
                      : set_option(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    }
    (void)set_option(fd, SOL_UDP, UDP_GRO,
                     1); /* without GRO the kernel delivers single frames */
    return error;
}

static int open_socket(const struct soft_udp *udp, const struct io_ip *real,
                       uint32_t *out_buffer, int *out_fd)
{
    uint8_t name[sizeof(struct sockaddr_in6)];
    bool is_v4 = io_ip_is_v4(real);
    socklen_t n_name = name_of(real, udp->local_port, udp->config.ifindex, name);
    int fd =
        socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    int error = configure(fd, is_v4);
    if (error == 0 && bind(fd, (struct sockaddr *)(void *)name, n_name) != 0) {
        error = errno;
    }
    if (error != 0) {
        close(fd);
        return error;
    }
    *out_buffer = enlarge(fd);
    *out_fd = fd;
    return 0;
}

static void add_gid(struct soft_udp *udp, const union ibv_gid *gid)
{
    struct io_ip seen = ip_of_gid(gid), real = seen;
    char text[IO_IP_TEXT_BYTES];
    uint32_t n_buffer = 0;
    int fd = -1, error = 0;
    if (socket_of(udp, gid) != NULL) {
        return; /* RoCE v1 slot of the same address */
    }
    if (udp->config.aliases != NULL) {
        const struct linux_alias *alias = linux_alias_of_seen(udp->config.aliases, &seen);
        error = alias == NULL ? EADDRNOTAVAIL : 0;
        real = alias == NULL ? seen : alias->real;
    }
    if (error == 0) {
        error = open_socket(udp, &real, &n_buffer, &fd);
    }
    if (error != 0) {
        /* A port has the GID of its MAC even if the kernel does not have that address, and an
         * IPv6 address cannot be bound before duplicate address detection has ended. If
         * another process of this host has the port, the caller may try the next process
         * number. A netdev that went away is reported by its next event. */
        bool may_appear = udp->is_open || !io_ip_is_v4(&seen);
        bool is_usual = error == EADDRINUSE || (error == EADDRNOTAVAIL && may_appear) ||
                        (error == ENODEV && udp->is_open);

        udp->error = error == EADDRNOTAVAIL ? udp->error : error;
        weft_log(udp->config.log, is_usual ? WEFT_LOG_DEBUG : WEFT_LOG_WARN,
                 "%s: no socket for %s: %s", sim_port_name(udp->config.port),
                 io_ip_format(&seen, text, sizeof text), strerrordesc_np(error));
        return;
    }
    if (udp->counters.rx_buffer_bytes == 0 || n_buffer < udp->counters.rx_buffer_bytes) {
        udp->counters.rx_buffer_bytes = n_buffer;
    }
    uint32_t at = 0;
    while (at < udp->n_sockets && udp->sockets[at].wire.fd >= 0) {
        at++;
    }
    struct soft_socket *added = &udp->sockets[at];
    *added = (struct soft_socket){
        .wire = {.fd = fd, .receive = soft_udp_receive}, .udp = udp, .seen = seen};
    error = soft_engine_add_wire(udp->config.engine, &added->wire);
    if (error != 0) {
        weft_log(udp->config.log, WEFT_LOG_WARN, "epoll: %s", strerrordesc_np(error));
        close(fd);
        added->wire.fd = -1;
        return;
    }
    udp->n_sockets += at == udp->n_sockets ? 1 : 0;
}

/* Returns the datagrams that the kernel dropped at a socket, 0 if it does not count them. */
static uint64_t socket_drops(const struct soft_socket *one)
{
    uint32_t memory[SK_MEMINFO_VARS] = {0};
    socklen_t n = sizeof memory;
    return one->wire.fd >= 0 &&
                   getsockopt(one->wire.fd, SOL_SOCKET, SO_MEMINFO, memory, &n) == 0
               ? memory[SK_MEMINFO_DROPS]
               : 0;
}

static bool has_gid(const struct soft_udp *udp, const struct io_ip *ip)
{
    uint32_t n_gids = sim_stack_gid_length(udp->config.stack, udp->config.port);
    struct sim_gid gid;
    for (uint32_t i = 0; i < n_gids; i++) {
        if (sim_stack_gid(udp->config.stack, udp->config.port, i, &gid) == 0 &&
            memcmp(gid.gid.raw, ip->bytes, sizeof gid.gid.raw) == 0) {
            return true;
        }
    }
    return false;
}

/* Closes the sockets of GIDs that the port no longer has. What they have to send leaves
 * before. */
static void close_gids(struct soft_udp *udp)
{
    for (uint32_t i = 0; i < udp->n_sockets; i++) {
        struct soft_socket *one = &udp->sockets[i];
        if (one->wire.fd >= 0 && !has_gid(udp, &one->seen)) {
            soft_batch_flush(udp->config.engine->batch);
            udp->counters.rx_socket_drops += socket_drops(one);
            close(one->wire.fd);
            one->wire.fd = -1;
        }
    }
}

void soft_udp_follow_gids(struct soft_udp *udp)
{
    uint32_t n_gids = sim_stack_gid_length(udp->config.stack, udp->config.port);
    struct sim_gid gid;
    close_gids(udp);
    for (uint32_t i = 0; i < n_gids; i++) {
        if (sim_stack_gid(udp->config.stack, udp->config.port, i, &gid) == 0) {
            add_gid(udp, &gid.gid);
        }
    }
    /* Targets without a socket may have one now, and others have lost theirs. */
    memset(udp->targets, 0, sizeof udp->targets);
}

/* ---- set-up and release ---- */

weft_status soft_udp_create(const struct soft_udp_config *config, struct soft_udp **out,
                            struct weft_error *error)
{
    struct soft_udp *udp = weft_calloc(1, sizeof *udp);
    uint32_t n_gids = sim_stack_gid_length(config->stack, config->port);
    udp->config = *config;
    udp->local_port = (uint16_t)(SOFT_UDP_PORT + config->process);
    udp->sockets = weft_calloc((size_t)n_gids + 1, sizeof *udp->sockets);
    udp->rx = soft_rx_create();
    if (config->aliases != NULL) {
        const struct linux_alias_netdev *netdev =
            linux_alias_netdev_of(config->aliases, config->ifindex);
        udp->link = netdev == NULL ? UINT32_MAX : netdev->link;
    }
    soft_udp_follow_gids(udp);
    /* If another process has one of the addresses, the UDP port is that process's. It may have
     * started before the other addresses existed. */
    if (udp->error == EADDRINUSE || (udp->n_sockets == 0 && udp->error != 0)) {
        int why = udp->error;
        soft_udp_destroy(udp);
        weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_START,
                  "%s:%s: no address of it can be bound to UDP port %u",
                  sim_port_host(config->port), sim_port_name(config->port),
                  SOFT_UDP_PORT + config->process);
        if (error != NULL) {
            error->sys_errno = why;
        }
        return WEFT_ERR_ENVIRONMENT;
    }
    const struct sim_outside outside = {.frame = on_frame,
                                        .packet = on_packet,
                                        .context = udp,
                                        .rate_bps = config->rate_bps,
                                        .takes_own = true,
                                        .is_up = config->is_up};
    sim_port_set_outside(config->port, &outside);
    udp->is_open = true;
    *out = udp;
    return WEFT_OK;
}

void soft_udp_destroy(struct soft_udp *udp)
{
    if (udp == NULL) {
        return;
    }
    for (uint32_t i = 0; i < udp->n_sockets; i++) {
        if (udp->sockets[i].wire.fd >= 0) {
            close(udp->sockets[i].wire.fd);
        }
    }
    soft_rx_destroy(udp->rx);
    free(udp->sockets);
    free(udp);
}

void soft_udp_counters(const struct soft_udp *udp, struct soft_udp_counters *out)
{
    *out = udp->counters;
    for (uint32_t i = 0; i < udp->n_sockets; i++) {
        out->rx_socket_drops += socket_drops(&udp->sockets[i]);
    }
}
