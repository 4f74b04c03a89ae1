/* Network namespaces. A host normally lives in the namespace of its process. If one process plays
 * several hosts (tests), each host's descriptors are opened inside its own namespace. */
#ifndef WEFT_BACKENDS_LINUX_NETNS_H
#define WEFT_BACKENDS_LINUX_NETNS_H

#include <stdint.h>

struct linux_netns {
    int fd;      /* of the host's namespace; -1: the process's, without switching */
    int home_fd; /* of the namespace to return to */
};

/* Duplicates `fd` (-1: use the process's own namespace). Returns 0 or a positive errno. */
int linux_netns_init(struct linux_netns *netns, int fd);
void linux_netns_fini(struct linux_netns *netns);

/* Move the calling thread into the namespace, and back. Sockets and devices opened in between
 * stay there (setns(2), network_namespaces(7)). Entering returns 0 or a positive errno (EPERM
 * without CAP_SYS_ADMIN). */
int linux_netns_enter(const struct linux_netns *netns);
void linux_netns_leave(const struct linux_netns *netns);

/* Returns the inode that identifies the calling thread's namespace, or 0. */
uint64_t linux_netns_inode(void);
/* Returns the index of the netdev `name` in the calling thread's namespace, or 0. */
uint32_t linux_netdev_index(const char *name);

#endif
