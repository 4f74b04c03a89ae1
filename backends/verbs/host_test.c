/* A whole host over a scripted libibverbs, in a namespace with two cables and a management
 * network. */
#define _GNU_SOURCE
#include "backends/verbs/host.h"

#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/linux/netns_testing.h"
#include "backends/verbs/fake_testing.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "io/verbs.h"

static struct linux_loop *loop;
static struct verbs_host *host;
static int netns, elsewhere;

/* Returns the default GID of `netdev` in `netns`, as its driver would create it. */
static struct ibv_gid_entry default_gid(const char *name)
{
    struct linux_env_config config = {.netns_fd = netns};
    struct weft_error error = {.status = WEFT_OK};
    struct linux_env *env;
    ck_assert_int_eq(linux_env_create(loop, &config, &env, &error), WEFT_OK);
    const struct io_hostinfo *info = linux_env_io(env)->ops->hostinfo(linux_env_io(env));
    struct ibv_gid_entry entry = {.gid_type = IBV_GID_TYPE_ROCE_V2};
    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        const uint8_t *mac = info->netdevs[i].mac;
        if (strcmp(info->netdevs[i].name, name) == 0) {
            entry.ndev_ifindex = info->netdevs[i].ifindex;
            const uint8_t bytes[16] = {0xfe, 0x80,   0,          0,      0,      0,
                                       0,    0,      mac[0] ^ 2, mac[1], mac[2], 0xff,
                                       0xfe, mac[3], mac[4],     mac[5]};
            memcpy(entry.gid.raw, bytes, 16);
        }
    }
    ck_assert_uint_ne(entry.ndev_ifindex, 0);
    linux_env_destroy(env);
    return entry;
}

static void setup(void)
{
    struct weft_error error = {.status = WEFT_OK};
    host = NULL;
    netns = netns_testing_create();
    elsewhere = netns_testing_create();
    netns_testing_veth(netns, "c0", elsewhere, "c0", 1500);
    netns_testing_veth(netns, "c1", elsewhere, "c1", 1500);
    netns_testing_veth(netns, "m0", elsewhere, "m0", 1500);
    netns_testing_address(netns, "m0", "10.88.0.1/24");
    netns_testing_address(netns, "c0", "10.77.0.1/24");
    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
    fake_reset();
    fake.n_devices = 3;
    fake.devices[0] = (struct fake_device){.name = "rxe_c1", .vendor_id = 0xffffff};
    fake.devices[1] = (struct fake_device){.name = "rxe_c0", .vendor_id = 0xffffff};
    fake.devices[2] = (struct fake_device){.name = "rxe_far", .vendor_id = 0xffffff};
    fake.devices[0].gids[0] = default_gid("c1");
    fake.devices[1].gids[0] = default_gid("c0");
    fake.devices[2].gids[0] = default_gid("c0");
    fake.devices[2].gids[0].gid.raw[13] ^= 1; /* the same ifindex, in another namespace */
}

static void teardown(void)
{
    verbs_host_destroy(host);
    linux_loop_destroy(loop);
    close(netns);
    close(elsewhere);
    ck_assert_int_eq(fake_n_live(), 0);
}

static weft_status start(const char *devices, const char *management,
                         struct weft_error *error)
{
    struct world_setting settings[2];
    struct verbs_host_config config = {.env = {.name = "titanic",
                                               .netns_fd = netns,
                                               .only_given_settings = true,
                                               .settings = settings},
                                       .library = &fake.library,
                                       .sysfs = "/nowhere"};
    *error = (struct weft_error){.status = WEFT_OK};
    if (devices != NULL) {
        settings[config.env.n_settings++] =
            (struct world_setting){"WEFT_DEVICES", devices};
    }
    if (management != NULL) {
        settings[config.env.n_settings++] =
            (struct world_setting){"WEFT_MANAGEMENT", management};
    }
    return verbs_host_create(loop, &config, &host, error);
}

static bool is_management(const char *name)
{
    struct io_env *env = verbs_host_env(host);
    const struct io_hostinfo *info = env->ops->hostinfo(env);
    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        if (strcmp(info->netdevs[i].name, name) == 0) {
            return info->netdevs[i].is_management;
        }
    }
    ck_abort_msg("no netdev %s", name);
    return false;
}

START_TEST(all_devices_of_this_namespace_by_name)
{
    struct weft_error error;
    ck_assert_int_eq(start(NULL, NULL, &error), WEFT_OK);
    struct io_env *env = verbs_host_env(host);
    ck_assert_uint_eq(env->n_devices, 2);
    ck_assert_str_eq(env->devices[0]->name, "rxe_c0");
    ck_assert_str_eq(env->devices[1]->name, "rxe_c1");
    ck_assert_ptr_nonnull(env->gpu);
    ck_assert_str_eq(env->name, "titanic");
    ck_assert(is_management("m0") && !is_management("c0") && !is_management("c1"));
}
END_TEST

START_TEST(named_devices_in_the_order_and_by_the_names_given)
{
    struct weft_error error;
    ck_assert_int_eq(start("p0=rxe_c1,rxe_c0", "c0", &error), WEFT_OK);
    struct io_env *env = verbs_host_env(host);
    ck_assert_uint_eq(env->n_devices, 2);
    ck_assert_str_eq(env->devices[0]->name, "p0");
    ck_assert_str_eq(env->devices[1]->name, "rxe_c0");
    ck_assert(is_management("c0") && !is_management("m0"));
}
END_TEST

/* The management netdev is the first without an RDMA port that NCCL_SOCKET_IFNAME selects. If it
 * selects only the netdevs of cables, these stay cables. */
START_TEST(a_list_selects_the_management_network_but_no_cable)
{
    static const struct {
        const char *interfaces, *management;
    } cases[] = {{"c0", "m0"},  {"m0", "m0"},     {"c1", "m0"}, {"m", "m0"},
                 {"m1", "m1"},  {"=m1", "m1"},    {"=m", "m0"}, {"c1,m1", "m1"},
                 {"^m0", "m1"}, {"^=m0,c", "m1"}, {"^c", "m0"}, {"docker", "m0"}};
    struct world_setting setting = {"WEFT_INTERFACES", cases[_i].interfaces};
    const struct verbs_host_config config = {.env = {.name = "titanic",
                                                     .netns_fd = netns,
                                                     .only_given_settings = true,
                                                     .settings = &setting,
                                                     .n_settings = 1},
                                             .library = &fake.library,
                                             .sysfs = "/nowhere"};
    struct weft_error error = {.status = WEFT_OK};

    netns_testing_veth(netns, "m1", elsewhere, "m1", 1500);
    netns_testing_address(netns, "m1", "10.89.0.1/24");
    ck_assert_int_eq(verbs_host_create(loop, &config, &host, &error), WEFT_OK);
    ck_assert(!is_management("c0") && !is_management("c1"));
    ck_assert(is_management(cases[_i].management));
}
END_TEST

/* The kernel's names do not identify the ports, but the addresses of the cables do. */
START_TEST(devices_are_called_like_the_ports_whose_addresses_they_have)
{
    struct io_prefix own[2];
    const struct world_port ports[] = {
        {.name = "p7", .addresses = &own[0], .n_addresses = 1},
        {.name = "p3", .addresses = &own[1], .n_addresses = 1}};
    const struct world_host like = {.name = "titanic", .ports = ports, .n_ports = 2};
    const struct verbs_host_config config = {
        .env = {.name = "titanic", .netns_fd = netns, .only_given_settings = true},
        .library = &fake.library,
        .like = &like};
    struct weft_error error = {.status = WEFT_OK};

    ck_assert(io_prefix_parse("10.77.0.2/24", &own[0])); /* the cable's other end */
    ck_assert(io_prefix_parse("10.77.0.1/24", &own[1]));
    ck_assert_int_eq(verbs_host_create(loop, &config, &host, &error), WEFT_OK);
    struct io_env *env = verbs_host_env(host);
    ck_assert_uint_eq(env->n_devices, 2);
    ck_assert_str_eq(env->devices[0]->name, "p3"); /* rxe_c0, on c0 */
    ck_assert_str_eq(env->devices[1]->name, "rxe_c1");
}
END_TEST

START_TEST(a_missing_device_is_named)
{
    struct weft_error error;
    ck_assert_int_eq(start("p0=rxe_c0,p1=rxe_gone", NULL, &error), WEFT_ERR_ENVIRONMENT);
    ck_assert_str_eq(error.message, "no RDMA device rxe_gone in this network namespace");
    ck_assert_int_eq(start("p0=rxe_far", NULL, &error), WEFT_ERR_ENVIRONMENT);
    ck_assert_str_eq(error.message, "no RDMA device rxe_far in this network namespace");
    fake.devices[1].cannot_open = true;
    ck_assert_int_eq(start("p0=rxe_c0", NULL, &error), WEFT_ERR_SYSTEM);
    ck_assert_str_eq(error.object, "rxe_c0");
    /* The other device can still be opened. */
    ck_assert_int_eq(start(NULL, NULL, &error), WEFT_OK);
    ck_assert_uint_eq(verbs_host_env(host)->n_devices, 1);
}
END_TEST

START_TEST(nonsense_is_refused)
{
    static const char *const texts[] = {"=x", "p0=", "p0=a,,p1=b", ","};
    for (size_t i = 0; i < WEFT_LENGTH(texts); i++) {
        struct weft_error error;
        ck_assert_int_eq(start(texts[i], NULL, &error), WEFT_ERR_INPUT);
        ck_assert_ptr_nonnull(strstr(error.message, "WEFT_DEVICES"));
    }
}
END_TEST

START_TEST(no_device_is_a_fact_of_the_environment)
{
    struct weft_error error;
    fake.n_devices = 0;
    ck_assert_int_eq(start(NULL, NULL, &error), WEFT_ERR_ENVIRONMENT);
    ck_assert_str_eq(error.message,
                     "no RDMA device has a port in this network namespace (0 seen)");
    fake.n_devices = -1;
    ck_assert_int_eq(start(NULL, NULL, &error), WEFT_ERR_ENVIRONMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "Function not implemented"));
}
END_TEST

START_TEST(a_software_nic_goes_before_a_thread_that_is_the_host_s)
{
    struct verbs_host_config config = {.env = {.netns_fd = netns},
                                       .library = &fake.library};
    const struct sched_param none = {0};
    struct weft_error error = {.status = WEFT_OK};

    ck_assert_int_eq(sched_setscheduler(0, SCHED_OTHER, &none), 0);
    ck_assert_int_eq(verbs_host_create(loop, &config, &host, &error), WEFT_OK);
    /* The host does not own the thread. */
    ck_assert_int_eq(sched_getscheduler(0), SCHED_OTHER);
    verbs_host_destroy(host);
    config.owns_thread = true;
    fake.devices[0].vendor_id = fake.devices[1].vendor_id = 0x2c9;
    ck_assert_int_eq(verbs_host_create(loop, &config, &host, &error), WEFT_OK);
    ck_assert_int_eq(sched_getscheduler(0), SCHED_OTHER); /* no device is rxe */
    verbs_host_destroy(host);
    fake.devices[1].vendor_id = 0xffffff;
    ck_assert_int_eq(verbs_host_create(loop, &config, &host, &error), WEFT_OK);
    ck_assert_int_eq(sched_getscheduler(0), SCHED_BATCH);
}
END_TEST

START_TEST(the_real_library_never_crashes_a_host)
{
    struct weft_error error = {.status = WEFT_OK};
    struct verbs_host_config config = {.env = {.netns_fd = netns}};
    weft_status status = verbs_host_create(loop, &config, &host, &error);
    ck_assert_int_eq(status, WEFT_ERR_ENVIRONMENT); /* a new namespace has no device */
    ck_assert_str_ne(error.message, "");
}
END_TEST

int main(void)
{
    const char *why;
    if (!netns_testing_available(&why)) {
        printf("SKIP verbs host: %s\n", why);
        return 77;
    }
    Suite *suite = suite_create("verbs host");
    TCase *tcase = tcase_create("host");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, all_devices_of_this_namespace_by_name);
    tcase_add_test(tcase, named_devices_in_the_order_and_by_the_names_given);
    tcase_add_loop_test(tcase, a_list_selects_the_management_network_but_no_cable, 0, 12);
    tcase_add_test(tcase, devices_are_called_like_the_ports_whose_addresses_they_have);
    tcase_add_test(tcase, a_missing_device_is_named);
    tcase_add_test(tcase, nonsense_is_refused);
    tcase_add_test(tcase, no_device_is_a_fact_of_the_environment);
    tcase_add_test(tcase, a_software_nic_goes_before_a_thread_that_is_the_host_s);
    tcase_add_test(tcase, the_real_library_never_crashes_a_host);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
