/* Datagrams to the neighbours on a link: multicast over UDP that does not leave the link, ip(7)
 * and ipv6(7), in each address family that exists. Within a host, the loopback broadcast
 * address. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/linux/private.h"
#include "base/check.h"
#include "base/text.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29 /* linux/in6.h, since 4.20 */
#endif

/* Groups for private use (RFC 2365, 6.1; RFC 4291, 2.7: transient, link-local). */
#define GROUP_V4 0xefff5745u
static const struct in6_addr group_v6 = {
    .s6_addr = {0xff, 0x12, [14] = 0x57, [15] = 0x45}};

enum { V4, V6, N_FAMILIES };

struct linux_announcer {
    struct linux_env *env; /* Not owned. */
    LIST_ENTRY(linux_announcer) link;
    struct io_task *task; /* Not owned; may be NULL */
    uint32_t ifindex;     /* 0: within the host */
    uint32_t group_v4;    /* multicast group to which it sends */
    struct in_addr own;   /* with aliases: source address */
    uint16_t port;
    int fds[N_FAMILIES]; /* -1 if the family is not available */
    struct linux_watch *watches[N_FAMILIES];
};

static struct linux_announcer *of(struct io_announcer *announcer)
{
    return (struct linux_announcer *)(void *)announcer;
}

static int set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value) == 0 ? 0 : errno;
}

static struct sockaddr_in address_v4(const struct linux_announcer *self)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(self->port),
                                .sin_addr.s_addr = htonl(self->group_v4)};
}

static struct sockaddr_in6 address_v6(const struct linux_announcer *self)
{
    return (struct sockaddr_in6){.sin6_family = AF_INET6,
                                 .sin6_port = htons(self->port),
                                 .sin6_addr = group_v6,
                                 .sin6_scope_id = self->ifindex};
}

/* The group's own scope suffices, so a kernel or sandbox that forbids this is not an error. */
static int bind_to_interface(int fd, uint32_t ifindex)
{
    int error = set_option(fd, SOL_SOCKET, SO_BINDTOIFINDEX, (int)ifindex);
    return error == EPERM || error == ENOPROTOOPT ? 0 : error;
}

static int join_v4(const struct linux_announcer *self, int fd)
{
    bool is_alias = self->env->aliases != NULL;
    uint32_t ifindex = is_alias ? linux_netdev_index("lo") : self->ifindex;
    struct ip_mreqn group = {.imr_multiaddr.s_addr = htonl(self->group_v4),
                             .imr_address = self->own,
                             .imr_ifindex = (int)ifindex};
    int error = bind_to_interface(fd, ifindex);
    if (error == 0 &&
        setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group) != 0) {
        error = errno;
    }
    if (error == 0 &&
        setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &group, sizeof group) != 0) {
        error = errno;
    }
    if (error == 0) {
        error = set_option(fd, IPPROTO_IP, IP_MULTICAST_TTL, 1);
    }
    if (error == 0) {
        error = set_option(fd, IPPROTO_IP, IP_MULTICAST_LOOP, is_alias ? 1 : 0);
    }
    /* Avoids datagrams of groups that other sockets have joined; failure does no harm. */
    (void)set_option(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    return error;
}

static int join_v6(const struct linux_announcer *self, int fd)
{
    struct ipv6_mreq group = {.ipv6mr_multiaddr = group_v6,
                              .ipv6mr_interface = self->ifindex};
    int error = bind_to_interface(fd, self->ifindex);
    if (error == 0) {
        error = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    }
    if (error == 0 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group) != 0) {
        error = errno;
    }
    if (error == 0) {
        error = set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)self->ifindex);
    }
    if (error == 0) {
        error = set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 1);
    }
    if (error == 0) {
        error = set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0);
    }
    (void)set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
    return error;
}

/* Binds to the group's address, so that datagrams sent to the host's address are not received. */
static int bind_to_group(const struct linux_announcer *self, int family, int fd)
{
    struct sockaddr_in v4 = address_v4(self);
    struct sockaddr_in6 v6 = address_v6(self);
    int result = family == V4 ? bind(fd, (struct sockaddr *)(void *)&v4, sizeof v4)
                              : bind(fd, (struct sockaddr *)(void *)&v6, sizeof v6);
    return result == 0 ? 0 : errno;
}

static int open_socket(const struct linux_announcer *self, int family, int *out)
{
    int error = linux_netns_enter(&self->env->netns);
    if (error != 0) {
        return error;
    }
    int fd = socket(family == V4 ? AF_INET : AF_INET6,
                    SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    error = fd < 0 ? errno : 0;
    linux_netns_leave(&self->env->netns);
    if (error != 0) {
        return error;
    }
    error = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (error == 0 && self->ifindex == 0 && self->env->aliases == NULL) {
        error = set_option(fd, SOL_SOCKET, SO_BROADCAST, 1);
    } else if (error == 0) {
        error = family == V4 ? join_v4(self, fd) : join_v6(self, fd);
    }
    if (error == 0) {
        error = bind_to_group(self, family, fd);
    }
    if (error != 0) {
        close(fd);
        return error;
    }
    *out = fd;
    return 0;
}

static void on_ready(void *context)
{
    struct linux_announcer *self = context;
    io_task_wake(self->task);
}

static void dispose(struct linux_announcer *self)
{
    LIST_REMOVE(self, link);
    for (int i = 0; i < N_FAMILIES; i++) {
        if (self->fds[i] >= 0) {
            linux_loop_unwatch(self->watches[i]);
            close(self->fds[i]);
        }
    }
    free(self);
}

static uint32_t number_of(const struct io_ip *ip)
{
    const uint8_t *b = &ip->bytes[12];
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Chooses the group, and the source address within it. */
static int choose_group(struct linux_announcer *self)
{
    const struct linux_aliases *aliases = self->env->aliases;
    self->group_v4 = self->ifindex == 0 ? 0x7fffffffu : GROUP_V4;
    if (aliases == NULL) {
        return 0;
    }
    const struct linux_alias_netdev *on = linux_alias_netdev_of(aliases, self->ifindex);
    if (on == NULL) {
        return ENODEV;
    }
    self->group_v4 = number_of(&on->group);
    const struct io_netdev *netdev = io_hostinfo_netdev(aliases->info, self->ifindex);
    for (uint32_t i = 0; self->ifindex == 0 && i < aliases->info->n_netdevs; i++) {
        netdev =
            &aliases->info->netdevs[i]; /* any; the last one is the management network */
    }
    if (netdev == NULL || netdev->n_addresses == 0) {
        return EADDRNOTAVAIL;
    }
    const struct linux_alias *own =
        linux_alias_of_seen(aliases, &netdev->addresses[0].ip);
    if (own == NULL) {
        return EADDRNOTAVAIL;
    }
    self->own.s_addr = htonl(number_of(&own->real));
    return 0;
}

int linux_announcer_open(struct io_env *io, uint32_t ifindex, uint16_t port,
                         struct io_task *task, struct io_announcer **out)
{
    struct linux_announcer *self = weft_calloc(1, sizeof *self);
    int n_open = 0;
    *self = (struct linux_announcer){.env = linux_env_of(io),
                                     .task = task,
                                     .ifindex = ifindex,
                                     .port = port,
                                     .fds = {-1, -1}};
    LIST_INSERT_HEAD(&self->env->announcers, self, link);
    int first_error = choose_group(self);
    bool only_v4 = ifindex == 0 || self->env->aliases != NULL;
    int n_families = first_error != 0 ? 0 : only_v4 ? V6 : N_FAMILIES;
    for (int i = 0; i < n_families; i++) {
        int fd = -1;
        int error = open_socket(self, i, &fd);
        if (error == 0) {
            error =
                linux_loop_watch(self->env->loop, fd, on_ready, self, &self->watches[i]);
            if (error != 0) {
                close(fd);
            }
        }
        if (error == 0) {
            self->fds[i] = fd;
            n_open++;
        }
        first_error = first_error == 0 ? error : first_error;
    }
    if (n_open == 0) {
        dispose(self);
        return first_error;
    }
    *out = (struct io_announcer *)(void *)self;
    return 0;
}

static int send_one(const struct linux_announcer *self, int family, const void *bytes,
                    size_t n_bytes)
{
    struct sockaddr_in v4 = address_v4(self);
    struct sockaddr_in6 v6 = address_v6(self);
    ssize_t n = family == V4 ? sendto(self->fds[V4], bytes, n_bytes, MSG_NOSIGNAL,
                                      (struct sockaddr *)(void *)&v4, sizeof v4)
                             : sendto(self->fds[V6], bytes, n_bytes, MSG_NOSIGNAL,
                                      (struct sockaddr *)(void *)&v6, sizeof v6);
    if (n >= 0) {
        return 0;
    }
    return errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS ? EAGAIN : errno;
}

int linux_announcer_send(struct io_announcer *io, const void *bytes, size_t n_bytes)
{
    const struct linux_announcer *self = of(io);
    int first_error = 0;
    bool any = false;
    if (n_bytes > IO_ANNOUNCEMENT_MAX) {
        return EMSGSIZE;
    }
    for (int i = 0; i < N_FAMILIES; i++) {
        if (self->fds[i] >= 0) {
            int error = send_one(self, i, bytes, n_bytes);
            any = any || error == 0;
            first_error = first_error == 0 ? error : first_error;
        }
    }
    return any ? 0 : first_error;
}

int linux_announcer_hear(struct io_announcer *io, void *out, size_t cap, size_t *out_n,
                         struct io_endpoint *out_from)
{
    const struct linux_announcer *self = of(io);
    for (int i = 0; i < N_FAMILIES; i++) {
        struct sockaddr_in6 v6 = {.sin6_family = AF_UNSPEC};
        struct sockaddr_in v4 = {.sin_family = AF_UNSPEC};
        socklen_t n_v4 = sizeof v4, n_v6 = sizeof v6;
        if (self->fds[i] < 0) {
            continue;
        }
        ssize_t n = i == V4 ? recvfrom(self->fds[i], out, cap, 0,
                                       (struct sockaddr *)(void *)&v4, &n_v4)
                            : recvfrom(self->fds[i], out, cap, 0,
                                       (struct sockaddr *)(void *)&v6, &n_v6);
        bool is_own = self->env->aliases != NULL && self->ifindex != 0 &&
                      v4.sin_addr.s_addr == self->own.s_addr;
        if (n >= 0 && is_own) {
            i--; /* sent by this process, or by another process of this host */
            continue;
        }
        if (n < 0) {
            continue; /* the error of an earlier send; no datagram is lost */
        }
        *out_n = (size_t)n;
        *out_from =
            (struct io_endpoint){.port = ntohs(i == V4 ? v4.sin_port : v6.sin6_port),
                                 .ifindex = self->ifindex};
        if (i == V4) {
            uint8_t b[4];
            memcpy(b, &v4.sin_addr, 4);
            out_from->ip = io_ip_v4(b[0], b[1], b[2], b[3]);
            linux_alias_show(self->env->aliases, out_from);
        } else {
            memcpy(out_from->ip.bytes, &v6.sin6_addr, 16);
        }
        return 0;
    }
    return EAGAIN;
}

void linux_announcer_close(struct io_announcer *announcer)
{
    if (announcer != NULL) {
        dispose(of(announcer));
    }
}

void linux_announce_close_all(struct linux_env *env)
{
    while (!LIST_EMPTY(&env->announcers)) {
        dispose(LIST_FIRST(&env->announcers));
    }
}
