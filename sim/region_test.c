/* Which regions can be registered, row by row: sim/rules/mr.csv. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/dmabuf.h"
#include "sim/rc_testing.h"
#include "sim/rules_testing.h"

enum { DMABUF_BYTES = 65536, MEMLOCK_BYTES = 4 << 20 };

static struct rc_pair pair;
static struct sim_dmabufs *dmabufs;
static int dmabuf_fd;

static void plain(struct sim_reg_mr *arg)
{
    (void)arg;
}
static void remote_write_alone(struct sim_reg_mr *arg)
{
    arg->access = IBV_ACCESS_REMOTE_WRITE;
}
static void remote_atomic_alone(struct sim_reg_mr *arg)
{
    arg->access = IBV_ACCESS_REMOTE_ATOMIC;
}
static void remote_read_alone(struct sim_reg_mr *arg)
{
    arg->access = IBV_ACCESS_REMOTE_READ;
}
static void relaxed_ordering(struct sim_reg_mr *arg)
{
    arg->access |= IBV_ACCESS_RELAXED_ORDERING;
}
static void unknown_access(struct sim_reg_mr *arg)
{
    arg->access |= 1 << 12;
}
static void on_demand(struct sim_reg_mr *arg)
{
    arg->access |= IBV_ACCESS_ON_DEMAND;
}
static void nothing_at_a_page(struct sim_reg_mr *arg)
{
    arg->length = 0;
}
static void nothing_inside_a_page(struct sim_reg_mr *arg)
{
    arg->addr = pair.ends[0].memory + 1;
    arg->length = 0;
}
static void wraps_around(struct sim_reg_mr *arg)
{
    arg->length = SIZE_MAX;
}
static void not_mapped(struct sim_reg_mr *arg)
{
    arg->addr = NULL;
}
static void beyond_memlock(struct sim_reg_mr *arg)
{
    arg->length = MEMLOCK_BYTES; /* part of the limit is in use */
}
static void access_before_mapping(struct sim_reg_mr *arg)
{
    not_mapped(arg);
    remote_write_alone(arg);
}
static void iova_same_offset(struct sim_reg_mr *arg)
{
    arg->addr = pair.ends[0].memory + 100;
    arg->has_iova = true;
    arg->iova = 0x7000 + 100;
}
static void iova_other_offset(struct sim_reg_mr *arg)
{
    iova_same_offset(arg);
    arg->iova++;
}
static void dmabuf(struct sim_reg_mr *arg)
{
    arg->is_dmabuf = true;
    arg->dmabuf_fd = dmabuf_fd;
    arg->addr = NULL;
    arg->length = DMABUF_BYTES;
}
static void dmabuf_bad_fd(struct sim_reg_mr *arg)
{
    dmabuf(arg);
    arg->dmabuf_fd = 77;
}
static void dmabuf_closed_fd(struct sim_reg_mr *arg)
{
    dmabuf(arg);
    ck_assert_int_eq(sim_dmabuf_close(dmabufs, dmabuf_fd), 0);
    ck_assert_int_eq(sim_dmabuf_close(dmabufs, dmabuf_fd), EBADF);
}
static void dmabuf_offset_inside(struct sim_reg_mr *arg)
{
    dmabuf(arg);
    arg->dmabuf_offset = 4096 + 8;
    arg->iova = 8;
    arg->length = DMABUF_BYTES - 4096 - 8;
}
static void dmabuf_beyond_its_end(struct sim_reg_mr *arg)
{
    dmabuf_offset_inside(arg);
    arg->length++;
}
static void dmabuf_offset_wraps(struct sim_reg_mr *arg)
{
    dmabuf(arg);
    arg->dmabuf_offset = UINT64_MAX - 4095;
}
static void dmabuf_of_nothing(struct sim_reg_mr *arg)
{
    dmabuf(arg);
    arg->length = 0;
}
static void dmabuf_other_offset(struct sim_reg_mr *arg)
{
    dmabuf_offset_inside(arg);
    arg->iova = 9;
}
static void dmabuf_other_offset_bad_fd(struct sim_reg_mr *arg)
{
    dmabuf_other_offset(arg);
    arg->dmabuf_fd = -1;
}
static void dmabuf_remote_write_alone(struct sim_reg_mr *arg)
{
    dmabuf(arg);
    arg->access = IBV_ACCESS_REMOTE_WRITE;
}
static void dmabuf_revoked(struct sim_reg_mr *arg)
{
    dmabuf(arg);
    ck_assert_int_eq(sim_dmabuf_revoke(dmabufs, dmabuf_fd), 0);
}
static void dmabuf_beyond_memlock(struct sim_reg_mr *arg)
{
    pair.ends[0].memlock_left = 0;
    dmabuf(arg);
}

#define CASE(name)                                                                       \
    {                                                                                    \
#name, name                                                                      \
    }

static const struct {
    const char *name;
    void (*make)(struct sim_reg_mr *arg);
} regions[] = {
    CASE(plain),
    CASE(remote_write_alone),
    CASE(remote_atomic_alone),
    CASE(remote_read_alone),
    CASE(relaxed_ordering),
    CASE(unknown_access),
    CASE(on_demand),
    CASE(nothing_at_a_page),
    CASE(nothing_inside_a_page),
    CASE(wraps_around),
    CASE(not_mapped),
    CASE(beyond_memlock),
    CASE(access_before_mapping),
    CASE(iova_same_offset),
    CASE(iova_other_offset),
    CASE(dmabuf),
    CASE(dmabuf_bad_fd),
    CASE(dmabuf_closed_fd),
    CASE(dmabuf_offset_inside),
    CASE(dmabuf_beyond_its_end),
    CASE(dmabuf_offset_wraps),
    CASE(dmabuf_of_nothing),
    CASE(dmabuf_other_offset),
    CASE(dmabuf_other_offset_bad_fd),
    CASE(dmabuf_remote_write_alone),
    CASE(dmabuf_revoked),
    CASE(dmabuf_beyond_memlock),
};

static void make_region(const char *name, struct sim_reg_mr *arg)
{
    for (size_t i = 0; i < WEFT_LENGTH(regions); i++) {
        if (strcmp(regions[i].name, name) == 0) {
            regions[i].make(arg);
            return;
        }
    }
    ck_abort_msg("what region is %s?", name);
}

static void begin(const char *profile)
{
    rc_pair_init(&pair, &(struct rc_options){.profile = profile,
                                             .cqe = 4,
                                             .memlock_bytes = MEMLOCK_BYTES});
    dmabufs = sim_dmabufs_create();
    sim_nic_set_dmabufs(pair.ends[0].nic, 0, dmabufs);
    dmabuf_fd = sim_dmabuf_export(dmabufs, pair.ends[0].memory, DMABUF_BYTES);
}

static void end(void)
{
    sim_dmabufs_destroy(dmabufs);
    rc_pair_fini(&pair);
}

START_TEST(regions_are_taken_or_refused)
{
    struct rules rules;
    struct sim_request request = {.verb = SIM_VERB_REG_MR};
    struct sim_reg_mr *arg = &request.arg.reg_mr;
    unsigned row = (unsigned)_i;
    rules_read(&rules, "mr");
    const char *name = rules_cell(&rules, row, "case");
    int expected = rules_errno(rules_cell(&rules, row, "errno"));
    begin(rules_cell(&rules, row, "profile"));
    arg->pd = pair.ends[0].pd;
    arg->addr = pair.ends[0].memory;
    arg->length = 8192;
    arg->access = IBV_ACCESS_LOCAL_WRITE;
    make_region(name, arg);
    int64_t left = pair.ends[0].memlock_left;
    int error = rc_verb(&pair, 0, &request);
    ck_assert_msg(error == expected, "%s: %d instead of %d", name, error, expected);
    ck_assert_int_eq(request.out.mr != NULL, expected == 0);
    if (expected == 0) {
        ck_assert_uint_eq(request.out.mr->length, arg->length);
        struct sim_request undo = {.verb = SIM_VERB_DEREG_MR, .arg.mr = request.out.mr};
        ck_assert_int_eq(rc_verb(&pair, 0, &undo), 0);
    }
    ck_assert_int_eq(pair.ends[0].memlock_left, left);
    end();
    rules_fini(&rules);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("region");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, regions_are_taken_or_refused, 0, rules_count("mr"));
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
