/* Ports as mlx5 describes them, the triangle, and choices judged: for the tests of
 * policies. */
#ifndef WEFT_RDMA_POLICY_TESTING_H
#define WEFT_RDMA_POLICY_TESTING_H

#include <stdint.h>

#include "rdma/policy.h"

#define V1 IBV_GID_TYPE_ROCE_V1
#define V2 IBV_GID_TYPE_ROCE_V2

/* Adds a slot of the GID table: "10.0.0.1/24" with a netdev address of that length
 * behind it. */
void add_gid(struct rdma_port_facts *port, uint32_t index, const char *prefix, int type);
/* An active port with MTU 4096, 100 Gbit/s and an empty table. */
struct rdma_port_facts make_port(const char *name, uint32_t device);
/* The same with the table of mlx5: default v1 and v2, then the address (or NULL) as
 * v1, v2. */
struct rdma_port_facts mlx5_port(const char *name, uint32_t device, const char *prefix);

/* The triangle: titanic p0 - p1 iceberg on .101, titanic p1 - p0 carpathia on .102,
 * iceberg p0 - p1 carpathia on .103; a network of its own on every cable. */
enum { TITANIC, ICEBERG, CARPATHIA };
void make_host(int host, struct rdma_port_facts out[2]);

struct choice {
    uint32_t n;
    struct rdma_rail rails[8];
    struct weft_error error;
    weft_status status;
};
struct choice choose(enum rdma_policy policy, const struct rdma_port_facts *local,
                     uint32_t n_local, const struct rdma_port_facts *remote,
                     uint32_t n_remote, uint32_t channel, bool is_connector);
/* Rail i goes from port `l` to `r`, by gids[] indices, at `mtu`. */
void expect_rail(const struct choice *choice, uint32_t i, uint32_t l, uint32_t r,
                 uint32_t local_gid, uint32_t remote_gid, uint32_t mtu);

#endif
