/* Hosts as their netplan files describe them, and the cables between them. Everything lives in the
 * arena of the import. */
#ifndef WEFT_IMPORT_MODEL_H
#define WEFT_IMPORT_MODEL_H

#include "import/import.h"
#include "scenario/arena.h"
#include "scenario/topology.h"

/* Limits that no sensible file reaches; each search below is linear in one of them. */
#define IMPORT_DEVICES_MAX 1024u /* of one host */
#define IMPORT_ADDRESSES_MAX 64u /* of one device, as in a scenario */
#define IMPORT_MEMBERS_MAX 64u   /* of one bond or bridge */
#define IMPORT_ROUTES_MAX 64u    /* of one device */
#define IMPORT_HOST_NAME_BYTES 64
#define IMPORT_COMPLAINTS_MAX 50u

enum import_kind {
    IMPORT_ETHERNET,
    IMPORT_VLAN,
    IMPORT_BOND,
    IMPORT_BRIDGE,
    IMPORT_OTHER /* Wi-Fi, tunnels and whatever else is no port of a mesh */
};

/* Why a device is not in the scenario. */
enum import_left {
    IMPORT_KEPT,
    IMPORT_WITHOUT,    /* the user said so */
    IMPORT_DHCP,       /* its addresses are not in the file */
    IMPORT_MANAGEMENT, /* in a network with a default route, or of the hosts file */
    IMPORT_BRIDGED,    /* a bridge, or a port of one */
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
    const char *id;   /* its key */
    const char *name; /* of the netdev: `set-name`, else the key */
    uint32_t host;
    struct io_prefix *addresses; /* [n_addresses] */
    uint32_t n_addresses;
    uint32_t mtu_bytes; /* 0: not said */
    bool has_dhcp[2];   /* of IPv4 and of IPv6 */
    bool is_self_assigned, has_default_route;
    uint32_t vlan_id;     /* of a VLAN */
    const char *link;     /* of a VLAN: the key of its port */
    const char **members; /* of a bond or bridge: keys; [n_members] */
    uint32_t n_members;
    struct import_route *routes; /* [n_routes] */
    uint32_t n_routes;

    /* What devices.c and cables.c add. */
    enum import_left left;
    struct import_device *vlan; /* the VLAN on this port, or NULL */
    struct import_device *bond; /* of which it is a port, or NULL */
    bool is_cage;
    unsigned cage, function;    /* of a DGX Spark's port */
    struct import_device *twin; /* the other function of its cage, or NULL */
    struct import_device *peer; /* the port at the other end, or NULL */
    struct import_switch *hub;  /* the switch at the other end, or NULL */
    uint32_t hub_port;
    bool is_told;                 /* the user named its cable */
    bool is_taken;                /* has a cable already; scratch of cables.c */
    const struct io_prefix *used; /* its address on the cable, or NULL */
    bool is_tagged;               /* that is the VLAN's */
};

struct import_host {
    char name[IMPORT_HOST_NAME_BYTES]; /* as in the scenario */
    const char *given;                 /* as the user wrote it */
    struct import_device **devices;    /* [n_devices] */
    uint32_t n_devices, cap;
    bool has_cages; /* a DGX Spark: ports p0.0 p1.0 p0.1 p1.1 */
};

struct import {
    struct scenario_arena *arena;
    struct weft_text *wrong;
    uint32_t n_wrong; /* lines of `wrong`, also those past the maximum */
    uint32_t n_asked; /* calls of import_complain */
    const struct import_answers *answers;
    struct import_host *hosts; /* [n_hosts] */
    uint32_t n_hosts;
    struct import_switch **switches; /* [n_switches] */
    uint32_t n_switches;
    struct io_prefix *management; /* networks; [n_management] */
    uint32_t n_management;
};

/* Adds a line to `wrong`, after "weft import: "; past the fiftieth only counts. */
void import_complain(struct import *import, const char *format, ...) WEFT_PRINTF(2, 3);

/* netplan.c: reads the files into hosts and devices. */
void import_read(struct import *import, const struct import_file *files, size_t n_files);
/* devices.c: what belongs to what, and what is left out. */
void import_relate(struct import *import);
/* cables.c: cables and switches, or questions. */
void import_join(struct import *import);
/* write.c */
void import_write(const struct import *import, struct weft_text *out);

/* "p0.1" or "eth0", as the scenario names a port. */
const char *import_port(const struct import_device *device, char *out, size_t out_bytes);
/* "spark-1:enp1s0f0np0", as the user knows it. */
const char *import_place(const struct import *import, const struct import_device *device,
                         char *out, size_t out_bytes);
#define IMPORT_PLACE_BYTES 160
/* NULL if there is none. */
struct import_device *import_find(const struct import_host *host, const char *id);
/* A device that is a port of the mesh or may be one: no VLAN, bond, bridge or Wi-Fi. */
bool import_is_port(const struct import_device *device);
bool import_same_network(const struct io_prefix *a, const struct io_prefix *b);
bool import_overlap(const struct io_prefix *a, const struct io_prefix *b);

#endif
