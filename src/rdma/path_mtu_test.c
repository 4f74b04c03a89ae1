#include "rdma/path_mtu.h"

#include <check.h>
#include <string.h>

#include "rdma/rdma_testing.h"

static struct fake_host host;
static struct rdma *rdma;
static const uint8_t iceberg[16] = {1}, carpathia[16] = {2};

static void setup(void)
{
    fake_host_init(&host);
    fake_device_add(&host, "p0", 1);
    fake_device_add(&host, "p1", 2);
    rdma = fake_open(&host);
}

static void teardown(void)
{
    rdma_close(rdma);
    fake_host_fini(&host);
}

static uint32_t mtu_to(uint32_t port, const uint8_t *peer)
{
    return rdma_path_mtu(rdma, &rdma->ports[port], peer, 4096);
}

START_TEST(each_failure_halves_what_is_tried_down_to_256)
{
    const struct rdma_port *p0 = &rdma->ports[0];
    uint32_t mtu = 4096, n = 0;

    ck_assert_uint_eq(mtu_to(0, iceberg), 4096);
    for (uint32_t next = mtu; next != 0; n++) {
        mtu = next;
        next = rdma_path_lower(rdma, p0, iceberg, mtu);
        ck_assert_uint_eq(mtu_to(0, iceberg), next != 0 ? next : 256);
    }
    ck_assert_uint_eq(mtu, 256); /* which is tried, and not left behind */
    ck_assert_uint_eq(n, 5);
    ck_assert_uint_eq(rdma_path_vanished(rdma, p0, iceberg), 512);
    /* The other end may have found it first, and a port may allow less anyway. */
    ck_assert_uint_eq(rdma_path_lower(rdma, p0, iceberg, 4096), 256);
    ck_assert_uint_eq(rdma_path_mtu(rdma, p0, iceberg, 256), 256);
}
END_TEST

START_TEST(other_ports_and_other_hosts_are_other_paths)
{
    ck_assert_uint_eq(rdma_path_lower(rdma, &rdma->ports[0], iceberg, 4096), 2048);
    ck_assert_uint_eq(mtu_to(0, iceberg), 2048);
    ck_assert_uint_eq(mtu_to(0, carpathia), 4096);
    ck_assert_uint_eq(mtu_to(1, iceberg), 4096);
    ck_assert_uint_eq(rdma_path_vanished(rdma, &rdma->ports[0], carpathia), 0);
    ck_assert_uint_eq(rdma_path_lower(rdma, &rdma->ports[1], carpathia, 1024), 512);
    ck_assert_uint_eq(rdma_path_mtu(rdma, &rdma->ports[1], carpathia, 512), 512);
}
END_TEST

START_TEST(what_crossed_once_is_not_the_paths_fault)
{
    rdma_path_prove(rdma, &rdma->ports[0], iceberg, 2048);
    rdma_path_prove(rdma, &rdma->ports[0], iceberg, 1024);
    ck_assert_uint_eq(rdma_path_lower(rdma, &rdma->ports[0], iceberg, 2048), 0);
    ck_assert_uint_eq(mtu_to(0, iceberg), 4096);
    ck_assert_uint_eq(rdma_path_lower(rdma, &rdma->ports[0], iceberg, 4096), 2048);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma/path_mtu");
    TCase *tests = tcase_create("path_mtu");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, each_failure_halves_what_is_tried_down_to_256);
    tcase_add_test(tests, other_ports_and_other_hosts_are_other_paths);
    tcase_add_test(tests, what_crossed_once_is_not_the_paths_fault);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
