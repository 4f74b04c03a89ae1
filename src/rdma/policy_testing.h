/* Helpers for the tests of policies: ports as mlx5 lists them, the hosts of a triangle, and checks
 * of choices. */
#ifndef WEFT_RDMA_POLICY_TESTING_H
#define WEFT_RDMA_POLICY_TESTING_H

#include <stdint.h>

#include "rdma/policy.h"

#define V1 IBV_GID_TYPE_ROCE_V1
#define V2 IBV_GID_TYPE_ROCE_V2

/* Adds a slot of the GID table. In "10.0.0.1/24", 24 is the prefix length of the netdev address
 * behind the GID; 0 if there is none. */
void add_gid(struct rdma_port_facts *port, uint32_t index, const char *prefix, int type);
/* Returns an active port with MTU 4096, 100 Gbit/s and an empty GID table. */
struct rdma_port_facts make_port(const char *name, uint32_t device);
/* Returns a port as make_port() does, with the GID table of mlx5. It has the default GID as v1 and
 * v2, then the address (unless NULL) as v1 and v2. */
struct rdma_port_facts mlx5_port(const char *name, uint32_t device, const char *prefix);

/* Hosts of the triangle: titanic p0 - p1 iceberg on .101, titanic p1 - p0 carpathia on .102,
 * iceberg p0 - p1 carpathia on .103. Every cable has its own subnet. */
enum { TITANIC, ICEBERG, CARPATHIA };
void make_host(int host, struct rdma_port_facts out[2]);

struct choice {
    uint32_t n;
    struct rdma_rail rails[8];
    struct weft_error error;
    weft_status status;
};
struct choice choose(enum weft_policy policy, const struct rdma_port_facts *local,
                     uint32_t n_local, const struct rdma_port_facts *remote,
                     uint32_t n_remote, uint32_t channel, bool is_connector);
/* Checks that rail `i` connects port `l` with port `r`, with these indices into gids[], at path MTU
 * `mtu`. */
void expect_rail(const struct choice *choice, uint32_t i, uint32_t l, uint32_t r,
                 uint32_t local_gid, uint32_t remote_gid, uint32_t mtu);

#endif
