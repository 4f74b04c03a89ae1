#include "rdma/path_mtu.h"

#include <check.h>
#include <string.h>

#include "base/suite_testing.h"
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

/* Loses full-size packets of `mtu` that are sent now, and reports it 300 ms later. */
static enum rdma_path_verdict lose(uint32_t port, const uint8_t *peer, uint32_t mtu,
                                   uint32_t *next)
{
    weft_ns began_ns = host.now;

    host.now += 300000000;
    return rdma_path_lost(rdma, &rdma->ports[port], peer, mtu, began_ns, next);
}

/* Loses packets twice, the second time after the pause. */
static enum rdma_path_verdict lose_twice(uint32_t port, const uint8_t *peer, uint32_t mtu,
                                         uint32_t *next)
{
    ck_assert_int_eq(lose(port, peer, mtu, next), RDMA_PATH_AGAIN);
    host.now += RDMA_PATH_PAUSE_NS;
    return lose(port, peer, mtu, next);
}

START_TEST(each_failure_halves_what_is_tried_down_to_256)
{
    const struct rdma_port *p0 = &rdma->ports[0];
    uint32_t mtu = 4096, next = 4096, n = 0;

    ck_assert_uint_eq(mtu_to(0, iceberg), 4096);
    while (lose_twice(0, iceberg, mtu, &next) == RDMA_PATH_LOWERED) {
        ck_assert_uint_eq(next, mtu / 2);
        ck_assert_uint_eq(mtu_to(0, iceberg), next);
        mtu = next;
        n++;
    }
    ck_assert_uint_eq(mtu, 256); /* is still tried */
    ck_assert_uint_eq(n, 4);
    ck_assert_uint_eq(rdma_path_vanished(rdma, p0, iceberg), 512);
    /* A path MTU whose loss is known is lowered at once. A port may allow less anyway. */
    ck_assert_int_eq(lose(0, iceberg, 4096, &next), RDMA_PATH_LOWERED);
    ck_assert_uint_eq(next, 256);
    ck_assert_uint_eq(rdma_path_mtu(rdma, p0, iceberg, 256), 256);
}
END_TEST

START_TEST(late_once_is_no_verdict)
{
    const struct rdma_port *p0 = &rdma->ports[0];
    uint32_t next = 0;
    weft_ns first;

    ck_assert_int_eq(lose(0, iceberg, 4096, &next), RDMA_PATH_AGAIN);
    first = host.now;
    /* A loss confirms nothing if its probes began before the first was reported, or too soon
     * after. */
    ck_assert_int_eq(rdma_path_lost(rdma, p0, iceberg, 4096, first - 100000000, &next),
                     RDMA_PATH_AGAIN);
    host.now += 100000000;
    ck_assert_int_eq(lose(0, iceberg, 4096, &next), RDMA_PATH_AGAIN);
    ck_assert_uint_eq(mtu_to(0, iceberg), 4096);
    ck_assert_uint_eq(rdma_path_vanished(rdma, p0, iceberg), 0);
    /* After packets have crossed, the next loss is a first one. */
    rdma_path_prove(rdma, p0, carpathia, 4096);
    rdma_path_prove(rdma, p0, iceberg, 4096);
    ck_assert_int_eq(lose(0, iceberg, 4096, &next), RDMA_PATH_AGAIN);
    ck_assert_uint_eq(next, 0);
}
END_TEST

START_TEST(a_loss_is_counted_from_the_first_one)
{
    uint32_t next = 0;

    ck_assert_int_eq(lose(0, iceberg, 4096, &next), RDMA_PATH_AGAIN);
    host.now += RDMA_PATH_PAUSE_NS - 1;
    ck_assert_int_eq(lose(0, iceberg, 4096, &next), RDMA_PATH_AGAIN);
    ck_assert_int_eq(lose(0, iceberg, 4096, &next), RDMA_PATH_LOWERED);
    ck_assert_uint_eq(next, 2048);
}
END_TEST

START_TEST(other_ports_and_other_hosts_are_other_paths)
{
    uint32_t next = 0;

    ck_assert_int_eq(lose_twice(0, iceberg, 4096, &next), RDMA_PATH_LOWERED);
    ck_assert_uint_eq(mtu_to(0, iceberg), 2048);
    ck_assert_uint_eq(mtu_to(0, carpathia), 4096);
    ck_assert_uint_eq(mtu_to(1, iceberg), 4096);
    ck_assert_uint_eq(rdma_path_vanished(rdma, &rdma->ports[0], carpathia), 0);
    ck_assert_int_eq(lose_twice(1, carpathia, 1024, &next), RDMA_PATH_LOWERED);
    ck_assert_uint_eq(next, 512);
    ck_assert_uint_eq(rdma_path_mtu(rdma, &rdma->ports[1], carpathia, 512), 512);
}
END_TEST

START_TEST(what_crossed_once_is_not_the_paths_fault)
{
    uint32_t next = 0;

    rdma_path_prove(rdma, &rdma->ports[0], iceberg, 2048);
    rdma_path_prove(rdma, &rdma->ports[0], iceberg, 1024);
    ck_assert_int_eq(lose_twice(0, iceberg, 2048, &next), RDMA_PATH_OTHER);
    ck_assert_uint_eq(mtu_to(0, iceberg), 4096);
    ck_assert_int_eq(lose_twice(0, iceberg, 4096, &next), RDMA_PATH_LOWERED);
    ck_assert_uint_eq(next, 2048);
}
END_TEST

/* The peer may try more than this end would, and packets of that size then cross. */
START_TEST(what_crosses_later_has_not_vanished)
{
    const struct rdma_port *p0 = &rdma->ports[0];
    uint32_t next = 0;

    ck_assert_int_eq(lose_twice(0, iceberg, 4096, &next), RDMA_PATH_LOWERED);
    rdma_path_prove(rdma, p0, iceberg, 2048);
    ck_assert_uint_eq(rdma_path_vanished(rdma, p0, iceberg), 4096);
    rdma_path_prove(rdma, p0, iceberg, 4096);
    ck_assert_uint_eq(rdma_path_vanished(rdma, p0, iceberg), 0);
    ck_assert_uint_eq(mtu_to(0, iceberg), 4096);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma/path_mtu");
    TCase *tests = tcase_create("path_mtu");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, each_failure_halves_what_is_tried_down_to_256);
    tcase_add_test(tests, late_once_is_no_verdict);
    tcase_add_test(tests, a_loss_is_counted_from_the_first_one);
    tcase_add_test(tests, other_ports_and_other_hosts_are_other_paths);
    tcase_add_test(tests, what_crossed_once_is_not_the_paths_fault);
    tcase_add_test(tests, what_crosses_later_has_not_vanished);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
