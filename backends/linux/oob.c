/* Out-of-band streams over TCP, tcp(7). */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/linux/address.h"
#include "backends/linux/private.h"
#include "base/check.h"
#include "base/text.h"

/* A dead peer is detected after at most 20 s, idle or not, unless the owner of the stream sets
 * another limit. The simulated TCP has the same limit. */
#define USER_TIMEOUT_MS 20000
#define KEEPALIVE_IDLE_S 5
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_PROBES 3
#define UNSEEN_LOOKS 64

/* An io_listener or an io_stream; the opaque pointers are converted in this file only. */
struct linux_socket {
    struct linux_env *env; /* Not owned. */
    LIST_ENTRY(linux_socket) link;
    struct linux_watch *watch;
    struct io_task *task; /* Not owned; may be NULL */
    int fd;
    int error; /* errno of a failed connect */
    /* peer of an accepted stream, which getpeername(2) does not know after a reset; AF_UNSPEC of
     * other sockets */
    union linux_address remote;
    bool is_connecting;
    bool is_drained; /* recv returned EAGAIN, and no edge has been reported since */
};

static struct linux_socket *of_stream(struct io_stream *stream)
{
    return (struct linux_socket *)(void *)stream;
}

static struct linux_socket *of_listener(struct io_listener *listener)
{
    return (struct linux_socket *)(void *)listener;
}

/* ---- sockets ---- */

static int family_of(const struct io_ip *ip)
{
    return io_ip_is_v4(ip) ? AF_INET : AF_INET6;
}

static int set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value) == 0 ? 0 : errno;
}

/* Opens a non-blocking TCP socket in the host's namespace. Returns an errno. */
static int open_socket(struct linux_env *env, int family, int *out_fd)
{
    int error = linux_netns_enter(&env->netns);
    if (error != 0) {
        return error;
    }
    *out_fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    error = *out_fd < 0 ? errno : 0;
    linux_netns_leave(&env->netns);
    return error;
}

/* Binds a socket to one interface. The scope of link-local addresses suffices, so a kernel or
 * sandbox that forbids this is not an error. */
static int bind_to_interface(int fd, uint32_t ifindex)
{
    if (ifindex == 0) {
        return 0;
    }
    int error = set_option(fd, SOL_SOCKET, SO_BINDTOIFINDEX, (int)ifindex);
    return error == EPERM || error == ENOPROTOOPT ? 0 : error;
}

/* Sets options whose failure is harmless: the stream is only slower, or detects a dead peer
 * later. */
static void tune(int fd)
{
    (void)set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    (void)set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS);
    (void)set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    (void)set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    (void)set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
    (void)set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

static void on_ready(void *context)
{
    struct linux_socket *self = context;
    self->is_drained = false;
    io_task_wake(self->task);
}

/* Takes ownership of `fd`, also on failure. */
static int adopt(struct linux_env *env, int fd, struct io_task *task,
                 struct linux_socket **out)
{
    struct linux_socket *self = weft_calloc(1, sizeof *self);
    *self = (struct linux_socket){
        .env = env, .task = task, .fd = fd, .remote.any.sa_family = AF_UNSPEC};
    int error = linux_loop_watch(env->loop, fd, on_ready, self, &self->watch);
    if (error != 0) {
        close(fd);
        free(self);
        return error;
    }
    LIST_INSERT_HEAD(&env->sockets, self, link);
    *out = self;
    return 0;
}

static void dispose(struct linux_socket *self)
{
    LIST_REMOVE(self, link);
    linux_loop_unwatch(self->watch);
    close(self->fd);
    free(self);
}

/* ---- listeners ---- */

static int bind_and_listen(int fd, int family, const struct io_endpoint *at, int backlog)
{
    union linux_address address;
    socklen_t n_bytes = linux_to_sockaddr(at, family, &address);
    /* Allows to reuse a rendezvous port immediately after a run; two listeners still collide. */
    int error = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (error == 0) {
        error = bind_to_interface(fd, at->ifindex);
    }
    if (error == 0 && family == AF_INET6) {
        error = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, io_ip_is_zero(&at->ip) ? 0 : 1);
    }
    if (error == 0 && bind(fd, &address.any, n_bytes) != 0) {
        error = errno;
    }
    if (error == 0 && listen(fd, backlog) != 0) {
        error = errno;
    }
    return error;
}

static int oob_listen(struct io_env *io, const struct io_endpoint *at, int backlog,
                      struct io_task *task, struct io_listener **out,
                      struct io_endpoint *out_at)
{
    struct linux_env *env = linux_env_of(io);
    struct linux_socket *self;
    union linux_address address;
    socklen_t n_bytes = sizeof address;
    struct io_endpoint real = *at;
    int fd = -1;
    int error = linux_alias_local(env->aliases, &real);
    int family = io_ip_is_zero(&real.ip) ? AF_INET6 : family_of(&real.ip);
    if (error == 0) {
        error = open_socket(env, family, &fd);
    }
    if (error == EAFNOSUPPORT && io_ip_is_zero(&at->ip)) {
        family = AF_INET; /* the kernel has no IPv6 */
        error = open_socket(env, family, &fd);
    }
    if (error != 0) {
        return error;
    }
    error = bind_and_listen(fd, family, &real, backlog);
    if (error == 0 && getsockname(fd, &address.any, &n_bytes) != 0) {
        error = errno;
    }
    if (error != 0) {
        close(fd);
        return error;
    }
    error = adopt(env, fd, task, &self);
    if (error == 0) {
        *out = (struct io_listener *)(void *)self;
        *out_at = linux_from_sockaddr(&address);
        linux_alias_show(env->aliases, out_at);
        out_at->ifindex = at->ifindex;
    }
    return error;
}

/* Maps errors of the new connection, which Linux reports through accept(2), to ECONNABORTED. */
static int accept_error(int error)
{
    switch (error) {
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case EINTR:
        return ECONNABORTED;
    default:
        return error;
    }
}

static int oob_accept(struct io_listener *io, struct io_task *task,
                      struct io_stream **out)
{
    struct linux_socket *listener = of_listener(io);
    struct linux_socket *self;
    union linux_address remote;
    socklen_t n_bytes = sizeof remote;
    int fd = accept4(listener->fd, &remote.any, &n_bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return accept_error(errno);
    }
    tune(fd);
    int error = adopt(listener->env, fd, task, &self);
    if (error == 0) {
        self->remote = remote;
        *out = (struct io_stream *)(void *)self;
    }
    return error;
}

static void oob_close_listener(struct io_listener *listener)
{
    if (listener != NULL) {
        /* The kernel resets connections that were not accepted. */
        dispose(of_listener(listener));
    }
}

/* ---- streams ---- */

/* Returns true if connect(2) failed with the outcome of a connection attempt. io/oob.h requires
 * `connected` to report such an outcome, as if it had come later. */
static bool is_outcome(int error)
{
    return error == ECONNREFUSED || error == ETIMEDOUT || error == EHOSTUNREACH ||
           error == ECONNRESET;
}

static int start_connecting(int fd, const struct io_endpoint *from,
                            const struct io_endpoint *to)
{
    union linux_address address;
    int family = family_of(&to->ip);
    uint32_t ifindex = from != NULL && from->ifindex != 0 ? from->ifindex : to->ifindex;
    int error = bind_to_interface(fd, ifindex);
    if (error == 0 && from != NULL && !io_ip_is_zero(&from->ip) &&
        family_of(&from->ip) != family) {
        error = EADDRNOTAVAIL;
    }
    if (error == 0 && from != NULL) {
        /* A client's port must be unique per peer only (ip(7)). */
        (void)set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
        socklen_t n_bytes = linux_to_sockaddr(from, family, &address);
        error = bind(fd, &address.any, n_bytes) == 0 ? 0 : errno;
    }
    if (error != 0) {
        return error;
    }
    socklen_t n_bytes = linux_to_sockaddr(to, family, &address);
    return connect(fd, &address.any, n_bytes) == 0 ? 0 : errno;
}

static int oob_connect(struct io_env *io, const struct io_endpoint *from,
                       const struct io_endpoint *to, struct io_task *task,
                       struct io_stream **out)
{
    struct linux_env *env = linux_env_of(io);
    struct linux_socket *self;
    struct io_endpoint source = {.port = 0}, target = *to;
    int fd = -1;
    if (from != NULL) {
        source = *from;
    }
    int unreachable = linux_alias_route(env->aliases, &source, &target);
    if (unreachable == EADDRNOTAVAIL || unreachable == ENETUNREACH) {
        return unreachable;
    }
    bool is_bound = from != NULL || env->aliases != NULL;
    int error = open_socket(env, family_of(&target.ip), &fd);
    if (error != 0) {
        return error;
    }
    tune(fd);
    int outcome = unreachable;
    if (outcome == 0) {
        outcome = start_connecting(fd, is_bound ? &source : NULL, &target);
    }
    if (outcome != 0 && outcome != EINPROGRESS && !is_outcome(outcome)) {
        close(fd);
        return outcome;
    }
    error = adopt(env, fd, task, &self);
    if (error != 0) {
        return error;
    }
    self->is_connecting = true;
    if (is_outcome(outcome)) {
        self->error = outcome;
        self->is_connecting = false;
        io_task_wake(task);
    }
    *out = (struct io_stream *)(void *)self;
    return 0;
}

static bool has_peer(int fd)
{
    union linux_address address;
    socklen_t n_bytes = sizeof address;
    return getpeername(fd, &address.any, &n_bytes) == 0;
}

static int oob_connected(struct io_stream *io)
{
    struct linux_socket *stream = of_stream(io);
    if (!stream->is_connecting) {
        return stream->error;
    }
    struct pollfd poll_fd = {.fd = stream->fd, .events = POLLOUT};
    if (poll(&poll_fd, 1, 0) <= 0) {
        return EAGAIN;
    }
    socklen_t n_bytes = sizeof stream->error;
    if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &stream->error, &n_bytes) != 0) {
        stream->error = errno;
    }
    /* SO_ERROR can be 0 for an address that no host has. */
    if (stream->error == 0 && !has_peer(stream->fd)) {
        if ((poll_fd.revents & POLLHUP) == 0) {
            return EAGAIN;
        }
        stream->error = ECONNRESET; /* connection ended for an unknown reason */
    }
    stream->is_connecting = false;
    return stream->error;
}

/* Maps errors of send(2). A closed stream can be reported as EPIPE, ENOTCONN or ESHUTDOWN. */
static int send_error(int error)
{
    if (error == EWOULDBLOCK || error == EINTR || error == ENOBUFS) {
        return EAGAIN;
    }
    return error == ESHUTDOWN ? EPIPE : error;
}

static int oob_send(struct io_stream *stream, const void *bytes, size_t n_bytes,
                    size_t *out_n)
{
    if (of_stream(stream)->is_connecting && oob_connected(stream) == EAGAIN) {
        return EAGAIN;
    }
    if (of_stream(stream)->error != 0) {
        return of_stream(stream)->error;
    }
    ssize_t n = send(of_stream(stream)->fd, bytes, n_bytes, MSG_NOSIGNAL);
    if (n < 0) {
        return send_error(errno);
    }
    *out_n = (size_t)n;
    return 0;
}

static int oob_recv(struct io_stream *stream, void *out, size_t n_bytes, size_t *out_n)
{
    if (of_stream(stream)->is_connecting && oob_connected(stream) == EAGAIN) {
        return EAGAIN;
    }
    if (of_stream(stream)->error != 0) {
        return of_stream(stream)->error;
    }
    if (of_stream(stream)->is_drained) {
        /* Saves a system call, because callers that move data poll at every turn. */
        return EAGAIN;
    }
    ssize_t n = recv(of_stream(stream)->fd, out, n_bytes, 0);
    if (n < 0) {
        of_stream(stream)->is_drained = errno == EAGAIN;
        return errno == EINTR ? EAGAIN : errno;
    }
    *out_n = (size_t)n;
    return 0;
}

/* SIOCOUTQ, tcp(7). */
static int oob_unacked(struct io_stream *stream, size_t *out_n)
{
    int n = 0;
    if (of_stream(stream)->error != 0) {
        return of_stream(stream)->error;
    }
    if (ioctl(of_stream(stream)->fd, SIOCOUTQ, &n) != 0) {
        return errno;
    }
    *out_n = (size_t)n;
    return 0;
}

static void oob_endure(struct io_stream *io, weft_ns limit)
{
    (void)set_option(of_stream(io)->fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
                     (int)(limit / 1000000));
}

static void oob_set_task(struct io_stream *io, struct io_task *task)
{
    struct linux_socket *stream = of_stream(io);
    stream->task = task;
    if (task != NULL) {
        linux_loop_rearm(stream->watch);
    }
}

static void oob_endpoints(const struct io_stream *io, struct io_endpoint *out_local,
                          struct io_endpoint *out_remote)
{
    const struct linux_socket *stream = (const struct linux_socket *)(const void *)io;
    union linux_address address = {.any.sa_family = AF_UNSPEC};
    socklen_t n_bytes = sizeof address;
    if (out_local != NULL) {
        (void)getsockname(stream->fd, &address.any, &n_bytes);
        *out_local = linux_from_sockaddr(&address);
        linux_alias_show(stream->env->aliases, out_local);
    }
    address = stream->remote; /* stays AF_UNSPEC if never connected: all zero */
    n_bytes = sizeof address;
    if (out_remote != NULL) {
        (void)getpeername(stream->fd, &address.any, &n_bytes);
        *out_remote = linux_from_sockaddr(&address);
        linux_alias_show(stream->env->aliases, out_remote);
    }
}

static void reset_on_close(int fd)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

/* Discards bytes that arrived after the stream was last seen empty. With unread bytes, close(2)
 * would reset the connection, and the peer could lose data that it has not read. */
static void drop_unseen(const struct linux_socket *stream)
{
    uint8_t dropped[1024];
    ssize_t n = stream->is_drained ? 1 : 0;

    for (int i = 0; i < UNSEEN_LOOKS && n > 0; i++) {
        n = recv(stream->fd, dropped, sizeof dropped, 0);
    }
}

static void oob_close(struct io_stream *stream, bool reset)
{
    if (stream == NULL) {
        return;
    }
    if (reset) {
        reset_on_close(of_stream(stream)->fd);
    } else {
        drop_unseen(of_stream(stream));
    }
    dispose(of_stream(stream));
}

void linux_oob_close_all(struct linux_env *env)
{
    while (!LIST_EMPTY(&env->sockets)) {
        reset_on_close(LIST_FIRST(&env->sockets)->fd);
        dispose(LIST_FIRST(&env->sockets));
    }
    linux_announce_close_all(env);
}

const struct io_oob_ops linux_oob_ops = {
    .listen = oob_listen,
    .accept = oob_accept,
    .close_listener = oob_close_listener,
    .connect = oob_connect,
    .connected = oob_connected,
    .send = oob_send,
    .recv = oob_recv,
    .unacked = oob_unacked,
    .endure = oob_endure,
    .set_task = oob_set_task,
    .endpoints = oob_endpoints,
    .close = oob_close,
    .open_announcer = linux_announcer_open,
    .announce = linux_announcer_send,
    .hear = linux_announcer_hear,
    .close_announcer = linux_announcer_close,
};
