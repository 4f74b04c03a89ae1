/* Network namespaces with veth pairs between them, made by a test that is root, or
 * root of a user namespace of its own. */
#ifndef WEFT_BACKENDS_LINUX_NETNS_TESTING_H
#define WEFT_BACKENDS_LINUX_NETNS_TESTING_H

#include <stdbool.h>
#include <stdint.h>

/* Whether this process may make namespaces and veth pairs; if not, `*out_why` says why.
 * Called first, by the program's only thread: an ordinary user moves to a new user namespace. */
bool netns_testing_available(const char **out_why);

/* A new namespace with its loopback up and no other interface. Closing the descriptor (and
 * what lives in it) ends it. Aborts on failure, as all functions here. */
int netns_testing_create(void);
/* Runs `function` inside namespace `fd`. */
void netns_testing_in(int fd, void (*function)(void *context), void *context);

/* A veth pair, one end in each namespace, both up, without IPv6. */
void netns_testing_veth(int fd_a, const char *name_a, int fd_b, const char *name_b,
                        uint32_t mtu_bytes);
/* Adds "10.0.0.1/24" or "fd00::1/64" (no duplicate address detection) to a netdev. */
void netns_testing_address(int fd, const char *netdev, const char *address);
void netns_testing_up(int fd, const char *netdev, bool up);
/* Makes a bridge over a port. */
void netns_testing_bridge(int fd, const char *bridge, const char *port);
/* Writes a sysctl: "net/ipv4/ip_forward". */
void netns_testing_sysctl(int fd, const char *name, const char *value);

#endif
