/* Host facts and streams in namespaces whose settings the test controls. */
#define _GNU_SOURCE
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "backends/linux/env.h"
#include "backends/linux/netns_testing.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "io/oob.h"

#define S ((weft_ns)1000000000)

static struct linux_loop *loop;
static struct linux_env *envs[2];
static int netns[2];
static struct io_task task;

static void setup(void)
{
    struct weft_error error = {.status = WEFT_OK};
    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
    io_task_init(&task, linux_loop_io(loop), 0, 0);
    netns[0] = netns_testing_create();
    netns[1] = netns_testing_create();
    netns_testing_veth(netns[0], "c0", netns[1], "far", 4200);
    netns_testing_veth(netns[0], "m0", netns[1], "m0", 1500);
    netns_testing_address(netns[0], "c0", "10.77.0.2/24");
    netns_testing_address(netns[0], "c0", "10.77.0.1/30");
    netns_testing_address(netns[0], "c0", "fd00::2/64");
    netns_testing_address(netns[0], "c0", "fd00::1/48");
    netns_testing_address(netns[0], "c0", "fe80::a/64");
    netns_testing_address(netns[1], "far", "10.77.0.9/24");
    netns_testing_address(netns[1], "far", "fe80::b/64");
    for (int i = 0; i < 2; i++) {
        struct linux_env_config config = {
            .name = "titanic", .netns_fd = netns[i], .management = "m0"};
        ck_assert_int_eq(linux_env_create(loop, &config, &envs[i], &error), WEFT_OK);
    }
}

static void teardown(void)
{
    for (int i = 0; i < 2; i++) {
        linux_env_destroy(envs[i]);
        close(netns[i]);
    }
    io_task_fini(&task);
    linux_loop_destroy(loop);
}

static const struct io_hostinfo *facts(int host)
{
    struct io_env *env = linux_env_io(envs[host]);
    return env->ops->hostinfo(env);
}

static const struct io_netdev *find(int host, const char *name)
{
    const struct io_hostinfo *info = facts(host);
    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        if (strcmp(info->netdevs[i].name, name) == 0) {
            return &info->netdevs[i];
        }
    }
    ck_abort_msg("no netdev %s", name);
    return NULL;
}

START_TEST(interfaces_as_they_were_made)
{
    const struct io_hostinfo *info = facts(0);
    ck_assert_str_eq(info->name, "titanic");
    ck_assert_uint_eq(info->n_netdevs, 2); /* without loopback */
    ck_assert_uint_lt(info->netdevs[0].ifindex, info->netdevs[1].ifindex);
    const struct io_netdev *cable = find(0, "c0");
    ck_assert_uint_eq(cable->mtu_bytes, 4200);
    ck_assert(cable->is_up && !cable->is_management);
    ck_assert_uint_eq(cable->speed_bps, UINT64_C(10000000000)); /* veth.c: SPEED_10000 */
    static const uint8_t zero[6];
    ck_assert_mem_ne(cable->mac, zero, 6);
    ck_assert(find(0, "m0")->is_management);
}
END_TEST

START_TEST(addresses_in_the_order_they_were_added)
{
    static const char *const expected[] = {"10.77.0.2/24", "10.77.0.1/30", "fd00::2/64",
                                           "fd00::1/48", "fe80::a/64"};
    const struct io_netdev *cable = find(0, "c0");
    ck_assert_uint_eq(cable->n_addresses, WEFT_LENGTH(expected));
    for (size_t i = 0, n_seen = 0; i < WEFT_LENGTH(expected); i++, n_seen = 0) {
        struct io_prefix prefix;
        ck_assert(io_prefix_parse(expected[i], &prefix));
        for (uint32_t j = 0; j < cable->n_addresses; j++) {
            const struct io_prefix *got = &cable->addresses[j];
            n_seen +=
                io_ip_equal(&got->ip, &prefix.ip) && got->prefix_len == prefix.prefix_len;
            /* Only the order of IPv4 is certain; IPv6 addresses of other scopes can share
             * a tick. */
            ck_assert(j != i || i > 1 || io_ip_equal(&got->ip, &prefix.ip));
        }
        ck_assert_uint_eq(n_seen, 1);
    }
}
END_TEST

START_TEST(a_cable_that_is_pulled)
{
    /* The far end is down, so there is no carrier. */
    netns_testing_up(netns[1], "far", false);
    ck_assert(!find(0, "c0")->is_up);
    netns_testing_up(netns[1], "far", true);
    ck_assert(find(0, "c0")->is_up);
}
END_TEST

/* A bridge has its own addresses, like a VRF; only a bond shares its addresses with its ports. */
START_TEST(a_port_of_a_bridge_is_in_no_bond)
{
    netns_testing_bridge(netns[0], "br0", "c0");
    ck_assert_uint_eq(find(0, "br0")->master, 0);
    ck_assert_uint_eq(find(0, "c0")->master, 0);
    ck_assert_uint_eq(find(0, "c0")->n_addresses, 5);
}
END_TEST

START_TEST(sysctls_are_the_effective_ones)
{
    netns_testing_sysctl(netns[0], "net/ipv4/conf/all/rp_filter", "1");
    netns_testing_sysctl(netns[0], "net/ipv4/conf/c0/rp_filter", "2");
    netns_testing_sysctl(netns[0], "net/ipv4/conf/m0/rp_filter", "0");
    netns_testing_sysctl(netns[0], "net/ipv4/conf/all/arp_ignore", "0");
    netns_testing_sysctl(netns[0], "net/ipv4/conf/c0/arp_ignore", "1");
    netns_testing_sysctl(netns[0], "net/ipv4/conf/all/arp_announce", "2");
    netns_testing_sysctl(netns[0], "net/ipv4/conf/c0/accept_local", "1");
    netns_testing_sysctl(netns[0], "net/ipv4/ip_forward", "1");
    const struct io_netdev *cable = find(0, "c0");
    ck_assert_int_eq(cable->rp_filter, 2);
    ck_assert_int_eq(cable->arp_ignore, 1);
    ck_assert_int_eq(cable->arp_announce, 2);
    ck_assert_int_eq(cable->accept_local, 1);
    ck_assert_int_eq(find(0, "m0")->rp_filter, 1);
    ck_assert_int_eq(find(0, "m0")->arp_ignore, 0);
    ck_assert_int_eq(facts(0)->ip_forward, 1);
}
END_TEST

/* Without descriptors nothing can be read, but the host keeps its identity and facts. */
START_TEST(facts_stay_when_descriptors_run_out)
{
    struct rlimit before;
    struct rlimit none = {0};
    uint8_t id[16];
    uint32_t n_netdevs = facts(0)->n_netdevs;
    memcpy(id, facts(0)->host_id, 16);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none.rlim_max = before.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    const struct io_hostinfo *info = facts(0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_uint_eq(info->n_netdevs, n_netdevs);
    ck_assert_mem_eq(info->host_id, id, 16);
    ck_assert_uint_gt(info->netdevs[0].n_addresses, 0);
}
END_TEST

START_TEST(limits_and_identity)
{
    const struct rlimit limit = {.rlim_cur = 65536, .rlim_max = 65536};
    uint8_t id[16];
    memcpy(id, facts(0)->host_id, 16);
    ck_assert_mem_eq(facts(0)->host_id, id, 16);
    ck_assert_mem_ne(facts(1)->host_id, id, 16); /* another namespace is another host */
    ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    ck_assert_int_eq(facts(0)->memlock_bytes, 65536);
}
END_TEST

START_TEST(settings_are_environment_variables)
{
    struct io_env *env = linux_env_io(envs[0]);
    ck_assert_int_eq(setenv("WEFT_TEST_SETTING", "yes", 1), 0);
    ck_assert_str_eq(env->ops->setting(env, "WEFT_TEST_SETTING"), "yes");
    ck_assert_ptr_null(env->ops->setting(env, "WEFT_TEST_SETTING_NOT"));
    ck_assert_int_eq(setenv("WEFT_FIRST_PSN", "1", 1), 0);
    ck_assert_ptr_null(env->ops->setting(env, "WEFT_FIRST_PSN"));
}
END_TEST

START_TEST(a_namespace_that_is_none)
{
    struct weft_error error = {.status = WEFT_OK};
    struct linux_env_config config = {.name = "x", .netns_fd = 0};
    struct linux_env *env;
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    config.netns_fd = fds[0];
    ck_assert_int_eq(linux_env_create(loop, &config, &env, &error), WEFT_ERR_ENVIRONMENT);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

/* ---- streams, as far as not in the conformance suite ---- */

static int outcome_of(struct io_stream *stream)
{
    const struct io_oob_ops *oob = linux_env_io(envs[0])->oob;
    weft_ns limit = linux_loop_now(loop) + 60 * S;
    int error;
    while ((error = oob->connected(stream)) == EAGAIN) {
        ck_assert_int_lt(linux_loop_now(loop), limit);
        (void)linux_loop_step(loop, limit);
        (void)io_loop_pop(linux_loop_io(loop));
    }
    return error;
}

START_TEST(link_local_addresses_need_their_interface)
{
    struct io_env *near = linux_env_io(envs[0]), *far = linux_env_io(envs[1]);
    const struct io_oob_ops *oob = near->oob;
    struct io_listener *listener;
    struct io_stream *stream;
    struct io_endpoint at = {.ifindex = find(1, "far")->ifindex}, real, from, to;
    ck_assert(io_ip_parse("fe80::b", &at.ip));
    ck_assert_int_eq(oob->listen(far, &at, 1, NULL, &listener, &real), 0);
    ck_assert_uint_eq(real.ifindex, at.ifindex);
    to = (struct io_endpoint){
        .ip = at.ip, .port = real.port, .ifindex = find(0, "c0")->ifindex};
    from = (struct io_endpoint){.ifindex = to.ifindex};
    ck_assert(io_ip_parse("fe80::a", &from.ip));
    ck_assert_int_eq(oob->connect(near, &from, &to, &task, &stream), 0);
    ck_assert_int_eq(outcome_of(stream), 0);
    oob->endpoints(stream, &real, NULL);
    ck_assert(io_ip_equal(&real.ip, &from.ip));
    ck_assert_uint_eq(real.ifindex, to.ifindex);
    oob->close(stream, false);
    to.ifindex = 0;
    ck_assert_int_eq(oob->connect(near, NULL, &to, &task, &stream), EINVAL);
    /* IPv4 cannot connect to IPv6. */
    to.ifindex = from.ifindex;
    from.ip = io_ip_v4(10, 77, 0, 1);
    ck_assert_int_eq(oob->connect(near, &from, &to, &task, &stream), EADDRNOTAVAIL);
    oob->close_listener(listener);
}
END_TEST

START_TEST(a_stream_keeps_to_its_interface)
{
    struct io_env *near = linux_env_io(envs[0]), *far = linux_env_io(envs[1]);
    const struct io_oob_ops *oob = near->oob;
    struct io_endpoint any = {.port = 0}, real;
    struct io_listener *listener;
    struct io_stream *stream;
    ck_assert_int_eq(oob->listen(far, &any, 1, NULL, &listener, &real), 0);
    struct io_endpoint to = {.ip = io_ip_v4(10, 77, 0, 9),
                             .port = real.port,
                             .ifindex = find(0, "c0")->ifindex};
    ck_assert_int_eq(oob->connect(near, NULL, &to, &task, &stream), 0);
    ck_assert_int_eq(outcome_of(stream), 0);
    oob->close(stream, true);
    to.ifindex = 12345;
    ck_assert_int_eq(oob->connect(near, NULL, &to, &task, &stream), ENODEV);
}
END_TEST

START_TEST(nobody_at_the_address)
{
    struct io_env *near = linux_env_io(envs[0]);
    struct io_stream *stream;
    struct io_endpoint to = {.ip = io_ip_v4(10, 77, 0, 77), .port = 4000};
    char byte;
    size_t n;
    ck_assert_int_eq(near->oob->connect(near, NULL, &to, &task, &stream), 0);
    ck_assert_int_eq(near->oob->recv(stream, &byte, 1, &n), EAGAIN);
    ck_assert_int_eq(near->oob->send(stream, "x", 1, &n), EAGAIN);
    ck_assert_int_eq(outcome_of(stream), EHOSTUNREACH);
    ck_assert_int_eq(near->oob->recv(stream, &byte, 1, &n), EHOSTUNREACH);
    ck_assert_int_eq(near->oob->send(stream, "x", 1, &n), EHOSTUNREACH);
    to.ip = io_ip_v4(203, 0, 113, 1);
    ck_assert_int_eq(near->oob->connect(near, NULL, &to, &task, &stream), ENETUNREACH);
    /* linux_env_destroy() closes the streams. */
}
END_TEST

int main(void)
{
    const char *why;
    if (!netns_testing_available(&why)) {
        printf("SKIP linux hostinfo: %s\n", why);
        return 77;
    }
    Suite *suite = suite_create("linux hostinfo");
    TCase *tcase = tcase_create("hostinfo");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, interfaces_as_they_were_made);
    tcase_add_test(tcase, addresses_in_the_order_they_were_added);
    tcase_add_test(tcase, a_cable_that_is_pulled);
    tcase_add_test(tcase, a_port_of_a_bridge_is_in_no_bond);
    tcase_add_test(tcase, sysctls_are_the_effective_ones);
    tcase_add_test(tcase, facts_stay_when_descriptors_run_out);
    tcase_add_test(tcase, limits_and_identity);
    tcase_add_test(tcase, settings_are_environment_variables);
    tcase_add_test(tcase, a_namespace_that_is_none);
    tcase_add_test(tcase, link_local_addresses_need_their_interface);
    tcase_add_test(tcase, a_stream_keeps_to_its_interface);
    tcase_add_test(tcase, nobody_at_the_address);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
