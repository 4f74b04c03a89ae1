/* Network namespaces with veth pairs between them, for tests that run as root or as root of a
 * user namespace of their own. */
#ifndef WEFT_BACKENDS_LINUX_NETNS_TESTING_H
#define WEFT_BACKENDS_LINUX_NETNS_TESTING_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if this process can create namespaces and veth pairs; if not, `*out_why` is the
 * reason. Must be called first, by the program's only thread, because an ordinary user moves to a
 * new user namespace. */
bool netns_testing_available(const char **out_why);

/* Creates a namespace with loopback up and no other interface. It exists until the descriptor,
 * and the sockets in it, are closed. Like all functions here, aborts on failure. */
int netns_testing_create(void);
/* Runs `function` inside namespace `fd`. */
void netns_testing_in(int fd, void (*function)(void *context), void *context);

/* Creates a veth pair with one end in each namespace, both up, without automatic IPv6
 * addresses. */
void netns_testing_veth(int fd_a, const char *name_a, int fd_b, const char *name_b,
                        uint32_t mtu_bytes);
/* Adds "10.0.0.1/24" or "fd00::1/64" (no duplicate address detection) to a netdev. */
void netns_testing_address(int fd, const char *netdev, const char *address);
void netns_testing_up(int fd, const char *netdev, bool up);
/* Creates a bridge and adds a port to it. */
void netns_testing_bridge(int fd, const char *bridge, const char *port);
/* Writes a sysctl such as "net/ipv4/ip_forward". */
void netns_testing_sysctl(int fd, const char *name, const char *value);

#endif
