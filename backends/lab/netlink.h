/* Requests to the kernel by netlink: links, addresses, queueing disciplines, RDMA links.
 * Each socket stays in the network namespace it was opened in, so a namespace is configured
 * through its own sockets and nobody has to go there again. */
#ifndef WEFT_BACKENDS_LAB_NETLINK_H
#define WEFT_BACKENDS_LAB_NETLINK_H

#include <stddef.h>
#include <stdint.h>

#include "io/addr.h"
#include "io/world.h"

#define NETLINK_REQUEST_BYTES 2048
#define NETLINK_NESTING_MAX 4
#define NETLINK_HEAD_BYTES 4 /* length and type before an attribute, padding excluded */

/* A request being built: netlink(7). */
struct netlink_request {
    _Alignas(4) uint8_t bytes[NETLINK_REQUEST_BYTES];
    size_t n;
    size_t nested[NETLINK_NESTING_MAX]; /* where the open nests begin */
    uint32_t n_nested;
};

/* `body` is the family's header (struct ifinfomsg ...), NULL if there is none. */
void netlink_begin(struct netlink_request *request, uint16_t type, uint16_t flags,
                   const void *body, size_t n_bytes);
void netlink_put(struct netlink_request *request, uint16_t attribute, const void *bytes,
                 size_t n_bytes);
void netlink_put_u32(struct netlink_request *request, uint16_t attribute, uint32_t value);
void netlink_put_text(struct netlink_request *request, uint16_t attribute,
                      const char *text);
/* A raw body inside a nest: VETH_INFO_PEER begins with a struct ifinfomsg. */
void netlink_put_body(struct netlink_request *request, const void *bytes, size_t n_bytes);
void netlink_nest(struct netlink_request *request, uint16_t attribute);
void netlink_unnest(struct netlink_request *request);

/* A socket of `protocol` (NETLINK_ROUTE, NETLINK_RDMA) in the thread's namespace. A positive
 * errno (EPROTONOSUPPORT: the kernel has no such thing), or 0. */
int netlink_open(int protocol, int *out_fd);
/* Sends and waits for the kernel's acknowledgement: its errno, or 0. */
int netlink_call(int fd, struct netlink_request *request);

/* One veth cable: each end's name, namespace and MTU. */
struct netlink_veth_end {
    const char *name;
    int netns_fd;
    uint32_t mtu_bytes;
};
int netlink_add_veth(int fd, const struct netlink_veth_end ends[2]);
int netlink_add_bridge(int fd, const char *name);
int netlink_delete_link(int fd, const char *name);
/* Puts `name` under `bridge`, both in the socket's namespace. */
int netlink_enslave(int fd, const char *name, const char *bridge);
int netlink_set_up(int fd, const char *name, bool is_up);
int netlink_set_mtu(int fd, const char *name, uint32_t mtu_bytes);
int netlink_add_address(int fd, const char *name, const struct io_prefix *address);
/* With a peer, whose prefix length `address` then has. */
int netlink_add_peer_address(int fd, const char *name, const struct io_prefix *address,
                             const struct io_ip *peer);
int netlink_delete_address(int fd, const char *name, const struct io_prefix *address);
/* The interface's index, or 0. */
uint32_t netlink_ifindex(int fd, const char *name);

/* What an end does to the frames it sends; all zero: nothing, and no qdisc. */
struct netlink_impairment {
    struct world_impairment random;
    int64_t delay_ns, jitter_ns;
    uint64_t rate_bps;
    uint32_t queue_packets; /* 0: 10 000 */
};
/* tc-netem(8) as root qdisc of `name`: the first call puts it there, and frames sent meanwhile
 * are lost; later ones only change it. ENOENT, EOPNOTSUPP: the kernel has no netem. */
int netlink_set_netem(int fd, const char *name,
                      const struct netlink_impairment *impairment);

/* rdma-link(8): `device` of type rxe on `netdev`. */
int netlink_add_rxe(int rdma_fd, const char *device, const char *netdev);
/* The name of a device that begins with `prefix`. ENODEV if there is none. */
int netlink_find_rdma(int rdma_fd, const char *prefix, char *out, size_t n_bytes);
/* ENODEV if there is none. */
int netlink_delete_rdma(int rdma_fd, const char *device);

/* Frames and bytes of an interface as the kernel counts them. */
struct netlink_counters {
    uint64_t tx_packets, tx_bytes, tx_dropped, rx_dropped;
};
int netlink_counters(int fd, const char *name, struct netlink_counters *out);

#endif
