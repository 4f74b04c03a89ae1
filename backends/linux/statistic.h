/* Counters that a driver gives to rdma-statistic(8). */
#ifndef WEFT_BACKENDS_LINUX_STATISTIC_H
#define WEFT_BACKENDS_LINUX_STATISTIC_H

#include <rdma/rdma_netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINUX_STATISTICS_TYPE RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_STAT_GET)
#define LINUX_STATISTICS_BYTES 16384

/* The kernel's answer about the counters of one port, not decoded. */
struct linux_statistics {
    _Alignas(8) uint8_t bytes[LINUX_STATISTICS_BYTES];
    size_t n;
};

/* Reads the counters of a port of the kernel's device `device` ("rxe_ab"). Returns false if the
 * kernel or the driver has none. Blocks for at most a second. */
bool linux_statistics_read(const char *device, uint8_t port,
                           struct linux_statistics *out);
/* Returns the counter of this name, or IO_UNKNOWN. */
int64_t linux_statistic_in(const struct linux_statistics *in, const char *name);

/* Returns the frames that the root qdisc of a netdev dropped (tc(8), `tc -s qdisc`), 0 if it has
 * none, IO_UNKNOWN if there is no such netdev or the kernel does not answer. Blocks for at most a
 * second. */
int64_t linux_qdisc_drops(const char *netdev);
/* Returns the same of one message of the kernel's list, IO_UNKNOWN if it is of another netdev or
 * not of a root qdisc. */
int64_t linux_qdisc_drops_in(const uint8_t *message, size_t n, uint32_t ifindex);

#endif
