/* Network namespaces: a host of ours normally lives in the one of its process. Where one
 * process plays several hosts (tests), each host's descriptors are opened inside its own. */
#ifndef WEFT_BACKENDS_LINUX_NETNS_H
#define WEFT_BACKENDS_LINUX_NETNS_H

#include <stdint.h>

struct linux_netns {
    int fd; /* of the host's namespace; -1: the process's, then nothing ever switches */
    int home_fd; /* of the namespace to return to */
};

/* `fd` (-1: the process's own) is duplicated. A positive errno, or 0. */
int linux_netns_init(struct linux_netns *netns, int fd);
void linux_netns_fini(struct linux_netns *netns);

/* Moves the calling thread in, and back. Sockets and devices opened in between stay there:
 * setns(2), network_namespaces(7). A positive errno (EPERM without CAP_SYS_ADMIN), or 0. */
int linux_netns_enter(const struct linux_netns *netns);
void linux_netns_leave(const struct linux_netns *netns);

/* The inode that names the calling thread's namespace, or 0. */
uint64_t linux_netns_inode(void);
/* The index of the netdev `name` in the calling thread's namespace, or 0. */
uint32_t linux_netdev_index(const char *name);

#endif
