/* Netlink requests to the kernel: links, addresses, queueing disciplines, RDMA links. A socket
 * stays in the network namespace in which it was opened, so a namespace can be configured later
 * without entering it again. Functions return 0 or a positive errno unless stated otherwise. */
#ifndef WEFT_BACKENDS_LAB_NETLINK_H
#define WEFT_BACKENDS_LAB_NETLINK_H

#include <stddef.h>
#include <stdint.h>

#include "io/addr.h"
#include "io/world.h"

#define NETLINK_REQUEST_BYTES 2048
#define NETLINK_NESTING_MAX 4
#define NETLINK_HEAD_BYTES 4 /* length and type before an attribute, without padding */

/* A request under construction: netlink(7). */
struct netlink_request {
    _Alignas(4) uint8_t bytes[NETLINK_REQUEST_BYTES];
    size_t n;
    size_t nested[NETLINK_NESTING_MAX]; /* offsets of the open nests */
    uint32_t n_nested;
};

/* Starts a request. `body` is the family's header (struct ifinfomsg ...), or NULL. */
void netlink_begin(struct netlink_request *request, uint16_t type, uint16_t flags,
                   const void *body, size_t n_bytes);
void netlink_put(struct netlink_request *request, uint16_t attribute, const void *bytes,
                 size_t n_bytes);
void netlink_put_u32(struct netlink_request *request, uint16_t attribute, uint32_t value);
void netlink_put_text(struct netlink_request *request, uint16_t attribute,
                      const char *text);
/* Appends a raw body to a nest, because VETH_INFO_PEER begins with a struct ifinfomsg. */
void netlink_put_body(struct netlink_request *request, const void *bytes, size_t n_bytes);
void netlink_nest(struct netlink_request *request, uint16_t attribute);
void netlink_unnest(struct netlink_request *request);

/* Opens a socket of `protocol` (NETLINK_ROUTE, NETLINK_RDMA) in the thread's namespace, which the
 * caller closes. Returns 0 or a positive errno (EPROTONOSUPPORT: not supported by the kernel). */
int netlink_open(int protocol, int *out_fd);
/* Sends the request. Sets *out_seq to its number, which its answers have. */
int netlink_send(int fd, struct netlink_request *request, uint32_t *out_seq);
/* Waits up to 10 s for a datagram of *out_n bytes that answers request `seq`. Discards late answers
 * to earlier requests. */
int netlink_receive(int fd, uint32_t seq, uint8_t *bytes, size_t n_max, size_t *out_n);
/* Sends the request and waits up to 10 s for the acknowledgement. Returns its errno, or 0. */
int netlink_call(int fd, struct netlink_request *request);

/* One end of a veth cable. */
struct netlink_veth_end {
    const char *name;
    int netns_fd;
    uint32_t mtu_bytes;
};
int netlink_add_veth(int fd, const struct netlink_veth_end ends[2]);
int netlink_add_bridge(int fd, const char *name);
int netlink_delete_link(int fd, const char *name);
/* Adds `name` to `bridge`; both must be in the socket's namespace. */
int netlink_enslave(int fd, const char *name, const char *bridge);
int netlink_set_up(int fd, const char *name, bool is_up);
int netlink_set_mtu(int fd, const char *name, uint32_t mtu_bytes);
int netlink_add_address(int fd, const char *name, const struct io_prefix *address);
/* Adds an address with a peer; the prefix length is then the peer's. */
int netlink_add_peer_address(int fd, const char *name, const struct io_prefix *address,
                             const struct io_ip *peer);
int netlink_delete_address(int fd, const char *name, const struct io_prefix *address);
/* Returns the interface's index, or 0. */
uint32_t netlink_ifindex(int fd, const char *name);

/* Impairment of the frames that an end sends; all zero for none. */
struct netlink_impairment {
    struct world_impairment random;
    int64_t delay_ns, jitter_ns;
    uint64_t rate_bps;
    uint32_t queue_packets; /* 0: 10,000 */
};
/* Sets tc-netem(8) as root qdisc of `name`. The first call creates it, and loses frames sent at
 * that moment; later calls only change it. Returns ENOENT or EOPNOTSUPP if the kernel has no
 * netem. */
int netlink_set_netem(int fd, const char *name,
                      const struct netlink_impairment *impairment);

/* Creates `device` of type rxe on `netdev` (rdma-link(8)). */
int netlink_add_rxe(int rdma_fd, const char *device, const char *netdev);
/* Copies the name of a device that begins with `prefix`. Returns ENODEV if there is none. */
int netlink_find_rdma(int rdma_fd, const char *prefix, char *out, size_t n_bytes);
/* Deletes a device. Returns ENODEV if there is none. */
int netlink_delete_rdma(int rdma_fd, const char *device);

/* Kernel counters of an interface. */
struct netlink_counters {
    uint64_t tx_packets, tx_bytes, tx_dropped, rx_dropped;
};
int netlink_counters(int fd, const char *name, struct netlink_counters *out);

#endif
