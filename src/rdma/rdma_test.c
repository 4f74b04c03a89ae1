#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/suite_testing.h"
#include "rdma/mr.h"
#include "rdma/rdma_testing.h"

static struct fake_host host;
static struct fake_device *p0, *p1;
static struct rdma *rdma;
static struct weft_error error;

/* p0 has one port, p1 two. */
static void setup(void)
{
    fake_host_init(&host);
    p0 = fake_device_add(&host, "p0", 1);
    p1 = fake_device_add(&host, "p1", 2);
    fake_slot_set(p0, 1, 0, "fe80::1", IBV_GID_TYPE_ROCE_V1);
    fake_slot_set(p0, 1, 1, "fe80::1", IBV_GID_TYPE_ROCE_V2);
    fake_address_add(p0, 1, "10.0.0.1/30");
    fake_address_add(p1, 2, "fd00::1/64");
    rdma = NULL;
    weft_error_clear(&error);
}

static void teardown(void)
{
    rdma_close(rdma);
    ck_assert_int_eq(host.n_live, 0);
    ck_assert_uint_eq(host.n_running, 0);
    fake_host_fini(&host);
}

START_TEST(everything_is_found)
{
    p1->ports[1].state = IBV_PORT_DOWN;
    p1->ports[1].active_mtu = IBV_MTU_1024;
    p1->ifindex[0] = 0; /* a port without a netdev */
    rdma = fake_open(&host);
    ck_assert_uint_eq(rdma->n_ports, 3);
    const struct rdma_port *port = &rdma->ports[0];
    ck_assert_str_eq(port->name, "p0");
    ck_assert_uint_eq(port->device_index, 0);
    ck_assert_uint_eq(port->port, 1);
    ck_assert_str_eq(port->netdev, "p0np0");
    ck_assert_uint_eq(port->rate_bps, UINT64_C(100000000000));
    ck_assert_uint_eq(port->netdev_mtu, 9000);
    ck_assert_uint_eq(port->active_mtu, 4096);
    ck_assert(port->is_active);
    ck_assert_uint_eq(port->n_gids, 4);
    ck_assert_uint_eq(port->gids[1].prefix_len, 0);
    ck_assert_uint_eq(port->gids[3].prefix_len, 30);
    ck_assert_uint_eq(port->gids[3].index, 3);
    ck_assert_int_eq((int)port->gids[3].type, IBV_GID_TYPE_ROCE_V2);
    port = &rdma->ports[1];
    ck_assert_str_eq(port->name, "p1");
    ck_assert_str_eq(port->netdev, "");
    ck_assert_uint_eq(port->rate_bps, 0);
    ck_assert_uint_eq(port->n_gids, 0);
    port = &rdma->ports[2];
    ck_assert_str_eq(port->name, "p1/2");
    ck_assert_uint_eq(port->port, 2);
    ck_assert_uint_eq(port->active_mtu, 1024);
    ck_assert(!port->is_active);
    ck_assert_uint_eq(port->gids[0].prefix_len, 64);
    ck_assert_int_eq(host.n_live, 2);
}
END_TEST

START_TEST(a_host_without_devices_says_so)
{
    host.env.n_devices = 0;
    ck_assert_int_eq(rdma_open(&host.env, NULL, &rdma, &error), WEFT_ERR_ENVIRONMENT);
    ck_assert_ptr_null(rdma);
    ck_assert_str_eq(weft_phase_name(error.phase), "discover");
    ck_assert_str_eq(error.object, "titanic");
}
END_TEST

START_TEST(discovery_may_fail_at_any_query)
{
    struct fake_device *device = _i == 0 ? p0 : p1;
    device->query_failure = EIO;
    ck_assert_int_eq(rdma_open(&host.env, NULL, &rdma, &error), WEFT_ERR_SYSTEM);
    ck_assert_int_eq(error.sys_errno, EIO);
    ck_assert_str_eq(error.object, _i == 0 ? "titanic:p0" : "titanic:p1");
    ck_assert_ptr_null(rdma);
}
END_TEST

START_TEST(protection_domains_may_be_slow_fail_or_be_given_up)
{
    fake_rule_add(&host, IO_OP_ALLOC_PD, 2, 0, false, 2);
    ck_assert_int_eq(rdma_open(&host.env, NULL, &rdma, &error), WEFT_OK);
    ck_assert_int_eq(rdma_progress(rdma, &error), WEFT_AGAIN);
    ck_assert(!rdma->is_ready);
    ck_assert_ptr_nonnull(rdma->pds[0]);
    ck_assert_int_eq(rdma_progress(rdma, &error), WEFT_AGAIN);
    ck_assert_int_eq(rdma_progress(rdma, &error), WEFT_OK);
    ck_assert(rdma->is_ready);
    ck_assert_int_eq(rdma_progress(rdma, &error), WEFT_OK);
    rdma_close(rdma);

    fake_rule_add(&host, IO_OP_ALLOC_PD, 3, ENOMEM, false, 0);
    ck_assert_int_eq(rdma_open(&host.env, NULL, &rdma, &error), WEFT_OK);
    ck_assert_int_eq(rdma_progress(rdma, &error), WEFT_ERR_SYSTEM);
    ck_assert_int_eq(error.sys_errno, ENOMEM);
    ck_assert_str_eq(error.object, "titanic:p0");
    rdma_close(rdma);

    fake_rule_add(&host, IO_OP_ALLOC_PD, 6, EPERM, true, 0);
    weft_error_clear(&error);
    ck_assert_int_eq(rdma_open(&host.env, NULL, &rdma, &error), WEFT_ERR_SYSTEM);
    ck_assert_int_eq(error.sys_errno, EPERM);
    ck_assert_str_eq(error.object, "titanic:p1");
    ck_assert_ptr_null(rdma);

    fake_rule_add(&host, IO_OP_ALLOC_PD, 7, 0, false, 9);
    ck_assert_int_eq(rdma_open(&host.env, NULL, &rdma, &error), WEFT_OK);
    ck_assert_int_eq(rdma_progress(rdma, &error), WEFT_AGAIN);
    /* teardown closes it with one PD allocated and one in progress */
}
END_TEST

/* A destroy verb that is refused during close is tried once more at once, because no caller retries
 * it. */
START_TEST(what_is_refused_for_a_moment_at_close_is_given_back)
{
    static const int errors[] = {EAGAIN, EINTR, ENOMEM};

    rdma = fake_open(&host);
    fake_rule_add(&host, IO_OP_DEALLOC_PD, 1, errors[_i], true, 0);
    /* teardown closes it, and checks that no object is left */
}
END_TEST

START_TEST(refresh_sees_what_changed_and_keeps_ports_in_place)
{
    rdma = fake_open(&host);
    const struct rdma_port *port = &rdma->ports[0];
    const struct rdma_gid *gids = port->gids;
    ck_assert_uint_eq(gids[3].prefix_len, 30);
    fake_slot_set(p0, 1, 2, NULL, IBV_GID_TYPE_ROCE_V1);
    fake_slot_set(p0, 1, 3, NULL, IBV_GID_TYPE_ROCE_V2);
    host.netdevs[0].n_addresses = 0;
    host.netdevs[0].speed_bps = 1000;
    for (int i = 0; i < 5; i++) {
        fake_address_add(p0, 1, i == 4 ? "10.0.9.1/24" : "10.0.9.9/32");
        host.netdevs[0].n_addresses = i == 4 ? host.netdevs[0].n_addresses : 0;
    }
    p0->ports[0].state = IBV_PORT_DOWN;
    ck_assert_int_eq(rdma_refresh(rdma, &error), WEFT_OK);
    ck_assert_ptr_eq(port, &rdma->ports[0]);
    ck_assert_uint_eq(port->n_gids, 12);
    ck_assert_uint_eq(port->gids[11].prefix_len, 24);
    ck_assert_uint_eq(port->gids[2].prefix_len, 0);
    ck_assert_uint_eq(port->rate_bps, 1000);
    ck_assert(!port->is_active);
    p0->query_failure = ENODEV;
    ck_assert_int_eq(rdma_refresh(rdma, &error), WEFT_ERR_SYSTEM);
    ck_assert_int_eq(error.sys_errno, ENODEV);
    p0->query_failure = 0;
}
END_TEST

/* A lost device is not queried, which would fail. The other device continues. */
START_TEST(a_lost_device_is_left_alone)
{
    struct weft_error error_now = {0};
    struct rdma_mr mr;
    char page[16];

    rdma = fake_open(&host);
    rdma_lose_device(rdma, 1);
    p1->query_failure = EIO;
    p0->ports[0].active_mtu = IBV_MTU_1024;
    ck_assert_int_eq(rdma_refresh(rdma, &error), WEFT_OK);
    ck_assert(rdma->ports[0].is_active);
    ck_assert_uint_eq(rdma->ports[0].active_mtu, 1024);
    ck_assert(!rdma->ports[1].is_active && !rdma->ports[2].is_active);
    ck_assert_uint_gt(rdma->ports[2].n_gids, 0); /* kept for reports */
    ck_assert_int_eq(rdma_progress(rdma, &error), WEFT_OK);
    ck_assert_int_eq(
        rdma_mr_get(rdma->mrs, 1, page, sizeof(page), 0, NULL, &mr, &error_now),
        WEFT_ERR_SYSTEM);
    ck_assert_int_eq(error_now.sys_errno, EIO);
    ck_assert_uint_eq(host.n_ops[IO_OP_REG_MR], 0);
}
END_TEST

/* The device is lost before its PD exists, which is then not waited for. It is an error if no
 * device is left. */
START_TEST(a_device_may_go_before_it_is_ready)
{
    fake_rule_add(&host, IO_OP_ALLOC_PD, 2, 0, false, 1000);
    ck_assert_int_eq(rdma_open(&host.env, NULL, &rdma, &error), WEFT_OK);
    ck_assert_int_eq(rdma_progress(rdma, &error), WEFT_AGAIN);
    rdma_lose_device(rdma, 1);
    ck_assert_int_eq(rdma_progress(rdma, &error), WEFT_OK);
    ck_assert_ptr_nonnull(rdma->pds[0]);
    ck_assert_ptr_null(rdma->pds[1]);
    rdma_lose_device(rdma, 0);
    ck_assert_int_eq(rdma_progress(rdma, &error), WEFT_ERR_SYSTEM);
    ck_assert_int_eq(error.sys_errno, ENODEV);
}
END_TEST

START_TEST(gids_are_found_by_value_and_type_as_the_table_is_now)
{
    rdma = fake_open(&host);
    const struct rdma_port *port = &rdma->ports[0];
    union ibv_gid gid = fake_gid_of("10.0.0.1");
    uint32_t index = 99;
    ck_assert_int_eq(rdma_find_gid(rdma, port, &gid, IBV_GID_TYPE_ROCE_V1, &index), 0);
    ck_assert_uint_eq(index, 2);
    ck_assert_int_eq(rdma_find_gid(rdma, port, &gid, IBV_GID_TYPE_ROCE_V2, &index), 0);
    ck_assert_uint_eq(index, 3);
    /* Slot 3 now holds the same GID with the other type. */
    fake_slot_set(p0, 1, 3, "10.0.0.1", IBV_GID_TYPE_ROCE_V1);
    ck_assert_int_eq(rdma_find_gid(rdma, port, &gid, IBV_GID_TYPE_ROCE_V2, &index),
                     ENODATA);
    fake_slot_set(p0, 1, 15, "10.0.0.1", IBV_GID_TYPE_ROCE_V2);
    ck_assert_int_eq(rdma_find_gid(rdma, port, &gid, IBV_GID_TYPE_ROCE_V2, &index), 0);
    ck_assert_uint_eq(index, 15);
    /* Beyond the table, or after the device is gone, it is not found. */
    p0->ports[0].gid_tbl_len = 15;
    ck_assert_int_eq(rdma_find_gid(rdma, port, &gid, IBV_GID_TYPE_ROCE_V2, &index),
                     ENODATA);
    p0->ports[0].gid_tbl_len = -1;
    ck_assert_int_eq(rdma_find_gid(rdma, port, &gid, IBV_GID_TYPE_ROCE_V2, &index),
                     ENODATA);
    p0->ports[0].gid_tbl_len = 1 << 20;
    ck_assert_int_eq(rdma_find_gid(rdma, port, &gid, IBV_GID_TYPE_ROCE_V2, &index), 0);
    p0->query_failure = ENODEV;
    ck_assert_int_eq(rdma_find_gid(rdma, port, &gid, IBV_GID_TYPE_ROCE_V2, &index),
                     ENODEV);
    ck_assert_ptr_nonnull(rdma_port_gid(port, &gid, IBV_GID_TYPE_ROCE_V2));
    gid.raw[15] = 77;
    ck_assert_ptr_null(rdma_port_gid(port, &gid, IBV_GID_TYPE_ROCE_V2));
}
END_TEST

START_TEST(functions_of_one_card_are_one_nic)
{
    static const struct {
        const char *p0, *p1;
        uint32_t nic_of_p1;
    } cases[] = {
        {"/sys/devices/pci0000:00/0000:01:00.0", "/sys/devices/pci0000:00/0000:01:00.1",
         0},
        {"0000:01:00.0", "0002:01:00.1", 1},
        {"0000:01:00.0", "0000:01:00.0", 0}, /* a VF of the same card in a fake path */
        {"0000:01:00.0", "00:01:00.1", 1},
        {"", "", 1},
        {"x", "x", 0},
    };
    rdma = fake_open(&host);
    weft_format(p0->device.pci_path, sizeof(p0->device.pci_path), "%s", cases[_i].p0);
    weft_format(p1->device.pci_path, sizeof(p1->device.pci_path), "%s", cases[_i].p1);
    ck_assert_uint_eq(rdma_nic(rdma, 0), 0);
    ck_assert_uint_eq(rdma_nic(rdma, 1), cases[_i].nic_of_p1);
}
END_TEST

START_TEST(mtus_types_and_gids_as_text)
{
    static const uint32_t bytes[] = {256, 512, 1024, 2048, 4096};
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq((int)rdma_mtu_enum(bytes[i]), IBV_MTU_256 + i);
        ck_assert_uint_eq(rdma_mtu_bytes((enum ibv_mtu)(IBV_MTU_256 + i)), bytes[i]);
    }
    ck_assert_uint_eq(rdma_mtu_bytes((enum ibv_mtu)0), 0);
    ck_assert_uint_eq(rdma_mtu_bytes((enum ibv_mtu)6), 0);
    ck_assert_int_eq((int)rdma_mtu_enum(1500), 0);
    ck_assert_int_eq((int)rdma_mtu_enum(0), 0);
    ck_assert_str_eq(rdma_gid_type_name(IBV_GID_TYPE_IB), "IB");
    ck_assert_str_eq(rdma_gid_type_name(IBV_GID_TYPE_ROCE_V1), "RoCE v1");
    ck_assert_str_eq(rdma_gid_type_name(IBV_GID_TYPE_ROCE_V2), "RoCE v2");
    ck_assert_str_eq(rdma_gid_type_name((enum ibv_gid_type)9), "?");
    char text[IO_IP_TEXT_BYTES];
    union ibv_gid gid = fake_gid_of("192.168.101.1");
    ck_assert_str_eq(rdma_gid_format(&gid, text, sizeof(text)), "192.168.101.1");
    gid = fake_gid_of("fe80::1");
    ck_assert_str_eq(rdma_gid_format(&gid, text, sizeof(text)), "fe80::1");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma/rdma");
    TCase *tests = tcase_create("rdma");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, everything_is_found);
    tcase_add_test(tests, a_host_without_devices_says_so);
    tcase_add_loop_test(tests, discovery_may_fail_at_any_query, 0, 2);
    tcase_add_test(tests, protection_domains_may_be_slow_fail_or_be_given_up);
    tcase_add_loop_test(tests, what_is_refused_for_a_moment_at_close_is_given_back, 0, 3);
    tcase_add_loop_test(tests, what_is_refused_for_a_moment_at_close_is_given_back, 0, 3);
    tcase_add_test(tests, refresh_sees_what_changed_and_keeps_ports_in_place);
    tcase_add_test(tests, a_lost_device_is_left_alone);
    tcase_add_test(tests, a_device_may_go_before_it_is_ready);
    tcase_add_test(tests, gids_are_found_by_value_and_type_as_the_table_is_now);
    tcase_add_loop_test(tests, functions_of_one_card_are_one_nic, 0, 6);
    tcase_add_test(tests, mtus_types_and_gids_as_text);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
