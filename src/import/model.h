/* The hosts described by the files of an import, and the cables between them. All memory is in the
 * arena of the import. */
#ifndef WEFT_IMPORT_MODEL_H
#define WEFT_IMPORT_MODEL_H

#include "import/import.h"
#include "scenario/arena.h"
#include "scenario/topology.h"

/* Limits that no realistic file reaches. They bound the linear searches below. */
#define IMPORT_DEVICES_MAX 1024u /* per host */
#define IMPORT_ADDRESSES_MAX 64u /* per device, as in a scenario */
#define IMPORT_MEMBERS_MAX 64u   /* per bond or bridge */
#define IMPORT_ROUTES_MAX 64u    /* per device */
#define IMPORT_HOSTS_LINES_MAX 4096u
#define IMPORT_HOST_NAME_BYTES 64
#define IMPORT_COMPLAINTS_MAX 50u
#define IMPORT_MTU_DEFAULT 9000u /* of a scenario */

enum import_kind {
    IMPORT_ETHERNET,
    IMPORT_VLAN,
    IMPORT_BOND,
    IMPORT_BRIDGE,
    IMPORT_OTHER /* Wi-Fi, tunnels and others that cannot be a port of a mesh */
};

/* The reason why a device is not in the scenario. */
enum import_left {
    IMPORT_KEPT,
    IMPORT_WITHOUT, /* excluded by --without */
    IMPORT_DHCP,    /* its addresses are not in the file */
    /* In a network with a default route, or of an address in the hosts file. */
    IMPORT_MANAGEMENT,
    IMPORT_BRIDGED,    /* a bridge or a port of one */
    IMPORT_UNADDRESSED /* without an address and without a cable */
};

struct import_route {
    struct io_prefix to;
    struct io_ip via;
};

struct import_switch {
    struct io_prefix network;
    uint32_t n_ports;
    uint32_t index;
};

struct import_device {
    enum import_kind kind;
    const char *id;   /* key in the file */
    const char *name; /* name of the netdev: `set-name`, or else the key */
    uint32_t host;
    struct io_prefix *addresses; /* [n_addresses] */
    uint32_t n_addresses;
    uint32_t mtu_bytes; /* 0 if not given */
    bool has_dhcp[2];   /* for IPv4 and IPv6 */
    bool is_self_assigned, has_default_route;
    uint32_t vlan_id;     /* VLAN only */
    const char *link;     /* VLAN only: key of its port */
    const char **members; /* bond or bridge only: keys of its ports; [n_members] */
    uint32_t n_members;
    struct import_route *routes; /* [n_routes] */
    uint32_t n_routes;

    /* Set by devices.c and cables.c. */
    enum import_left left;
    struct import_device *vlan; /* VLAN on this port, or NULL */
    struct import_device *bond; /* bond of which it is a port, or NULL */
    bool is_cage;
    unsigned cage, function;    /* position of a DGX Spark's port, if is_cage */
    struct import_device *twin; /* the other function of its cage, or NULL */
    struct import_device *peer; /* the port at the other end, or NULL */
    struct import_switch *hub;  /* the switch at the other end, or NULL */
    uint32_t hub_port;
    bool is_told;                 /* its cable was given by --cable */
    bool is_taken;                /* scratch of cables.c: has a cable already */
    const struct io_prefix *used; /* address on the cable, or NULL */
    bool is_tagged;               /* `used` is an address of the VLAN */
};

struct import_host {
    char name[IMPORT_HOST_NAME_BYTES]; /* name in the scenario */
    const char *given;                 /* name as given by the user */
    struct import_device **devices;    /* [n_devices] */
    uint32_t n_devices, cap;
    bool has_cages; /* a DGX Spark: ports p0.0 p1.0 p0.1 p1.1 */
};

struct import {
    struct scenario_arena *arena;
    struct weft_text *wrong;
    uint32_t n_wrong; /* number of problems, including those above the maximum */
    uint32_t n_asked; /* of them, those that were not printed before */
    const struct import_answers *answers;
    bool is_of_hosts;          /* the files are hosts files, not netplan's */
    struct import_host *hosts; /* [n_hosts] */
    uint32_t n_hosts;
    struct import_switch **switches; /* [n_switches] */
    uint32_t n_switches;
    struct io_prefix *management; /* management networks; [n_management] */
    uint32_t n_management;
};

/* Appends a line to `wrong`, with the prefix "weft import: ". After IMPORT_COMPLAINTS_MAX lines it
 * only counts. */
void import_complain(struct import *import, const char *format, ...) WEFT_PRINTF(2, 3);

/* netplan.c: reads the files into hosts and devices */
void import_read(struct import *import, const struct import_file *files, size_t n_files);
/* Returns the index of the host with this name, which is added if it is new. */
uint32_t import_host(struct import *import, const char *given);
/* hosts.c: reads hosts files into hosts and devices */
void import_read_hosts(struct import *import, const struct import_file *files,
                       size_t n_files);
/* Calls `visit` for each address of the file of management addresses. */
void import_read_management(struct import *import,
                            void (*visit)(struct import *import, const struct io_ip *ip));
/* devices.c: relates devices to each other, and decides which are left out */
void import_relate(struct import *import);
/* cables.c: finds cables and switches, or asks for them */
void import_join(struct import *import);
/* write.c: appends the scenario */
void import_write(const struct import *import, struct weft_text *out);

/* Writes a port's name in the scenario, "p0.1" or "eth0", to `out` and returns it. */
const char *import_port(const struct import_device *device, char *out, size_t out_bytes);
/* Writes host and netdev, "spark-1:enp1s0f0np0", to `out` and returns it. */
const char *import_place(const struct import *import, const struct import_device *device,
                         char *out, size_t out_bytes);
#define IMPORT_PLACE_BYTES 160
/* Returns the device with the key `id`, or NULL. */
struct import_device *import_find(const struct import_host *host, const char *id);
/* Returns true if the device can be a port of the mesh: no VLAN, bond, bridge or Wi-Fi. */
bool import_is_port(const struct import_device *device);
bool import_same_network(const struct io_prefix *a, const struct io_prefix *b);
bool import_overlap(const struct io_prefix *a, const struct io_prefix *b);

#endif
