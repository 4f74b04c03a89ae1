/* The waist's conformance suite between two kinds of NIC: on one end of a veth pair the kernel's
 * soft-RoCE and libibverbs, on the other the simulated NIC on its raw wire; each on either side.
 * Needs a kernel with rdma_rxe that knows namespaces (7.1 or newer): ci/guest/conformance runs
 * it in one. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/linux/netns_testing.h"
#include "backends/soft/host.h"
#include "backends/verbs/host.h"
#include "base/check.h"
#include "base/text.h"
#include "io/conformance_testing.h"

struct mixed_world {
    struct world world;
    struct linux_loop *loop;
    struct verbs_host *kernels; /* one of the two */
    struct soft_host *soft;     /* the other */
    int netns[2];
    uint64_t bytes[2], packets[2]; /* sent over the cable before the story */
};

static const struct world_ops mixed_ops;
static uint32_t soft_side; /* which host has the simulated NIC */

static struct mixed_world *of(const struct world *world)
{
    return (struct mixed_world *)(uintptr_t)((uintptr_t)world -
                                             offsetof(struct mixed_world, world));
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
        change->result = nl_send_sync(sock, message); /* frees it */
    }
    nl_socket_free(sock);
}

/* A device on `netdev`, of a name that no earlier story (a process each) has used: a device
 * goes with its namespace, but a little later. */
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

static void count_sent(const struct mixed_world *self, int host, uint64_t *bytes,
                       uint64_t *packets)
{
    struct sent sent = {.bytes = 0};
    netns_testing_in(self->netns[host], read_sent, &sent);
    *bytes = sent.bytes - self->bytes[host];
    *packets = sent.packets - self->packets[host];
}

static void lay_cables(const struct world_spec *spec, const int netns[2])
{
    char text[IO_IP_TEXT_BYTES + 4], ip[IO_IP_TEXT_BYTES];
    netns_testing_veth(netns[0], "p0", netns[1], "p0", spec->hosts[0].ports[0].mtu_bytes);
    netns_testing_veth(netns[0], "mgmt", netns[1], "mgmt", 1500);
    for (uint32_t i = 0; i < 2; i++) {
        const struct io_prefix *prefix = &spec->hosts[i].ports[0].addresses[0];
        weft_format(text, sizeof text, "%s/%u", io_ip_format(&prefix->ip, ip, sizeof ip),
                    prefix->prefix_len);
        netns_testing_address(netns[i], "p0", text);
        weft_format(text, sizeof text, "%s/%u",
                    io_ip_format(&spec->hosts[i].management_ip, ip, sizeof ip),
                    spec->management.prefix_len);
        netns_testing_address(netns[i], "mgmt", text);
        if (i != soft_side) {
            ck_assert_int_eq(add_rxe(netns[i], spec->hosts[i].name, "p0"), 0);
        }
    }
}

static weft_status open_host(struct mixed_world *self, const struct world_spec *spec,
                             uint32_t host, struct weft_error *error)
{
    struct world_setting settings[4] = {{"WEFT_SOFT_WIRE", "raw"},
                                        {"WEFT_MANAGEMENT", "mgmt"}};
    uint32_t n = 2;
    for (uint32_t i = 0; i < spec->hosts[host].n_settings; i++) {
        settings[n++] = spec->hosts[host].settings[i];
    }
    const struct linux_env_config env = {.name = spec->hosts[host].name,
                                         .host = host,
                                         .netns_fd = self->netns[host],
                                         .only_given_settings = true,
                                         .settings = settings,
                                         .n_settings = n};
    const struct verbs_host_config kernels = {.env = env};
    const struct soft_host_config soft = {.env = env, .spec = spec, .host = host};
    return host == soft_side
               ? soft_host_create(self->loop, &soft, &self->soft, error)
               : verbs_host_create(self->loop, &kernels, &self->kernels, error);
}

static weft_status create(const struct world_spec *spec, struct world **out,
                          struct weft_error *error)
{
    struct mixed_world *self = weft_calloc(1, sizeof *self);
    self->world.ops = &mixed_ops;
    ck_assert_int_eq(linux_loop_create(2, &self->loop, error), WEFT_OK);
    self->netns[0] = netns_testing_create();
    self->netns[1] = netns_testing_create();
    lay_cables(spec, self->netns);
    for (uint32_t i = 0; i < 2; i++) {
        weft_status status = open_host(self, spec, i, error);
        if (status != WEFT_OK) {
            return status;
        }
        count_sent(self, (int)i, &self->bytes[i], &self->packets[i]);
    }
    *out = &self->world;
    return WEFT_OK;
}

static struct io_env *host_env(struct world *world, uint32_t host, uint32_t process)
{
    (void)process;
    return host == soft_side ? soft_host_env(of(world)->soft)
                             : verbs_host_env(of(world)->kernels);
}

static struct io_loop *loop(struct world *world)
{
    return linux_loop_io(of(world)->loop);
}

static weft_ns now(struct world *world)
{
    return linux_loop_now(of(world)->loop);
}

static int inject(struct world *world, const struct world_fault *fault)
{
    if (fault->kind != WORLD_FAULT_DOWN && fault->kind != WORLD_FAULT_UP) {
        return EOPNOTSUPP;
    }
    netns_testing_up(of(world)->netns[fault->host], "p0", fault->kind == WORLD_FAULT_UP);
    return 0;
}

static bool host_alive(const struct world *world, uint32_t host)
{
    (void)world;
    (void)host;
    return true;
}

static weft_status step(struct world *world, weft_ns until)
{
    return linux_loop_step(of(world)->loop, until);
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

static bool counter(const struct world *world, uint32_t index, const char **out_name,
                    uint64_t *out_value)
{
    (void)world;
    (void)index;
    (void)out_name;
    (void)out_value;
    return false;
}

static void destroy(struct world *world)
{
    if (world == NULL) {
        return;
    }
    struct mixed_world *self = of(world);
    verbs_host_destroy(self->kernels);
    soft_host_destroy(self->soft);
    for (uint32_t i = 0; i < 2; i++) {
        close(self->netns[i]); /* its netdevs go, and rxe with them */
    }
    for (uint32_t i = 0; i < 2; i++) {
        for (int j = 0; j < N_TASKS; j++) {
            io_task_fini(&now_testing.task[i][j]);
        }
    }
    linux_loop_destroy(self->loop);
    free(self);
}

static const struct world_ops mixed_ops = {
    .name = "mixed",
    .create = create,
    .host_env = host_env,
    .loop = loop,
    .now = now,
    .inject = inject,
    .host_alive = host_alive,
    .step = step,
    .cable_stats = cable_stats,
    .counter = counter,
    .destroy = destroy,
};

static bool has_rxe(const char **out_why)
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

int main(void)
{
    const char *why;
    int n_failed = 0;
    if (!has_rxe(&why)) {
        printf("SKIP io conformance, verbs: %s\n", why);
        return 77;
    }
    for (soft_side = 0; soft_side < 2; soft_side++) {
        Suite *suite = suite_create("io conformance, soft and rxe");
        conformance_add(suite, &mixed_ops, "rxe");
        SRunner *runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        n_failed += srunner_ntests_failed(runner);
        srunner_free(runner);
    }
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
