#define _GNU_SOURCE
#include "backends/linux/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"

#define OWN_NAMESPACE "/proc/thread-self/ns/net"

int linux_netns_init(struct linux_netns *netns, int fd)
{
    *netns = (struct linux_netns){.fd = -1, .home_fd = -1};
    if (fd < 0) {
        return 0;
    }
    netns->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (netns->fd < 0) {
        return errno;
    }
    netns->home_fd = open(OWN_NAMESPACE, O_RDONLY | O_CLOEXEC);
    if (netns->home_fd < 0) {
        int error = errno;
        linux_netns_fini(netns);
        return error;
    }
    return 0;
}

void linux_netns_fini(struct linux_netns *netns)
{
    if (netns->fd >= 0) {
        close(netns->fd);
    }
    if (netns->home_fd >= 0) {
        close(netns->home_fd);
    }
    *netns = (struct linux_netns){.fd = -1, .home_fd = -1};
}

int linux_netns_enter(const struct linux_netns *netns)
{
    if (netns->fd < 0) {
        return 0;
    }
    return setns(netns->fd, CLONE_NEWNET) == 0 ? 0 : errno;
}

void linux_netns_leave(const struct linux_netns *netns)
{
    if (netns->fd < 0) {
        return;
    }
    /* Fails only because of a bug. Going on in the wrong namespace would mix up two hosts. */
    int result = setns(netns->home_fd, CLONE_NEWNET);
    weft_check(result == 0);
}

uint64_t linux_netns_inode(void)
{
    struct stat status;
    return stat(OWN_NAMESPACE, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

uint32_t linux_netdev_index(const char *name)
{
    return if_nametoindex(name);
}
