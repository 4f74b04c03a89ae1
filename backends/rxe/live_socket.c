#define _GNU_SOURCE
#include "backends/rxe/live_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"

static bool make_address(const char *folder, const char *prefix, const char *name,
                         struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    weft_format(out->sun_path, sizeof(out->sun_path), "%s/%s%s", folder, prefix, name);
    return strlen(folder) + strlen(prefix) + strlen(name) + 2 <= sizeof(out->sun_path);
}

int live_listen(const char *folder, const char *name, int backlog, int *out_fd)
{
    struct sockaddr_un address;
    struct sockaddr_un named;
    int problem = 0;
    int fd;

    if (!make_address(folder, "", name, &named) ||
        !make_address(folder, ".", name, &address)) {
        return ENAMETOOLONG;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || (unlink(address.sun_path) != 0 && errno != ENOENT) ||
        bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, backlog) != 0 || rename(address.sun_path, named.sun_path) != 0) {
        problem = errno;
    }
    if (problem != 0 && fd >= 0) {
        close(fd);
        fd = -1;
    }
    *out_fd = fd;
    return problem;
}

int live_accept(int listen_fd)
{
    return accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

int live_connect(const char *folder, const char *name, int *out_fd)
{
    struct sockaddr_un address;
    int problem = 0;
    int fd;

    *out_fd = -1;
    if (!make_address(folder, "", name, &address)) {
        return ENAMETOOLONG;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        fcntl(fd, F_SETFL, 0) != 0) {
        problem = errno;
    }
    if (problem != 0 && fd >= 0) {
        close(fd);
        fd = -1;
    }
    *out_fd = fd;
    return problem;
}

int live_pair(int out_fds[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out_fds) == 0 ? 0 : errno;
}

ssize_t live_send(int fd, const void *bytes, size_t n)
{
    return send(fd, bytes, n, MSG_NOSIGNAL);
}

pid_t live_peer(int fd)
{
    struct ucred peer = {0};
    socklen_t n_bytes = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n_bytes) == 0 ? peer.pid : 0;
}
