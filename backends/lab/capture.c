#define _GNU_SOURCE
#include "backends/lab/capture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "backends/lab/frame_order.h"
#include "backends/lab/segments.h"
#include "base/check.h"
#include "base/observe.h"
#include "base/text.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5 /* linux/virtio_net.h, since 6.2 */
#endif

#define SECOND INT64_C(1000000000)
#define FRAME_MAX (1u << 17)   /* larger than a TCP segment before segmentation */
#define KERNEL_ROOM (32 << 20) /* per port */
/* The most that a frame may be delivered after its stamp and still be sorted in. */
#define HELD_NS (50 * INT64_C(1000000))

struct source {
    int fd; /* Owned */
    uint32_t host, port;
    uint64_t n_lost;
};

struct lab_capture {
    void (*tap)(void *context, const struct world_frame *frame);
    void *context;
    weft_ns realtime_ns; /* CLOCK_REALTIME, which stamps frames, minus CLOCK_MONOTONIC */
    struct frame_order order;
    bool divides;           /* see lab_capture_needs_frames() */
    uint8_t *bytes;         /* Owned [FRAME_MAX] */
    uint8_t *segment;       /* Owned [LAB_SEGMENT_HEADERS_MAX + FRAME_MAX] */
    struct source *sources; /* Owned [n] */
    uint32_t n;
};

static weft_ns clock_of(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return time.tv_sec * SECOND + time.tv_nsec;
}

/* ---- sockets ---- */

static bool kernel_has_udp_headers(void)
{
    struct utsname machine;
    long major = 0;
    char *end = NULL;

    if (uname(&machine) == 0) {
        major = strtol(machine.release, &end, 10);
    }
    return major > 6 || (major == 6 && *end == '.' && strtol(end + 1, NULL, 10) >= 2);
}

static int open_socket(const struct lab_capture *capture, const struct lab_fabric *fabric,
                       const struct lab_place *place, const char *netdev, int *out)
{
    const int one = 1;
    const int room = KERNEL_ROOM;
    const int divides = capture->divides;
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    int problem = lab_place_enter(place);
    int fd;

    if (problem != 0) {
        return problem;
    }
    fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    problem = fd < 0 ? errno : 0;
    lab_fabric_go_home(fabric);
    if (problem != 0) {
        return problem;
    }
    at.sll_ifindex = (int)netlink_ifindex(place->route_fd, netdev);
    if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) != 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &divides, sizeof(divides)) != 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0) {
        problem = errno;
        close(fd);
        return problem;
    }
    *out = fd;
    return 0;
}

/* ---- life ---- */

static void capture_free(struct lab_capture *capture)
{
    for (uint32_t i = 0; i < capture->n; i++) {
        close(capture->sources[i].fd);
    }
    frame_order_fini(&capture->order);
    free(capture->bytes);
    free(capture->segment);
    free(capture->sources);
    free(capture);
}

int lab_capture_start(const struct lab_fabric *fabric,
                      void (*tap)(void *context, const struct world_frame *frame),
                      void *context, struct lab_capture **out)
{
    const struct world_spec *spec = fabric->spec;
    struct lab_capture *capture = weft_calloc(1, sizeof(*capture));
    uint32_t n_ports = 0;
    int problem = 0;

    weft_observe_begin();
    for (uint32_t h = 0; h < spec->n_hosts; h++) {
        n_ports += spec->hosts[h].n_ports;
    }
    capture->tap = tap;
    capture->context = context;
    capture->realtime_ns = clock_of(CLOCK_REALTIME) - clock_of(CLOCK_MONOTONIC);
    frame_order_init(&capture->order);
    capture->divides = kernel_has_udp_headers();
    capture->bytes = weft_alloc(FRAME_MAX);
    capture->segment = weft_alloc(LAB_SEGMENT_HEADERS_MAX + FRAME_MAX);
    capture->sources = weft_calloc((size_t)n_ports + 1, sizeof(*capture->sources));
    for (uint32_t h = 0; h < spec->n_hosts && problem == 0; h++) {
        for (uint32_t p = 0; p < spec->hosts[h].n_ports && problem == 0; p++) {
            struct source *source = &capture->sources[capture->n];

            *source = (struct source){.host = h, .port = p};
            problem = open_socket(capture, fabric, &fabric->hosts[h].place,
                                  fabric->hosts[h].ports[p].netdev, &source->fd);
            capture->n += problem == 0 ? 1 : 0;
        }
    }
    if (problem != 0) {
        capture_free(capture);
        capture = NULL;
    }
    weft_observe_end();
    *out = capture;
    return problem;
}

bool lab_capture_needs_frames(const struct lab_capture *capture)
{
    return capture != NULL && !capture->divides;
}

uint64_t lab_capture_lost(struct lab_capture *capture)
{
    uint64_t n_lost = 0;

    for (uint32_t i = 0; i < capture->n; i++) {
        struct source *source = &capture->sources[i];
        struct tpacket_stats stats = {0};
        socklen_t n = sizeof(stats);

        /* Reading the statistics resets them. */
        if (getsockopt(source->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &n) == 0) {
            source->n_lost += stats.tp_drops;
        }
        n_lost += source->n_lost;
    }
    return n_lost;
}

/* ---- frames ---- */

static weft_ns stamp_of(struct msghdr *message)
{
    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at != NULL;
         at = CMSG_NXTHDR(message, at)) {
        struct timespec time;

        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_TIMESTAMPNS) {
            memcpy(&time, CMSG_DATA(at), sizeof(time));
            return time.tv_sec * SECOND + time.tv_nsec;
        }
    }
    return 0;
}

/* Reads the next frame of a port, and in *out_segment the payload of each frame that it stands for,
 * 0 if it is one. Returns false if there is none. */
static bool receive(const struct lab_capture *capture, struct source *source,
                    struct world_frame *out, size_t *out_segment)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct timespec))];
    struct sockaddr_ll from = {0};
    struct virtio_net_hdr about = {0};
    const size_t n_about = capture->divides ? sizeof(about) : 0;
    struct iovec bytes[] = {{.iov_base = &about, .iov_len = n_about},
                            {.iov_base = capture->bytes, .iov_len = FRAME_MAX}};
    struct msghdr message = {.msg_name = &from,
                             .msg_namelen = sizeof(from),
                             .msg_iov = bytes,
                             .msg_iovlen = WEFT_LENGTH(bytes),
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    ssize_t n;

    /* A port that goes down reports ENETDOWN once, and then continues. EINVAL is a frame that the
     * header cannot describe, which is dropped. */
    while ((n = recvmsg(source->fd, &message, 0)) < 0) {
        source->n_lost += errno == EINVAL ? 1 : 0;
        if (errno != ENETDOWN && errno != EINTR && errno != EINVAL) {
            return false;
        }
    }
    *out = (struct world_frame){
        .at_ns = stamp_of(&message) - capture->realtime_ns,
        .host = source->host,
        .port = source->port,
        .is_outgoing = from.sll_pkttype == PACKET_OUTGOING,
        .bytes = capture->bytes,
        .n_bytes = (size_t)n - n_about,
        .comment = (message.msg_flags & MSG_TRUNC) != 0 ? "cut" : NULL,
    };
    *out_segment = (about.gso_type & ~VIRTIO_NET_HDR_GSO_ECN) == VIRTIO_NET_HDR_GSO_UDP_L4
                       ? about.gso_size
                       : 0;
    return true;
}

/* Holds the frame, or those that it stands for. */
static void hold(struct lab_capture *capture, struct world_frame frame, size_t segment)
{
    struct lab_segments segments;

    if (!lab_segments_init(&segments, frame.bytes, frame.n_bytes, segment)) {
        frame_order_put(&capture->order, &frame);
        return;
    }
    frame.bytes = capture->segment;
    while ((frame.n_bytes = lab_segments_next(&segments, capture->segment)) != 0) {
        frame_order_put(&capture->order, &frame);
    }
}

/* Reads the frames of all ports up to the time of the call, so that a busy port does not delay
 * the others. Returns that time, because later frames of some ports may not have been read. */
static weft_ns receive_all(struct lab_capture *capture)
{
    weft_ns begun_ns = clock_of(CLOCK_MONOTONIC);

    for (uint32_t i = 0; i < capture->n; i++) {
        struct world_frame frame = {0};
        size_t segment;

        while (frame.at_ns <= begun_ns &&
               receive(capture, &capture->sources[i], &frame, &segment)) {
            hold(capture, frame, segment);
        }
    }
    return begun_ns;
}

static void hand_out(struct lab_capture *capture, weft_ns until)
{
    const struct world_frame *frame;

    while ((frame = frame_order_oldest(&capture->order, until)) != NULL) {
        capture->tap(capture->context, frame);
        frame_order_drop(&capture->order);
    }
}

void lab_capture_fetch(struct lab_capture *capture)
{
    if (capture != NULL) {
        weft_observe_begin();
        hand_out(capture, receive_all(capture) - HELD_NS);
        weft_observe_end();
    }
}

void lab_capture_end(struct lab_capture *capture)
{
    if (capture != NULL) {
        weft_observe_begin();
        receive_all(capture);
        hand_out(capture, INT64_MAX);
        capture_free(capture);
        weft_observe_end();
    }
}
