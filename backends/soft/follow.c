#define _GNU_SOURCE
#include "backends/soft/follow.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"

#ifndef IFF_LOWER_UP
#define IFF_LOWER_UP 0x10000 /* linux/if.h, which conflicts with net/if.h */
#endif

/* The kernel reports carrier changes at most once per second (net/core/link_watch.c), so it can
 * report late that a carrier is back. Netdevs that are down are therefore polled for longer than
 * that. */
#define ASK_EVERY_NS 10000000L
#define ASK_TIMES 150u
#define ASKED_MAX 32u
/* Identifies replies; the kernel's own reports have another number. */
#define ASK_SEQUENCE 22341u

struct asked {
    uint32_t ifindex;
    uint32_t left; /* remaining polls; 0: unused */
};

struct soft_follow {
    struct soft_wire wire;
    struct soft_wire timer; /* runs while a netdev is polled */
    struct asked asked[ASKED_MAX];
    const struct soft_follow_ops *ops; /* Not owned */
    void *context;                     /* Not owned */
};

/* Unlike NLMSG_DATA and RTA_DATA, these keep `const`. */
static const uint8_t *message_data(const struct nlmsghdr *message)
{
    return (const uint8_t *)message + NLMSG_HDRLEN;
}

static const uint8_t *attribute_data(const struct rtattr *attribute)
{
    return (const uint8_t *)attribute + RTA_LENGTH(0);
}

/* Starts polling a netdev if it is down (`again` restarts the count), or stops if it is up. */
static void ask(struct soft_follow *self, uint32_t ifindex, bool again, bool is_down)
{
    const struct itimerspec every = {{0, ASK_EVERY_NS}, {0, ASK_EVERY_NS}};
    struct asked *at = NULL;
    for (uint32_t i = 0; i < ASKED_MAX; i++) {
        struct asked *one = &self->asked[i];
        if (one->left > 0 && one->ifindex == ifindex) {
            one->left = is_down ? (again ? ASK_TIMES : one->left) : 0;
            return;
        }
        at = at == NULL && one->left == 0 ? one : at;
    }
    if (is_down && again && at != NULL) {
        *at = (struct asked){ifindex, ASK_TIMES};
        timerfd_settime(self->timer.fd, 0, &every, NULL);
    }
}

void soft_follow_ask(struct soft_follow *self, uint32_t ifindex)
{
    ask(self, ifindex, true, true);
}

static void on_timer(struct soft_wire *wire)
{
    struct soft_follow *self = weft_container_of(wire, struct soft_follow, timer);
    struct {
        struct nlmsghdr head;
        struct ifinfomsg info;
    } request = {.head = {.nlmsg_len = sizeof request,
                          .nlmsg_type = RTM_GETLINK,
                          .nlmsg_seq = ASK_SEQUENCE,
                          .nlmsg_flags = NLM_F_REQUEST}};
    const struct itimerspec never = {0};
    uint64_t n_times;
    bool any = false;
    if (read(wire->fd, &n_times, sizeof n_times) < 0) {
        return;
    }
    for (uint32_t i = 0; i < ASKED_MAX; i++) {
        struct asked *one = &self->asked[i];
        if (one->left == 0) {
            continue;
        }
        one->left--;
        any = true;
        request.info.ifi_index = (int)one->ifindex;
        if (send(self->wire.fd, &request, sizeof request, MSG_DONTWAIT) < 0) {
            continue; /* retried at the next tick */
        }
    }
    if (!any) {
        timerfd_settime(wire->fd, 0, &never, NULL);
    }
}

static void take_link(struct soft_follow *self, const struct nlmsghdr *message)
{
    struct ifinfomsg info;
    memcpy(&info, message_data(message), sizeof info);
    bool is_up = (info.ifi_flags & IFF_UP) != 0 && (info.ifi_flags & IFF_LOWER_UP) != 0;
    is_up = is_up && message->nlmsg_type == RTM_NEWLINK;
    ask(self, (uint32_t)info.ifi_index, message->nlmsg_seq != ASK_SEQUENCE, !is_up);
    self->ops->carrier(self->context, (uint32_t)info.ifi_index, is_up);
}

static bool read_ip(const struct rtattr *attribute, int family, struct io_ip *out)
{
    uint8_t bytes[16];
    size_t n = family == AF_INET ? 4 : 16;
    if (RTA_PAYLOAD(attribute) < n) {
        return false;
    }
    memcpy(bytes, attribute_data(attribute), n);
    if (family == AF_INET) {
        *out = io_ip_v4(bytes[0], bytes[1], bytes[2], bytes[3]);
    } else {
        memcpy(out->bytes, bytes, sizeof out->bytes);
    }
    return true;
}

/* IFA_LOCAL is the host's own address; IFA_ADDRESS is its peer's, or the same (rtnetlink(7)). */
static void take_address(const struct soft_follow *self, const struct nlmsghdr *message)
{
    struct ifaddrmsg info;
    struct io_ip local, peer;
    bool has_local = false, has_peer = false;
    memcpy(&info, message_data(message), sizeof info);
    const struct rtattr *at =
        (const struct rtattr *)(const void *)(message_data(message) +
                                              NLMSG_ALIGN(sizeof info));
    size_t n = message->nlmsg_len - NLMSG_SPACE(sizeof info);
    if (info.ifa_family != AF_INET && info.ifa_family != AF_INET6) {
        return;
    }
    while (n >= sizeof *at && at->rta_len >= sizeof *at && at->rta_len <= n) {
        size_t step = RTA_ALIGN((size_t)at->rta_len);
        if (at->rta_type == IFA_LOCAL) {
            has_local = read_ip(at, info.ifa_family, &local);
        } else if (at->rta_type == IFA_ADDRESS) {
            has_peer = read_ip(at, info.ifa_family, &peer);
        }
        at = (const struct rtattr *)(const void *)((const char *)at + step);
        n = step < n ? n - step : 0;
    }
    if (!has_local && !has_peer) {
        return;
    }
    struct io_prefix prefix = {.ip = has_peer ? peer : local,
                               .prefix_len = info.ifa_prefixlen};
    self->ops->address(self->context, info.ifa_index, message->nlmsg_type == RTM_NEWADDR,
                       has_local ? &local : &peer, &prefix);
}

static void on_readable(struct soft_wire *wire)
{
    struct soft_follow *self = weft_container_of(wire, struct soft_follow, wire);
    union {
        struct nlmsghdr align;
        uint8_t bytes[16384];
    } buffer;
    ssize_t got = recv(wire->fd, &buffer, sizeof buffer, MSG_DONTWAIT);
    unsigned n = got > 0 ? (unsigned)got : 0;
    for (struct nlmsghdr *at = &buffer.align; NLMSG_OK(at, n); at = NLMSG_NEXT(at, n)) {
        if (at->nlmsg_len < NLMSG_SPACE(sizeof(struct ifaddrmsg))) {
            continue;
        }
        if (at->nlmsg_type == RTM_NEWLINK || at->nlmsg_type == RTM_DELLINK) {
            take_link(self, at);
        } else if (at->nlmsg_type == RTM_NEWADDR || at->nlmsg_type == RTM_DELADDR) {
            take_address(self, at);
        }
    }
}

int soft_follow_create(struct soft_engine *engine, const struct soft_follow_ops *ops,
                       void *context, struct soft_follow **out)
{
    const struct sockaddr_nl name = {.nl_family = AF_NETLINK,
                                     .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR |
                                                  RTMGRP_IPV6_IFADDR};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) {
        return errno;
    }
    struct soft_follow *self = weft_calloc(1, sizeof *self);
    *self = (struct soft_follow){
        .wire = {.fd = fd, .receive = on_readable},
        .timer = {.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
                  .receive = on_timer},
        .ops = ops,
        .context = context};
    int error = self->timer.fd < 0 ? errno : 0;
    if (error == 0 &&
        bind(fd, (const struct sockaddr *)(const void *)&name, sizeof name) != 0) {
        error = errno;
    }
    if (error == 0) {
        error = soft_engine_add_wire(engine, &self->wire);
    }
    if (error == 0) {
        error = soft_engine_add_wire(engine, &self->timer);
    }
    if (error != 0) {
        soft_follow_destroy(self);
        return error;
    }
    *out = self;
    return 0;
}

void soft_follow_destroy(struct soft_follow *self)
{
    if (self != NULL) {
        if (self->timer.fd >= 0) {
            close(self->timer.fd);
        }
        close(self->wire.fd);
        free(self);
    }
}
