/* Facts that one host knows about itself: interfaces, addresses, kernel settings and limits. A fact
 * can be unknown. */
#ifndef WEFT_IO_HOSTINFO_H
#define WEFT_IO_HOSTINFO_H

#include <stdbool.h>
#include <stdint.h>

#include "io/addr.h"

#define IO_UNKNOWN (-1)

struct io_machine;

struct io_netdev {
    uint32_t ifindex;
    char name[32];
    uint8_t mac[6];
    uint32_t mtu_bytes; /* MTU for IP packets, as `ip link` prints it */
    uint64_t speed_bps; /* speed of the netdev, not of the RDMA port; 0 if unknown */
    bool is_up;         /* administratively up and carrier */
    int vlan_id;        /* VLAN ID of a VLAN netdev; 0 if it is none; or IO_UNKNOWN */
    uint32_t master;    /* ifindex of the bond or team that contains it; 0 if none */
    bool is_management; /* reaches every host; never carries data under policy weft */
    struct io_prefix *addresses; /* [n_addresses], in the order they were added */
    uint32_t n_addresses;
    int rp_filter; /* effective values (max of all and interface), or IO_UNKNOWN */
    int arp_ignore;
    int arp_announce;
    int accept_local;
};

struct io_hostinfo {
    char name[64];
    uint8_t host_id[16]; /* equal for processes of one machine; stable until it reboots */
    struct io_netdev *netdevs; /* [n_netdevs], in ifindex order */
    uint32_t n_netdevs;
    int netdevs_errno;     /* errno of the last attempt to list them; 0 on success */
    int64_t memlock_bytes; /* RLIMIT_MEMLOCK; INT64_MAX if unlimited; or IO_UNKNOWN */
    int ip_forward;        /* or IO_UNKNOWN */
    /* The inside of the host (io/machine.h); NULL if unknown. Not owned; valid for the life of the
     * environment. */
    const struct io_machine *machine;
    /* st_dev of /dev/shm in this process's mount namespace; 0 if there is none */
    uint64_t shm_dev;
};

/* A network interface (including loopback) as seen by a program that selects one. */
struct io_interface {
    char name[32];
    bool is_running;     /* IFF_RUNNING: up, with carrier */
    bool has_v4, has_v6; /* an address; ::1 does not count */
};

/* Returns the netdev with `ifindex`, or NULL. */
const struct io_netdev *io_hostinfo_netdev(const struct io_hostinfo *info,
                                           uint32_t ifindex);

/* Returns the index of the netdev that has the addresses of `ifindex`: that of its bond, or
 * `ifindex`. */
uint32_t io_hostinfo_top(const struct io_hostinfo *info, uint32_t ifindex);

/* Frees the netdevs with their addresses. For the environment that filled them. */
void io_hostinfo_fini(struct io_hostinfo *info);

#endif
