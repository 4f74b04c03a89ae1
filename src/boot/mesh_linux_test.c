/* Tests mesh boot over the kernel's interfaces: three namespaces in a line of veth pairs, the first
 * with IPv4 addresses, the second with link-local ones, and two processes at the end. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/linux/env.h"
#include "backends/linux/netns_testing.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "boot/mesh.h"

#define HOSTS 3
#define MEMBERS 4 /* the fourth is a second process of the third host */
#define KIND 7
#define SECOND ((weft_ns)1000000000)

/* A dummy RDMA device with a netdev. */
struct port {
    struct io_device io;
    uint32_t ifindex;
};

struct member {
    struct linux_env *env;
    struct port ports[2];
    struct io_device *devices[2];
    struct boot *boot;
    weft_status status;
    struct weft_error error;
};

struct village {
    struct linux_loop *loop;
    int netns[HOSTS];
    struct member members[MEMBERS];
};

static int port_netdev(struct io_device *device, uint8_t port, uint32_t *out)
{
    ck_assert_uint_eq(port, 1);
    *out = weft_container_of(device, struct port, io)->ifindex;
    return 0;
}

static const struct io_device_ops device_ops = {.port_netdev = port_netdev};

static void add_devices(struct member *member)
{
    struct io_env *env = linux_env_io(member->env);
    const struct io_hostinfo *info = env->ops->hostinfo(env);

    env->devices = member->devices;
    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        if (info->netdevs[i].name[0] == 'p') {
            struct port *port = &member->ports[env->n_devices];

            *port = (struct port){.io = {.ops = &device_ops, .n_ports = 1},
                                  .ifindex = info->netdevs[i].ifindex};
            member->devices[env->n_devices++] = &port->io;
        }
    }
}

static void village_open(struct village *village)
{
    struct weft_error error = {0};

    memset(village, 0, sizeof(*village));
    ck_assert_int_eq(linux_loop_create(MEMBERS, &village->loop, &error), WEFT_OK);
    for (uint32_t h = 0; h < HOSTS; h++) {
        village->netns[h] = netns_testing_create();
    }
    netns_testing_veth(village->netns[0], "p0", village->netns[1], "p0", 1500);
    netns_testing_veth(village->netns[1], "p1", village->netns[2], "p0", 1500);
    netns_testing_address(village->netns[0], "p0", "10.1.0.1/24");
    netns_testing_address(village->netns[1], "p0", "10.1.0.2/24");
    netns_testing_address(village->netns[1], "p1", "fe80::1/64");
    netns_testing_address(village->netns[2], "p0", "fe80::2/64");
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct member *member = &village->members[i];
        struct linux_env_config config = {.name = "host",
                                          .host = i,
                                          .netns_fd = village->netns[i < HOSTS ? i : 2],
                                          .only_given_settings = true};
        struct boot_config boot = {.mode = BOOT_NEIGHBOURS,
                                   .rank = i,
                                   .n_ranks = MEMBERS,
                                   .patience_ns = 30 * SECOND,
                                   .step_ns = 20 * SECOND};

        ck_assert_int_eq(linux_env_create(village->loop, &config, &member->env, &error),
                         WEFT_OK);
        add_devices(member);
        ck_assert_int_eq(
            boot_open(linux_env_io(member->env), &boot, KIND, &member->boot, &error),
            WEFT_OK);
    }
}

static void village_close(struct village *village)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        boot_close(village->members[i].boot);
        linux_env_destroy(village->members[i].env);
    }
    for (uint32_t h = 0; h < HOSTS; h++) {
        close(village->netns[h]);
    }
    linux_loop_destroy(village->loop);
}

static void pass_time(struct village *village, bool (*done)(const struct village *))
{
    weft_ns until = linux_loop_now(village->loop) + 60 * SECOND;

    while (!done(village)) {
        struct io_task *task;

        ck_assert_int_eq(linux_loop_step(village->loop, until), WEFT_OK);
        while ((task = io_loop_pop(linux_loop_io(village->loop))) != NULL) {
            struct member *member = &village->members[task->host];

            member->status = boot_progress(member->boot, &member->error);
            ck_assert_msg(member->status >= 0, "%u: %s", task->host,
                          member->error.message);
        }
    }
}

static bool all_gathered(const struct village *village)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (village->members[i].status == WEFT_AGAIN) {
            return false;
        }
    }
    return true;
}

static bool first_knows_all_links(const struct village *village)
{
    struct boot_link links[8];
    uint32_t n = boot_links(village->members[0].boot, links, 8);
    uint32_t n_carry = 0;

    for (uint32_t i = 0; i < n && i < 8; i++) {
        n_carry += links[i].carries ? 1 : 0;
    }
    return n_carry == 4; /* 0-1, 1-2, 1-3, 2-3 */
}

START_TEST(namespaces_find_each_other)
{
    static const size_t sizes[] = {1000, 0, 65536};
    static uint8_t mine[65536];
    struct village village;

    village_open(&village);
    for (size_t round = 0; round < WEFT_LENGTH(sizes); round++) {
        for (uint32_t i = 0; i < MEMBERS; i++) {
            memset(mine, (int)(16 * round + i), sizeof(mine));
            village.members[i].status = WEFT_AGAIN;
            boot_gather(village.members[i].boot, mine, sizes[round]);
        }
        pass_time(&village, all_gathered);
        for (uint32_t i = 0; i < MEMBERS; i++) {
            const uint8_t *result = boot_result(village.members[i].boot);

            for (size_t j = 0; j < MEMBERS * sizes[round]; j++) {
                if (result[j] != 16 * round + j / sizes[round]) {
                    ck_abort_msg("%u: byte %zu is %u", i, j, result[j]);
                }
            }
        }
    }
    pass_time(&village, first_knows_all_links);
    ck_assert(boot_reaches(village.members[0].boot, 3));
    village_close(&village);
}
END_TEST

int main(void)
{
    Suite *suite;
    TCase *tcase;
    const char *why;

    if (!netns_testing_available(&why)) {
        printf("SKIP mesh, linux: %s\n", why);
        return 77;
    }
    suite = suite_create("mesh, linux");
    tcase = tcase_create("all");
    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, namespaces_find_each_other);
    return suite_run(suite);
}
