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
/* Identifies replies about single netdevs; the kernel's own reports have other numbers. */
#define ASK_SEQUENCE 22341u
/* Number of the first list; the next list has the next number. */
#define LIST_SEQUENCE 22342u

struct asked {
    uint32_t ifindex;
    uint32_t left; /* remaining polls; 0: unused */
};

/* A link that was reported and is not removed. */
struct known_link {
    uint32_t ifindex;
    bool is_listed; /* in the list that is being received */
};

/* An address that was reported and is not removed. */
struct known {
    uint32_t ifindex;
    struct io_ip local;
    struct io_prefix prefix;
    bool is_listed; /* in the list that is being received */
};

/* List that is being received. */
enum listing { LISTING_NONE, LISTING_LINKS, LISTING_ADDRESSES };

struct soft_follow {
    struct soft_wire wire;
    struct soft_wire
        timer; /* runs while a netdev is polled, or a list must be requested */
    struct asked asked[ASKED_MAX];
    struct known_link *links; /* Owned [n_links] */
    uint32_t n_links;
    struct known *known; /* Owned [n_known] */
    uint32_t n_known;
    enum listing listing;
    uint32_t sequence; /* of the list that was requested last */
    bool is_stale;     /* the last list is not whole, or reports were lost since */
    bool has_lost;     /* reports were lost: lists can have addresses not reported */
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

static void start_timer(const struct soft_follow *self)
{
    const struct itimerspec every = {{0, ASK_EVERY_NS}, {0, ASK_EVERY_NS}};
    timerfd_settime(self->timer.fd, 0, &every, NULL);
}

/* Starts polling a netdev if it is down (`again` restarts the count), or stops if it is up. */
static void ask(struct soft_follow *self, uint32_t ifindex, bool again, bool is_down)
{
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
        start_timer(self);
    }
}

void soft_follow_ask(struct soft_follow *self, uint32_t ifindex)
{
    ask(self, ifindex, true, true);
}

/* ---- lists ---- */

/* Requests a list of all links or of all addresses; if that fails, the timer retries. */
static void request_list(struct soft_follow *self, enum listing listing)
{
    struct {
        struct nlmsghdr head;
        struct rtgenmsg what;
    } request = {
        .head = {.nlmsg_len = NLMSG_LENGTH(sizeof request.what),
                 .nlmsg_type = listing == LISTING_LINKS ? RTM_GETLINK : RTM_GETADDR,
                 .nlmsg_seq = ++self->sequence,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};
    bool is_sent =
        send(self->wire.fd, &request, request.head.nlmsg_len, MSG_DONTWAIT) >= 0;
    self->listing = is_sent ? listing : LISTING_NONE;
    for (uint32_t i = 0; i < self->n_links && listing == LISTING_LINKS; i++) {
        self->links[i].is_listed = false;
    }
    for (uint32_t i = 0; i < self->n_known && listing == LISTING_ADDRESSES; i++) {
        self->known[i].is_listed = false;
    }
    if (!is_sent) {
        self->is_stale = true;
        start_timer(self);
    }
}

/* Requests all lists: at the start, if reports were lost (netlink(7), ENOBUFS), or if a list was
 * not whole. */
static void start_over(struct soft_follow *self)
{
    self->is_stale = false;
    request_list(self, LISTING_LINKS);
}

static void remove_unlisted_links(struct soft_follow *self)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < self->n_links; i++) {
        const struct known_link one = self->links[i];
        if (one.is_listed) {
            self->links[n++] = one;
        } else {
            self->ops->carrier(self->context, one.ifindex, false);
        }
    }
    self->n_links = n;
}

static void remove_unlisted(struct soft_follow *self)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < self->n_known; i++) {
        const struct known one = self->known[i];
        if (one.is_listed) {
            self->known[n++] = one;
        } else {
            self->ops->address(self->context, one.ifindex, false, &one.local,
                               &one.prefix);
        }
    }
    self->n_known = n;
}

/* Handles the end of a list; `is_whole` is false if the kernel refused to send it. */
static void end_list(struct soft_follow *self, bool is_whole)
{
    enum listing ended = self->listing;
    self->listing = LISTING_NONE;
    self->is_stale = self->is_stale || !is_whole;
    if (self->is_stale) {
        start_timer(self);
    } else if (ended == LISTING_LINKS) {
        remove_unlisted_links(self);
        request_list(self, LISTING_ADDRESSES);
    } else {
        remove_unlisted(self);
    }
}

/* ---- the timer ---- */

static bool on_timer(struct soft_wire *wire)
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
        return true;
    }
    if (self->is_stale && self->listing == LISTING_NONE) {
        start_over(self);
        any = true;
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
    return true;
}

/* ---- reports ---- */

static void remember_link(struct soft_follow *self, uint32_t ifindex, bool is_there)
{
    uint32_t i = 0;
    while (i < self->n_links && self->links[i].ifindex != ifindex) {
        i++;
    }
    if (!is_there && i < self->n_links) {
        self->links[i] = self->links[--self->n_links];
    } else if (is_there) {
        if (i == self->n_links) {
            self->links = weft_realloc(self->links, (i + 1) * sizeof *self->links);
            self->n_links++;
        }
        self->links[i] = (struct known_link){.ifindex = ifindex, .is_listed = true};
    }
}

/* Ignores reports of a bridge about its ports: when a netdev leaves it, the bridge reports
 * RTM_DELLINK with the family AF_BRIDGE, but the netdev still exists (net/bridge/br_netlink.c). */
static void take_link(struct soft_follow *self, const struct nlmsghdr *message)
{
    struct ifinfomsg info;
    memcpy(&info, message_data(message), sizeof info);
    bool is_reply =
        message->nlmsg_seq == ASK_SEQUENCE || message->nlmsg_seq == self->sequence;
    if (info.ifi_family != AF_UNSPEC) {
        return;
    }
    bool is_there = message->nlmsg_type == RTM_NEWLINK;
    bool is_up = (info.ifi_flags & IFF_UP) != 0 && (info.ifi_flags & IFF_LOWER_UP) != 0;
    is_up = is_up && is_there;
    remember_link(self, (uint32_t)info.ifi_index, is_there);
    ask(self, (uint32_t)info.ifi_index, !is_reply, !is_up);
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

static bool is_same(const struct known *a, const struct known *b)
{
    return a->ifindex == b->ifindex && a->prefix.prefix_len == b->prefix.prefix_len &&
           memcmp(&a->local, &b->local, sizeof a->local) == 0 &&
           memcmp(&a->prefix.ip, &b->prefix.ip, sizeof a->prefix.ip) == 0;
}

static void remember(struct soft_follow *self, const struct known *one, bool is_there)
{
    uint32_t i = 0;
    while (i < self->n_known && !is_same(&self->known[i], one)) {
        i++;
    }
    if (!is_there && i < self->n_known) {
        self->known[i] = self->known[--self->n_known];
    } else if (is_there) {
        if (i == self->n_known) {
            self->known = weft_realloc(self->known, (i + 1) * sizeof *self->known);
            self->n_known++;
        }
        self->known[i] = *one;
    }
}

/* IFA_LOCAL is the host's own address; IFA_ADDRESS is its peer's, or the same (rtnetlink(7)). */
static void take_address(struct soft_follow *self, const struct nlmsghdr *message)
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
    const struct known one = {
        .ifindex = info.ifa_index,
        .local = has_local ? local : peer,
        .prefix = {.ip = has_peer ? peer : local, .prefix_len = info.ifa_prefixlen},
        .is_listed = true};
    bool is_there = message->nlmsg_type == RTM_NEWADDR;
    remember(self, &one, is_there);
    if (message->nlmsg_seq != self->sequence || self->has_lost) {
        self->ops->address(self->context, one.ifindex, is_there, &one.local, &one.prefix);
    }
}

static void take_message(struct soft_follow *self, const struct nlmsghdr *message)
{
    unsigned type = message->nlmsg_type;
    if (message->nlmsg_seq == self->sequence &&
        (message->nlmsg_flags & NLM_F_DUMP_INTR) != 0) {
        self->is_stale = true; /* the list lacks some; end_list() starts over */
    }
    if (type == NLMSG_DONE || type == NLMSG_ERROR) {
        if (message->nlmsg_seq == self->sequence && self->listing != LISTING_NONE) {
            end_list(self, type == NLMSG_DONE);
        }
    } else if (message->nlmsg_len < NLMSG_SPACE(sizeof(struct ifaddrmsg))) {
        return;
    } else if (type == RTM_NEWLINK || type == RTM_DELLINK) {
        take_link(self, message);
    } else if (type == RTM_NEWADDR || type == RTM_DELADDR) {
        take_address(self, message);
    }
}

static bool on_readable(struct soft_wire *wire)
{
    struct soft_follow *self = weft_container_of(wire, struct soft_follow, wire);
    union {
        struct nlmsghdr align;
        uint8_t bytes[16384];
    } buffer;
    ssize_t got = recv(wire->fd, &buffer, sizeof buffer, MSG_DONTWAIT);
    unsigned n = got > 0 ? (unsigned)got : 0;
    if (got < 0 && errno == ENOBUFS) {
        self->is_stale = true;
        self->has_lost = true;
        start_timer(self); /* there is no room for a reply yet */
    }
    for (struct nlmsghdr *at = &buffer.align; NLMSG_OK(at, n); at = NLMSG_NEXT(at, n)) {
        take_message(self, at);
    }
    return got < 0;
}

/* ---- set-up and release ---- */

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
        .sequence = LIST_SEQUENCE - 1,
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
    start_over(self);
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
        free(self->links);
        free(self->known);
        free(self);
    }
}
