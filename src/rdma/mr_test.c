#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/suite_testing.h"
#include "rdma/mr.h"
#include "rdma/rdma_testing.h"

static struct fake_host host;
static struct rdma *rdma;
static struct weft_error error;
static struct io_task task_a, task_b;
static struct rdma_mr a, b, c;

/* Returns an address that is never accessed. */
static char *at(uintptr_t address)
{
    return (char *)address; /* NOLINT */
}

static void setup(void)
{
    fake_host_init(&host);
    fake_device_add(&host, "p0", 1);
    fake_device_add(&host, "p1", 1);
    rdma = fake_open(&host);
    weft_error_clear(&error);
    memset(&a, 0, sizeof(a));
    memset(&b, 0, sizeof(b));
    memset(&c, 0, sizeof(c));
}

static void teardown(void)
{
    rdma_close(rdma);
    ck_assert_int_eq(host.n_live, 0);
    ck_assert_uint_eq(host.n_running, 0);
    fake_host_fini(&host);
}

/* Takes a reference. Returns WEFT_OK if it is ready at once. */
static weft_status hold(struct rdma_mr *mr, uint32_t dev, uintptr_t start, size_t length,
                        int access)
{
    weft_status status =
        rdma_mr_get(rdma->mrs, dev, at(start), length, access, &task_a, mr, &error);
    return status == WEFT_OK ? rdma_mr_progress(rdma->mrs, mr, &error) : status;
}

static struct rdma_mr_stats stats(void)
{
    struct rdma_mr_stats now;
    rdma_mr_cache_stats(rdma->mrs, &now);
    return now;
}

#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

START_TEST(pages_are_rounded_outwards)
{
    ck_assert_int_eq(hold(&a, 0, 0x10ff0, 0x20, RW), WEFT_OK);
    ck_assert_ptr_eq(host.devices[0].host, &host);
    ck_assert_uint_eq(a.lkey, 0x1001);
    ck_assert_uint_eq(a.rkey, 0x2001);
    /* The two pages that it touches are registered, and no more. */
    ck_assert_int_eq(hold(&b, 0, 0x10000, 0x2000, RW), WEFT_OK);
    ck_assert_uint_eq(b.rkey, a.rkey);
    ck_assert_int_eq(hold(&c, 0, 0x10000, 0x2001, RW), WEFT_OK);
    ck_assert_uint_ne(c.rkey, a.rkey);
    ck_assert_uint_eq(stats().n_registered, 2);
    ck_assert_uint_eq(stats().n_hits, 1);
    rdma_mr_put(rdma->mrs, &a);
    rdma_mr_put(rdma->mrs, &b);
    rdma_mr_put(rdma->mrs, &c);
    ck_assert_ptr_null(a.entry);
    ck_assert_uint_eq(stats().n_idle, 2);
}
END_TEST

/* An entry is shared only if it covers the range, and access and device agree. */
START_TEST(only_the_same_access_and_device_is_shared)
{
    ck_assert_int_eq(hold(&a, 0, 0x10000, 0x4000, IBV_ACCESS_REMOTE_WRITE), WEFT_OK);
    /* REMOTE_WRITE implied LOCAL_WRITE. */
    ck_assert_int_eq(hold(&b, 0, 0x11000, 0x1000, RW), WEFT_OK);
    ck_assert_uint_eq(b.rkey, a.rkey);
    rdma_mr_put(rdma->mrs, &b);
    ck_assert_int_eq(hold(&b, 0, 0x11000, 0x1000, IBV_ACCESS_LOCAL_WRITE), WEFT_OK);
    ck_assert_uint_ne(b.rkey, a.rkey);
    ck_assert_int_eq(hold(&c, 1, 0x11000, 0x1000, RW), WEFT_OK);
    ck_assert_uint_ne(c.rkey, a.rkey);
    rdma_mr_put(rdma->mrs, &c);
    ck_assert_int_eq(hold(&c, 0, 0xf000, 0x1000, RW), WEFT_OK);
    ck_assert_uint_ne(c.rkey, a.rkey);
    rdma_mr_put(rdma->mrs, &a);
    rdma_mr_put(rdma->mrs, &b);
    rdma_mr_put(rdma->mrs, &c);
    ck_assert_uint_eq(stats().n_registered, 4);
}
END_TEST

START_TEST(an_idle_entry_is_found_again_and_a_used_one_stays)
{
    ck_assert_int_eq(hold(&a, 0, 0x10000, 0x1000, RW), WEFT_OK);
    ck_assert_int_eq(hold(&b, 0, 0x10000, 0x1000, RW), WEFT_OK);
    rdma_mr_put(rdma->mrs, &a);
    ck_assert_uint_eq(stats().n_idle, 0);
    rdma_mr_put(rdma->mrs, &b);
    ck_assert_uint_eq(stats().n_idle, 1);
    ck_assert_uint_eq(host.n_ops[IO_OP_DEREG_MR], 0);
    ck_assert_int_eq(hold(&a, 0, 0x10000, 0x800, RW), WEFT_OK);
    ck_assert_uint_eq(stats().n_idle, 0);
    ck_assert_uint_eq(host.n_ops[IO_OP_REG_MR], 1);
    rdma_mr_put(rdma->mrs, &a);
    rdma_mr_put(rdma->mrs, &a); /* no-op without memory */
}
END_TEST

/* Uses 300 buffers once. The 44 least recently used ones are deregistered. */
START_TEST(the_least_recently_used_go_first)
{
    for (uintptr_t i = 0; i < 300; i++) {
        ck_assert_int_eq(hold(&a, 0, 0x100000 + i * 0x1000, 0x1000, RW), WEFT_OK);
        rdma_mr_put(rdma->mrs, &a);
        if (i == 200) {
            /* Page 3 is used again, so that it outlives its neighbours. */
            ck_assert_int_eq(hold(&a, 0, 0x103000, 0x1000, RW), WEFT_OK);
            rdma_mr_put(rdma->mrs, &a);
        }
    }
    ck_assert_uint_eq(stats().n_idle, RDMA_MR_IDLE_MAX);
    ck_assert_uint_eq(host.n_ops[IO_OP_DEREG_MR], 44);
    ck_assert_int_eq(host.n_live, 2 + RDMA_MR_IDLE_MAX);
    uint64_t hits = stats().n_hits;
    ck_assert_int_eq(hold(&a, 0, 0x103000, 0x1000, RW), WEFT_OK);
    ck_assert_uint_eq(stats().n_hits, hits + 1);
    ck_assert_int_eq(hold(&b, 0, 0x102000, 0x1000, RW), WEFT_OK);
    ck_assert_uint_eq(stats().n_hits, hits + 1);
    /* Referenced entries are not idle, and are not deregistered. */
    rdma_mr_put(rdma->mrs, &a);
    rdma_mr_put(rdma->mrs, &b);
}
END_TEST

START_TEST(invalidate_ends_idle_entries_now_and_used_ones_later)
{
    ck_assert_int_eq(hold(&a, 0, 0x10000, 0x2000, RW), WEFT_OK);
    ck_assert_int_eq(hold(&b, 0, 0x20000, 0x1000, RW), WEFT_OK);
    ck_assert_int_eq(hold(&c, 0, 0x30000, 0x1000, RW), WEFT_OK);
    rdma_mr_put(rdma->mrs, &b);
    rdma_mr_put(rdma->mrs, &c);
    /* From the last byte of a up to c, which is not affected. */
    rdma_mr_invalidate(rdma->mrs, at(0x11fff), 0x30000 - 0x11fff);
    ck_assert_uint_eq(host.n_ops[IO_OP_DEREG_MR], 1);
    ck_assert_uint_eq(stats().n_idle, 1);
    /* a keeps its entry, but no other reference shares it. */
    uint32_t rkey = a.rkey;
    ck_assert_int_eq(rdma_mr_progress(rdma->mrs, &a, &error), WEFT_OK);
    ck_assert_uint_eq(a.rkey, rkey);
    ck_assert_int_eq(hold(&b, 0, 0x10000, 0x1000, RW), WEFT_OK);
    ck_assert_uint_ne(b.rkey, rkey);
    rdma_mr_put(rdma->mrs, &a);
    ck_assert_uint_eq(host.n_ops[IO_OP_DEREG_MR], 2);
    rdma_mr_put(rdma->mrs, &b);
    ck_assert_uint_eq(stats().n_idle, 2);
}
END_TEST

START_TEST(registration_is_waited_for_and_shared_by_one_task)
{
    fake_rule_add(&host, IO_OP_REG_MR, 1, 0, false, 2);
    ck_assert_int_eq(hold(&a, 0, 0x10000, 0x2000, RW), WEFT_AGAIN);
    /* The same task shares it. Another task would not be woken, and registers for itself. */
    ck_assert_int_eq(
        rdma_mr_get(rdma->mrs, 0, at(0x10000), 0x1000, RW, &task_a, &b, &error), WEFT_OK);
    ck_assert_int_eq(
        rdma_mr_get(rdma->mrs, 0, at(0x10000), 0x1000, RW, &task_b, &c, &error), WEFT_OK);
    ck_assert_uint_eq(host.n_ops[IO_OP_REG_MR], 2);
    ck_assert_int_eq(rdma_mr_progress(rdma->mrs, &b, &error), WEFT_AGAIN);
    ck_assert_int_eq(rdma_mr_progress(rdma->mrs, &b, &error), WEFT_OK);
    ck_assert_int_eq(rdma_mr_progress(rdma->mrs, &a, &error), WEFT_OK);
    ck_assert_uint_eq(a.rkey, b.rkey);
    ck_assert_int_eq(rdma_mr_progress(rdma->mrs, &c, &error), WEFT_OK);
    ck_assert_uint_ne(c.rkey, b.rkey);
    rdma_mr_put(rdma->mrs, &a);
    rdma_mr_put(rdma->mrs, &b);
    rdma_mr_put(rdma->mrs, &c);
}
END_TEST

START_TEST(the_last_user_of_a_registration_under_way_gives_it_up)
{
    fake_rule_add(&host, IO_OP_REG_MR, 1, 0, false, 2);
    ck_assert_int_eq(hold(&a, 0, 0x10000, 0x2000, RW), WEFT_AGAIN);
    ck_assert_int_eq(hold(&b, 0, 0x10000, 0x2000, RW), WEFT_AGAIN);
    rdma_mr_put(rdma->mrs, &a);
    ck_assert_uint_eq(host.n_running, 1);
    rdma_mr_put(rdma->mrs, &b);
    ck_assert_uint_eq(host.n_running, 0);
    ck_assert_uint_eq(stats().n_idle, 0);
    /* rdma_close in teardown abandons a registration in progress, too. */
    fake_rule_add(&host, IO_OP_REG_MR, 2, 0, false, 9);
    ck_assert_int_eq(hold(&a, 0, 0x10000, 0x2000, RW), WEFT_AGAIN);
}
END_TEST

START_TEST(enomem_is_the_memlock_limit)
{
    bool refused = _i == 1;
    fake_rule_add(&host, IO_OP_REG_MR, 1, ENOMEM, refused, 0);
    ck_assert_int_eq(hold(&a, 0, 0x10800, 0x20000, RW), WEFT_ERR_SYSTEM);
    ck_assert_int_eq(error.sys_errno, ENOMEM);
    ck_assert_str_eq(weft_phase_name(error.phase), "register");
    ck_assert_str_eq(error.object, "titanic:p0");
    ck_assert_int_eq(weft_error_value(&error, WEFT_VALUE_BYTES)->number, 0x21000);
    ck_assert_int_eq(weft_error_value(&error, WEFT_VALUE_MEMLOCK_BYTES)->number, 65536);
    ck_assert_int_eq(weft_error_value(&error, WEFT_VALUE_ACCESS)->number, RW);
    /* Later calls return the same error. A failed entry is never shared. */
    if (a.entry != NULL) {
        struct weft_error again;
        weft_error_clear(&again);
        ck_assert_int_eq(rdma_mr_progress(rdma->mrs, &a, &again), WEFT_ERR_SYSTEM);
        ck_assert_int_eq(again.sys_errno, ENOMEM);
    }
    ck_assert_int_eq(hold(&b, 0, 0x10800, 0x20000, RW), WEFT_OK);
    rdma_mr_put(rdma->mrs, &a);
    rdma_mr_put(rdma->mrs, &b);
    ck_assert_uint_eq(stats().n_idle, 1);
}
END_TEST

START_TEST(impossible_ranges_are_refused)
{
    ck_assert_int_eq(hold(&a, 0, 0x1000, 0, RW), WEFT_ERR_INPUT);
    ck_assert_int_eq(hold(&a, 0, 0x1000, SIZE_MAX - 0x10, RW), WEFT_ERR_INPUT);
    ck_assert_int_eq(hold(&a, 0, UINTPTR_MAX - 0x10, 0x8, RW), WEFT_ERR_INPUT);
    ck_assert_ptr_null(a.entry);
    rdma_mr_cache_destroy(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma/mr");
    TCase *tests = tcase_create("mr");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, pages_are_rounded_outwards);
    tcase_add_test(tests, only_the_same_access_and_device_is_shared);
    tcase_add_test(tests, an_idle_entry_is_found_again_and_a_used_one_stays);
    tcase_add_test(tests, the_least_recently_used_go_first);
    tcase_add_test(tests, invalidate_ends_idle_entries_now_and_used_ones_later);
    tcase_add_test(tests, registration_is_waited_for_and_shared_by_one_task);
    tcase_add_test(tests, the_last_user_of_a_registration_under_way_gives_it_up);
    tcase_add_loop_test(tests, enomem_is_the_memlock_limit, 0, 2);
    tcase_add_test(tests, impossible_ranges_are_refused);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
