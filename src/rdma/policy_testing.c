#include "rdma/policy_testing.h"

#include <check.h>
#include <string.h>

#include "base/text.h"
#include "rdma/policy.h"

void add_gid(struct rdma_port_facts *port, uint32_t index, const char *text, int type)
{
    struct io_prefix prefix;
    ck_assert(io_prefix_parse(text, &prefix));
    ck_assert_uint_lt(port->n_gids, RDMA_FACTS_GIDS_MAX);
    memcpy(port->gids[port->n_gids].gid.raw, prefix.ip.bytes, 16);
    port->gids[port->n_gids].type = (uint8_t)type;
    port->gids[port->n_gids].prefix_len = prefix.prefix_len;
    port->gids[port->n_gids].index = index;
    port->n_gids++;
}

struct rdma_port_facts make_port(const char *name, uint32_t device)
{
    struct rdma_port_facts port;
    memset(&port, 0, sizeof(port));
    weft_format(port.name, sizeof(port.name), "%s", name);
    port.device = device;
    port.is_active = true;
    port.active_mtu = 4096;
    port.netdev_mtu = 9000;
    port.rate_bps = UINT64_C(100000000000);
    return port;
}

struct rdma_port_facts mlx5_port(const char *name, uint32_t device, const char *prefix)
{
    struct rdma_port_facts port = make_port(name, device);
    add_gid(&port, 0, "fe80::1/0", V1);
    add_gid(&port, 1, "fe80::1/0", V2);
    if (prefix != NULL) {
        add_gid(&port, 2, prefix, V1);
        add_gid(&port, 3, prefix, V2);
    }
    return port;
}

static const char *const triangle[3][2] = {
    {"192.168.101.1/24", "192.168.102.1/24"},
    {"192.168.103.1/24", "192.168.101.2/24"},
    {"192.168.102.2/24", "192.168.103.2/24"},
};

void make_host(int host, struct rdma_port_facts out[2])
{
    out[0] = mlx5_port("p0", 0, triangle[host][0]);
    out[1] = mlx5_port("p1", 1, triangle[host][1]);
}

struct choice choose(enum weft_policy policy, const struct rdma_port_facts *local,
                     uint32_t n_local, const struct rdma_port_facts *remote,
                     uint32_t n_remote, uint32_t channel, bool is_connector)
{
    struct choice choice;
    memset(&choice, 0, sizeof(choice));
    struct rdma_choice_input input = {
        .policy = policy,
        .local = local,
        .n_local = n_local,
        .remote = remote,
        .n_remote = n_remote,
        .channel = channel,
        .is_connector = is_connector,
        .gid = RDMA_GID_RULE_NONE,
    };
    choice.status = rdma_choose(&input, choice.rails, 8, &choice.n, &choice.error);
    return choice;
}

void expect_rail(const struct choice *choice, uint32_t i, uint32_t l, uint32_t r,
                 uint32_t local_gid, uint32_t remote_gid, uint32_t mtu)
{
    ck_assert_int_eq(choice->status, WEFT_OK);
    ck_assert_uint_lt(i, choice->n);
    ck_assert_uint_eq(choice->rails[i].local_port, l);
    ck_assert_uint_eq(choice->rails[i].remote_port, r);
    ck_assert_uint_eq(choice->rails[i].local_gid, local_gid);
    ck_assert_uint_eq(choice->rails[i].remote_gid, remote_gid);
    ck_assert_uint_eq(choice->rails[i].path_mtu, mtu);
}
