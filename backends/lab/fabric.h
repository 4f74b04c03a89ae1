/* The hosts and cables of a world as the kernel has them: a network namespace per host, a
 * veth pair per cable with an rxe device on each end, a management network on a bridge.
 *
 * Names: namespaces are "weft-PID-HOST" under /run/netns, so ip-netns(8) shows them;
 * interfaces are called as the scenario's ports; RDMA devices, whose names are one space
 * for all namespaces, "weftPIDhXpY", or in a kernel of our own "HOST-PORT" (lab_device_name
 * says which). Where all hosts are in one namespace, interfaces are "wPIDhXpY", and "wPIDhXm" on
 * the management network. */
#ifndef WEFT_BACKENDS_LAB_FABRIC_H
#define WEFT_BACKENDS_LAB_FABRIC_H

#include <net/if.h>

#include "backends/lab/netlink.h"
#include "base/error.h"
#include "io/world.h"

#define LAB_NETNS_DIR "/run/netns"
#define LAB_NAME_PREFIX "weft-"
#define LAB_MANAGEMENT "mgmt0"
#define LAB_NAME_BYTES 96

/* The variable that is set in a guest: "virtual" if its time is virtual. */
#define LAB_GUEST_MARKER "WEFT_IN_GUEST"

/* Distribution of the hosts' netdevs over namespaces. */
enum lab_layout {
    LAB_NAMESPACES,    /* one namespace per host */
    LAB_ONE_NAMESPACE, /* this process's, separated by policy routing (routes.h) */
    LAB_NO_INTERFACES, /* none; the world creates no fabric */
};

/* The RDMA devices on the ports of hosts. */
enum lab_devices {
    LAB_NO_DEVICES,
    LAB_DEVICES_BY_NUMBER, /* "weft4711h0p1", unique among processes of this kernel */
    LAB_DEVICES_BY_NAME,   /* "titanic-p0", in a kernel that runs only this mesh */
};

/* A network namespace, and sockets in it; a descriptor is -1 if it is not open. */
struct lab_place {
    char name[LAB_NAME_BYTES]; /* "" if it was not created by this process */
    int netns_fd;
    int route_fd;
    int rdma_fd;
};

/* Counts the RoCE frames of an interface. */
struct lab_tap {
    int fd;            /* -1 if the kernel cannot count */
    uint64_t n_frames; /* when last read */
};

/* A port, with or without a cable. */
struct lab_port {
    char netdev[IF_NAMESIZE];
    bool has_device;
    struct lab_tap tap;
    bool has_cable;
    uint32_t cable;
    uint32_t peer_host, peer_port; /* if has_cable */
    struct netlink_impairment impairment;
    bool has_netem; /* has a qdisc of this fabric, which is never removed */
    bool is_down;   /* a fault or the scenario has set its netdev down */
    bool is_mute;   /* drops all that it sends, because this direction is down */
    uint32_t mtu_bytes;
};

struct lab_host {
    char management[IF_NAMESIZE]; /* netdev on the management network; "" if none */
    struct lab_place place;
    struct lab_port *ports; /* Owned [n_ports of the spec's host] */
    struct lab_tap management_tap;
};

struct lab_fabric {
    const struct world_spec *spec; /* Not owned. */
    enum lab_layout layout;
    enum lab_devices devices;
    /* Cables have exactly the scenario's delay and rate, for programs in virtual time. False for
     * Weft's own jobs, whose real time it would lengthen by a fifth. */
    bool is_exact;
    int owner;              /* process whose id the names contain */
    int home_fd;            /* namespace in which this process started */
    struct lab_host *hosts; /* Owned [n_hosts] */
    struct lab_place bridge;
};

/* Stores the name of the RDMA device of a port. */
void lab_device_name(const struct lab_fabric *fabric, uint32_t host, uint32_t port,
                     char *out, size_t n_bytes);
/* Stores the name that the RDMA device of a port has with LAB_DEVICES_BY_NAME. Needs no fabric. */
void lab_device_by_name(const struct world_spec *spec, uint32_t host, uint32_t port,
                        char *out, size_t n_bytes);

/* Returns true if a host simulates its own NICs (WEFT_NIC=soft among its settings). It gets no
 * devices of the kernel. */
bool lab_host_is_soft(const struct world_host *host);

/* Checks that veth cables and local processes can express `spec`. Fails with WEFT_ERR_UNSUPPORTED,
 * naming the first thing that they cannot, and `backend`, whose world it is. */
weft_status lab_can_express(const char *backend, const struct world_spec *spec,
                            struct weft_error *error) WEFT_MUST_CHECK;
/* Fails with WEFT_ERR_UNSUPPORTED and a text such as "backend soft has no switch: sw0". */
weft_status lab_refuse(const char *backend, const char *what, const char *of,
                       struct weft_error *error);
/* Returns true if the host's process injects the fault itself (backends/fault). */
bool lab_fault_is_of_process(const struct world_fault *fault);
/* Returns true if veth cables or the hosts' processes can have this fault. */
bool lab_fault_is_expressible(const struct world_fault *fault);

/* Begins a fault of cables, or ends it if `undo`. Returns an errno: EOPNOTSUPP for faults of
 * processes. */
int lab_fault_apply(struct lab_fabric *fabric, const struct world_fault *fault,
                    bool undo);

/* Computes what the kernel must add to a veth for this cable: if `is_exact`, all of its delay and
 * rate, because a veth adds none in virtual time; otherwise only what is worse than a veth. */
void lab_base_impairment(const struct world_cable *cable, uint32_t mtu_bytes,
                         bool is_exact, struct netlink_impairment *out);
/* Applies a port's current impairment. Returns an errno. */
int lab_port_impair(struct lab_fabric *fabric, uint32_t host, uint32_t port);

/* Builds the namespaces, cables and devices. LAB_NO_DEVICES is for kernels without soft-RoCE.
 * Removes everything again on failure. */
weft_status lab_fabric_create(const struct world_spec *spec, enum lab_layout layout,
                              enum lab_devices devices, struct lab_fabric *out,
                              struct weft_error *error) WEFT_MUST_CHECK;
/* Removes everything: devices, then interfaces, then namespaces. */
void lab_fabric_destroy(struct lab_fabric *fabric);

/* Move the calling thread to the place's namespace, and back. Entering returns an errno. */
int lab_place_enter(const struct lab_place *place);
void lab_fabric_go_home(const struct lab_fabric *fabric);

/* Starts to count the RoCE frames of one interface, if the kernel can: all of them, or only those
 * that leave it. The descriptor is readable once a frame has crossed. */
void lab_tap_open(const struct lab_fabric *fabric, const struct lab_place *place,
                  const char *netdev, bool only_outgoing, struct lab_tap *out);
/* Reads and returns n_frames. */
uint64_t lab_tap_count(struct lab_tap *tap);
/* Returns the number of RoCE frames (UDP port 4791) that have crossed an interface in both
 * directions. A `port` of UINT32_MAX is the management network's interface. */
uint64_t lab_fabric_roce_frames(struct lab_fabric *fabric, uint32_t host, uint32_t port);

/* Removes the namespaces, devices and interfaces of processes that are gone, and logs their names.
 * Returns the number of namespaces. */
unsigned lab_cleanup(struct weft_log *log);

#endif
