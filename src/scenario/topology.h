/* State of reading the topology: names and parts of the file that later sections refer to. */
#ifndef WEFT_SCENARIO_TOPOLOGY_H
#define WEFT_SCENARIO_TOPOLOGY_H

#include "scenario/walk.h"

#define TOPOLOGY_HOSTS_MAX 16384u
#define TOPOLOGY_SWITCHES_MAX 1024u
#define TOPOLOGY_PORTS_MAX 256u /* of one host */
#define TOPOLOGY_ALL_PORTS_MAX 262144u
#define TOPOLOGY_CAGES_MAX 64u
#define TOPOLOGY_LINKS_MAX 200000u
#define TOPOLOGY_MTU_MIN 68u /* minimum MTU of IPv4 (RFC 791) */
#define TOPOLOGY_MTU_MAX 65535u

struct topology_name {
    const char *name;
    bool is_switch;
    uint32_t index;
};

/* State of reading a host, and its lists while they grow. */
struct topology_host {
    struct world_port *ports; /* world_host.ports */
    uint64_t *pcie_root_bps;  /* world_host.pcie_root_bps */
    uint32_t n_plain;         /* ports of `ports:`; those of cages follow */
    const char **cages;       /* [n_cages] */
    uint32_t n_cages;
    /* some were rejected; do not complain again about missing ports */
    bool has_bad_ports;
    bool has_ranks;                    /* `ranks:` was written */
    const struct tree_node *addresses; /* or NULL */
    const struct tree_node *bonds;     /* or NULL */
    const struct tree_node *routes;    /* or NULL */
};

struct topology {
    struct loader *loader;
    const struct tree_node *defaults; /* a map, or NULL */
    struct topology_host *hosts;      /* [scenario.n_hosts] */
    struct topology_name *names;      /* [n_names], sorted */
    uint32_t n_names;
    uint32_t default_mtu_bytes;
    uint64_t default_rate_bps;
    /* [n_switches][n_ports]: line of the link at the port, 0 if none */
    uint32_t **switch_lines;
};

/* A node, or some of its ports: "titanic", "titanic:p0", "titanic:c0" (both functions). */
struct topology_place {
    bool is_switch;
    uint32_t node;
    bool is_cage;
    uint32_t n_ports; /* 0 for the whole node */
    uint32_t ports[2];
};

/* Reads the topology (management, defaults, nodes, switches, links) into the scenario. Returns
 * false if later sections cannot be read. */
bool topology_read(struct loader *loader, const struct tree_node *node,
                   struct topology *topology);

/* places.c: indexes hosts and switches by name, and finds them. topology_index() complains about
 * switches with the name of a host. */
void topology_index(struct topology *topology);
/* Finds the place that `text` names (written at `mark`, the value of `name`). Returns false
 * after a complaint. */
bool topology_find(const struct topology *topology, struct scenario_mark mark,
                   const char *name, const char *text, struct topology_place *out);
/* Returns true if `text` is "HOST:management", and the host has no port or cage of that name. */
bool topology_is_management(const struct topology *topology, const char *text);
/* Finds a host by its name. */
bool topology_find_host(const struct topology *topology, const struct tree_node *node,
                        const char *name, uint32_t *out);
/* Finds a port of `host` by its name. */
bool topology_find_port(const struct topology *topology, const struct tree_node *node,
                        const char *name, uint32_t host, uint32_t *out);

/* hosts.c, ports.c, links.c, addressing.c: readers of the parts, in this order. */
void hosts_read(struct topology *topology, const struct tree_node *node);
void switches_read(struct topology *topology, const struct tree_node *node);
extern const struct walk_table hosts_table;
extern const struct walk_table links_table;
void hosts_check_defaults(struct topology *topology);
void ports_read(struct topology *topology, struct world_host *host,
                struct scenario_node *node, struct topology_host *extra,
                const struct tree_node *ports, const struct tree_node *cages);
void pcie_read(struct topology *topology, const struct world_host *host,
               const struct topology_host *extra, const struct tree_node *node);
void links_read(struct topology *topology, const struct tree_node *node);
void links_read_defaults(struct topology *topology);
/* Reads the bonds of a host. Its ports must have their addresses. */
void bonds_read(struct topology *topology, uint32_t host);
/* Reads the static routes of a host. All its ports and bonds must have their addresses. */
void routes_read(struct topology *topology, uint32_t host);
void management_read(struct topology *topology, const struct tree_node *node);

/* Sources of the addresses of a link, parallel to scenario.links while reading. */
struct link_addresses {
    const struct tree_node *subnet;    /* or NULL */
    const struct tree_node *addresses; /* or NULL */
    bool may_overlap;
};
/* Assigns addresses to all ports and checks that subnets are disjoint; `links` [n_links]. */
void addressing_read(struct topology *topology, const struct link_addresses *links);

/* subnet.c: a single address or subnet. subnet_network returns a prefix without its host bits. */
struct io_prefix subnet_network(const struct io_prefix *prefix);
/* Writes the nth (from 1) host address with the subnet's prefix length. Returns false beyond
 * the last. */
bool subnet_host(const struct io_prefix *subnet, uint64_t n, struct io_prefix *out);
bool subnet_contains(const struct io_prefix *subnet, const struct io_prefix *inner);
/* Reads a network with room for at least two hosts. */
bool subnet_read(struct loader *loader, const struct tree_node *node, const char *name,
                 struct io_prefix *out);
/* Reads an address that a host can have. */
bool address_read(struct loader *loader, const struct tree_node *node, const char *name,
                  struct io_prefix *out);
/* Reads the same, or "10.0.0.1 peer 10.0.0.2/32": the prefix is then the peer's. `*out_peer`
 * is zero without a peer. */
bool address_read_peer(struct loader *loader, const struct tree_node *node,
                       const char *name, struct io_prefix *out, struct io_ip *out_peer);
/* Writes "10.0.0.1/24". Returns `out`, which must have IO_IP_TEXT_BYTES. */
char *subnet_format(const struct io_prefix *prefix, char *out);

#endif
