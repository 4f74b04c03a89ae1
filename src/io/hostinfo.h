/* What one host knows of itself: interfaces, addresses, kernel settings and limits.
 * Facts, not judgements; "unknown" is a value. */
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
    uint32_t mtu_bytes; /* of IP packets, as `ip link` prints it */
    uint64_t speed_bps; /* of the netdev, not what verbs says; 0: unknown */
    bool is_up;         /* administratively up and carrier */
    int vlan_id;        /* of a VLAN's netdev; 0: it is none; or IO_UNKNOWN */
    uint32_t master;    /* ifindex of the bond or team whose port it is; 0: of none */
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
    uint8_t host_id[16]; /* stable per boot of a host: which processes share a machine */
    struct io_netdev *netdevs; /* [n_netdevs], in ifindex order */
    uint32_t n_netdevs;
    int netdevs_errno; /* why they could not be asked for: as last seen; 0: they could */
    int64_t memlock_bytes; /* RLIMIT_MEMLOCK; INT64_MAX: unlimited; IO_UNKNOWN */
    int ip_forward;        /* or IO_UNKNOWN */
    /* What is inside the host (io/machine.h); NULL: nobody knows. Not owned: as long as the
     * environment lives. */
    const struct io_machine *machine;
    uint64_t shm_dev; /* st_dev of /dev/shm as this process sees it; 0: it sees none */
};

/* An interface of a machine, loopback too, as a program sees it that looks for one. */
struct io_interface {
    char name[32];
    bool is_running;     /* IFF_RUNNING: up, with carrier */
    bool has_v4, has_v6; /* an address; ::1 does not count */
};

/* The netdev with `ifindex`, or NULL. */
const struct io_netdev *io_hostinfo_netdev(const struct io_hostinfo *info,
                                           uint32_t ifindex);

#endif
