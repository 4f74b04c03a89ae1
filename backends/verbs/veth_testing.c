#define _GNU_SOURCE
#include "backends/verbs/veth_testing.h"

#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/linux/netns_testing.h"
#include "backends/linux/world_testing.h"
#include "base/check.h"
#include "base/text.h"
#include "io/conformance_testing.h"

struct veth_world {
    struct loop_world base;
    struct veth_testing_host hosts[2];
    int netns[2];
    uint64_t bytes[2], packets[2]; /* sent over the cable before the test */
};

struct veth_testing veth_testing;

static struct veth_world *of(const struct world *world)
{
    return (struct veth_world *)(uintptr_t)((uintptr_t)world -
                                            offsetof(struct veth_world, base.world));
}

/* ---- soft-RoCE links, rdma-link(8) ---- */

struct link_change {
    const char *device;
    const char *netdev;
    int result;
};

static void add_link(void *context)
{
    struct link_change *change = context;
    struct nl_sock *sock = nl_socket_alloc();
    change->result = nl_connect(sock, NETLINK_RDMA);
    if (change->result == 0) {
        struct nl_msg *message = nlmsg_alloc_simple(
            RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_NEWLINK), NLM_F_ACK);
        nla_put_string(message, RDMA_NLDEV_ATTR_DEV_NAME, change->device);
        nla_put_string(message, RDMA_NLDEV_ATTR_LINK_TYPE, "rxe");
        nla_put_string(message, RDMA_NLDEV_ATTR_NDEV_NAME, change->netdev);
        change->result = nl_send_sync(sock, message); /* also frees the message */
    }
    nl_socket_free(sock);
}

/* Creates a device on `netdev`, with a name that no earlier test (a process each) has used,
 * because a device is removed only some time after its namespace. */
static int add_rxe(int netns, const char *side, const char *netdev)
{
    char device[32];
    struct link_change change = {.device = device, .netdev = netdev};
    weft_format(device, sizeof device, "rxe_%s%d", side, (int)getpid());
    netns_testing_in(netns, add_link, &change);
    return change.result;
}

/* ---- the world ---- */

struct sent {
    uint64_t bytes, packets;
};

static void read_sent(void *context)
{
    struct sent *sent = context;
    char line[512];
    FILE *file = fopen("/proc/thread-self/net/dev", "re");
    weft_check(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, " p0: %*u %*u %*u %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
                     &sent->bytes, &sent->packets);
    }
    fclose(file);
}

static void count_sent(const struct veth_world *self, int host, uint64_t *bytes,
                       uint64_t *packets)
{
    struct sent sent = {.bytes = 0};
    netns_testing_in(self->netns[host], read_sent, &sent);
    *bytes = sent.bytes - self->bytes[host];
    *packets = sent.packets - self->packets[host];
}

static void add_devices(const struct world_spec *spec, const int netns[2])
{
    for (uint32_t i = 0; i < 2; i++) {
        if (veth_testing.has_rxe[i]) {
            ck_assert_int_eq(add_rxe(netns[i], spec->hosts[i].name, "p0"), 0);
        }
    }
}

static weft_status create(const struct world_spec *spec, struct world **out,
                          struct weft_error *error)
{
    struct veth_world *self = weft_calloc(1, sizeof *self);
    self->base.world.ops = &veth_testing_ops;
    ck_assert_int_eq(linux_loop_create(2, &self->base.loop, error), WEFT_OK);
    self->netns[0] = netns_testing_create();
    self->netns[1] = netns_testing_create();
    loop_world_lay_cables(spec, self->netns);
    add_devices(spec, self->netns);
    for (uint32_t i = 0; i < 2; i++) {
        weft_status status = veth_testing.open(self->base.loop, spec, i, self->netns[i],
                                               &self->hosts[i], error);
        if (status != WEFT_OK) {
            return status;
        }
        count_sent(self, (int)i, &self->bytes[i], &self->packets[i]);
    }
    *out = &self->base.world;
    return WEFT_OK;
}

static struct io_env *host_env(struct world *world, uint32_t host, uint32_t process)
{
    (void)process;
    return of(world)->hosts[host].env;
}

static int inject(struct world *world, const struct world_fault *fault)
{
    if (fault->kind != WORLD_FAULT_DOWN && fault->kind != WORLD_FAULT_UP) {
        return EOPNOTSUPP;
    }
    netns_testing_up(of(world)->netns[fault->host], "p0", fault->kind == WORLD_FAULT_UP);
    return 0;
}

static void cable_stats(const struct world *world, uint32_t cable,
                        struct world_cable_stats *out)
{
    *out = (struct world_cable_stats){.bytes = {0, 0}};
    ck_assert_uint_eq(cable, 0);
    for (int i = 0; i < 2; i++) {
        count_sent(of(world), i, &out->bytes[i], &out->packets[i]);
    }
}

static void destroy(struct world *world)
{
    if (world == NULL) {
        return;
    }
    struct veth_world *self = of(world);
    for (uint32_t i = 0; i < 2; i++) {
        self->hosts[i].destroy(self->hosts[i].host);
    }
    for (uint32_t i = 0; i < 2; i++) {
        close(self->netns[i]); /* removes its netdevs, and rxe devices on them */
        for (int j = 0; j < N_TASKS; j++) {
            io_task_fini(&now_testing.task[i][j]);
        }
    }
    linux_loop_destroy(self->base.loop);
    free(self);
}

const struct world_ops veth_testing_ops = {
    .name = "veth",
    .create = create,
    .host_env = host_env,
    LOOP_WORLD_OPS,
    .inject = inject,
    .cable_stats = cable_stats,
    .destroy = destroy,
};

/* ---- verbs hosts ---- */

static void destroy_verbs(void *host)
{
    verbs_host_destroy(host);
}

weft_status veth_testing_open_verbs(struct linux_loop *loop,
                                    const struct world_spec *spec, uint32_t host,
                                    int netns, struct veth_testing_host *out,
                                    struct weft_error *error)
{
    const struct verbs_host_config config = {
        .env = {.name = spec->hosts[host].name,
                .host = host,
                .netns_fd = netns,
                .only_given_settings = true,
                .settings = spec->hosts[host].settings,
                .n_settings = spec->hosts[host].n_settings}};
    struct verbs_host *made;
    weft_status status = verbs_host_create(loop, &config, &made, error);
    if (status == WEFT_OK) {
        *out = (struct veth_testing_host){made, verbs_host_env(made), destroy_verbs};
    }
    return status;
}

bool veth_testing_has_rxe(const char **out_why)
{
    if (!netns_testing_available(out_why)) {
        return false;
    }
    int netns = netns_testing_create(), peer = netns_testing_create();
    netns_testing_veth(netns, "p0", peer, "p0", 1500);
    int result = add_rxe(netns, "probe", "p0");
    close(netns);
    close(peer);
    *out_why = "no rdma_rxe in this kernel";
    return result == 0;
}
